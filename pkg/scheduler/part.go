package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/dispatch"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const (
	pageRows    = 250 // rows asked for at once
	pagesAStep  = 4   // pages of one kind before the others get their turn
	recentFor   = 10 * time.Second
	errorPause  = 200 * time.Millisecond // after a failed read; doubles
	errorMost   = 10 * time.Second
	partMinimum = 256 << 10 // bytes a partition may always hold
)

// part is one partition while this process owns it. Its goroutine alone reads
// the table: passes over what is due soon, the cursors of parked services, and
// the sweep. The maps are shared with the lane's acquiring and finishing.
type part struct {
	l    *lane
	id   int
	wake chan struct{}

	mu      sync.Mutex
	gone    bool // no longer owned: nothing is admitted
	tracked map[trigger.Key]*item
	bytes   int
	held    map[string]int // bytes by service
	blocked bool           // a read waits for room
	// recent holds keys finished lately, in two generations: an eventually
	// consistent read may still show them waiting.
	recent, older map[trigger.Key]struct{}
	turned        time.Time
	parked        map[string]*parkedRange
	// floor is where the oldest row lies that is neither tracked nor parked and
	// can still move, as far as this process knows: passes start there.
	floor   int64
	lowered int64 // lowest floor asked for while a pass was under way; -1 for none

	// Of the goroutine alone.
	pass      pass
	sweep     sweep
	failures  int
	firstSeen map[trigger.Key]seen

	progress time.Time // last page of a pass, or end of a wait for room, local; under mu
	complete bool      // a first pass has ended, or filled the memory; under mu
}

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
	next    time.Time // when the next one starts, local
	idle    time.Duration
}

// parkedRange is where a service's rows were skipped: from behind after (or
// from lo) up to hi. The service's cursor reads it again when it may send.
type parkedRange struct {
	lo, hi  trigger.Key
	after   *trigger.Key
	changes int // every extension counts, so that a reader notices
	lowered int // those downwards
}

func newPart(l *lane, id int) *part {
	now := l.s.o.Clock.Local()
	return &part{
		l: l, id: id, wake: make(chan struct{}, 1),
		tracked: make(map[trigger.Key]*item), held: make(map[string]int), recent: make(map[trigger.Key]struct{}),
		parked: make(map[string]*parkedRange), lowered: -1, turned: now, progress: now,
		firstSeen: make(map[trigger.Key]seen),
	}
}

// run reads until ctx ends.
func (p *part) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.wake:
		}
		wait := p.step(ctx)
		timer.Reset(wait)
	}
}

func (p *part) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// step does one turn of each kind of reading and says how long to wait for the
// next.
func (p *part) step(ctx context.Context) time.Duration {
	var wait time.Duration
	var err error
	p.turn()
	if p.isBlocked() {
		wait = p.l.s.o.Tick // woken earlier when there is room
	} else if wait, err = p.stepPass(ctx); err == nil {
		var more bool
		if more, err = p.stepParked(ctx); more {
			wait = 0
		}
	}
	if err == nil {
		var next time.Duration
		if next, err = p.stepSweep(ctx); next < wait {
			wait = next
		}
	}
	if err == nil {
		p.failures = 0
		return wait
	}
	if ctx.Err() != nil {
		return time.Hour
	}
	p.failures++
	p.l.s.metrics.readError(p.l.id)
	if p.failures == 1 || p.failures%20 == 0 {
		p.l.s.o.Log.Warn("partition cannot be read", "lane", p.l.id.String(), "partition", p.id, "failures", p.failures, "error", err)
	}
	return jitter(min(errorPause<<min(p.failures-1, 8), errorMost))
}

// turn forgets what was finished long enough ago, however long a pass takes.
func (p *part) turn() {
	local := p.l.s.o.Clock.Local()
	p.mu.Lock()
	defer p.mu.Unlock()
	if local.Sub(p.turned) > recentFor {
		p.older, p.recent, p.turned = p.recent, make(map[trigger.Key]struct{}), local
	}
}

// isBlocked reports whether reading waits for room in the partition's share.
func (p *part) isBlocked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.blocked
}

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
		p.mu.Unlock()
	}
	for range pagesAStep {
		page, err := o.Store.Range(ctx, store.Range{
			Lane: p.l.id, Partition: p.id, From: p.pass.from, To: p.pass.to, After: p.pass.after, Limit: pageRows,
		})
		if err != nil {
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
				p.pass.found++
			case noRoom:
				p.recover(ctx, stale)
				return &stopped{after: last}
			case skipped:
			}
		case row.State.Kind() == trigger.Acquired:
			stale = p.staleOp(stale, key, row.State)
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
	p.l.s.metrics.pass(p.l.id, took, p.pass.pages)
	p.pass.active, p.pass.after = false, nil
	p.pass.next = p.pass.started.Add(interval)
	return max(p.pass.next.Sub(local), 0)
}

// keyOf is the row's key as it was read: the partition is this one, whatever
// count its sender used.
func (p *part) keyOf(row *store.Row) trigger.Key {
	return trigger.Key{Lane: p.l.id, Partition: p.id, Due: row.Due.UnixMilli(), ID: row.ID}
}

type admission uint8

const (
	admitted admission = iota
	skipped            // tracked already, or finished lately
	parked             // its service may not send now: the range is remembered
	noRoom             // no room in the partition's share
)

// admit takes a waiting row into memory, or remembers that it was skipped.
func (p *part) admit(ctx context.Context, key trigger.Key, row *store.Row) admission {
	open := p.l.admits(ctx, row.Service)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known(key) {
		return skipped
	}
	if r := p.parked[row.Service]; r != nil || !open || p.crowded(row) {
		p.park(key, row.Service)
		return parked
	}
	return p.track(key, row)
}

// known reports whether the row is in memory or was finished lately. Called
// with mu held.
func (p *part) known(key trigger.Key) bool {
	if p.gone {
		return true
	}
	if _, ok := p.tracked[key]; ok {
		return true
	}
	if _, ok := p.recent[key]; ok {
		return true
	}
	_, ok := p.older[key]
	return ok
}

// crowded reports whether a row's service holds as much of the partition's
// share as it would leave free to others. Called with mu held.
func (p *part) crowded(row *store.Row) bool {
	held := p.held[row.Service]
	return held > 0 && held+row.Size() > p.l.share()-p.bytes
}

// track puts a row in line, if there is room. Called with mu held.
func (p *part) track(key trigger.Key, row *store.Row) admission {
	it := &item{key: key, row: *row, part: p, size: row.Size()}
	if p.bytes > 0 && p.bytes+it.size > p.l.share() {
		p.blocked, p.complete = true, true
		return noRoom
	}
	p.tracked[key] = it
	p.bytes += it.size
	p.held[row.Service] += it.size
	p.l.pending.push(it)
	p.l.poke(key)
	return admitted
}

// park extends the service's parked range to a row. Called with mu held.
func (p *part) park(key trigger.Key, service string) {
	r := p.parked[service]
	if r == nil {
		p.parked[service] = &parkedRange{lo: key, hi: key}
		return
	}
	r.changes++
	if key.Compare(r.hi) > 0 {
		r.hi = key
	}
	if key.Compare(r.lo) < 0 || r.after != nil && key.Compare(*r.after) <= 0 {
		r.lo, r.after = key, nil
		r.lowered++
	}
}

// parkItem takes a row out of memory and into its service's parked range.
func (p *part) parkItem(it *item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.untrack(it)
	if !p.gone {
		p.park(it.key, it.row.Service)
	}
}

// untrack forgets a row in memory. Called with mu held.
func (p *part) untrack(it *item) {
	if p.tracked[it.key] != it {
		return
	}
	delete(p.tracked, it.key)
	p.bytes -= it.size
	service := it.row.Service
	held := p.held[service] - it.size
	if p.held[service] = held; held <= 0 {
		delete(p.held, service)
	}
	share := p.l.share()
	switch {
	case p.blocked && p.bytes < share/2:
		p.blocked, p.progress = false, p.l.s.o.Clock.Local()
		p.poke()
	case p.parked[service] != nil && held <= share/8:
		p.poke() // its cursor may go on
	}
}

// finished forgets a row that has left the waiting states for good.
func (p *part) finished(it *item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.untrack(it)
	p.recent[it.key] = struct{}{}
}

// lost forgets a row whose state is not known; reread says to look at it again
// with the next pass, instead of leaving it to the sweep.
func (p *part) lost(it *item, reread bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.untrack(it)
	if reread {
		p.lower(it.key.Due)
	}
}

// lower brings the floor down to a row that waits below it. Called with mu held.
func (p *part) lower(due int64) {
	p.floor = min(p.floor, due)
	if p.lowered < 0 || due < p.lowered {
		p.lowered = due
	}
}

// again puts a row that was released, or found in another waiting state, back
// in line or into its parked range.
func (p *part) again(it *item, state trigger.State) {
	verdict, _ := p.l.gates.For(it.row.Service).Verdict(p.l.id)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tracked[it.key] != it {
		return
	}
	it.row.State = state
	if p.gone {
		p.untrack(it)
		return
	}
	if verdict == dispatch.Parked {
		p.untrack(it)
		p.park(it.key, it.row.Service)
		return
	}
	p.l.pending.push(it)
	p.l.poke(it.key)
}

// leave forgets the partition: another process owns it now.
func (p *part) leave() {
	p.mu.Lock()
	p.gone = true
	p.parked = make(map[string]*parkedRange)
	p.mu.Unlock()
	p.l.pending.drop(p)
}
