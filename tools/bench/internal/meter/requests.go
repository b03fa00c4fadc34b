// Package meter counts what a run costs: HTTP attempts by component, service and
// operation, and conditional writes with the units DynamoDB would bill for them.
//
// It counts and changes nothing. Everything may be used concurrently.
package meter

import (
	"maps"
	"sync"
	"time"
)

// Call is one kind of request.
type Call struct {
	Component string // who made it
	Service   string // as the SDK names it: "SQS", "DynamoDB"
	Operation string // as the SDK names it: "ReceiveMessage"
}

// Requests counts HTTP attempts: a retry counts again.
type Requests struct {
	mu     sync.Mutex
	counts map[Call]int
}

// NewRequests returns a counter at zero.
func NewRequests() *Requests { return &Requests{counts: make(map[Call]int)} }

// Of returns the hook for a component's SDK configuration; see
// awsclient.Options.
func (r *Requests) Of(component string) func(service, operation string, attempt bool, err error, took time.Duration) {
	return func(service, operation string, attempt bool, _ error, _ time.Duration) {
		if !attempt {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.counts[Call{component, service, operation}]++
	}
}

// Reset sets all counts to zero.
func (r *Requests) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.counts)
}

// Counts returns what was counted since the last Reset.
func (r *Requests) Counts() map[Call]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}
