package forecast

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

const (
	// writeTimeout is for one write. It is not cut short by the end of a flush: a
	// write that is may have been applied, and would count twice.
	writeTimeout = 3 * time.Second
	// lastFor is how long the last flush begins new writes.
	lastFor = 3 * time.Second
	// giveUp is how many writes in a row fail before a flush takes it that all do.
	giveUp = 16
	// defaultWorkers is how many calls to the store are under way at once.
	defaultWorkers = 8
)

// Flush writes what was counted, the nearest minutes first, each pair once. It
// begins no write once ctx has ended; those under way have up to 3 s. What could
// not be written is kept for the next flush, the rest of a service's minutes with
// the first that fails. It returns how many pairs were written, and the first
// failure.
func (c *Counter) Flush(ctx context.Context) (written int, err error) {
	return c.flush(ctx, math.MaxInt64)
}

// flush is Flush for what is due within some minutes.
func (c *Counter) flush(ctx context.Context, until int64) (written int, err error) {
	select {
	case c.flushing <- struct{}{}:
		defer func() { <-c.flushing }()
	case <-ctx.Done():
		return 0, fmt.Errorf("flush forecast: %w", ctx.Err())
	}
	f := &flush{c: c, ctx: ctx, todo: c.snapshot(until), bad: make(map[string]struct{})}
	var writers sync.WaitGroup
	for range min(c.o.Writers, len(f.todo)) {
		writers.Go(f.work)
	}
	writers.Wait()
	if f.err == nil && len(f.todo) > 0 {
		f.err = ctx.Err() // the only other reason to leave something
	}
	if f.err != nil {
		return f.written, fmt.Errorf("flush forecast: %w", f.err)
	}
	return f.written, nil
}

// counted is one write to be made.
type counted struct {
	pair
	n int64
}

// snapshot returns what is to be written of the next minutes, the nearest first.
// It stays in counts until it is.
func (c *Counter) snapshot(until int64) []counted {
	now := minuteOf(c.o.Now())
	c.mu.Lock()
	var all []counted
	for p, n := range c.counts {
		if p.minute-now <= until {
			all = append(all, counted{p, n})
		}
	}
	c.mu.Unlock()
	slices.SortFunc(all, func(a, b counted) int {
		return cmp.Or(cmp.Compare(a.minute, b.minute), cmp.Compare(a.service, b.service))
	})
	return all
}

// done takes what was written off the counts.
func (c *Counter) done(w counted) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := c.counts[w.pair] - w.n; left > 0 {
		c.counts[w.pair] = left
	} else {
		delete(c.counts, w.pair)
	}
}

// flush is one flush.
type flush struct {
	c   *Counter
	ctx context.Context // of the call that made it

	mu      sync.Mutex
	todo    []counted
	bad     map[string]struct{} // services of which a write failed
	failed  int                 // writes in a row
	written int
	err     error // the first
}

// next returns a write to be made; false if there is none, or no use in it.
func (f *flush) next() (counted, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.todo) > 0 && f.failed < giveUp && f.ctx.Err() == nil {
		w := f.todo[0]
		f.todo = f.todo[1:]
		if _, bad := f.bad[w.service]; !bad {
			return w, true
		}
	}
	return counted{}, false
}

func (f *flush) work() {
	for w, ok := f.next(); ok; w, ok = f.next() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), writeTimeout)
		err := f.c.o.Store.Add(ctx, w.service, startOf(w.minute), w.n)
		cancel()
		f.c.metrics.wrote(err)
		if err == nil {
			f.c.done(w)
		}
		f.mu.Lock()
		if err == nil {
			f.written++
			f.failed = 0
		} else {
			f.failed++
			f.bad[w.service] = struct{}{}
			if f.err == nil {
				f.err = err
			}
		}
		f.mu.Unlock()
	}
}

// last is the flush at the end of Run, once its context has ended.
func (c *Counter) last(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFor)
	defer cancel()
	if _, err := c.Flush(ctx); err != nil {
		c.o.Log.WarnContext(ctx, "forecast cannot be written at the end, counts are lost", telemetry.KeyCount, c.held(), telemetry.KeyError, err)
	}
}
