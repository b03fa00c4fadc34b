package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Services looks a service up; unknown ones answer [registry.ErrUnknown].
type Services interface {
	Lookup(ctx context.Context, name string) (registry.Service, error)
}

// GateOptions configure [Gates].
type GateOptions struct {
	Services Services
	Clock    *clock.Clock
	// Share is this process's part of every service's fleet-wide rate, in (0, 1];
	// nil means all of it.
	Share func() float64
	// UnknownFor is how long a service may be missing from the registry before
	// its triggers are condemned. Default 24 h.
	UnknownFor time.Duration
	// Refresh is how old a looked-up service may be. Default 1 s.
	Refresh time.Duration
	Log     *slog.Logger
	Metrics *Metrics
}

// Verdict says whether a service's triggers may be acquired now.
type Verdict uint8

// The verdicts.
const (
	// Open: acquire and send.
	Open Verdict = iota
	// Parked: leave the rows alone; the reason may pass.
	Parked
	// Condemned: the service has been unknown for too long; bury its rows.
	Condemned
)

// Gates holds one [Gate] per service: what is known of it, its rate limit
// (shared by the lanes) and one breaker per lane. Safe for concurrent use.
type Gates struct {
	o  GateOptions
	mu sync.Mutex
	m  map[string]*Gate
}

// NewGates returns an empty set of gates.
func NewGates(o GateOptions) *Gates {
	if o.Share == nil {
		o.Share = func() float64 { return 1 }
	}
	if o.UnknownFor == 0 {
		o.UnknownFor = 24 * time.Hour
	}
	if o.Refresh == 0 {
		o.Refresh = time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Gates{o: o, m: make(map[string]*Gate)}
}

// For returns the gate of a service.
func (g *Gates) For(service string) *Gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	gate := g.m[service]
	if gate == nil {
		gate = &Gate{name: service, o: &g.o}
		for _, lane := range trigger.Lanes {
			gate.breakers[lane].init(gate, lane)
		}
		g.m[service] = gate
	}
	return gate
}

// Gate is what one process knows of one service's ability to take messages.
type Gate struct {
	name string
	o    *GateOptions

	mu           sync.Mutex
	svc          registry.Service
	known        bool
	lookingUp    bool      // by one caller; the others go by what is known
	stale        time.Time // local: when to look it up again
	unknownSince time.Time // local; zero while known or never looked up
	lookupErr    error
	limiter      *rate.Limiter // nil: no limit
	breakers     [len(trigger.Lanes)]breaker
}

// A registry that hangs must not hold up whoever reads for other services.
const (
	lookupTimeout = time.Second
	lookupPause   = 5 * time.Second // after a failure
)

// Refresh looks the service up again if what is known is old. Failures other
// than "unknown" keep what was known.
func (g *Gate) Refresh(ctx context.Context) {
	local := g.o.Clock.Local()
	g.mu.Lock()
	wait := g.stale.Sub(local)
	fresh := g.lookingUp || wait > 0 && wait <= max(g.o.Refresh, lookupPause)
	if !fresh {
		g.lookingUp = true
	}
	g.mu.Unlock()
	if fresh {
		return
	}
	lctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	svc, err := g.o.Services.Lookup(lctx, g.name)
	cancel()
	now := g.o.Clock.Local()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lookingUp = false
	if ctx.Err() != nil {
		return // the caller ended: it says nothing about the service
	}
	g.stale = now.Add(g.o.Refresh)
	switch {
	case err == nil:
		g.svc, g.known, g.lookupErr, g.unknownSince = svc, true, nil, time.Time{}
		g.setLimit(now)
	case errors.Is(err, registry.ErrUnknown):
		g.known, g.lookupErr = false, err
		if g.unknownSince.IsZero() {
			g.unknownSince = now
			g.o.Log.Warn("service is not in the registry: its triggers are parked", "service", g.name)
		}
	default:
		g.stale = now.Add(max(g.o.Refresh, lookupPause))
		if !g.known {
			g.lookupErr = err
		}
	}
}

// setLimit brings the limiter to this process's share. Called with mu held.
func (g *Gate) setLimit(now time.Time) {
	if g.svc.Rate <= 0 {
		g.limiter = nil
		return
	}
	local := rate.Limit(g.svc.Rate * g.o.Share())
	burst := max(1, int(local))
	switch {
	case g.limiter == nil:
		g.limiter = rate.NewLimiter(local, burst)
	case g.limiter.Limit() != local:
		g.limiter.SetLimitAt(now, local)
		g.limiter.SetBurstAt(now, burst)
	}
}

// Service returns what is known of the service, and whether anything is.
func (g *Gate) Service() (registry.Service, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.svc, g.known
}

// Verdict says whether the service's triggers of a lane may be acquired now,
// and why not.
func (g *Gate) Verdict(lane trigger.Lane) (Verdict, string) {
	now := g.o.Clock.Local()
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !g.unknownSince.IsZero() && now.Sub(g.unknownSince) >= g.o.UnknownFor && errors.Is(g.lookupErr, registry.ErrUnknown):
		return Condemned, fmt.Sprintf("service %s has not been in the registry for %s", g.name, g.o.UnknownFor)
	case !g.known && g.lookupErr == nil:
		return Parked, "service has not been looked up yet"
	case !g.known:
		return Parked, g.lookupErr.Error()
	case g.svc.Paused:
		return Parked, "service is paused"
	}
	if !g.breakers[lane].allows(now) {
		return Parked, "queue fails: " + g.breakers[lane].why
	}
	return Open, ""
}

// Quota is how many of the service's triggers are worth holding in memory: a
// few seconds' worth under a rate limit, one batch while a breaker probes,
// else no bound (-1).
func (g *Gate) Quota(lane trigger.Lane) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	quota := -1
	if g.limiter != nil {
		quota = max(2*queue.MaxBatch, int(2*g.limiter.Limit()))
	}
	if g.breakers[lane].open {
		quota = queue.MaxBatch
	}
	return quota
}

// Take grants up to n sends: fewer under the rate limit or while probing.
func (g *Gate) Take(lane trigger.Lane, n int) int {
	now := g.o.Clock.Local()
	g.mu.Lock()
	defer g.mu.Unlock()
	n = min(n, g.breakers[lane].budget(now))
	if n <= 0 {
		return 0
	}
	if g.limiter != nil {
		n = min(n, int(g.limiter.TokensAt(now)))
		if n <= 0 || !g.limiter.AllowN(now, n) {
			return 0
		}
	}
	g.breakers[lane].spend(n)
	return n
}

// Return gives back sends that were granted and not made. Tokens of the rate
// limit are not given back: the rate is a ceiling.
func (g *Gate) Return(lane trigger.Lane, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.breakers[lane].refund(n)
}

// NextToken is how long it takes until Take grants something; 0 for now.
func (g *Gate) NextToken() time.Duration {
	now := g.o.Clock.Local()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limiter == nil {
		return 0
	}
	missing := 1 - g.limiter.TokensAt(now)
	if missing <= 0 || g.limiter.Limit() <= 0 {
		return 0
	}
	return time.Duration(missing / float64(g.limiter.Limit()) * float64(time.Second))
}

// Succeeded tells the breaker that the queue took messages.
func (g *Gate) Succeeded(lane trigger.Lane) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.breakers[lane].succeed()
}

// Failed tells the breaker why the queue took none of a batch.
func (g *Gate) Failed(lane trigger.Lane, err error) {
	now := g.o.Clock.Local()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.breakers[lane].fail(now, err)
}

const (
	breakerFailures = 3 // failed batches in a row that open it
	breakerFirst    = time.Second
	breakerMost     = 15 * time.Second
	probeStall      = time.Minute // after which a probe without outcome is repeated
)

// breaker of one lane of a service. Open, it lets nothing through until a time,
// then one batch; that batch's outcome closes it or opens it for longer. Its
// methods are called with the gate's mutex held.
type breaker struct {
	gate   *Gate
	lane   trigger.Lane
	open   bool
	until  time.Time // local
	wait   time.Duration
	failed int // batches in a row
	probe  int // sends left to the probe
	why    string
}

func (b *breaker) init(g *Gate, lane trigger.Lane) { b.gate, b.lane = g, lane }

func (b *breaker) allows(now time.Time) bool {
	return !b.open || !now.Before(b.until)
}

func (b *breaker) budget(now time.Time) int {
	switch {
	case !b.open:
		return 1 << 30
	case now.Before(b.until):
		return 0
	case b.probe <= 0 && now.Sub(b.until) > probeStall:
		b.probe = queue.MaxBatch // nothing came of the last probe: its claims were lost
		b.until = now
	}
	return b.probe
}

// refund gives back sends that were granted and not made.
func (b *breaker) refund(n int) {
	if b.open {
		b.probe = min(b.probe+n, queue.MaxBatch)
	}
}

func (b *breaker) spend(n int) {
	if b.open {
		b.probe -= n
	}
}

func (b *breaker) succeed() {
	if b.open {
		b.gate.o.Log.Info("queue takes messages again", "service", b.gate.name, "lane", b.lane.String())
		b.gate.o.Metrics.breakerOpen(b.lane, -1)
	}
	b.open, b.failed, b.wait = false, 0, 0
}

func (b *breaker) fail(now time.Time, err error) {
	b.failed++
	certain := errors.Is(err, queue.ErrMissing) || errors.Is(err, queue.ErrDenied)
	if b.open && now.Before(b.until) {
		return // a batch that was under way when it opened
	}
	if !b.open && !certain && b.failed < breakerFailures {
		return
	}
	b.wait = min(max(2*b.wait, breakerFirst), breakerMost)
	jitter := time.Duration((rand.Float64() - 0.5) * 0.4 * float64(b.wait)) //nolint:gosec // spreads probes, guards nothing.
	b.until = now.Add(b.wait + jitter)
	b.probe = queue.MaxBatch
	b.why = err.Error()
	if !b.open {
		b.open = true
		b.gate.o.Log.Warn("queue fails: its triggers are parked", "service", b.gate.name, "lane", b.lane.String(), "error", err)
		b.gate.o.Metrics.breakerOpen(b.lane, +1)
	}
}
