package protect

import (
	"container/list"
	"time"
)

const (
	// leaseFirst is how long a runner that may probe has to begin; once it has,
	// it holds on for leaseFull from exchange to exchange.
	leaseFirst = 4 * time.Second
	leaseFull  = 10 * time.Second
	leaseRenew = leaseFull - 2*time.Second
	// looseEvery is the least time between two probes of a runner without the
	// lease, after a lease that lapsed.
	looseEvery = 10 * time.Second
	// lostAfter is how long a target's exchanges have to fail for the runner to
	// take for itself what it would else ask of the fleet.
	lostAfter = 3 * time.Second
)

// target is what this runner knows of one target.
type target struct {
	key       string
	place     *list.Element
	used      time.Time // of the last call that asked, admitted or not
	inFlight  int
	forgotten bool

	base  State // the fleet's, as last read
	seen  bool  // whether it ever was
	cur   State // what this runner goes by; its Gen means nothing while dirty
	dirty bool  // cur is this runner's finding, to be proposed on top of base
	// epoch rises when cur's phase changes: what became of a call of an earlier
	// one says nothing of this one.
	epoch              uint64
	own, others        window
	probing, succeeded int       // probes of this epoch
	wanted             bool      // a call was refused since the breaker opened
	suspect            time.Time // since when the minute asks for a pause; zero: it does not
	looseAt            time.Time // when the next probe without a lease may begin

	exchanged  time.Time // when Shared last answered
	failing    time.Time // since when it does not; zero: it does
	unreported bool      // own has what Shared has not

	bucket tokens
	pace   pace
}

// enter changes the phase.
func (g *Gate) enter(t *target, s State) {
	if s.Open() != t.cur.Open() {
		if s.Open() {
			g.open++
		} else {
			g.open--
		}
	}
	t.cur = s
	t.epoch++
	t.probing, t.succeeded = 0, 0
	t.suspect = time.Time{}
	if !s.Open() {
		t.wanted = false
	}
}

// judge opens a closed breaker where the last minute of the fleet asks for it.
//
// One of several runners sees its own calls at once and those of others up to an
// exchange later: of a target's first calls that is a sample. So what it finds has
// to hold at an exchange half a round later. Where Shared is lost, there is
// nothing to wait for.
func (g *Gate) judge(t *target, now time.Time, members int, exchanged bool) {
	if t.cur.Open() || t.forgotten {
		return
	}
	calls, failures := t.own.sum(now)
	c, f := t.others.sum(now)
	calls, failures = calls+c, failures+f
	if calls < g.o.MinCalls || 2*failures <= calls {
		t.suspect = time.Time{}
		return
	}
	if t.suspect.IsZero() {
		t.suspect = now
	}
	alone := members <= 1 && t.seen
	held := exchanged && t.seen && now.Sub(t.suspect) >= g.o.Every/2
	if alone || held || t.lost(now) {
		g.reopen(t, now, g.o.Pause)
	}
}

// lost reports whether the fleet has not been heard of this target for so long
// that the runner goes by its own.
func (t *target) lost(now time.Time) bool {
	return !t.failing.IsZero() && now.Sub(t.failing) >= lostAfter
}

// reopen starts a pause.
func (g *Gate) reopen(t *target, now time.Time, pause time.Duration) {
	g.enter(t, State{Until: now.Add(pause).Truncate(time.Millisecond), Pause: pause})
	t.dirty = true
	g.m.opened.Inc()
	g.o.Logger.Warn("calls to a target are paused", "target", t.key, "pause", pause)
}

// shut closes the breaker and begins to count anew.
func (g *Gate) shut(t *target) {
	g.enter(t, State{})
	t.own, t.others = window{}, window{}
	// One that opened and closed while Shared was away concerns nobody else.
	t.dirty = t.base.Open()
	g.m.closed.Inc()
	g.o.Logger.Info("a target answers again", "target", t.key)
}

// passage is how a breaker lets a call through.
type passage uint8

const (
	refused passage = iota
	free            // the breaker is closed
	probe           // under the lease, one of a few
	loose           // without the lease: it alone decides
)

// passage says whether a call may pass; it is pure but for one thing: where
// Shared is lost, the lease is this runner's.
func (g *Gate) passage(t *target, now time.Time) passage {
	if !t.cur.Open() {
		return free
	}
	if now.Before(t.cur.Until) {
		return refused
	}
	if t.cur.Holder == "" && t.lost(now) {
		s := t.cur
		s.Holder, s.Lease = g.o.Runner, now.Add(leaseFull).Truncate(time.Millisecond)
		g.enter(t, s)
		t.dirty = true
	}
	leased := now.Before(t.cur.Lease)
	switch {
	case leased && t.cur.Holder == g.o.Runner && t.probing+t.succeeded < g.o.Probes:
		return probe
	case t.cur.Holder != "" && !leased && t.probing == 0 && !now.Before(t.looseAt):
		// Whoever had the lease has died, or no call came its way: calls are few.
		return loose
	}
	return refused
}

// settle takes in how a call ended; g.mu is held.
func (g *Gate) settle(t *target, p *Permit, o Outcome, now time.Time, members int) {
	t.inFlight--
	if t.forgotten || p.epoch != t.epoch {
		return // of another phase: a slow call that began before a pause
	}
	if p.passage == free {
		if o != Neutral {
			b := Bucket{Index: BucketAt(now), Calls: 1}
			if o == Failure {
				b.Failures = 1
			}
			t.own.add(b)
			t.unreported = true
			g.judge(t, now, members, false)
		}
		return
	}
	t.probing--
	switch o {
	case Failure:
		g.reopen(t, now, min(2*t.cur.Pause, g.o.MaxPause))
	case Success:
		if t.succeeded++; p.passage == loose || t.succeeded >= g.o.Probes {
			g.shut(t)
		}
	case Neutral:
		// It told nothing; another may be sent.
	}
}
