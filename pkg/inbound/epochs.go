package inbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const (
	// epochsGood is how long a view of the partition counts may be used for
	// messages sent after it was read. A growth is announced at least a minute
	// ahead, so a view this old still holds every count in force; the rest of the
	// minute is left to clocks that differ.
	epochsGood    = 45 * time.Second
	epochsTimeout = 5 * time.Second
	epochsAgain   = time.Second // between reads for one count that is not known
)

// epochs keeps the partition counts of the table. It is read every EpochsEvery
// (15 s), which is enough: a count is announced a minute before it comes into
// force. Where those reads fail for long, it reads before it answers.
type epochs struct {
	table interface {
		Epochs(ctx context.Context) (trigger.Epochs, error)
	}
	clock *clock.Clock
	every time.Duration
	log   *slog.Logger

	reading chan struct{} // one read at a time

	mu   sync.Mutex
	view trigger.Epochs
	read time.Time // by the corrected clock, when the last good read began
	err  error     // of the newest read
}

func newEpochs(o *Options) *epochs {
	return &epochs{reading: make(chan struct{}, 1), table: o.Store, clock: o.Clock, every: o.EpochsEvery, log: o.Log}
}

// run refreshes until ctx ends.
func (e *epochs) run(ctx context.Context) {
	failures := 0
	for {
		wait := jitter(e.every)
		if err := e.refresh(ctx); err != nil && ctx.Err() == nil {
			failures++
			wait = jitter(min(pauseFirst<<min(failures, 8), e.every))
			e.log.Warn("partition count cannot be read", "failures", failures, "error", err)
		} else {
			failures = 0
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

func (e *epochs) refresh(ctx context.Context) error {
	began := e.clock.Now()
	ctx, cancel := context.WithTimeout(ctx, epochsTimeout)
	defer cancel()
	view, err := e.table.Epochs(ctx)
	if err == nil {
		err = view.Validate()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err = err; err != nil {
		return fmt.Errorf("read partition count: %w", err)
	}
	e.view, e.read = view, began
	return nil
}

// at returns a view that holds every count in force at the given time, as the
// queue's clock told it.
func (e *epochs) at(ctx context.Context, sent time.Time) (trigger.Epochs, error) {
	return e.when(ctx, func() bool { return e.view != nil && sent.Sub(e.read) < epochsGood })
}

// with returns a view that holds the count n, or one read moments ago.
func (e *epochs) with(ctx context.Context, n int) (trigger.Epochs, error) {
	return e.when(ctx, func() bool {
		return e.view != nil && (n <= e.view.Max() || e.clock.Now().Sub(e.read).Abs() < epochsAgain)
	})
}

// when returns the view if it is good enough, else reads. good runs with mu held.
func (e *epochs) when(ctx context.Context, good func() bool) (trigger.Epochs, error) {
	have := func() (trigger.Epochs, bool) {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.view, good()
	}
	if view, ok := have(); ok {
		return view, nil
	}
	// One reads, the others wait for it; a channel, so that waiting ends with ctx.
	select {
	case e.reading <- struct{}{}:
		defer func() { <-e.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if view, ok := have(); ok {
		return view, nil
	}
	if err := e.refresh(ctx); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.view, nil
}

func (e *epochs) ready() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.view == nil && e.err != nil:
		return fmt.Errorf("inbound: partition count was never read: %w", e.err)
	case e.view == nil:
		return errors.New("inbound: partition count not read yet")
	case e.err != nil && e.clock.Now().Sub(e.read) > epochsGood:
		return fmt.Errorf("inbound: partition count cannot be read: %w", e.err)
	}
	return nil
}
