package protect

import "time"

// Call is a call that is about to be made.
type Call struct {
	// Target is what is protected: a host or a group of targets.
	Target string
	// Tenant is whose call it is.
	Tenant string
	// Rate is how many calls a second the fleet may make to Target; 0: no limit.
	// Its share of a second may burst, at least one call a runner.
	Rate float64
	// Cap is how many calls of Tenant the fleet may have going; 0: no limit.
	Cap int
	// Deferred says that the call was denied for its rate before: it goes before
	// those that come for the first time.
	Deferred bool
}

// Reason says why a call was denied. It is a bounded metric label.
type Reason string

// The reasons.
const (
	ReasonOpen      Reason = "open"
	ReasonRate      Reason = "rate"
	ReasonTenantCap Reason = "tenant_cap"
)

// Denied tells when to come back.
type Denied struct {
	Reason Reason
	// Until is in the future. Each denied call gets a time of its own, so that
	// those who wait come back no faster than they may be admitted.
	Until time.Time
}

// Outcome is how a call ended, as far as its target's health goes.
type Outcome uint8

// The outcomes.
const (
	// Neutral is a call that says nothing of the target: it was not made, or was
	// given up by this side.
	Neutral Outcome = iota
	// Success is any answer of a target that works, refusals included.
	Success
	// Failure is a timeout, a connection error, or an answer such as 503.
	Failure
)

// Permit is leave for one call. Its holder calls [Permit.Done] once the call is
// over, whatever happened.
type Permit struct {
	g       *Gate
	t       *target
	tn      *tenant // nil: no cap
	began   time.Time
	epoch   uint64
	passage passage
	done    bool // under g.mu
}

// Probe reports whether the call is one of the few that find out whether a target
// works again.
func (p *Permit) Probe() bool { return p.passage != free }

// Done gives the permit back and tells how the call ended. Only the first call
// counts.
func (p *Permit) Done(o Outcome) {
	now, members := p.g.o.Now(), p.g.o.Members()
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	if p.done {
		return
	}
	p.done = true
	if p.tn != nil {
		p.tn.inUse--
		p.tn.observe(now.Sub(p.began))
	}
	p.g.settle(p.t, p, o, now, members)
}

// Admit says whether a call may be made now. Exactly one result is not nil. It
// does not block.
func (g *Gate) Admit(now time.Time, c Call) (*Permit, *Denied) {
	members := max(1, g.o.Members())
	g.mu.Lock()
	defer g.mu.Unlock()
	// In this order, because what is checked last is used up.
	tn, denied := g.underCap(now, c, members)
	if denied != nil {
		return nil, denied
	}
	t := g.target(c.Target, now)
	t.bucket.set(now, c.Rate/float64(members), t.pace.next.After(now))
	how := g.passage(t, now)
	if how == refused {
		t.wanted = true
		return nil, g.deny(ReasonOpen, g.afterPause(t, now))
	}
	if denied := g.underRate(t, now, c.Deferred); denied != nil {
		return nil, denied
	}
	t.inFlight++
	if how != free {
		t.probing++
		g.m.probes.Inc()
	}
	if how == loose {
		t.looseAt = now.Add(looseEvery)
	}
	if tn != nil {
		tn.inUse++
	}
	return &Permit{g: g, t: t, tn: tn, began: now, epoch: t.epoch, passage: how}, nil
}

func (g *Gate) deny(r Reason, until time.Time) *Denied {
	g.m.denied.WithLabelValues(string(r)).Inc()
	return &Denied{Reason: r, Until: until}
}

// underCap returns the call's tenant, nil if there is no cap.
func (g *Gate) underCap(now time.Time, c Call, members int) (*tenant, *Denied) {
	if c.Cap <= 0 {
		return nil, nil
	}
	tn, ok := g.tenants[c.Tenant]
	if !ok {
		tn = &tenant{hold: time.Second}
		g.tenants[c.Tenant] = tn
	}
	share := divided(c.Cap, members)
	if tn.inUse < share {
		return tn, nil
	}
	every := tn.turnover(share)
	return nil, g.deny(ReasonTenantCap, tn.pace.slot(now, now.Add(every), every, g.o.MaxDefer, g.o.Rand()))
}

// underRate uses up a token. While places in the queue are reserved, a call that
// did not wait for one gets only what would soon be lost.
func (g *Gate) underRate(t *target, now time.Time, deferred bool) *Denied {
	b := &t.bucket
	if b.lim == nil {
		return nil
	}
	jumps := !deferred && t.pace.next.After(now) && !b.full(now)
	if !jumps && b.lim.AllowN(now, 1) {
		return nil
	}
	return g.deny(ReasonRate, t.pace.slot(now, b.ready(now), b.every(), g.o.MaxDefer, g.o.Rand()))
}

// afterPause is when a call that met an open breaker comes back: after the pause,
// or, half open, when the probes may have told. With a rate they come back at
// that; without, within half a pause.
func (g *Gate) afterPause(t *target, now time.Time) time.Time {
	const probes = time.Second
	from := now.Add(probes)
	if t.cur.Until.After(from) {
		from = t.cur.Until
	}
	if t.bucket.lim != nil {
		return t.pace.slot(now, from, t.bucket.every(), g.o.MaxDefer, g.o.Rand())
	}
	return from.Add(time.Duration(g.o.Rand() * float64(t.cur.Pause/2)))
}
