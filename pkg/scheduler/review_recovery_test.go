package scheduler

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// When every queue was down and is back, one reading of the backlog serves all
// services: not one reading for each.
func TestAfterAnOutageOfAllQueuesTheBacklogIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := memstore.New(memstore.Options{Faults: func(op string, _ trigger.Key) (f memstore.Fault) {
			if op == memstore.OpRange {
				f.Delay = 10 * time.Millisecond
			}
			return f
		}})
		services := registry.NewStatic()
		named(services, 300, "svc%d", "http://q/1/healthy")
		var down atomic.Bool
		down.Store(true)
		out := &measured{worst: map[string]time.Duration{}}
		send := senderFunc(func(ctx context.Context, url string, msgs []queue.Message) []error {
			if down.Load() {
				url = "http://q/1/missing"
			}
			return out.SendBatch(ctx, url, msgs)
		})
		const n = 15_000
		_, stop := running(t, table, 1, send, services, nil)
		fill(t, table, n, 1, time.Now(), func(i int) string { return fmt.Sprintf("svc%d", i%300) }, 100)
		time.Sleep(time.Minute)
		table.ResetCounts()
		down.Store(false)
		start := time.Now()
		for table.Len() > 0 && time.Since(start) < 10*time.Minute {
			time.Sleep(time.Second)
		}
		c := table.Counts()[memstore.OpRange]
		t.Logf("delivered after %s, %d pages", time.Since(start), c.Requests)
		require.Less(t, time.Since(start), 45*time.Second)
		stop()
	})
}

func TestOwnershipThatFlapsLosesAndRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions, n = 8, 3000
		table := memstore.New(memstore.Options{})
		require.NoError(t, table.SetEpochs(t.Context(), nil, trigger.Epochs{{N: partitions}}))
		services := registry.NewStatic(registry.Service{Name: "svc0", QueueURL: "http://q/1/a"}, registry.Service{Name: "svc1", QueueURL: "http://q/1/b", Rate: 400})
		out := &measured{worst: map[string]time.Duration{}}
		views := []*membership.Manual{membership.NewManual(membership.View{}), membership.NewManual(membership.View{})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		for i, v := range views {
			s := reviewed(t, table, out, services, func(o *Options) { o.Members, o.Owner = v, fmt.Sprintf("p%d", i) })
			go func() { done <- s.Run(ctx) }()
		}
		fill(t, table, n, partitions, time.Now().Add(5*time.Second), func(i int) string { return fmt.Sprintf("svc%d", i%2) }, 10)
		for i := range 300 {
			for j, v := range views {
				names := []string{"p0", "p1"}
				if i%3 == j { // each at times believes that it is alone
					names = names[j : j+1]
				}
				v.Set(membership.View{Self: fmt.Sprintf("p%d", j), Members: names})
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(30 * time.Second)
		require.Zero(t, table.Len())
		a, _ := out.of("http://q/1/a")
		b, _ := out.of("http://q/1/b")
		require.Equal(t, n, a+b, "each once")
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, <-done)
	})
}

// A cancel may only claim to be sure where the row was surely never sent.
func TestARecoveredRowMayHaveBeenSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := memstore.New(memstore.Options{})
		services := registry.NewStatic(registry.Service{Name: "svc", QueueURL: "http://q/1/svc", Paused: true})
		row := store.Row{Trigger: trigger.Trigger{ID: trigger.NewID(), Service: "svc", Due: time.Now().UTC().Truncate(time.Millisecond), N: 1}, State: trigger.AcquiredBy("gone", time.Now().Add(-5*time.Minute))}
		require.NoError(t, table.Write(t.Context(), []store.Op{{Kind: store.Insert, Key: row.Key(), Row: &row}})[0].Err)
		_, stop := running(t, table, 1, taker(0), services, nil)
		time.Sleep(5 * time.Second)
		rows := table.Rows()
		require.Len(t, rows, 1)
		require.Equal(t, trigger.StateMaybeSent, rows[0].State)
		stop()
	})
}
