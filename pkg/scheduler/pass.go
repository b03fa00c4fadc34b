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
	began   int64 // where it began
	from    int64
	to      int64
	after   *trigger.Key
	started time.Time // local
	floor   int64     // the next floor, if nothing lowers it
	pages   int
	found   int
	again   int // rows that were read before
	// seen is up to where the pass before had read, and this one reads keys and
	// states only; 0: this one reads everything in full.
	seen int64
	look bool // the next page of what was seen is read in full: it has news
	near bool // it reads only half as far ahead: see startPass
	// known is how many rows were read before, as if it had read as far ahead as
	// it may; above againMany the partition is busy.
	known int
	took  time.Duration
	head  int       // memory of the rows below the next floor
	next  time.Time // when the next one starts, local
	idle  time.Duration
}

const (
	// againMany is the number of known rows above which a pass is repeated only
	// every LookAhead/againPart.
	againMany = 100
	againPart = 4
	thinRows  = 4 * pageRows // rows asked for at once where only keys and states are read
	thinSize  = 1 << 10      // bytes taken for a row of which no more was read
)

// stepPass reads pages of the pass under way, or starts one if it is time.
func (p *part) stepPass(ctx context.Context) (time.Duration, error) {
	o := &p.l.s.o
	local := o.Clock.Local()
	if !p.pass.active {
		if w := p.pass.next.Sub(local); w > 0 && w <= o.IdleTick {
			return w, nil
		}
		p.startPass(local)
	}
	for range pagesAStep {
		r := store.Range{Lane: p.l.id, Partition: p.id, From: p.pass.from, To: p.pass.to, After: p.pass.after, Limit: pageRows}
		if p.pass.seen > 0 {
			r.To = p.pass.seen
			if r.Heads = !p.pass.look; r.Heads {
				r.Limit = thinRows
			}
		}
		page, err := o.Store.Range(ctx, r)
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
		p.pass.look = false
		full := p.takePage(ctx, page.Rows, r.Heads)
		switch {
		case full != nil && full.news:
			p.pass.after, p.pass.look = full.after, true
		case full != nil:
			p.pass.after, p.pass.look = full.after, r.To < p.pass.to
			return o.Tick, nil // blocked: woken when there is room
		case page.Next != nil:
			p.pass.after = page.Next
		case p.pass.seen > 0 && p.pass.seen < p.pass.to: // on with what the pass before did not reach
			p.pass.from, p.pass.seen, p.pass.after = p.pass.seen, 0, nil
		default:
			return p.endPass(), nil
		}
	}
	return 0, nil
}

// startPass begins at the floor, or at the head of the partition where little
// lies below. Where most of a pass is known already, what the last one saw is
// read thinly: keys and states are enough to find what is new. That takes a
// query more, so it pays only for many rows. Where a pass is quick as well, it
// reads half as far ahead, so that a row is read half as often.
func (p *part) startPass(local time.Time) {
	o := &p.l.s.o
	now := o.Clock.Now()
	next := pass{
		active: true, started: local, floor: now.Add(-o.FloorMargin).UnixMilli(), idle: p.pass.idle,
		near: p.pass.known > againMany && p.pass.took < o.LookAhead/8,
	}
	ahead := o.LookAhead
	if next.near {
		ahead /= 2
	}
	next.to = now.Add(ahead).UnixMilli()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lowered = -1
	if next.from = p.floor; p.cheapHead {
		next.from = 0
	}
	if p.pass.again > o.BusyRows && p.pass.to > next.from {
		next.seen = min(p.pass.to, next.to)
	}
	next.began = next.from
	p.pass = next
}

// stopped says where a page was left: because the partition's share is full, or
// because a row is new of which only key and state were read.
type stopped struct {
	after *trigger.Key
	news  bool
}

// takePage admits the rows of a page. When there is no room, or a row of a page
// of heads is new, it returns where to go on.
func (p *part) takePage(ctx context.Context, rows []store.Row, heads bool) *stopped {
	stale := make([]store.Op, 0, 4)
	last := p.pass.after
	for i := range rows {
		row := &rows[i]
		key := p.keyOf(row)
		switch {
		case row.State.Waiting():
			switch p.admit(ctx, key, row, heads) {
			case admitted, parked:
				if key.Due >= p.pass.floor {
					p.pass.found++
				}
			case noRoom:
				p.recover(ctx, stale)
				return &stopped{after: last}
			case unread:
				p.recover(ctx, stale)
				return &stopped{after: last, news: true}
			case skipped:
				p.pass.again++
			}
		case row.State.Kind() == trigger.Acquired:
			stale = p.staleOp(stale, key, row.State)
		}
		if key.Due < p.pass.floor {
			p.pass.head += row.Size()
			if heads && !row.State.Tombstone() {
				p.pass.head += thinSize
			}
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
	if p.pass.began == 0 {
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
	p.pass.known, p.pass.took = p.pass.again, took
	if p.pass.near {
		p.pass.known *= 2
	}
	if p.pass.known > againMany {
		// Reading what is known is most of a busy partition's cost. Rows stored well
		// ahead are still found in time; those due at once wait a little longer.
		interval = max(interval, o.LookAhead/againPart)
	}
	if p.pass.near {
		interval = min(interval, o.LookAhead/againPart) // the rest is for acquiring
	}
	p.l.s.metrics.pass(p.l.id, took, p.pass.pages)
	p.pass.active, p.pass.after = false, nil
	p.pass.next = p.pass.started.Add(interval)
	return max(p.pass.next.Sub(local), 0)
}
