package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

const (
	// DefaultRefresh is how often the whole registry is read.
	DefaultRefresh = 15 * time.Second
	// DefaultNegative is how long a consistent "unknown" is repeated.
	DefaultNegative = 5 * time.Second
	// retryAfter is how long a failed read of one service is repeated, and how
	// soon a failed first load is tried again.
	retryAfter = time.Second
	// settle is longer than an eventually consistent read lags behind: a
	// consistent read this close before a list, or later, outranks it.
	settle = 2 * time.Second
	// maxNegative bounds the unknown names remembered; submissions choose them.
	maxNegative = 10_000
)

// Reader is what the cache needs of a [Source].
type Reader interface {
	List(ctx context.Context) ([]Service, error)
	Get(ctx context.Context, name string) (Service, error)
}

// CacheOptions configure a [Cache].
type CacheOptions struct {
	// Source is read from. Required.
	Source Reader
	// Refresh is the time between two reads of everything; 0: [DefaultRefresh].
	Refresh time.Duration
	// Negative is how long a name stays unknown without another read; 0:
	// [DefaultNegative].
	Negative time.Duration
	// Log takes refresh failures and unreadable items; nil: discarded.
	Log *slog.Logger
	// Metrics takes the cache's metrics; nil: none.
	Metrics prometheus.Registerer
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Validate reports every option at fault, joined.
func (o *CacheOptions) Validate() error {
	var errs []error
	if o.Source == nil {
		errs = append(errs, errors.New("source: missing"))
	}
	if o.Refresh < 0 {
		errs = append(errs, fmt.Errorf("refresh: %s; want 0 for %s, or more", o.Refresh, DefaultRefresh))
	}
	if o.Negative < 0 {
		errs = append(errs, fmt.Errorf("negative: %s; want 0 for %s, or more", o.Negative, DefaultNegative))
	}
	return errors.Join(errs...)
}

// Cache answers look-ups from memory. While the source fails it keeps the last
// view: stale is better than none. Safe for concurrent use.
type Cache struct {
	o       CacheOptions
	metrics *metrics

	mu       sync.Mutex
	services map[string]entry
	failed   map[string]failure
	calls    map[string]*call
	loaded   time.Time // start of the newest complete list; zero before the first
	lastErr  error     // of the newest refresh
}

type entry struct {
	svc Service
	got time.Time // when a consistent read found it; zero: from a list
}

type failure struct {
	err   error
	until time.Time
}

// call is one consistent read in flight; the rest is set before done closes.
type call struct {
	done   chan struct{}
	svc    Service
	err    error
	gaveUp bool // the context of the reader ended: no answer for others
}

// NewCache returns an empty cache: call Refresh, or start Run.
func NewCache(o CacheOptions) (*Cache, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("registry cache: %w", err)
	}
	if o.Refresh == 0 {
		o.Refresh = DefaultRefresh
	}
	if o.Negative == 0 {
		o.Negative = DefaultNegative
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Cache{o: o, services: map[string]entry{}, failed: map[string]failure{}, calls: map[string]*call{}}
	var err error
	if c.metrics, err = newMetrics(o.Metrics, c); err != nil {
		return nil, fmt.Errorf("registry cache: %w", err)
	}
	return c, nil
}

// Lookup returns a service from memory. A name that is not there is read
// consistently, once however many ask at a time. [ErrUnknown] means that such a
// read, at most CacheOptions.Negative ago, found nothing; any other error means
// that it is not known whether the service exists.
func (c *Cache) Lookup(ctx context.Context, name string) (Service, error) {
	for {
		c.mu.Lock()
		if e, ok := c.services[name]; ok {
			c.mu.Unlock()
			c.metrics.lookups.WithLabelValues("hit").Inc()
			return e.svc, nil
		}
		if f, ok := c.failed[name]; ok && c.o.Now().Before(f.until) {
			c.mu.Unlock()
			c.metrics.lookups.WithLabelValues(outcome(f.err)).Inc()
			return Service{}, f.err
		}
		in, waiting := c.calls[name]
		if !waiting {
			in = &call{done: make(chan struct{})}
			c.calls[name] = in
		}
		c.mu.Unlock()
		if waiting {
			select {
			case <-in.done:
			case <-ctx.Done():
				return Service{}, fmt.Errorf("look up service %q: %w", name, ctx.Err())
			}
		} else {
			c.read(ctx, name, in)
		}
		if !waiting || !in.gaveUp {
			c.metrics.lookups.WithLabelValues(outcome(in.err)).Inc()
			return in.svc, in.err
		}
	}
}

// read does the consistent read of a call and publishes its result.
func (c *Cache) read(ctx context.Context, name string, in *call) {
	in.err = fmt.Errorf("look up service %q: the read did not return", name) // should Get panic
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		now := c.o.Now()
		switch {
		case in.err == nil:
			c.services[name] = entry{svc: in.svc, got: now}
			delete(c.failed, name)
		case errors.Is(in.err, ErrUnknown):
			c.remember(name, in.err, now, c.o.Negative)
		case ctx.Err() != nil:
			in.gaveUp = true
		default:
			c.remember(name, in.err, now, min(retryAfter, c.o.Negative))
		}
		delete(c.calls, name)
		close(in.done)
	}()
	svc, err := c.o.Source.Get(ctx, name)
	if err != nil {
		err = fmt.Errorf("look up service: %w", err)
	}
	in.svc, in.err = svc, err
}

func (c *Cache) remember(name string, err error, now time.Time, ttl time.Duration) {
	if len(c.failed) >= maxNegative {
		c.forget(now)
		if len(c.failed) >= maxNegative {
			clear(c.failed)
		}
	}
	c.failed[name] = failure{err: err, until: now.Add(ttl)}
}

func (c *Cache) forget(now time.Time) {
	maps.DeleteFunc(c.failed, func(_ string, f failure) bool { return !now.Before(f.until) })
}

// Refresh reads the whole registry once and returns how many services it knows.
// On an error it keeps what it knew.
func (c *Cache) Refresh(ctx context.Context) (int, error) {
	began := c.o.Now()
	all, err := c.o.Source.List(ctx)
	var partial *PartialError
	if err != nil && !errors.As(err, &partial) {
		err = fmt.Errorf("refresh services: %w", err)
		c.metrics.refreshes.WithLabelValues("error").Inc()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lastErr = err
		return len(c.services), err
	}
	next := make(map[string]entry, len(all))
	for i := range all {
		next[all[i].Name] = entry{svc: all[i]}
	}
	c.mu.Lock()
	for name, old := range c.services {
		unread := partial != nil && partial.Bad[name] != nil
		fresh := old.got.After(began.Add(-settle)) && !next[name].svc.Updated.After(old.svc.Updated)
		if unread || fresh {
			next[name] = old
		}
	}
	c.services, c.loaded, c.lastErr = next, began, nil
	now := c.o.Now()
	maps.DeleteFunc(c.failed, func(name string, f failure) bool {
		_, known := next[name]
		return known || !now.Before(f.until)
	})
	c.mu.Unlock()
	if partial != nil {
		c.metrics.refreshes.WithLabelValues("partial").Inc()
		for name, bad := range partial.Bad {
			c.o.Log.WarnContext(ctx, "service cannot be read from the registry", telemetry.KeyService, name, telemetry.KeyError, bad)
		}
	} else {
		c.metrics.refreshes.WithLabelValues("ok").Inc()
	}
	return len(next), nil
}

// Run refreshes at once and then every CacheOptions.Refresh until ctx ends; it
// returns nil then. Failures are logged; before the first success they are
// tried again every second.
func (c *Cache) Run(ctx context.Context) error {
	for {
		wait := c.o.Refresh
		if _, err := c.Refresh(ctx); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // it was cut short by the stop itself.
			}
			c.o.Log.WarnContext(ctx, "service registry cannot be read, going on with what is known",
				telemetry.KeyError, err, "age", c.Age())
			if c.Ready() != nil {
				wait = min(wait, retryAfter)
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// All returns every service known, sorted by name.
func (c *Cache) All() []Service {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Service, 0, len(c.services))
	for _, e := range c.services {
		all = append(all, e.svc)
	}
	slices.SortFunc(all, func(a, b Service) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Age returns how old the view is; 0 before the first load.
func (c *Cache) Age() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded.IsZero() {
		return 0
	}
	return max(0, c.o.Now().Sub(c.loaded))
}

// Ready reports why the registry cannot be relied on: it was never read. nil
// once it was, even if the source fails now.
func (c *Cache) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.loaded.IsZero():
		return nil
	case c.lastErr != nil:
		return fmt.Errorf("service registry was never read: %w", c.lastErr)
	}
	return errors.New("service registry was not read yet")
}
