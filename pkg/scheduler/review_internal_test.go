package scheduler

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

type lookups struct{ s *registry.Static }

func (l lookups) Lookup(ctx context.Context, name string) (registry.Service, error) {
	return l.s.Get(ctx, name)
}

// taker takes every message after a while.
type taker time.Duration

func (d taker) SendBatch(_ context.Context, _ string, msgs []queue.Message) []error {
	time.Sleep(time.Duration(d))
	return make([]error, len(msgs))
}

func reviewed(t *testing.T, table *memstore.Store, out queue.Sender, services *registry.Static, change func(*Options)) *Scheduler {
	o := Options{
		Store: table, Sender: out, Services: lookups{services}, Clock: clock.Trusted(nil), Owner: "me",
		Members: membership.NewManual(membership.View{Self: "a", Members: []string{"a"}}),
	}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	require.NoError(t, err)
	return s
}

func fill(t *testing.T, table *memstore.Store, n, partitions int, due time.Time, service func(i int) string, payload int) {
	for i := range n {
		row := store.Row{Trigger: trigger.Trigger{
			ID: trigger.NewID(), Service: service(i), Due: due.Add(time.Duration(i) * time.Millisecond).UTC().Truncate(time.Millisecond),
			N: partitions, Payload: make([]byte, payload),
		}, State: trigger.StateScheduled}
		require.NoError(t, table.Write(t.Context(), []store.Op{{Kind: store.Insert, Key: row.Key(), Row: &row}})[0].Err)
	}
}

// A gate asks for the process's share of the partitions while acquiring holds
// the rows in memory, and giving partitions up waits for those rows.
func TestARateShareIsToldWhilePartitionsChangeHands(t *testing.T) {
	services := registry.NewStatic(registry.Service{Name: "svc", QueueURL: "http://q/1/svc", Rate: 10})
	s := reviewed(t, memstore.New(memstore.Options{}), taker(0), services, nil)
	l := s.lanes[0]
	l.mu.Lock() // as own, Ready and the metrics hold it while they wait for partitions
	defer l.mu.Unlock()
	done := make(chan struct{})
	go func() {
		l.gates.For("svc").Refresh(context.Background())
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("the lane's mutex is taken inside the gate's: a cycle with the rows in memory")
	}
}

func (p *part) remembered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.recent) + len(p.older)
}

func TestABacklogIsReadWithFlatMemoryAndReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := memstore.New(memstore.Options{Faults: func(op string, _ trigger.Key) (f memstore.Fault) {
			if op == memstore.OpRange {
				f.Delay = 20 * time.Millisecond
			}
			return f
		}})
		require.NoError(t, table.SetEpochs(t.Context(), nil, trigger.Epochs{{N: 1}}))
		services := registry.NewStatic()
		for i := range 8 {
			require.NoError(t, services.Put(t.Context(), registry.Service{Name: fmt.Sprintf("svc%d", i), QueueURL: "http://q/1/svc"}))
		}
		const n = 40_000
		fill(t, table, n, 1, time.Now().Add(-time.Hour), func(i int) string { return fmt.Sprintf("svc%d", i%8) }, 1000)
		s := reviewed(t, table, taker(400*time.Millisecond), services, func(o *Options) { o.HeapBytes = 1 << 20 })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(5 * time.Second)
		most, was, unready := 0, false, map[string]int{}
		for table.Len() > 0 {
			time.Sleep(97 * time.Millisecond)
			l := s.lanes[1] // standard
			l.mu.Lock()
			for _, p := range l.parts {
				most = max(most, p.remembered())
			}
			l.mu.Unlock()
			if err := s.Ready(); err == nil {
				was = true
			} else if was {
				unready[err.Error()]++
			}
		}
		require.Less(t, most, n/2, "keys of what was finished lately, not of all")
		require.True(t, was)
		require.Empty(t, unready, "a process that works through a backlog stays ready: else its partitions move")
		cancel()
		require.NoError(t, <-done)
	})
}

func TestAFewSlowServicesWithBacklogsDelayNobodyElse(t *testing.T) {
	for name, payload := range map[string]int{"small": 100, "large": 100_000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const partitions = 16
				table := memstore.New(memstore.Options{})
				require.NoError(t, table.SetEpochs(t.Context(), nil, trigger.Epochs{{N: partitions}}))
				services := registry.NewStatic(registry.Service{Name: "healthy", QueueURL: "http://q/1/healthy"})
				for i := range 6 {
					require.NoError(t, services.Put(t.Context(), registry.Service{Name: fmt.Sprintf("slow%d", i), QueueURL: "http://q/1/slow", Rate: 0}))
				}
				require.NoError(t, services.Put(t.Context(), registry.Service{Name: "limited", QueueURL: "http://q/1/limited", Rate: 1}))
				count := 20_000
				if payload > 1000 {
					count = 300
				}
				fill(t, table, count, partitions, time.Now().Add(-time.Hour), func(i int) string {
					if payload > 1000 {
						return "limited"
					}
					return fmt.Sprintf("slow%d", i%6)
				}, payload)
				out := &measured{worst: map[string]time.Duration{}}
				s := reviewed(t, table, out, services, func(o *Options) { o.HeapBytes = 8 << 20 })
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- s.Run(ctx) }()
				time.Sleep(5 * time.Second)
				for range 200 {
					fill(t, table, 1, partitions, time.Now().Add(5*time.Second), func(int) string { return "healthy" }, 100)
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(20 * time.Second)
				taken, worst := out.of("http://q/1/healthy")
				require.Less(t, worst, 250*time.Millisecond)
				require.Equal(t, 200, taken)
				cancel()
				require.NoError(t, <-done)
			})
		})
	}
}
