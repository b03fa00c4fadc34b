package memqueue

import (
	"container/heap"
	"container/list"
	"strconv"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
)

// status is where a message stands.
type status uint8

const (
	delayed status = iota
	visible
	inFlight
	gone
)

type message struct {
	id       string
	seq      uint64 // unique in the engine; the order of sending
	order    uint64 // rank among the visible messages of its group
	body     string
	attrs    map[string]string
	group    string
	sender   string
	sentAt   time.Time
	received time.Time // when the current flight began
	receives int
	status   status
	until    time.Time // end of the delay or of the flight
	index    int       // in the one heap that holds it
	early    bool      // injected: ranks before all others
}

// memQueue is one queue; the engine's lock guards it.
//
// A message is in exactly one heap: timed while delayed or in flight, its
// group's while visible. The ring holds the groups that may be received from.
type memQueue struct {
	e    *Engine
	url  string
	spec queue.Spec
	made uint64 // tells receipts of a recreated queue from those of the old one

	live    map[uint64]*message
	timed   timeHeap
	groups  map[string]*group
	ring    list.List // of *group, next to be served first
	waiters list.List // of *waiter, longest waiting first
	count   [gone + 1]int
	order   uint64

	dedup     map[string]struct{}
	dedupList list.List // of dedupEntry, oldest first
}

type group struct {
	key     string
	ready   orderHeap
	flights int           // messages in flight: FIFO groups are locked meanwhile
	elem    *list.Element // in the ring, or nil
}

type dedupEntry struct {
	key string
	at  time.Time
}

// waiter is one blocked Receive.
type waiter struct {
	wake chan struct{} // capacity 1
	elem *list.Element // nil while not waiting
}

func newMemQueue(e *Engine, url string, s queue.Spec, made uint64) *memQueue {
	return &memQueue{e: e, url: url, spec: s, made: made,
		live: map[uint64]*message{}, groups: map[string]*group{}, dedup: map[string]struct{}{}}
}

// setStatus moves m between statuses and heaps.
func (q *memQueue) setStatus(m *message, s status, until time.Time) {
	g := q.groupOf(m)
	switch m.status {
	case inFlight:
		g.flights--
		fallthrough
	case delayed:
		heap.Remove(&q.timed, m.index)
	case visible:
		heap.Remove(&g.ready, m.index)
	case gone: // new
	}
	q.count[m.status]--
	q.count[s]++
	m.status, m.until = s, until
	switch s {
	case inFlight:
		g.flights++
		fallthrough
	case delayed:
		heap.Push(&q.timed, m)
		if m.index == 0 {
			q.wakeOne() // someone must watch the new earliest end
		}
	case visible:
		q.order++
		switch {
		case q.spec.FIFO:
			m.order = m.seq
		case m.early:
			m.order, m.early = 0, false
		default:
			m.order = q.order
		}
		heap.Push(&g.ready, m)
	case gone:
		delete(q.live, m.seq)
	}
	q.settle(g, s == visible)
}

// add brings a new message into the queue.
func (q *memQueue) add(m *message, s status, until time.Time) {
	m.status, m.index = gone, -1
	q.live[m.seq] = m
	q.setStatus(m, s, until)
}

func (q *memQueue) groupOf(m *message) *group {
	g := q.groups[m.group]
	if g == nil {
		g = &group{key: m.group}
		q.groups[m.group] = g
	}
	return g
}

// settle puts g into the ring or takes it out, as its state asks, wakes a
// receiver when there is something new to receive, and forgets an empty group.
func (q *memQueue) settle(g *group, more bool) {
	open := len(g.ready) > 0 && (!q.spec.FIFO || g.flights == 0)
	switch {
	case open && g.elem == nil:
		g.elem = q.ring.PushBack(g)
		more = true
	case !open && g.elem != nil:
		q.ring.Remove(g.elem)
		g.elem = nil
	}
	if open && more {
		q.wakeOne()
	}
	if len(g.ready) == 0 && g.flights == 0 {
		delete(q.groups, g.key)
	}
}

// promote makes visible what has waited long enough.
func (q *memQueue) promote(now time.Time) {
	for len(q.timed) > 0 && !q.timed[0].until.After(now) {
		q.setStatus(q.timed[0], visible, time.Time{})
	}
}

// duplicate enqueues a second copy of m.
func (q *memQueue) duplicate(m *message, after time.Duration) {
	c := *m
	q.e.seq++
	c.seq = q.e.seq
	q.add(&c, delayed, q.e.opts.Now().Add(after))
}

// seen reports whether a deduplication id was used within the window, and
// remembers it.
func (q *memQueue) seen(key string, now time.Time) bool {
	for el := q.dedupList.Front(); el != nil; el = q.dedupList.Front() {
		d := el.Value.(dedupEntry)
		if now.Sub(d.at) < dedupWindow {
			break
		}
		q.dedupList.Remove(el)
		delete(q.dedup, d.key)
	}
	if _, ok := q.dedup[key]; ok {
		return true
	}
	q.dedup[key] = struct{}{}
	q.dedupList.PushBack(dedupEntry{key, now})
	return false
}

// Waiters: whoever is woken leaves the list. A receive that returns wakes the
// next, so that neither a message nor the next end of a delay goes unwatched.

func (q *memQueue) enter(w *waiter) {
	if w.elem == nil {
		w.elem = q.waiters.PushBack(w)
	}
}

func (q *memQueue) leave(w *waiter) {
	if w.elem != nil {
		q.waiters.Remove(w.elem)
		w.elem = nil
	}
	if q.ring.Len() > 0 || len(q.timed) > 0 {
		q.wakeOne()
	}
}

func (q *memQueue) wakeOne() bool {
	el := q.waiters.Front()
	if el == nil {
		return false
	}
	w := el.Value.(*waiter)
	q.waiters.Remove(el)
	w.elem = nil
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return true
}

// receipt names one receive of one message.
func (q *memQueue) receipt(m *message) string {
	return strconv.FormatUint(q.made, 10) + "." + strconv.FormatUint(m.seq, 10) + "." + strconv.Itoa(m.receives)
}

type timeHeap []*message

func (h timeHeap) Len() int { return len(h) }
func (h timeHeap) Less(i, j int) bool {
	if c := h[i].until.Compare(h[j].until); c != 0 {
		return c < 0
	}
	return h[i].seq < h[j].seq
}
func (h timeHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *timeHeap) Push(x any)   { m := x.(*message); m.index = len(*h); *h = append(*h, m) }
func (h *timeHeap) Pop() any     { return pop((*[]*message)(h)) }

type orderHeap []*message

func (h orderHeap) Len() int           { return len(h) }
func (h orderHeap) Less(i, j int) bool { return h[i].order < h[j].order }
func (h orderHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *orderHeap) Push(x any)        { m := x.(*message); m.index = len(*h); *h = append(*h, m) }
func (h *orderHeap) Pop() any          { return pop((*[]*message)(h)) }

func pop(h *[]*message) *message {
	old := *h
	m := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	m.index = -1
	return m
}
