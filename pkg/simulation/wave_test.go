package simulation_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/scheduler"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// sink is a queue that takes everything after a while and remembers how late it was.
type sink struct {
	latency time.Duration
	mu      sync.Mutex
	late    [2][]time.Duration // by lane
	seen    map[trigger.ID]int
}

func (s *sink) SendBatch(_ context.Context, url string, msgs []queue.Message) []error {
	time.Sleep(s.latency)
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	lane := trigger.Standard
	if url == "urgent" {
		lane = trigger.Urgent
	}
	for _, m := range msgs {
		t, err := trigger.ReadDelivered(m.Body, m.Attributes)
		if err != nil {
			continue
		}
		s.seen[t.ID]++
		s.late[lane] = append(s.late[lane], now.Sub(t.Due))
	}
	return make([]error, len(msgs))
}

func quantile(d []time.Duration, q float64) time.Duration {
	slices.Sort(d)
	return d[min(int(q*float64(len(d))), len(d)-1)]
}

// fill puts n triggers due within a second into the table, every thousandth urgent.
func fill(t *testing.T, table *memstore.Store, n, partitions int, due time.Time) {
	ops := make([]store.Op, 0, 1000)
	for i := range n {
		lane := trigger.Standard
		if i%1000 == 0 {
			lane = trigger.Urgent
		}
		row := &store.Row{Trigger: trigger.Trigger{
			ID: trigger.NewID(), Service: "svc", Due: due.Add(time.Duration(i%1000) * time.Millisecond), Lane: lane, N: partitions, Payload: []byte(`{"n":1}`),
		}, State: trigger.StateScheduled}
		ops = append(ops, store.Op{Kind: store.Insert, Key: row.Key(), Row: row})
		if len(ops) == cap(ops) || i == n-1 {
			for _, r := range table.Write(t.Context(), ops) {
				require.NoError(t, r.Err)
			}
			ops = ops[:0]
		}
	}
}

// mortal is the table and the queue as a process sees them that is killed at
// some moment: from then on nothing of it arrives anywhere.
type mortal struct {
	*memstore.Store
	out  *sink
	dead atomic.Bool
}

var errDead = errors.New("the process is dead")

func (m *mortal) Write(ctx context.Context, ops []store.Op) []store.Result {
	if !m.dead.Load() {
		if r := m.Store.Write(ctx, ops); !m.dead.Load() {
			return r
		}
	}
	r := make([]store.Result, len(ops))
	for i := range r {
		r[i].Err = errDead
	}
	return r
}

func (m *mortal) SendBatch(ctx context.Context, url string, msgs []queue.Message) []error {
	if !m.dead.Load() {
		if errs := m.out.SendBatch(ctx, url, msgs); !m.dead.Load() {
			return errs
		}
	}
	errs := make([]error, len(msgs))
	for i := range errs {
		errs[i] = errDead
	}
	return errs
}

// TestWave: MYOSIN_WAVE triggers (default 50,000), overdue by an hour, when the
// schedulers come back; the first is killed half-way (case 9). The table and
// the queue answer after 5 and 10 ms.
func TestWave(t *testing.T) {
	n := env(t, "MYOSIN_WAVE", 50_000)
	synctest.Test(t, func(t *testing.T) {
		const partitions = 32
		slow := func(string, trigger.Key) memstore.Fault { return memstore.Fault{Delay: 5 * time.Millisecond} }
		var faults memstore.Faults
		table := memstore.New(memstore.Options{Faults: func(op string, k trigger.Key) memstore.Fault {
			if faults == nil {
				return memstore.Fault{}
			}
			return faults(op, k)
		}})
		require.NoError(t, table.SetEpochs(t.Context(), nil, trigger.Epochs{{N: partitions}}))
		due := time.Now().UTC().Add(-time.Hour).Truncate(time.Millisecond)
		start := time.Now()
		fill(t, table, n, partitions, due)
		faults = slow
		out := &sink{latency: 10 * time.Millisecond, seen: make(map[trigger.ID]int, n)}
		services := registry.NewStatic(registry.Service{Name: "svc", QueueURL: "standard", UrgentQueueURL: "urgent"})
		var before, after runtime.MemStats
		var looks int
		var peak int64
		runtime.GC()
		runtime.ReadMemStats(&before)
		run := func(owner string, view membership.View, kill bool, until func() bool) {
			m := &mortal{Store: table, out: out}
			s, err := scheduler.New(scheduler.Options{
				Store: m, Sender: m, Services: lookups{services}, Members: membership.NewManual(view), Clock: clock.Trusted(nil), Owner: owner,
			})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- s.Run(ctx) }()
			for !until() {
				time.Sleep(100 * time.Millisecond)
				if looks++; looks%20 != 0 {
					continue
				}
				// What is in use, not the garbage that a large test table lets gather.
				runtime.GC()
				runtime.ReadMemStats(&after)
				peak = max(peak, int64(after.HeapAlloc)-int64(before.HeapAlloc))
				if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 512<<20 {
					t.Errorf("memory grew by %d MiB", grown>>20)
					break
				}
			}
			m.dead.Store(kill)
			cancel()
			if err := <-done; !kill {
				require.NoError(t, err)
			}
		}
		one := membership.View{Self: "a", Members: []string{"a"}}
		run("first", one, true, func() bool { out.mu.Lock(); defer out.mu.Unlock(); return len(out.seen) > n/2 })
		unfinished := 0 // sent by the first and not completed: what a kill may cost
		for _, r := range table.Rows() {
			if out.seen[r.ID] > 0 {
				unfinished++
			}
		}
		run("second", one, false, func() bool { return table.Len() == 0 || time.Since(start) > time.Hour })
		require.Zero(t, table.Len())
		require.Len(t, out.seen, n)
		twice := 0
		for _, times := range out.seen {
			require.LessOrEqual(t, times, 2)
			twice += times - 1
		}
		require.LessOrEqual(t, twice, unfinished)
		t.Logf("memory in use grew by at most %d MiB", peak>>20)
		t.Logf("%d triggers; the kill cost %d duplicates of at most %d", n, twice, unfinished)
		require.LessOrEqual(t, quantile(out.late[trigger.Urgent], .99)-time.Hour, 5*time.Second)
		for _, lane := range trigger.Lanes {
			t.Logf("%s: %d triggers, late beyond the hour of the stop: p50 %s p99 %s max %s", lane, len(out.late[lane]),
				quantile(out.late[lane], .5)-time.Hour, quantile(out.late[lane], .99)-time.Hour, quantile(out.late[lane], 1)-time.Hour)
		}
	})
}

type lookups struct{ s *registry.Static }

func (l lookups) Lookup(ctx context.Context, name string) (registry.Service, error) {
	return l.s.Get(ctx, name)
}
