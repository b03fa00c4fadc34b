package scheduler

import (
	"container/heap"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// item is one row held in memory, from being read to being finished.
type item struct {
	key  trigger.Key
	row  store.Row
	part *part
	size int
}

// pending holds the rows of a lane that wait to be acquired: a time-ordered
// heap per service, drawn from in turn, so that no service waits for another's
// backlog. Safe for concurrent use.
type pending struct {
	mu       sync.Mutex
	services map[string]*servicePending
	ring     []*servicePending // those with rows, in the order of their turns
	bytes    int
	rows     int
}

type servicePending struct {
	name  string
	heap  itemHeap
	bytes int
}

func newPending() *pending { return &pending{services: make(map[string]*servicePending)} }

func (q *pending) push(it *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.services[it.row.Service]
	if s == nil {
		s = &servicePending{name: it.row.Service}
		q.services[s.name] = s
	}
	if len(s.heap) == 0 {
		q.ring = append(q.ring, s)
	}
	heap.Push(&s.heap, it)
	s.bytes += it.size
	q.bytes += it.size
	q.rows++
}

// held returns how many rows and bytes of a service wait.
func (q *pending) held(service string) (rows, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s := q.services[service]; s != nil {
		return len(s.heap), s.bytes
	}
	return 0, 0
}

// total returns how many rows and bytes wait.
func (q *pending) total() (rows, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rows, q.bytes
}

// grant says what may be taken of a service now.
type grant struct {
	n     int           // rows
	evict bool          // take everything out: the service is parked
	after time.Duration // when n is 0: how long until that may change; 0 for unknown
}

// take draws up to n rows due at or before until, by turns of at most ten a
// service. allow is asked once per turn with the number of rows wanted. Rows of
// services to evict come back apart. wait is how long until more may be taken;
// negative if that depends on something else than time.
func (q *pending) take(n int, until time.Time, allow func(service string, want int) grant) (got, evicted []*item, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wait = -1
	sooner := func(d time.Duration) {
		if d > 0 && (wait < 0 || d < wait) {
			wait = d
		}
	}
	skipped := 0 // services in a row that gave nothing
	for len(got) < n && len(q.ring) > 0 && skipped < len(q.ring) {
		s := q.ring[0]
		q.ring = append(q.ring[1:], s)
		due := s.heap[0].it.key.DueTime()
		if due.After(until) {
			sooner(due.Sub(until))
			skipped++
			continue
		}
		want := 0
		for want < min(queue.MaxBatch, n-len(got), len(s.heap)) {
			want++
		}
		g := allow(s.name, want)
		switch {
		case g.evict:
			for len(s.heap) > 0 {
				evicted = append(evicted, q.pop(s))
			}
			skipped = 0
		case g.n == 0:
			sooner(g.after)
			skipped++
		default:
			for i := 0; i < g.n && len(s.heap) > 0 && !s.heap[0].it.key.DueTime().After(until); i++ {
				got = append(got, q.pop(s))
			}
			skipped = 0
		}
		if len(s.heap) == 0 {
			q.ring = q.ring[:len(q.ring)-1]
		}
	}
	if len(got) == n && len(q.ring) > 0 {
		wait = 0
	}
	return got, evicted, wait
}

// pop takes the head of a service's heap. Called with mu held.
func (q *pending) pop(s *servicePending) *item {
	it := heap.Pop(&s.heap).(*item)
	s.bytes -= it.size
	q.bytes -= it.size
	q.rows--
	return it
}

// drop removes every row of a partition.
func (q *pending) drop(p *part) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ring := q.ring[:0]
	for _, s := range q.ring {
		kept := s.heap[:0]
		for _, n := range s.heap {
			it := n.it
			if it.part != p {
				kept = append(kept, n)
				continue
			}
			s.bytes -= it.size
			q.bytes -= it.size
			q.rows--
		}
		clear(s.heap[len(kept):])
		s.heap = kept
		heap.Init(&s.heap)
		if len(s.heap) > 0 {
			ring = append(ring, s)
		}
	}
	clear(q.ring[len(ring):])
	q.ring = ring
}

// itemHeap orders items by due time, then id. The due time lies beside the item,
// so that hardly a comparison has to look into one.
type itemHeap []itemNode

type itemNode struct {
	due int64
	it  *item
}

func (h itemHeap) Len() int { return len(h) }
func (h itemHeap) Less(i, j int) bool {
	if h[i].due != h[j].due {
		return h[i].due < h[j].due
	}
	return h[i].it.key.Compare(h[j].it.key) < 0
}
func (h itemHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *itemHeap) Push(x any) {
	it := x.(*item)
	*h = append(*h, itemNode{it.key.Due, it})
}

func (h *itemHeap) Pop() any {
	old := *h
	n := len(old) - 1
	it := old[n].it
	old[n] = itemNode{}
	*h = old[:n]
	return it
}
