package forecast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/myosin-jobs/myosin/pkg/telemetry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const (
	// MaxMinutes is the longest forecast that is read: a day.
	MaxMinutes = 24 * 60
	// MaxServices is how many services one call may ask for.
	MaxServices = 1000
	// DefaultCacheFor is how long what was read is repeated.
	DefaultCacheFor = 5 * time.Second
	// DefaultRefresh is how often the next hour of every service is read.
	DefaultRefresh = 15 * time.Second
	// StaleAfter is the age at which a service's forecast is no longer exposed as
	// a metric: no number is better than an old one, since whoever scales by it
	// has a fallback.
	StaleAfter = 5 * time.Minute
)

const (
	// horizon is how many minutes ahead are read in the background: the present
	// one, the longest window, and what passes of it before the view is stale.
	horizon = 1 + 60 + int64(StaleAfter/time.Minute) + 1
	// emptyPause is the time to the next refresh while no service is known.
	emptyPause = time.Second
	// maxCached bounds what is kept of services that are not read in the background.
	maxCached = 1000
)

// ErrRange is wrapped by the errors of [Reader.Forecast] about what was asked for.
var ErrRange = errors.New("no such forecast")

// ReaderOptions configure a [Reader].
type ReaderOptions struct {
	// Store is read from. Required.
	Store Ranger
	// Services names the services that are read in the background and exposed as
	// metrics: those of the registry, so that labels are bounded. It is called
	// before each refresh and must not block; platform.ServiceNames is meant for
	// it. Required.
	Services func() []string
	// CacheFor is how long an answer is repeated without reading; 0:
	// [DefaultCacheFor].
	CacheFor time.Duration
	// Refresh is the time between two background reads; 0: [DefaultRefresh].
	Refresh time.Duration
	// Readers is how many reads of one call are under way at once. 0: 8.
	Readers int
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Log; nil: discarded.
	Log *slog.Logger
	// Registerer takes the metrics; nil: none.
	Registerer prometheus.Registerer
}

// Validate reports every option at fault, joined.
func (o *ReaderOptions) Validate() error {
	var errs []error
	if o.Store == nil {
		errs = append(errs, errors.New("store: missing"))
	}
	if o.Services == nil {
		errs = append(errs, errors.New("services: missing"))
	}
	if o.CacheFor < 0 {
		errs = append(errs, fmt.Errorf("cache for: %s; want 0 for %s, or more", o.CacheFor, DefaultCacheFor))
	}
	if o.Refresh < 0 || o.Refresh > StaleAfter/2 {
		errs = append(errs, fmt.Errorf("refresh: %s; want 0 for %s, or up to %s", o.Refresh, DefaultRefresh, StaleAfter/2))
	}
	if o.Readers < 0 {
		errs = append(errs, fmt.Errorf("readers: %d; want 0 for %d, or more", o.Readers, defaultWorkers))
	}
	return errors.Join(errs...)
}

// Reader answers what is due, and exposes the peaks ahead as
//
//	myosin_forecast_peak_jobs_per_minute{service, window="5m"|"15m"|"60m"}
//
// which is the most that is due in one minute between the present one and the one
// the window ends in. A worker that has to be there five minutes before a peak
// scales by
//
//	max(myosin_forecast_peak_jobs_per_minute{service="payments", window="5m"})
//
// where every process that runs a reader shows the same. A scrape reads memory
// only: [Reader.Run] reads the store.
type Reader struct {
	o       ReaderOptions
	metrics *readerMetrics

	mu      sync.Mutex
	watched map[string]view // the services of the last refresh
	cached  map[string]view // others, and other ranges
}

// view is what was read of one service: every minute of a range.
type view struct {
	first int64   // see minuteOf
	due   []int64 // by minute from first
	read  time.Time
}

// part returns the n minutes from first; false if the view has not all of them.
func (v view) part(first, n int64) ([]int64, bool) {
	from := first - v.first
	if from < 0 || from+n > int64(len(v.due)) {
		return nil, false
	}
	return v.due[from : from+n], true
}

// NewReader returns a reader. Without [Reader.Run] it answers, but exposes
// nothing.
func NewReader(o ReaderOptions) (*Reader, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("forecast reader: %w", err)
	}
	if o.CacheFor == 0 {
		o.CacheFor = DefaultCacheFor
	}
	if o.Refresh == 0 {
		o.Refresh = DefaultRefresh
	}
	if o.Readers == 0 {
		o.Readers = defaultWorkers
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Reader{o: o, watched: make(map[string]view), cached: make(map[string]view)}
	var err error
	if r.metrics, err = newReaderMetrics(o.Registerer, r); err != nil {
		return nil, fmt.Errorf("forecast reader metrics: %w", err)
	}
	return r, nil
}

// Forecast returns what is due per minute of each service: a point for each of
// the minutes from the one that from lies in, zeros included. It may be as old
// as CacheFor, and the counts of the last second or two (of the last ten, for
// minutes further ahead than ten) are still on their way. A service that nobody
// knows has nothing due.
//
// Errors wrap [ErrRange] where minutes is not 1 to [MaxMinutes], a name cannot be
// a service's, or more than [MaxServices] are asked for; otherwise the store
// failed, and there is no answer.
func (r *Reader) Forecast(ctx context.Context, services []string, from time.Time, minutes int) (map[string][]Point, error) {
	if minutes < 1 || minutes > MaxMinutes {
		return nil, fmt.Errorf("forecast: %w: %d minutes; want 1 to %d", ErrRange, minutes, MaxMinutes)
	}
	if len(services) > MaxServices {
		return nil, fmt.Errorf("forecast: %w: %d services; want up to %d", ErrRange, len(services), MaxServices)
	}
	first, n := minuteOf(from), int64(minutes)
	answer := make(map[string][]Point, len(services))
	var missing []string
	for _, service := range services {
		if err := trigger.ValidService(service); err != nil {
			return nil, fmt.Errorf("forecast: %w: service %q: %w", ErrRange, service, err)
		}
		if _, twice := answer[service]; twice {
			continue
		}
		due, known := r.lookUp(service, first, n)
		answer[service] = points(first, due)
		if !known {
			missing = append(missing, service)
		}
	}
	views := make([]view, len(missing))
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(r.o.Readers)
	for i, service := range missing {
		reads.Go(func() (err error) {
			views[i], err = r.read(ctx, service, first, n)
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, fmt.Errorf("forecast: %w", err)
	}
	r.remember(missing, views)
	for i, service := range missing {
		answer[service] = points(first, views[i].due)
	}
	return answer, nil
}

// points is what is due by minute from first.
func points(first int64, due []int64) []Point {
	all := make([]Point, len(due))
	for i, n := range due {
		all[i] = Point{Minute: startOf(first + int64(i)), Due: n}
	}
	return all
}

// lookUp answers from memory.
func (r *Reader) lookUp(service string, first, n int64) ([]int64, bool) {
	now := r.o.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, views := range []map[string]view{r.watched, r.cached} {
		if v, ok := views[service]; ok && r.fresh(v, now) {
			if due, ok := v.part(first, n); ok {
				return due, true
			}
		}
	}
	return nil, false
}

func (r *Reader) fresh(v view, now time.Time) bool { return now.Sub(v.read).Abs() < r.o.CacheFor }

// remember keeps what was read for as long as it is fresh, if there is room.
func (r *Reader) remember(services []string, views []view) {
	now := r.o.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for service, v := range r.cached {
		if !r.fresh(v, now) {
			delete(r.cached, service)
		}
	}
	for i, service := range services {
		if _, there := r.cached[service]; there || len(r.cached) < maxCached {
			r.cached[service] = views[i]
		}
	}
}

// read reads n minutes of a service.
func (r *Reader) read(ctx context.Context, service string, first, n int64) (view, error) {
	v := view{first: first, due: make([]int64, n), read: r.o.Now()}
	found, err := r.o.Store.Range(ctx, service, startOf(first), startOf(first+n))
	r.metrics.reads.WithLabelValues(result(err)).Inc()
	if err != nil {
		return view{}, err
	}
	for _, p := range found {
		if i := minuteOf(p.Minute) - first; i >= 0 && i < n {
			v.due[i] = p.Due
		}
	}
	return v, nil
}

// Refresh reads the next hour of every service and returns how many it read. A
// service whose read fails keeps what was known of it; the error is the first.
func (r *Reader) Refresh(ctx context.Context) (int, error) {
	services := r.o.Services()
	views, errs := make([]view, len(services)), make([]error, len(services))
	first := minuteOf(r.o.Now())
	var reads errgroup.Group
	reads.SetLimit(r.o.Readers)
	for i, service := range services {
		reads.Go(func() error {
			views[i], errs[i] = r.read(ctx, service, first, horizon)
			return nil // one that fails stops no other
		})
	}
	_ = reads.Wait()
	next := make(map[string]view, len(services))
	failed, why := 0, error(nil)
	r.mu.Lock()
	for i, service := range services {
		if errs[i] == nil {
			next[service] = views[i]
			continue
		}
		if failed++; why == nil {
			why = errs[i]
		}
		if v, known := r.watched[service]; known {
			next[service] = v
		}
	}
	r.watched = next
	r.mu.Unlock()
	if why != nil {
		return len(services) - failed, fmt.Errorf("refresh forecast: %d of %d services: %w", failed, len(services), why)
	}
	return len(services), nil
}

// Run refreshes at once and then every Refresh until ctx ends; it returns nil
// then. A failure is logged when it begins, not as long as it lasts.
func (r *Reader) Run(ctx context.Context) error {
	failing := false
	for {
		read, err := r.Refresh(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was cut short by the stop itself.
		}
		switch {
		case err != nil && !failing:
			r.o.Log.WarnContext(ctx, "forecast cannot be read, going on with what is known", telemetry.KeyError, err)
		case err == nil && failing:
			r.o.Log.InfoContext(ctx, "forecast is read again")
		}
		failing = err != nil
		wait := r.o.Refresh
		if read == 0 && err == nil {
			wait = min(wait, emptyPause) // the registry was not read yet
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
