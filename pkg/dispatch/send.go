package dispatch

import (
	"container/heap"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const (
	// minUnsent and maxUnsent bound what is acquired and unsent for one service.
	minUnsent = 250
	maxUnsent = 2000
	// drainAhead is how far ahead of its time a claim may be for a drain to wait for it.
	drainAhead = 500 * time.Millisecond
	// retryFirst is the pause after a failed send; it doubles up to retryMost.
	retryFirst = 50 * time.Millisecond
	retryMost  = 2 * time.Second
)

// sendQueue holds the claims of one service until they are due and sends them.
// One goroutine, alive while there are claims, waits and cuts batches; each
// batch is sent in a goroutine of its own, a bounded number at once.
type sendQueue struct {
	d     *Dispatcher
	name  string
	gate  *Gate
	slots chan struct{}
	wake  chan struct{}

	mu      sync.Mutex
	claims  claimHeap
	ready   []*Claim  // due, prepared and in order: they wait for company
	company int       // claims that were due when they came, since ready was filled
	waits   time.Time // when run looks again, if nothing wakes it
	running bool
	unsent  int       // in claims, ready or being sent
	holdTo  time.Time // FIFO: nothing is sent before, so that order is kept over a retry
	// Rate of what the queue took: messages in this second and the one before.
	second     int64
	took, last int
}

func newSendQueue(d *Dispatcher, service string) *sendQueue {
	q := &sendQueue{d: d, name: service, gate: d.o.Gates.For(service), wake: make(chan struct{}, 1)}
	n := d.o.SendsPerService
	if svc, _ := q.gate.Service(); svc.FIFO {
		n = 1
	}
	q.slots = make(chan struct{}, n)
	return q
}

func (q *sendQueue) push(cs ...*Claim) {
	now := q.d.o.Clock.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	sooner := false
	for _, c := range cs {
		heap.Push(&q.claims, c)
		if !c.readyAt.After(now) {
			q.company++
		}
		sooner = sooner || len(q.ready) == 0 && c.readyAt.Before(q.waits)
	}
	q.unsent += len(cs)
	switch {
	case !q.running:
		q.running = true
		go q.run()
	case sooner, len(q.ready)+q.company >= queue.MaxBatch:
		q.poke()
	}
}

func (q *sendQueue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// room is described at Dispatcher.Room.
func (q *sendQueue) room() int {
	sec := q.d.o.Clock.Local().Unix()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.roll(sec)
	return min(max(minUnsent, 2*max(q.took, q.last)), maxUnsent) - q.unsent
}

// roll moves the rate window on. Called with mu held.
func (q *sendQueue) roll(sec int64) {
	switch sec - q.second {
	case 0:
	case 1:
		q.second, q.last, q.took = sec, q.took, 0
	default:
		q.second, q.last, q.took = sec, 0, 0
	}
}

// run waits for claims to fall due and sends them, until there are none.
func (q *sendQueue) run() {
	for {
		// The slot comes first: what is cut is sent at once, so that nothing
		// overtakes a batch that failed, and batches fill while all slots are busy.
		q.slots <- struct{}{}
		batch, wait, done := q.cut()
		if batch == nil {
			<-q.slots
		}
		switch {
		case done:
			return
		case batch == nil && wait == 0: // draining, and what is left is too far off
			for _, c := range q.popAll() {
				q.d.release(c)
			}
		case batch != nil:
			q.d.sends.Go(func() {
				q.send(batch)
				<-q.slots
			})
		default:
			t := time.NewTimer(wait)
			select {
			case <-t.C:
			case <-q.wake:
				t.Stop()
			}
		}
	}
}

// cut takes the next batch out: up to ten due messages within the byte limit.
// Without one it says how long to wait, or that there is nothing left at all;
// neither means that nothing will be due in time for the drain under way.
func (q *sendQueue) cut() (batch []*Claim, wait time.Duration, done bool) {
	draining := q.d.isDraining()
	now := q.d.o.Clock.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.claims) == 0 && len(q.ready) == 0 {
		q.running = false
		return nil, 0, true
	}
	w := q.holdTo.Sub(now)
	if len(q.ready) == 0 {
		w = max(w, q.claims[0].readyAt.Sub(now))
	}
	switch {
	case draining && w > drainAhead:
		return nil, 0, false
	case w > 0:
		q.waits = now.Add(w)
		return nil, w, false
	}
	q.gather(now)
	n, bytes := 0, 0
	for n < len(q.ready) && n < queue.MaxBatch && (n == 0 || bytes+q.ready[n].size <= queue.MaxBatchBytes) {
		bytes += q.ready[n].size
		n++
	}
	linger := q.ready[0].readyAt.Add(q.d.o.Linger).Sub(now)
	if n == len(q.ready) && n < queue.MaxBatch && linger > 0 && !draining {
		// It waits for company. What falls due meanwhile need not wake it one by one.
		q.waits = now.Add(linger)
		return nil, linger, false
	}
	batch = append(batch, q.ready[:n]...)
	rest := copy(q.ready, q.ready[n:])
	clear(q.ready[rest:])
	q.ready = q.ready[:rest]
	return batch, 0, false
}

// gather moves due claims from the heap to ready, in order, up to a batch; more
// only for a claim that belongs before one that is there. Called with mu held.
func (q *sendQueue) gather(now time.Time) {
	q.company = 0
	for len(q.claims) > 0 && !q.claims[0].readyAt.After(now) {
		c := q.claims[0]
		at := len(q.ready)
		for at > 0 && before(c, q.ready[at-1]) {
			at--
		}
		if len(q.ready) >= queue.MaxBatch && at == len(q.ready) {
			return
		}
		q.prepare(c)
		heap.Pop(&q.claims)
		q.ready = slices.Insert(q.ready, at, c)
	}
}

// popAll empties the queue.
func (q *sendQueue) popAll() []*Claim {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := append(q.ready, q.claims...) //nolint:gocritic // both are given up.
	q.claims, q.ready = nil, nil
	q.unsent -= len(all)
	return all
}

// prepare builds the claim's message once.
func (q *sendQueue) prepare(c *Claim) {
	if c.size > 0 {
		return
	}
	svc, _ := q.gate.Service()
	fifo := svc.FIFO || strings.HasSuffix(svc.Queue(q.d.o.Lane), ".fifo")
	d := trigger.Deliver(&c.Row.Trigger, fifo)
	c.msg = queue.Message{Body: d.Body, Attributes: d.Attributes, Group: d.Group}
	if fifo {
		c.msg.Dedup = c.Row.ID.String()
	}
	c.size = c.msg.Size()
}

// send makes one attempt for a batch and hands every claim on.
func (q *sendQueue) send(claims []*Claim) {
	d := q.d
	now := d.o.Clock.Now()
	verdict, why := q.gate.Verdict(d.o.Lane)
	svc, _ := q.gate.Service()
	usable := d.o.Clock.Usable()
	batch := claims[:0:0]
	msgs := make([]queue.Message, 0, len(claims))
	for _, c := range claims {
		switch {
		case now.Sub(c.At) > d.o.MaxClaimAge:
			d.o.Log.Warn("claim is too old to send on: dropped for the sweep to recover",
				"service", q.name, "trigger_id", c.Row.ID.String(), "age", now.Sub(c.At))
			q.leave(1)
			d.end(c, Dropped)
		case verdict == Condemned:
			q.leave(1)
			d.bury(c, why)
		case verdict == Parked, usable != nil:
			q.leave(1)
			d.release(c)
		default:
			batch = append(batch, c)
			msgs = append(msgs, c.msg)
		}
	}
	if len(batch) == 0 {
		return
	}
	// A send under way is not given up when a drain runs out of time: its
	// outcome decides between completing and a duplicate.
	ctx, cancel := context.WithTimeout(context.Background(), d.o.SendTimeout)
	errs := d.o.Sender.SendBatch(ctx, svc.Queue(d.o.Lane), msgs)
	cancel()
	d.o.Metrics.batched(d.o.Lane, len(msgs))
	q.settle(batch, errs)
}

// settle sorts the claims of one send by what became of their messages.
func (q *sendQueue) settle(batch []*Claim, errs []error) {
	d := q.d
	now := d.o.Clock.Now()
	var worst error
	var again []*Claim
	took := 0
	for i, c := range batch {
		c.tries++
		err := errs[i]
		switch {
		case err == nil:
			took++
			d.o.Metrics.sent(d.o.Lane, now.Sub(c.Row.Due), c.maybeSent || c.Row.State == trigger.StateMaybeSent)
			d.complete(c)
		case errors.Is(err, queue.ErrRejected):
			took++ // the queue works
			d.bury(c, "refused by the queue: "+err.Error())
		default:
			c.maybeSent = c.maybeSent || !queue.SurelyUnsent(err)
			if worst == nil || errors.Is(err, queue.ErrMissing) || errors.Is(err, queue.ErrDenied) {
				worst = err
			}
			again = append(again, c)
		}
	}
	if took > 0 {
		q.gate.Succeeded(d.o.Lane)
	}
	if worst != nil && took == 0 {
		q.gate.Failed(d.o.Lane, worst)
	}
	q.mu.Lock()
	q.roll(d.o.Clock.Local().Unix())
	q.took += took
	q.unsent -= len(batch)
	q.mu.Unlock()
	q.retry(again, now)
}

// retry puts claims back for another send while their age and the gate allow
// it, and releases the others.
func (q *sendQueue) retry(claims []*Claim, now time.Time) {
	if len(claims) == 0 {
		return
	}
	d := q.d
	if d.isDraining() {
		// A queue that fails now may take the whole of the drain's time: the
		// processes that go on are to send the rest.
		claims = append(claims, q.popAll()...)
	}
	verdict, _ := q.gate.Verdict(d.o.Lane)
	pause := min(retryFirst<<min(claims[0].tries-1, 8), retryMost)
	pause += time.Duration(rand.Float64() * 0.5 * float64(pause)) //nolint:gosec // jitter.
	var again []*Claim
	for _, c := range claims {
		if verdict != Open || d.isDraining() || now.Add(pause).Sub(c.At) > d.o.MaxClaimAge/2 {
			d.release(c)
			continue
		}
		again = append(again, c)
	}
	if svc, _ := q.gate.Service(); svc.FIFO {
		q.mu.Lock()
		q.holdTo = now.Add(pause)
		q.mu.Unlock()
	} else {
		for _, c := range again {
			c.readyAt = now.Add(pause)
		}
	}
	if len(again) > 0 {
		q.push(again...)
	}
}

func (q *sendQueue) leave(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unsent -= n
}

// claimHeap orders claims by when they may be sent, then by due time and id.
type claimHeap []*Claim

func (h claimHeap) Len() int { return len(h) }
func (h claimHeap) Less(i, j int) bool {
	return before(h[i], h[j])
}

func before(a, b *Claim) bool {
	if c := a.readyAt.Compare(b.readyAt); c != 0 {
		return c < 0
	}
	return a.Key.Compare(b.Key) < 0
}
func (h claimHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *claimHeap) Push(x any)   { *h = append(*h, x.(*Claim)) }
func (h *claimHeap) Pop() any {
	old := *h
	n := len(old) - 1
	c := old[n]
	old[n] = nil
	*h = old[:n]
	return c
}
