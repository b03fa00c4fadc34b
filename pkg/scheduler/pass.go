package scheduler

import (
	"context"
	"time"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// pass is one reading of everything from the floor to the look-ahead.
type pass struct {
	active  bool
	from    int64
	to      int64
	after   *trigger.Key
	started time.Time // local
	floor   int64     // the next floor, if nothing lowers it
	pages   int
	found   int
	again   int       // rows that were read before
	head    int       // memory of the rows below the next floor
	next    time.Time // when the next one starts, local
	idle    time.Duration
}

const (
	// againMany is the number of known rows above which a pass is repeated only
	// every LookAhead/againPart.
	againMany = 100
	againPart = 4
)

// stepPass reads pages of the pass under way, or starts one if it is time.
func (p *part) stepPass(ctx context.Context) (time.Duration, error) {
	o := &p.l.s.o
	local := o.Clock.Local()
	if !p.pass.active {
		if w := p.pass.next.Sub(local); w > 0 && w <= o.IdleTick {
			return w, nil
		}
		now := o.Clock.Now()
		p.mu.Lock()
		p.lowered = -1
		p.pass = pass{
			active: true, from: p.floor, to: now.Add(o.LookAhead).UnixMilli(), started: local,
			floor: now.Add(-o.FloorMargin).UnixMilli(), idle: p.pass.idle,
		}
		if p.cheapHead {
			p.pass.from = 0
		}
		p.mu.Unlock()
	}
	for range pagesAStep {
		page, err := o.Store.Range(ctx, store.Range{
			Lane: p.l.id, Partition: p.id, From: p.pass.from, To: p.pass.to, After: p.pass.after, Limit: pageRows,
		})
		if err != nil {
			if p.cheapHead && p.pass.from == 0 {
				// Perhaps an item of the head is at fault: the sweep's concern.
				p.cheapHead, p.pass.active = false, false
			}
			return 0, err
		}
		p.pass.pages++
		p.mu.Lock()
		p.progress = o.Clock.Local()
		p.mu.Unlock()
		full := p.takePage(ctx, page.Rows)
		if full != nil {
			p.pass.after = full.after
			return o.Tick, nil // blocked: woken when there is room
		}
		if page.Next == nil {
			return p.endPass(), nil
		}
		p.pass.after = page.Next
	}
	return 0, nil
}

// stopped says where a page was left because the partition's share is full.
type stopped struct{ after *trigger.Key }

// takePage admits the rows of a page. When there is no room it returns where
// to go on.
func (p *part) takePage(ctx context.Context, rows []store.Row) *stopped {
	stale := make([]store.Op, 0, 4)
	last := p.pass.after
	for i := range rows {
		row := &rows[i]
		key := p.keyOf(row)
		switch {
		case row.State.Waiting():
			switch p.admit(ctx, key, row) {
			case admitted, parked:
				if key.Due >= p.pass.floor {
					p.pass.found++
				}
			case noRoom:
				p.recover(ctx, stale)
				return &stopped{after: last}
			case skipped:
				p.pass.again++
			}
		case row.State.Kind() == trigger.Acquired:
			stale = p.staleOp(stale, key, row.State)
		}
		if key.Due < p.pass.floor {
			p.pass.head += row.Size()
		}
		last = &key
	}
	p.recover(ctx, stale)
	return nil
}

// endPass moves the floor up and decides when to read again: a tick after the
// last start, later while nothing is found, and later where a pass reads much.
func (p *part) endPass() time.Duration {
	o := &p.l.s.o
	local := o.Clock.Local()
	p.mu.Lock()
	p.floor = p.pass.floor
	if p.lowered >= 0 && p.lowered < p.floor {
		p.floor = p.lowered
	}
	p.complete = true
	p.mu.Unlock()
	if p.pass.from == 0 {
		p.cheapHead = p.pass.head <= cheapHead
	}
	interval := o.Tick
	if p.pass.found == 0 {
		p.pass.idle = min(max(2*p.pass.idle, o.Tick), o.IdleTick)
		interval = p.pass.idle
	} else {
		p.pass.idle = 0
	}
	took := local.Sub(p.pass.started)
	if p.pass.pages > 2 {
		interval = max(interval, min(2*took, o.LookAhead/2))
	}
	if p.pass.again > againMany {
		// Reading what is known is most of a busy partition's cost. Rows stored well
		// ahead are still found in time; those due at once wait a little longer.
		interval = max(interval, o.LookAhead/againPart)
	}
	p.l.s.metrics.pass(p.l.id, took, p.pass.pages)
	p.pass.active, p.pass.after = false, nil
	p.pass.next = p.pass.started.Add(interval)
	return max(p.pass.next.Sub(local), 0)
}
