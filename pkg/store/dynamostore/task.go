package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const (
	backoffFirst = 50 * time.Millisecond
	backoffMax   = time.Second
)

// task is one conditional write on its way, over all its tries.
type task struct {
	name string // for errors
	res  *store.Result
	// keys are where the row in the way may lie, the likeliest first.
	keys []trigger.Key
	// call makes the write as a single call.
	call func(ctx context.Context) error
	// ours tells whether found (nil: nothing) is what an earlier try of this very
	// write left. It is asked only if one's reply was lost.
	ours func(found *store.Row) bool

	op     *store.Op // what a batch makes of it
	item   item      // inserts only
	unsure bool      // an earlier try may have been applied
}

// take records one try's outcome and reports whether to try again.
func (s *Store) take(t *task, o outcome, err error, old item) (again bool) {
	t.res.Found = nil
	switch o {
	case applied:
		t.res.Err = nil
		return false
	case conflicting:
		t.res.Err = store.ErrConflict
		if len(old) > 0 {
			s.found(t, old)
		}
		return false
	}
	t.res.Err = s.wrap(o, err)
	t.unsure = t.unsure || o == unknown || o == stopped
	return o == throttled || o == unknown
}

// found sets the row in the way.
func (s *Store) found(t *task, it item) {
	row, err := s.codec.row(it)
	if err != nil {
		t.res.Err = fmt.Errorf("the row in the way cannot be read: %w", err)
		return
	}
	t.res.Found = row
}

// settle tries tasks until each has its outcome or the budget is spent. try
// returns those to try again.
func (s *Store) settle(ctx context.Context, tasks []*task, try func(context.Context, []*task) []*task) {
	start, left := time.Now(), tasks
	for n := 1; ; n++ {
		left = try(ctx, left)
		if len(left) == 0 || n >= s.opts.MaxTries || !pause(ctx, n, s.opts.RetryFor-time.Since(start)) {
			break
		}
	}
	s.look(ctx, tasks)
	for _, t := range tasks {
		s.finish(t)
	}
}

// pause waits before the next try: full jitter under an exponential ceiling
// ("Exponential Backoff And Jitter", AWS architecture blog). It reports whether
// there is time for one.
func pause(ctx context.Context, try int, left time.Duration) bool {
	d := rand.N(min(backoffMax, backoffFirst<<(try-1))) + time.Millisecond //nolint:gosec // jitter.
	if d > left {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// look reads the rows in the way that no answer brought along.
func (s *Store) look(ctx context.Context, tasks []*task) {
	var keys []trigger.Key
	for _, t := range tasks {
		if t.blind() {
			keys = append(keys, t.keys...)
		}
	}
	if len(keys) == 0 {
		return
	}
	items, err := s.getAll(ctx, keys)
	for _, t := range tasks {
		if !t.blind() {
			continue
		}
		if err != nil {
			// Not a conflict to the caller: it would take the row for gone.
			t.res.Err = fmt.Errorf("the condition failed, and the row cannot be read: %w", err)
			continue
		}
		for _, k := range t.keys {
			if it := items[k]; it != nil {
				s.found(t, it)
				break
			}
		}
	}
}

func (t *task) blind() bool {
	return len(t.keys) > 0 && t.res.Found == nil && errors.Is(t.res.Err, store.ErrConflict)
}

// finish turns the outcome of the last try into that of the whole write.
func (s *Store) finish(t *task) {
	err := t.res.Err
	switch {
	case err == nil:
		return
	case !t.unsure:
	case errors.Is(err, store.ErrConflict):
		if t.ours != nil && t.ours(t.res.Found) {
			*t.res = store.Result{}
			return
		}
	case errors.Is(err, store.ErrThrottled):
		// The last try was not applied, but an earlier one may have been.
		err = fmt.Errorf("outcome unknown, then throttled: %s", err.Error())
	}
	t.res.Err = fmt.Errorf("%s: %w", t.name, err)
}

// one runs a task that is no part of a batch.
func (s *Store) one(ctx context.Context, t *task) {
	s.settle(ctx, []*task{t}, s.trySingle)
}

// trySingle makes one call for the one task it is given.
func (s *Store) trySingle(ctx context.Context, tasks []*task) []*task {
	if s.trySingleCall(ctx, tasks[0]) {
		return tasks
	}
	return nil
}

func (s *Store) trySingleCall(ctx context.Context, t *task) (again bool) {
	err := t.call(ctx)
	if err == nil {
		return s.take(t, applied, nil, nil)
	}
	return s.take(t, classify(ctx, err), err, itemOf(err))
}
