// Package protect decides whether a run may call its target now: a circuit
// breaker and a token bucket per target, and a cap on the concurrent calls of
// each tenant.
//
// It owns what a fleet of runners must agree on for ten to behave as one: counts
// and breaker states go through [Shared], rates and caps are divided by the
// number of live runners. It refuses to wait, to queue and to call anything:
// [Gate.Admit] answers at once, with a permit or with the time to come back at,
// and how a run is deferred until then is the caller's business. While Shared
// fails, each runner goes by what it sees itself.
//
// A [Gate] is safe for concurrent use. Its only goroutine is its caller's, in
// [Gate.Run].
package protect

import (
	"container/list"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options configure a [Gate]. Runner and Shared are required.
type Options struct {
	// Runner names this process among the fleet's. No two live ones share a name.
	Runner string
	// Shared is what the fleet knows together.
	Shared Shared
	// Members is the number of live runners; below 1 is taken as 1. It is asked
	// at every call, so a change takes effect at once. nil: always 1.
	Members func() int
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Rand draws from [0, 1) for jitter; nil: math/rand/v2. It is not called
	// concurrently.
	Rand func() float64
	// Logger; nil: nothing is logged.
	Logger *slog.Logger
	// Registerer takes the metrics; nil: none are registered.
	Registerer prometheus.Registerer

	// Every is the time between two exchanges. Default 1 s.
	Every time.Duration
	// LazyEvery is the same for targets without a failure in the last minute:
	// what could open their breaker must fail first, and then they are not
	// lazy. Default 5 s; at least Every.
	LazyEvery time.Duration
	// Timeout bounds one exchange. Default 2 s.
	Timeout time.Duration
	// MinCalls is how many calls of the last minute it takes for a breaker to
	// open; more than half of them failed. Default 10.
	MinCalls int
	// Pause is how long a breaker stays open; each failed probe doubles it, up
	// to MaxPause. Defaults 10 s and 2 min.
	Pause, MaxPause time.Duration
	// Probes is how many successes close a breaker, and how many probes are on
	// their way at most. Default 3.
	Probes int
	// MaxDefer is how far in the future a denied run is sent at most. Default
	// 15 min.
	MaxDefer time.Duration
	// MaxTargets is how many targets are tracked; beyond, the one not used for
	// longest is forgotten. Default 10,000.
	MaxTargets int
	// MaxExchanged is how many targets one exchange holds; the others wait for
	// the next. Default 1,000.
	MaxExchanged int
}

// Validate reports every option outside its range, joined.
func (o *Options) Validate() error {
	var errs []error
	if o.Runner == "" {
		errs = append(errs, errors.New("runner: missing"))
	}
	if o.Shared == nil {
		errs = append(errs, errors.New("shared: missing"))
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"every", o.Every}, {"lazy every", o.LazyEvery}, {"timeout", o.Timeout}, {"pause", o.Pause}, {"max pause", o.MaxPause}, {"max defer", o.MaxDefer}} {
		if d.d < 0 {
			errs = append(errs, fmt.Errorf("%s: %v is negative", d.name, d.d))
		}
	}
	for _, n := range []struct {
		name string
		n    int
	}{{"min calls", o.MinCalls}, {"probes", o.Probes}, {"max targets", o.MaxTargets}, {"max exchanged", o.MaxExchanged}} {
		if n.n < 0 {
			errs = append(errs, fmt.Errorf("%s: %d is negative", n.name, n.n))
		}
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	def(&o.Every, time.Second)
	def(&o.LazyEvery, 5*time.Second)
	o.LazyEvery = max(o.LazyEvery, o.Every)
	def(&o.Timeout, 2*time.Second)
	def(&o.MinCalls, 10)
	def(&o.Pause, 10*time.Second)
	def(&o.MaxPause, 2*time.Minute)
	o.MaxPause = max(o.MaxPause, o.Pause)
	def(&o.Probes, 3)
	def(&o.MaxDefer, 15*time.Minute)
	def(&o.MaxTargets, 10_000)
	def(&o.MaxExchanged, 1_000)
	if o.Members == nil {
		o.Members = func() int { return 1 }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func def[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// Gate admits calls.
type Gate struct {
	o Options
	m *metrics

	mu      sync.Mutex
	targets map[string]*target
	recent  *list.List // of *target, the last used in front
	open    int        // targets whose breaker is
	tenants map[string]*tenant
}

// New returns a gate that knows no target yet.
func New(o Options) (*Gate, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("protect: %w", err)
	}
	g := &Gate{o: o.withDefaults(), targets: make(map[string]*target), recent: list.New(), tenants: make(map[string]*tenant)}
	m, err := newMetrics(g, o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("protect: %w", err)
	}
	g.m = m
	return g, nil
}

// target returns what is known of a target, which may be nothing; g.mu is held.
func (g *Gate) target(key string, now time.Time) *target {
	t, ok := g.targets[key]
	if !ok {
		if len(g.targets) >= g.o.MaxTargets {
			g.forget(g.leastMissed())
		}
		t = &target{key: key}
		t.place = g.recent.PushFront(t)
		g.targets[key] = t
	}
	g.recent.MoveToFront(t.place)
	t.used = now
	return t
}

// leastMissed returns the target not used for longest; of the last few, one that
// is closed and has no call on its way is preferred.
func (g *Gate) leastMissed() *target {
	const few = 16
	e := g.recent.Back()
	for range few {
		if e == nil {
			break
		}
		if t := e.Value.(*target); t.inFlight == 0 && !t.cur.Open() {
			return t
		}
		e = e.Prev()
	}
	return g.recent.Back().Value.(*target)
}

// forget drops a target. Permits of it that are out are still good, but what
// becomes of them is not counted.
func (g *Gate) forget(t *target) {
	if t.cur.Open() {
		g.open--
	}
	g.recent.Remove(t.place)
	delete(g.targets, t.key)
	t.forgotten = true
}

// How long after its last use a target is remembered.
const (
	rememberClosed = 2 * time.Minute
	rememberOpen   = 10 * time.Minute
)

// sweep forgets what is idle; g.mu is held.
func (g *Gate) sweep(now time.Time) {
	for e := g.recent.Back(); e != nil; {
		t := e.Value.(*target)
		idle := now.Sub(t.used)
		if idle < rememberClosed {
			break
		}
		e = e.Prev()
		if t.inFlight > 0 || t.pace.next.After(now) || (t.cur.Open() && idle < rememberOpen) {
			continue
		}
		g.forget(t)
	}
	for name, tn := range g.tenants {
		if tn.inUse == 0 && !tn.pace.next.After(now) {
			delete(g.tenants, name)
		}
	}
}
