package scheduler

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/myosin-jobs/myosin/pkg/batch"
	"github.com/myosin-jobs/myosin/pkg/dispatch"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const (
	acquireBatch = 25
	// acquireLinger is how long a row that may be acquired waits for company. It
	// lies inside the lead, so it costs no lateness.
	acquireLinger = 25 * time.Millisecond
	// acquirePause bounds how long a throttled lane acquires nothing: one hot
	// partition must not hold up the others for long.
	acquirePause = 2 * time.Second
	// serviceShare is the part of a lane's memory one service may fill; what is
	// beyond stays in the table as a parked range.
	serviceShare = 4
)

// lane is everything one lane has for itself: partitions, memory, acquiring
// workers, dispatcher and share of the table's capacity.
type lane struct {
	id      trigger.Lane
	s       *Scheduler
	gates   *dispatch.Gates
	d       *dispatch.Dispatcher
	writes  *rate.Limiter
	pending *pending
	wake    chan struct{}
	slots   chan struct{} // acquiring batches
	calls   *batch.Pool   // runs them

	mu        sync.Mutex
	parts     map[int]*ownedPart
	acquiring int       // rows in acquiring batches
	pause     time.Time // local: no acquiring before, the table throttles
	pauses    int

	// Read while a partition's or a gate's mutex is held, so they are no part of mu.
	sharers atomic.Int64 // partitions owned
	count   atomic.Int64 // partitions of the lane, all owners
	nextDue atomic.Int64 // due time of the first row that acquiring waits for
	starved atomic.Bool  // acquiring waits for room: claims that end wake it

	reading sync.WaitGroup // partition goroutines
	batches sync.WaitGroup // acquiring batches
}

type ownedPart struct {
	*part
	stop context.CancelFunc
}

// own brings the partitions to those given, of count in all.
func (l *lane) own(ctx context.Context, ids []int, count int) {
	want := make(map[int]bool, len(ids))
	for _, id := range ids {
		want[id] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count.Store(int64(count))
	l.sharers.Store(int64(len(ids)))
	for id, p := range l.parts {
		if !want[id] {
			p.stop()
			p.leave()
			delete(l.parts, id)
		}
	}
	for id := range want {
		if l.parts[id] != nil {
			continue
		}
		pctx, stop := context.WithCancel(ctx)
		p := &ownedPart{part: newPart(l, id), stop: stop}
		l.parts[id] = p
		l.reading.Go(func() {
			p.run(pctx)
		})
	}
}

// owned is how many partitions are owned, and of how many.
func (l *lane) owned() (own, of int) { return int(l.sharers.Load()), int(l.count.Load()) }

// share is the memory one partition may hold, in bytes.
func (l *lane) share() int {
	return max(l.s.o.HeapBytes/len(trigger.Lanes)/max(int(l.sharers.Load()), 1), partMinimum)
}

// admits reports whether more rows of a service may be taken into memory.
func (l *lane) admits(ctx context.Context, service string) bool {
	gate := l.gates.For(service)
	gate.Refresh(ctx)
	if v, _ := gate.Verdict(l.id); v == dispatch.Parked {
		return false
	}
	rows, bytes := l.pending.held(service)
	if quota := gate.Quota(l.id); quota >= 0 && rows >= quota {
		return false
	}
	return bytes < l.s.o.HeapBytes/len(trigger.Lanes)/serviceShare
}

// cursorQuota is how many rows one partition's cursor may take at a time, so
// that the partitions of a limited service get even turns; -1 for no limit.
func (l *lane) cursorQuota(service string) int {
	quota := l.gates.For(service).Quota(l.id)
	if quota < 0 {
		return -1
	}
	own, _ := l.owned()
	return max(1, 2*quota/max(own, 1))
}

// poke wakes acquiring if the row is due before what it waits for.
func (l *lane) poke(key trigger.Key) {
	if key.Due < l.nextDue.Load() {
		l.kick()
	}
}

func (l *lane) kick() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run acquires what falls due until ctx ends, then waits for the batches under way.
func (l *lane) run(ctx context.Context) {
	defer l.calls.Close()
	defer l.batches.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.wake:
		}
		timer.Reset(l.acquireDue(ctx))
	}
}

// acquireDue starts acquiring batches for everything that may be acquired now,
// and says how long to wait at most before it is called again.
func (l *lane) acquireDue(ctx context.Context) time.Duration {
	o := &l.s.o
	if o.Clock.Usable() != nil {
		return o.Tick
	}
	local := o.Clock.Local()
	l.nextDue.Store(math.MaxInt64)
	l.mu.Lock()
	pause := l.pause.Sub(local)
	l.mu.Unlock()
	if pause > 0 && pause < time.Minute {
		return pause
	}
	for ctx.Err() == nil {
		l.starved.Store(true)
		room := o.MaxClaimed - l.d.Open() - l.inAcquire()
		if room < acquireBatch && room < o.MaxClaimed {
			return o.Tick // woken when claims end
		}
		l.starved.Store(false)
		now := o.Clock.Now()
		allow := func(service string, want int) grant { return l.allow(service, want, room) }
		got, evicted, wait := l.pending.take(acquireBatch, now.Add(o.Lead), allow)
		for _, it := range evicted {
			it.part.parkItem(it)
		}
		if len(got) > 0 {
			l.start(ctx, got)
		}
		if len(got) == acquireBatch || len(evicted) > 0 {
			continue
		}
		if wait < 0 || wait > o.Tick {
			wait = o.Tick
		}
		l.nextDue.Store(now.Add(o.Lead + wait).UnixMilli())
		return wait + acquireLinger
	}
	return o.Tick
}

func (l *lane) inAcquire() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acquiring
}

// allow says how many rows of a service may be acquired now, of room for all. A
// service may have as much acquired and unsent as it leaves free to others, so
// that no number of slow ones takes all of it.
func (l *lane) allow(service string, want, room int) grant {
	gate := l.gates.For(service)
	switch v, _ := gate.Verdict(l.id); v {
	case dispatch.Parked:
		return grant{evict: true}
	case dispatch.Condemned:
		return grant{n: want}
	}
	fair := max(room/2, queue.MaxBatch) - l.d.Unsent(service)
	n := gate.Take(l.id, min(want, l.d.Room(service), fair))
	if n <= 0 {
		return grant{after: max(gate.NextToken(), acquireLinger)}
	}
	return grant{n: n}
}

// start acquires a batch in a goroutine of its own, a bounded number at once.
func (l *lane) start(ctx context.Context, items []*item) {
	l.mu.Lock()
	l.acquiring += len(items)
	l.mu.Unlock()
	l.slots <- struct{}{}
	l.batches.Add(1)
	l.calls.Go(func() {
		defer l.batches.Done()
		l.acquire(ctx, items)
		l.mu.Lock()
		l.acquiring -= len(items)
		l.mu.Unlock()
		<-l.slots
	})
}

// acquire claims rows. Before: S or S!, as read; after: A by us, now. A loser
// finds the row gone, cancelled or acquired by another, and forgets it.
func (l *lane) acquire(ctx context.Context, items []*item) {
	o := &l.s.o
	if l.writes != nil && l.writes.WaitN(ctx, len(items)) != nil {
		for _, it := range items {
			it.part.lost(it, true)
		}
		return
	}
	at := o.Clock.Now()
	state := trigger.AcquiredBy(o.Owner, at)
	for try := 0; len(items) > 0; try++ {
		ops := make([]store.Op, len(items))
		for i, it := range items {
			ops[i] = store.Op{Kind: store.Transition, Key: it.key, From: it.row.State, To: state}
		}
		// Not ctx: a claim that was sent must be learnt of, or it is stuck for a minute.
		wctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), acquireTimeout)
		results := o.Store.Write(wctx, ops)
		cancel()
		var unknown []*item
		throttled := false
		for i, r := range results {
			if l.acquired(items[i], state, at, r) {
				continue
			}
			if errors.Is(r.Err, store.ErrThrottled) {
				throttled = true
				l.gates.For(items[i].row.Service).Return(l.id, 1)
				items[i].part.again(items[i], items[i].row.State)
				continue
			}
			unknown = append(unknown, items[i])
		}
		l.throttled(throttled)
		items = unknown
		if len(items) == 0 {
			return
		}
		if ctx.Err() != nil || try == acquireTries-1 || o.Clock.Now().Sub(at) > acquireGive {
			for _, it := range items {
				l.gates.For(it.row.Service).Return(l.id, 1)
				it.part.lost(it, true)
			}
			return
		}
		time.Sleep(jitter(acquireRetry << try))
	}
}

const (
	acquireTimeout = 5 * time.Second
	acquireTries   = 4
	acquireRetry   = 50 * time.Millisecond
	acquireGive    = 8 * time.Second
)

// acquired deals with one result of acquiring; false if its outcome is not known.
func (l *lane) acquired(it *item, state trigger.State, at time.Time, r store.Result) bool {
	won := r.Err == nil
	if errors.Is(r.Err, store.ErrConflict) {
		won = r.Found != nil && r.Found.State == state // a lost reply
		if !won {
			l.s.metrics.conflict(l.id)
			l.gates.For(it.row.Service).Return(l.id, 1)
			switch {
			case r.Found == nil:
				it.part.finished(it)
			case r.Found.State.Waiting():
				it.part.again(it, r.Found.State)
			default:
				it.part.lost(it, false)
			}
			return true
		}
	}
	if !won {
		return false
	}
	c := &dispatch.Claim{Key: it.key, Row: it.row, Claimed: state, At: at, Done: func(c *dispatch.Claim, out dispatch.Outcome) {
		l.ended(it, c, out)
	}}
	if v, why := l.gates.For(it.row.Service).Verdict(l.id); v == dispatch.Condemned {
		l.d.Bury(c, why)
		return true
	}
	l.d.Add(c)
	return true
}

// ended takes note of how a claim ended.
func (l *lane) ended(it *item, c *dispatch.Claim, out dispatch.Outcome) {
	switch out {
	case dispatch.Released:
		it.part.again(it, c.ReleasedTo)
	case dispatch.Dropped:
		it.part.lost(it, false)
	default:
		it.part.finished(it)
	}
	if l.starved.Load() { // else it has its own time, and waking it for each claim costs
		l.kick()
	}
}

// throttled slows acquiring down while the table refuses work.
func (l *lane) throttled(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !yes {
		l.pauses = 0
		return
	}
	l.pauses++
	l.pause = l.s.o.Clock.Local().Add(jitter(min(errorPause<<min(l.pauses-1, 6), acquirePause)))
}
