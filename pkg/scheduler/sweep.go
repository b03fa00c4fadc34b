package scheduler

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// sweep is one reading of the whole head of a partition, for what passes do not
// look at: rows acquired by processes that are gone, and rows below the floor.
type sweep struct {
	active bool
	to     int64
	after  *trigger.Key
	next   time.Time // local
	pages  int
	rows   int
}

// seen remembers an acquired row whose own time cannot be used, and since when.
type seen struct {
	state trigger.State
	at    time.Time // local
	sweep time.Time // start of the last sweep that saw it, local
}

const (
	// quickSweep divides the interval of sweeps while the head is a few pages or
	// less; up to sweepPages it grows with them.
	quickSweep = 6
	sweepPages = 24
	// cheapHead is the memory of the rows below the floor, and cheapRows their
	// number, up to which every pass reads them along: it costs no read unit, and
	// finds what is inserted long after its time within a tick.
	cheapHead = 8 << 10
	cheapRows = 16
)

// stepSweep reads pages of the sweep under way, or starts one if it is time. It
// returns how long until it wants to be called again.
func (p *part) stepSweep(ctx context.Context) (time.Duration, error) {
	o := &p.l.s.o
	local := o.Clock.Local()
	if p.sweep.next.IsZero() {
		// Taking over, the first pass starts at the head and does what a sweep does.
		p.sweep.next = local.Add(jitter(o.SweepEvery / quickSweep))
	}
	if !p.sweep.active {
		if w := p.sweep.next.Sub(local); w > 0 && w <= 2*o.SweepEvery {
			return w, nil
		}
		p.sweep = sweep{active: true, to: o.Clock.Now().UnixMilli(), next: local}
	}
	for range pagesAStep {
		page, err := o.Store.Range(ctx, store.Range{
			Lane: p.l.id, Partition: p.id, From: 0, To: p.sweep.to, After: p.sweep.after, Limit: pageRows, Heads: true,
		})
		if err != nil {
			return 0, err
		}
		p.sweep.pages++
		p.sweep.rows += len(page.Rows)
		var stale []store.Op
		for i := range page.Rows {
			row := &page.Rows[i]
			key := p.keyOf(row)
			switch {
			case row.State.Waiting():
				p.swept(key, row.Service)
			case row.State.Kind() == trigger.Acquired:
				stale = p.staleOp(stale, key, row.State)
			}
		}
		p.recover(ctx, stale)
		if page.Next == nil {
			return p.endSweep(), nil
		}
		p.sweep.after = page.Next
	}
	return 0, nil
}

func (p *part) endSweep() time.Duration {
	every := p.l.s.o.SweepEvery
	every = min(max(every*time.Duration(p.sweep.pages)/sweepPages, every/quickSweep), every)
	p.cheapHead = p.cheapHead || p.sweep.rows <= cheapRows
	for key, s := range p.firstSeen {
		if s.sweep.Before(p.sweep.next) { // next still holds this sweep's start
			delete(p.firstSeen, key)
		}
	}
	wait := jitter(every)
	p.sweep = sweep{next: p.l.s.o.Clock.Local().Add(wait)}
	return wait
}

// swept looks at a waiting row: one below the floor that nobody here knows of
// brings the floor down to it.
func (p *part) swept(key trigger.Key, service string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if key.Due >= p.floor || p.known(key) {
		return
	}
	if r := p.parked[service]; r != nil && key.Compare(r.lo) >= 0 && key.Compare(r.hi) <= 0 &&
		(r.after == nil || key.Compare(*r.after) > 0) {
		return
	}
	p.lower(key.Due)
	p.poke()
}

// staleOp adds the recovery of an acquired row to ops if its claim is old
// enough. A claim whose time is missing or lies ahead counts from when it was
// first seen. Before: A by anyone, as read; after: S!.
func (p *part) staleOp(ops []store.Op, key trigger.Key, state trigger.State) []store.Op {
	o := &p.l.s.o
	p.mu.Lock()
	_, ours := p.tracked[placeOf(key)]
	p.mu.Unlock()
	if ours {
		return ops // it is being sent or completed here
	}
	_, at := state.Owner()
	now := o.Clock.Now()
	age := now.Sub(at)
	if at.IsZero() || age < 0 {
		local := o.Clock.Local()
		s := p.firstSeen[key]
		if s.state != state {
			s = seen{state: state, at: local}
		}
		s.sweep = local
		p.firstSeen[key] = s
		age = local.Sub(s.at)
	}
	if age <= o.StaleAfter {
		return ops
	}
	return append(ops, store.Op{Kind: store.Transition, Key: key, From: state, To: trigger.StateMaybeSent})
}

// recover writes recoveries; the losers find that the owner was alive after all
// and leave the row to it. Failures are left to the next sweep.
func (p *part) recover(ctx context.Context, ops []store.Op) {
	if len(ops) == 0 {
		return
	}
	o := &p.l.s.o
	recovered := 0
	for i, r := range o.Store.Write(ctx, ops) {
		switch {
		case r.Err == nil, errors.Is(r.Err, store.ErrConflict) && r.Found != nil && r.Found.State == trigger.StateMaybeSent:
			recovered++
			delete(p.firstSeen, ops[i].Key)
			p.mu.Lock()
			delete(p.recent, placeOf(ops[i].Key))
			delete(p.older, placeOf(ops[i].Key))
			p.lower(ops[i].Key.Due)
			p.mu.Unlock()
		case errors.Is(r.Err, store.ErrConflict):
		default:
			o.Log.Warn("acquired row could not be recovered; the next sweep tries again",
				"lane", p.l.id.String(), "partition", p.id, "error", r.Err)
		}
	}
	if recovered > 0 {
		p.l.s.metrics.recovered(p.l.id, recovered)
		o.Log.Info("recovered rows whose owner is gone", "lane", p.l.id.String(), "partition", p.id, "rows", recovered)
		p.pass.next = time.Time{}
		p.poke()
	}
}

// jitter spreads a wait over 80 to 120 % of it.
func jitter(d time.Duration) time.Duration {
	return d*4/5 + time.Duration(rand.Float64()*0.4*float64(d)) //nolint:gosec // spreads load, guards nothing.
}
