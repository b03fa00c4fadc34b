// Package membership says which processes of one kind are alive now, so that
// they can divide work among themselves. It is a hint that saves work:
// conditional writes are the fence.
//
// [NewStatic] (a fixed count of numbered processes) and [NewManual] (set by its
// owner: simulations, test kits) are here; package kube reads Kubernetes. All
// providers may be shared and used concurrently.
package membership

import "context"

// View is the membership at one moment.
type View struct {
	// Self is this process's name among Members; empty while it is not one
	// (starting, or leaving).
	Self string
	// Members are the live processes, sorted and unique. Read only.
	Members []string
}

// Provider yields views. A provider may be shared.
type Provider interface {
	// View returns the newest view.
	View() View
	// Changes returns a channel that receives after the view has changed. Slow
	// readers miss intermediate changes, never the last one. Each call makes a
	// channel of its own that lives as long as the provider: call it once per
	// reader, before the first View, and not in a loop.
	Changes() <-chan struct{}
	// Run keeps the view fresh until ctx ends; it returns nil then.
	Run(ctx context.Context) error
}
