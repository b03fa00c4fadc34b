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
	roundRows   = pagesAStep * pageRows // rows a service without a limit may take in a round of the parked
	partMinimum = 256 << 10             // bytes a partition may always hold
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
	tracked map[place]*item
	bytes   int
	held    map[string]int // bytes by service
	blocked bool           // a read waits for room
	// recent holds keys finished lately, in two generations: an eventually
	// consistent read may still show them waiting.
	recent, older map[place]struct{}
	turned        time.Time
	parked        map[string]*parkedRange
	// floor is where the oldest row lies that is neither tracked nor parked and
	// can still move, as far as this process knows: passes start there.
	floor   int64
	lowered int64 // lowest floor asked for while a pass was under way; -1 for none

	// Of the goroutine alone.
	pass      pass
	sweep     sweep
	failures  int       // of passes in a row
	aside     int       // of everything else in a row
	asideTill time.Time // local: nothing but passes before
	firstSeen map[trigger.Key]seen
	round     map[string]int // rows each parked service may still take in this round
	roundMore bool           // of a service whose turn ended, not its rows
	cheapHead bool           // little lies below the floor: passes read it along

	progress time.Time // last page of a pass, or end of a wait for room, local; under mu
	complete bool      // a first pass has ended, or filled the memory; under mu
}

// place is what tells the rows of one partition apart. It hashes faster than the
// whole key, and that is done several times a job.
type place struct {
	due int64
	id  trigger.ID
}

func placeOf(k trigger.Key) place { return place{k.Due, k.ID} }

func newPart(l *lane, id int) *part {
	now := l.s.o.Clock.Local()
	return &part{
		l: l, id: id, wake: make(chan struct{}, 1),
		tracked: make(map[place]*item), held: make(map[string]int), recent: make(map[place]struct{}),
		parked: make(map[string]*parkedRange), lowered: -1, turned: now, progress: now,
		firstSeen: make(map[trigger.Key]seen), round: make(map[string]int),
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
	p.turn()
	blocked := p.isBlocked()
	wait := p.l.s.o.Tick // blocked: woken earlier when there is room
	if !blocked {
		var err error
		if wait, err = p.stepPass(ctx); err != nil {
			return p.failed(ctx, &p.failures, err)
		}
		p.failures = 0
	}
	// What fails from here on must not slow passes down.
	local := p.l.s.o.Clock.Local()
	if pause := p.asideTill.Sub(local); pause > 0 && pause <= 2*errorMost {
		return min(wait, pause)
	}
	if !blocked {
		more, err := p.stepParked(ctx)
		if err != nil {
			return min(wait, p.setAside(ctx, err))
		}
		if more {
			wait = 0
		}
	}
	next, err := p.stepSweep(ctx)
	if err != nil {
		return min(wait, p.setAside(ctx, err))
	}
	p.aside = 0
	return min(wait, next)
}

// setAside lets everything but passes rest after a failure.
func (p *part) setAside(ctx context.Context, err error) time.Duration {
	pause := p.failed(ctx, &p.aside, err)
	p.asideTill = p.l.s.o.Clock.Local().Add(pause)
	return pause
}

// failed counts a failure in a row and says how long to rest.
func (p *part) failed(ctx context.Context, row *int, err error) time.Duration {
	if ctx.Err() != nil {
		return time.Hour
	}
	*row++
	p.l.s.metrics.readError(p.l.id)
	if *row == 1 || *row%20 == 0 {
		p.l.s.o.Log.Warn("partition cannot be read", "lane", p.l.id.String(), "partition", p.id, "failures", *row, "error", err)
	}
	return jitter(min(errorPause<<min(*row-1, 8), errorMost))
}

// turn forgets what was finished long enough ago, however long a pass takes.
func (p *part) turn() {
	local := p.l.s.o.Clock.Local()
	p.mu.Lock()
	defer p.mu.Unlock()
	if local.Sub(p.turned) > recentFor {
		p.older, p.recent, p.turned = p.recent, make(map[place]struct{}, len(p.recent)), local
	}
}

// isBlocked reports whether reading waits for room in the partition's share.
func (p *part) isBlocked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.blocked
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
	unread             // to be admitted, but only its key and state were read
)

// admit takes a waiting row into memory, or remembers that it was skipped.
func (p *part) admit(ctx context.Context, key trigger.Key, row *store.Row, head bool) admission {
	open := p.l.admits(ctx, row.Service)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known(key) {
		return skipped
	}
	switch {
	case p.parked[row.Service] != nil || !open || !head && p.crowded(row):
		p.park(key, row.Service)
		return parked
	case head:
		return unread
	}
	return p.track(key, row)
}

// known reports whether the row is in memory or was finished lately. Called
// with mu held.
func (p *part) known(key trigger.Key) bool {
	if p.gone {
		return true
	}
	at := placeOf(key)
	if _, ok := p.tracked[at]; ok {
		return true
	}
	if _, ok := p.recent[at]; ok {
		return true
	}
	_, ok := p.older[at]
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
	p.tracked[placeOf(key)] = it
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
	if p.tracked[placeOf(it.key)] != it {
		return
	}
	delete(p.tracked, placeOf(it.key))
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
	case p.parked[service] != nil && held <= share/8 && held+it.size > share/8:
		p.poke() // its cursor may go on; once, not for every row
	}
}

// finished forgets a row that has left the waiting states for good.
func (p *part) finished(it *item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.untrack(it)
	p.recent[placeOf(it.key)] = struct{}{}
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
	if p.tracked[placeOf(it.key)] != it {
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
