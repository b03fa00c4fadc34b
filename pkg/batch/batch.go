// Package batch gathers single items into batches: full ones leave at once,
// others after a linger, through a bounded number of workers.
//
// It owns the gathering only: what a batch means, and what to do with items
// that failed, is the flush function's. It never drops an item and never blocks
// the caller; callers bound what they add. Safe for concurrent use.
package batch

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Options configure a [Batcher].
type Options[T any] struct {
	Size    int           // largest batch; at least 1
	Linger  time.Duration // how long the first item waits for company; 0: not at all
	Workers int           // batches in progress at most; at least 1
	// Flush handles one batch of 1 to Size items, in the order they were added.
	// It may call Add.
	Flush func(items []T)
}

// Validate reports every option outside its range.
func (o *Options[T]) Validate() error {
	var errs []error
	if o.Size < 1 {
		errs = append(errs, fmt.Errorf("batch size is %d; want at least 1", o.Size))
	}
	if o.Linger < 0 {
		errs = append(errs, fmt.Errorf("batch linger is %s; want 0 or more", o.Linger))
	}
	if o.Workers < 1 {
		errs = append(errs, fmt.Errorf("batch workers is %d; want at least 1", o.Workers))
	}
	if o.Flush == nil {
		errs = append(errs, errors.New("batch flush is missing"))
	}
	return errors.Join(errs...)
}

// Batcher gathers items of one kind.
type Batcher[T any] struct {
	o     Options[T]
	slots chan struct{}
	pool  *Pool

	mu    sync.Mutex
	idle  *sync.Cond // signalled when busy falls to 0
	buf   []T
	timer *time.Timer
	armed bool
	eager bool // draining: no more linger
	busy  int  // batches waiting or in progress
}

// New returns a batcher, or the joined errors of its options.
func New[T any](o Options[T]) (*Batcher[T], error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	b := &Batcher[T]{o: o, slots: make(chan struct{}, o.Workers), pool: NewPool()}
	b.idle = sync.NewCond(&b.mu)
	return b, nil
}

// Add takes items in. It does not block.
func (b *Batcher[T]) Add(items ...T) {
	if len(items) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, items...)
	if len(b.buf) >= b.o.Size && b.armed { // what stays behind came just now
		b.armed = !b.timer.Stop()
	}
	for len(b.buf) >= b.o.Size {
		b.launch(b.o.Size)
	}
	switch {
	case len(b.buf) == 0:
	case b.eager || b.o.Linger == 0:
		b.launch(len(b.buf))
	case !b.armed:
		b.armed = true
		if b.timer == nil {
			b.timer = time.AfterFunc(b.o.Linger, b.expire)
		} else {
			b.timer.Reset(b.o.Linger)
		}
	}
}

// expire sends what has lingered.
func (b *Batcher[T]) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = false
	if len(b.buf) > 0 {
		b.launch(len(b.buf))
	}
}

// launch starts one batch of the n oldest items. Called with mu held.
func (b *Batcher[T]) launch(n int) {
	items := make([]T, n)
	copy(items, b.buf)
	rest := copy(b.buf, b.buf[n:])
	clear(b.buf[rest:])
	b.buf = b.buf[:rest]
	b.busy++
	b.pool.Go(func() {
		b.slots <- struct{}{}
		b.o.Flush(items)
		<-b.slots
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.busy--; b.busy == 0 && len(b.buf) == 0 {
			b.idle.Broadcast()
		}
	})
}

// Close ends the goroutines that idle; what is added later still leaves.
func (b *Batcher[T]) Close() { b.pool.Close() }

// Drain sends what is gathered without further linger and waits until nothing
// is gathered or in progress, items added meanwhile included. Items may be added
// after it, too. Flush must be
// bounded in time by its owner.
func (b *Batcher[T]) Drain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.eager = true
	if b.timer != nil {
		b.timer.Stop()
	}
	b.armed = false
	if len(b.buf) > 0 {
		b.launch(len(b.buf))
	}
	for b.busy > 0 || len(b.buf) > 0 {
		b.idle.Wait()
	}
	b.pool.Close()
}
