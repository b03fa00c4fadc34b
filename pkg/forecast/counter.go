package forecast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

const (
	// DefaultFlush is the time between two writes of what was counted.
	DefaultFlush = time.Second
	// DefaultFarFlush is the same for minutes that nobody acts on yet.
	DefaultFarFlush = 10 * time.Second
	// soon is how far ahead a minute is written with every flush.
	soon = 10 * time.Minute
	// DefaultMaxPairs bounds the minutes held; one takes about 100 bytes.
	DefaultMaxPairs = 50_000
	// far is where a due time is so far ahead that it matters least: no more than
	// half of the room goes to such minutes, since jobs may come with due times
	// spread over years.
	far = time.Hour
	// maxPause is the longest time between tries while the store fails.
	maxPause = 30 * time.Second
)

// Adder is the half of a [Store] that a [Counter] needs.
type Adder interface {
	Add(ctx context.Context, service string, minute time.Time, n int64) error
}

// CounterOptions configure a [Counter].
type CounterOptions struct {
	// Store takes the counts. Required.
	Store Adder
	// Flush is the time from the end of one flush to the next, at least 1 s. 0:
	// [DefaultFlush]. While the store fails it doubles, up to 30 s.
	Flush time.Duration
	// FarFlush is the time between two writes of minutes that are more than ten
	// minutes ahead, at least 1 s: jobs spread over an hour or a year would
	// otherwise cost nearly a write each. 0: [DefaultFarFlush].
	FarFlush time.Duration
	// MaxPairs is how many different (service, minute) are held; 0:
	// [DefaultMaxPairs]. At most half of them are more than an hour ahead. What
	// finds no room is dropped, and counted as such.
	MaxPairs int
	// Writers is how many writes are under way at once. 0: 8.
	Writers int
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Log; nil: discarded.
	Log *slog.Logger
	// Registerer takes the metrics; nil: none.
	Registerer prometheus.Registerer
}

// Validate reports every option at fault, joined.
func (o *CounterOptions) Validate() error {
	var errs []error
	if o.Store == nil {
		errs = append(errs, errors.New("store: missing"))
	}
	if o.Flush != 0 && o.Flush < time.Second {
		errs = append(errs, fmt.Errorf("flush: %s; want 0 for %s, or at least 1s", o.Flush, DefaultFlush))
	}
	if o.FarFlush != 0 && o.FarFlush < time.Second {
		errs = append(errs, fmt.Errorf("far flush: %s; want 0 for %s, or at least 1s", o.FarFlush, DefaultFarFlush))
	}
	if o.MaxPairs < 0 || o.MaxPairs == 1 {
		errs = append(errs, fmt.Errorf("max pairs: %d; want 0 for %d, or at least 2", o.MaxPairs, DefaultMaxPairs))
	}
	if o.Writers < 0 {
		errs = append(errs, fmt.Errorf("writers: %d; want 0 for %d, or more", o.Writers, defaultWorkers))
	}
	return errors.Join(errs...)
}

// pair is what is counted.
type pair struct {
	minute  int64 // see minuteOf
	service string
}

// Counter counts what is due, in memory, and writes the counts from time to time.
type Counter struct {
	o       CounterOptions
	metrics *counterMetrics

	flushing chan struct{} // one flush at a time

	mu     sync.Mutex
	counts map[pair]int64 // what is not known to be written; never 0
}

// NewCounter returns a counter; it writes nothing unless it is run.
func NewCounter(o CounterOptions) (*Counter, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("forecast counter: %w", err)
	}
	if o.Flush == 0 {
		o.Flush = DefaultFlush
	}
	if o.FarFlush == 0 {
		o.FarFlush = DefaultFarFlush
	}
	if o.MaxPairs == 0 {
		o.MaxPairs = DefaultMaxPairs
	}
	if o.Writers == 0 {
		o.Writers = defaultWorkers
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Counter{o: o, flushing: make(chan struct{}, 1), counts: make(map[pair]int64)}
	var err error
	if c.metrics, err = newCounterMetrics(o.Registerer, c.held); err != nil {
		return nil, fmt.Errorf("forecast counter metrics: %w", err)
	}
	return c, nil
}

// Add counts n triggers of a service that are due at a time. What is overdue
// comes now, and counts as due in the present minute. An n below 1 counts
// nothing. Add never waits for the store, and cannot fail: beyond MaxPairs the
// count is dropped.
func (c *Counter) Add(service string, due time.Time, n int) {
	if n < 1 {
		return
	}
	now := minuteOf(c.o.Now())
	p := pair{minute: max(minuteOf(due), now), service: service}
	c.mu.Lock()
	_, known := c.counts[p]
	if room := c.room(p.minute - now); !known && len(c.counts) >= room {
		c.mu.Unlock()
		c.metrics.dropped.Add(float64(n))
		return
	}
	c.counts[p] += int64(n)
	c.mu.Unlock()
}

// room is how many pairs there may be before one that many minutes ahead is
// refused.
func (c *Counter) room(ahead int64) int {
	if ahead > int64(far/time.Minute) {
		return c.o.MaxPairs / 2
	}
	return c.o.MaxPairs
}

// held is how many pairs wait to be written.
func (c *Counter) held() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.counts)
}

// Run flushes every Flush until ctx ends, what is far ahead every FarFlush, and
// then once more, at once; each pair is written at most once a second, but for
// that last flush. It returns nil,
// within 10 s of the end of ctx even if the store hangs: a forecast is no reason
// to fail. A failure is logged when it begins, not as long as it lasts.
func (c *Counter) Run(ctx context.Context) error {
	pause, failing, whole := c.o.Flush, false, time.Now()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			c.last(ctx)
			return nil
		case <-timer.C:
		}
		until := int64(soon / time.Minute)
		if time.Since(whole) >= c.o.FarFlush {
			until, whole = math.MaxInt64, time.Now()
		}
		written, err := c.flush(ctx, until)
		switch {
		case err == nil && failing:
			c.o.Log.InfoContext(ctx, "forecast is written again")
		case err != nil && !failing && ctx.Err() == nil:
			c.o.Log.WarnContext(ctx, "forecast cannot be written, the counts are kept", telemetry.KeyError, err)
		}
		failing = err != nil
		if failing && written == 0 {
			pause = min(2*pause, max(maxPause, c.o.Flush))
		} else {
			pause = c.o.Flush
		}
		timer.Reset(pause)
	}
}
