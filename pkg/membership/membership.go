// Package membership says which processes of one kind are alive now, so that
// they can divide work among themselves. It is a hint that saves work:
// conditional writes are the fence. The static provider is here; package kube
// reads Kubernetes.
package membership

import "context"

// View is the membership at one moment.
type View struct {
	// Self is this process's name among Members; empty while it is not one
	// (starting, or leaving).
	Self string
	// Members are the live processes, sorted and unique.
	Members []string
}

// Provider yields views. A provider may be shared.
type Provider interface {
	// View returns the newest view.
	View() View
	// Changes returns a channel that receives after the view has changed. Slow
	// readers miss intermediate changes, never the last one.
	Changes() <-chan struct{}
	// Run keeps the view fresh until ctx ends.
	Run(ctx context.Context) error
}
