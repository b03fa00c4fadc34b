package protect

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"
)

// Run exchanges with the fleet until ctx is done.
func (g *Gate) Run(ctx context.Context) error {
	tick := time.NewTimer(g.o.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if _, err := g.Exchange(ctx); err != nil && ctx.Err() == nil {
			g.o.Logger.Warn("exchange of calls' outcomes failed; this runner goes by its own", slog.Any("error", err))
		}
		// A tenth of jitter either way: a fleet started at once does not stay in step.
		g.mu.Lock()
		draw := g.o.Rand()
		g.mu.Unlock()
		tick.Reset(time.Duration((0.9 + 0.2*draw) * float64(g.o.Every)))
	}
}

// sent is a report, and what the target was when it was made.
type sent struct {
	t     *target
	epoch uint64
	gen   uint64
	next  *State
}

// Exchange tells the fleet what became of this runner's calls and takes in what
// the others know; it returns of how many targets. An error is that of Shared:
// the targets it concerns are tried again at the next exchange. It is what Run
// does again and again, and must not be called concurrently.
func (g *Gate) Exchange(ctx context.Context) (int, error) {
	reports, out := g.reports(g.o.Now())
	if len(reports) == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, g.o.Timeout)
	defer cancel()
	records, err := g.o.Shared.Exchange(ctx, g.o.Runner, reports)
	if err != nil {
		g.m.exchangeErrors.Inc()
	}
	now, members := g.o.Now(), g.o.Members()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, rec := range records {
		if s, ok := out[rec.Target]; ok {
			delete(out, rec.Target)
			g.absorb(s, rec, now)
			g.judge(s.t, now, members, true)
		}
	}
	for _, s := range out {
		s.t.unreported = true
		if s.t.failing.IsZero() {
			s.t.failing = now
		}
		g.judge(s.t, now, members, false)
	}
	return len(reports) - len(out), err
}

// reports sweeps and says what is due to be exchanged; the targets that waited
// longest come first where not all have room.
func (g *Gate) reports(now time.Time) ([]Report, map[string]sent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sweep(now)
	var due []*target
	for _, t := range g.targets {
		if g.due(t, now) {
			due = append(due, t)
		}
	}
	if len(due) > g.o.MaxExchanged {
		slices.SortFunc(due, func(a, b *target) int {
			return cmp.Or(a.exchanged.Compare(b.exchanged), cmp.Compare(a.key, b.key))
		})
		due = due[:g.o.MaxExchanged]
	}
	reports := make([]Report, 0, len(due))
	out := make(map[string]sent, len(due))
	for _, t := range due {
		r := Report{Target: t.key, At: now, Counts: Counts{Gen: t.base.Gen}, Next: g.proposal(t, now)}
		if !t.cur.Open() && !t.dirty {
			r.Counts.Buckets = t.own.buckets(now)
		}
		t.unreported = false
		reports = append(reports, r)
		out[t.key] = sent{t: t, epoch: t.epoch, gen: t.base.Gen, next: r.Next}
	}
	return reports, out
}

// due says whether a target is part of the next exchange. A healthy one costs
// little; one that fails is exchanged every time.
func (g *Gate) due(t *target, now time.Time) bool {
	lazily := now.Sub(t.exchanged) >= g.o.LazyEvery
	idle := now.Sub(t.used)
	switch {
	case t.dirty:
		return true
	case t.cur.Open() && now.Before(t.cur.Until):
		return lazily && idle < g.o.LazyEvery
	case t.cur.Open():
		return t.probing > 0 || (t.wanted && idle < rememberClosed)
	case !t.seen || !t.suspect.IsZero():
		return true
	}
	_, own := t.own.sum(now)
	_, others := t.others.sum(now)
	fails := own+others > 0
	switch {
	case fails && !lazily:
		return t.unreported || idle < 2*g.o.LazyEvery
	case lazily:
		return t.unreported || (fails && idle < WindowBuckets*BucketSpan)
	}
	return false
}

// proposal returns the state that the target should have, nil if it has it.
func (g *Gate) proposal(t *target, now time.Time) *State {
	next := t.cur
	switch {
	case t.dirty:
	case !t.cur.Open() || now.Before(t.cur.Until):
		return nil
	case t.cur.Holder == "" && t.wanted:
		next.Holder, next.Lease = g.o.Runner, now.Add(leaseFirst)
	case t.cur.Holder == g.o.Runner && t.probing > 0 && t.cur.Lease.Sub(now) < leaseRenew:
		next.Lease = now.Add(leaseFull)
	default:
		return nil
	}
	next.Lease = next.Lease.Truncate(time.Millisecond)
	next.Gen = t.base.Gen + 1
	return &next
}

// absorb takes in what the fleet has of a target; g.mu is held.
func (g *Gate) absorb(s sent, rec Record, now time.Time) {
	t := s.t
	moved := t.seen && rec.State.Gen != t.base.Gen
	won := s.next != nil && rec.State.Equal(*s.next)
	t.base, t.seen = rec.State, true
	t.exchanged, t.failing = now, time.Time{}
	switch {
	case t.dirty && t.epoch != s.epoch && (won || !moved):
		// Something was found out meanwhile; it is proposed next, on top of this.
	default:
		t.dirty = false
		if t.cur.samePhase(t.base) {
			t.cur = t.base
		} else {
			g.enter(t, t.base)
		}
		if moved && !won {
			t.own = window{}
		}
	}
	t.others = window{}
	for _, c := range rec.Others {
		if c.Gen == t.base.Gen {
			for _, b := range c.Buckets {
				t.others.add(b)
			}
		}
	}
	if s.gen != t.base.Gen && !t.cur.Open() {
		t.unreported = true // what was sent carried an older generation
	}
}
