package client_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// world is one trigger among everybody who may touch it at once: inbound, which
// inserts it again and again under old and new partition counts, schedulers,
// those who cancel, and those who move it, over a table that fails, dawdles and
// loses replies.
type world struct {
	t    *testing.T
	rng  *rand.Rand
	mu   sync.Mutex // rng, and the notes below
	s    *memstore.Store
	row  *store.Row
	end  time.Time
	ns   []int
	late bool // cancels come about the due time
	note struct {
		cancelled  bool // a cancel answered so
		acquires   int
		completed  bool // the row was delivered and deleted
		outcomes   map[client.Outcome]int
		afterwards int // acquires after the answer
		beforehand int // claims made of what had been acquired before
	}
}

func (w *world) rand(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *world) nap(limit time.Duration) {
	time.Sleep(time.Duration(w.rand(int(limit/time.Millisecond))+1) * time.Millisecond)
}

func (w *world) fault(string, trigger.Key) memstore.Fault {
	f := memstore.Fault{Delay: time.Duration(w.rand(400)) * time.Millisecond, ReplyDelay: time.Duration(w.rand(400)) * time.Millisecond}
	switch w.rand(12) {
	case 0:
		f.LostReply = true
	case 1:
		f.Err = store.ErrThrottled
	case 2:
		f.Err = errors.New("reset")
	}
	return f
}

func (w *world) changed(before, after *store.Row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case after == nil:
		w.note.completed = true
	case before == nil && w.note.completed && !after.State.Tombstone():
		// An insert that was under way when the row was delivered and deleted: the
		// contract allows it, and what a cancel says is said of the new row.
		w.note.acquires = 0
	case after.State.Kind() == trigger.Acquired:
		w.note.acquires++
		if w.note.cancelled {
			w.note.afterwards++
		}
	}
}

// inbound delivers the submission until the row was completed: later ones the
// contract allows to be delivered again.
func (w *world) inbound() {
	for time.Now().Before(w.end) {
		w.nap(4 * time.Second)
		r := *w.row
		r.N = w.ns[w.rand(len(w.ns))]
		w.mu.Lock()
		done := w.note.completed
		w.mu.Unlock()
		if done {
			return
		}
		epochs := trigger.Epochs{{N: 16}, {N: 32, From: time.Unix(1, 0)}}
		w.s.Write(w.t.Context(), []store.Op{{Kind: store.Insert, Key: r.Key(), Row: &r, Absent: epochs.Places(r.Key())[1:]}})
	}
}

// scheduler acquires what is due, and completes it, releases it or forgets it.
func (w *world) scheduler(name string) {
	ctx := w.t.Context()
	for time.Now().Before(w.end) {
		w.nap(500 * time.Millisecond)
		for _, row := range alive(w.s) {
			key := row.Key()
			me := trigger.AcquiredBy(name, time.Now())
			switch {
			case row.State.Waiting() && !row.Due.After(time.Now().Add(100*time.Millisecond)):
				res := w.s.Write(ctx, []store.Op{{Kind: store.Transition, Key: key, From: row.State, To: me}})
				if res[0].Err != nil {
					continue
				}
				w.nap(time.Second)
				op := store.Op{Kind: store.Delete, Key: key, From: me}
				if w.rand(4) == 0 {
					op.Kind, op.To = store.Transition, trigger.StateMaybeSent
				}
				w.s.Write(ctx, []store.Op{op})
			case row.State.Kind() == trigger.Acquired && w.rand(10) == 0:
				w.s.Write(ctx, []store.Op{{Kind: store.Transition, Key: key, From: row.State, To: trigger.StateMaybeSent}})
			}
		}
	}
}

func (w *world) cancel(table *client.Table) {
	start := w.rand(20_000)
	if w.late { // around the due time
		start = 14_000 + w.rand(12_000)
	}
	time.Sleep(time.Duration(start) * time.Millisecond)
	for range 1 + w.rand(3) {
		h := w.row.Handle()
		h.N = w.ns[w.rand(len(w.ns))]
		got, err := table.Cancel(w.t.Context(), h)
		w.mu.Lock()
		if err == nil {
			w.note.outcomes[got.Outcome]++
			if got.Outcome == client.OutcomeCancelled {
				w.note.cancelled = true
				w.note.beforehand += w.note.acquires
			}
		}
		w.mu.Unlock()
		w.nap(3 * time.Second)
	}
}

func (w *world) move(table *client.Table) {
	for range w.rand(4) {
		w.nap(10 * time.Second)
		due := w.row.Due.Add(time.Duration(w.rand(20)-10) * time.Second)
		_, _ = table.Reschedule(w.t.Context(), w.row.Handle(), due)
	}
}

func run(t *testing.T, seed uint64, moves bool) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), ns: []int{16}}
	w.note.outcomes = map[client.Outcome]int{}
	w.s = memstore.New(memstore.Options{Faults: w.fault, OnChange: w.changed})
	for w.s.SetEpochs(t.Context(), nil, trigger.Epochs{{N: 16}, {N: 32, From: time.Unix(1, 0)}}) != nil {
		if e, err := w.s.Epochs(t.Context()); err == nil && len(e) == 2 {
			break
		}
	}
	w.row = rowDue(20 * time.Second)
	w.row.Due = w.row.Due.Truncate(time.Second)
	if w.rand(3) > 0 {
		w.ns = []int{16, 32}
		keyed(w.row, spread(t), 16)
	}
	w.late = seed%2 == 0
	w.end = w.row.Due.Add(40 * time.Second)
	table, err := client.NewTable(client.TableOptions{Store: w.s})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for _, f := range []func(){
		w.inbound, w.inbound, func() { w.scheduler("a") }, func() { w.scheduler("b") },
		func() { w.cancel(table) }, func() { w.cancel(table) },
	} {
		wg.Go(f)
	}
	if moves {
		wg.Go(func() { w.move(table) })
	}
	wg.Wait()
	return w
}

func races(t *testing.T, moves bool) {
	outcomes := map[client.Outcome]int{}
	for seed := range uint64(400) {
		synctest.Test(t, func(t *testing.T) {
			w := run(t, seed, moves)
			require.Zero(t, w.note.afterwards, "seed %d: acquired after a cancel had answered cancelled", seed)
			require.Zero(t, w.note.beforehand, "seed %d: cancelled what had been acquired before", seed)
			for o, n := range w.note.outcomes {
				outcomes[o] += n
			}
		})
	}
	for _, o := range []client.Outcome{client.OutcomeCancelled, client.OutcomeTooLate, client.OutcomeBeingDelivered} {
		require.NotZero(t, outcomes[o], fmt.Sprint("no seed reached ", o, ": ", outcomes))
	}
	t.Log(outcomes)
}

func TestWhatACancelClaimsHoldsAgainstInsertsAndAcquires(t *testing.T) { races(t, false) }
