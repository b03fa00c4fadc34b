package worker

import (
	"context"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
)

// parallelFlushes is how many batches of one kind may be under way per queue.
const parallelFlushes = 4

// batcher gathers messages for one kind of call: it flushes ten, or what came
// within the linger.
type batcher struct {
	flush func(ctx context.Context, batch []*entry)
	wake  chan struct{}

	mu      sync.Mutex
	pending []*entry
}

func newBatcher(flush func(context.Context, []*entry)) *batcher {
	return &batcher{flush: flush, wake: make(chan struct{}, 1)}
}

// add never blocks.
func (b *batcher) add(e *entry) {
	b.mu.Lock()
	b.pending = append(b.pending, e)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *batcher) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.pending)
}

func (b *batcher) take() []*entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.pending), queue.MaxBatch)
	batch := b.pending[:n:n]
	b.pending = b.pending[n:]
	return batch
}

// run flushes until quit is closed, and waits for flushes under way.
func (b *batcher) run(ctx context.Context, quit <-chan struct{}) {
	var flushes sync.WaitGroup
	defer flushes.Wait()
	slots := make(chan struct{}, parallelFlushes)
	for {
		select {
		case <-b.wake:
		case <-quit:
			return
		}
		b.gather(quit)
		for batch := b.take(); len(batch) > 0; batch = b.take() {
			select {
			case slots <- struct{}{}:
			case <-quit:
				return
			}
			flushes.Go(func() {
				defer func() { <-slots }()
				cctx, cancel := context.WithTimeout(ctx, callTimeout)
				defer cancel()
				b.flush(cctx, batch)
			})
		}
	}
}

// gather waits until a batch is full or the linger is over.
func (b *batcher) gather(quit <-chan struct{}) {
	t := time.NewTimer(linger)
	defer t.Stop()
	for b.len() < queue.MaxBatch {
		select {
		case <-b.wake:
		case <-t.C:
			return
		case <-quit:
			return
		}
	}
}
