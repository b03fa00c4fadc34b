package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// running starts a scheduler over the table and ends it with the test.
func running(t *testing.T, table *memstore.Store, partitions int, out queue.Sender, services *registry.Static, change func(*Options)) (s *Scheduler, stop func()) {
	require.NoError(t, table.SetEpochs(t.Context(), nil, trigger.Epochs{{N: partitions}}))
	s = reviewed(t, table, out, services, change)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return s, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

func named(services *registry.Static, n int, format string, url string) {
	for i := range n {
		_ = services.Put(context.Background(), registry.Service{Name: fmt.Sprintf(format, i), QueueURL: url})
	}
}

// healthy inserts one trigger of a healthy service every 100 ms, due after ahead.
func healthy(t *testing.T, table *memstore.Store, partitions, n int, ahead time.Duration) {
	for range n {
		fill(t, table, 1, partitions, time.Now().Add(ahead), func(int) string { return "healthy" }, 100)
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(ahead + 10*time.Second)
}

func TestManyQueuesThatHangDelayNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := memstore.New(memstore.Options{})
		services := registry.NewStatic(registry.Service{Name: "healthy", QueueURL: "http://q/1/healthy"})
		named(services, 40, "hung%d", "http://q/1/hung")
		out := &measured{worst: map[string]time.Duration{}}
		_, stop := running(t, table, 16, out, services, nil)
		time.Sleep(5 * time.Second)
		fill(t, table, 10_000, 16, time.Now().Add(5*time.Second), func(i int) string { return fmt.Sprintf("hung%d", i%40) }, 100)
		healthy(t, table, 16, 300, 5*time.Second)
		taken, worst := out.of("http://q/1/healthy")
		require.Equal(t, 300, taken)
		require.Less(t, worst, time.Second)
		stop()
	})
}

func TestManyMissingQueuesDelayNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pages atomic.Int64
		table := memstore.New(memstore.Options{Faults: func(op string, _ trigger.Key) (f memstore.Fault) {
			if op == memstore.OpRange {
				pages.Add(1)
				f.Delay = 10 * time.Millisecond
			}
			return f
		}})
		services := registry.NewStatic(registry.Service{Name: "healthy", QueueURL: "http://q/1/healthy"})
		named(services, 1000, "gone%d", "http://q/1/missing")
		out := &measured{worst: map[string]time.Duration{}}
		fill(t, table, 5_000, 2, time.Now().Add(-time.Minute), func(i int) string { return fmt.Sprintf("gone%d", i%1000) }, 100)
		_, stop := running(t, table, 2, out, services, nil)
		time.Sleep(5 * time.Second)
		healthy(t, table, 2, 300, 5*time.Second)
		taken, worst := out.of("http://q/1/healthy")
		require.Equal(t, 300, taken)
		require.Less(t, worst, time.Second)
		t.Logf("%d pages in 50 s", pages.Load())
		stop()
	})
}

func TestAProbeThatTheTableThrottledIsMadeAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse, down atomic.Bool
		table := memstore.New(memstore.Options{Faults: func(op string, _ trigger.Key) (f memstore.Fault) {
			if op == memstore.OpTransition && refuse.Load() {
				f.Err = store.ErrThrottled
			}
			return f
		}})
		services := registry.NewStatic(registry.Service{Name: "svc", QueueURL: "http://q/1/svc"})
		out := &measured{worst: map[string]time.Duration{}}
		down.Store(true)
		send := senderFunc(func(ctx context.Context, url string, msgs []queue.Message) []error {
			if down.Load() {
				errs := make([]error, len(msgs))
				for i := range errs {
					errs[i] = queue.ErrMissing
				}
				return errs
			}
			return out.SendBatch(ctx, url, msgs)
		})
		s, stop := running(t, table, 1, send, services, nil)
		fill(t, table, 40, 1, time.Now(), func(int) string { return "svc" }, 10)
		time.Sleep(10 * time.Second)
		for s.lanes[1].d.Open() > 0 { // releases are not to be refused
			time.Sleep(10 * time.Millisecond)
		}
		down.Store(false)
		refuse.Store(true)
		time.Sleep(20 * time.Second) // longer than the longest wait of a breaker
		refuse.Store(false)
		start := time.Now()
		for table.Len() > 0 && time.Since(start) < 5*time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		require.Less(t, time.Since(start), 25*time.Second)
		stop()
	})
}

type senderFunc func(context.Context, string, []queue.Message) []error

func (f senderFunc) SendBatch(ctx context.Context, url string, msgs []queue.Message) []error {
	return f(ctx, url, msgs)
}

// An insert that is late (inbound was down, or left a job to the schedulers
// that it was not allowed to send) lies below the floor.
func TestRowsInsertedLongAfterTheirTimeAreFoundInSeconds(t *testing.T) {
	for name, tombstones := range map[string]int{"nothing below the floor": 0, "a thousand tombstones below it": 1000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := memstore.New(memstore.Options{})
				services := registry.NewStatic(registry.Service{Name: "svc", QueueURL: "http://q/1/svc"})
				for i := range tombstones {
					row := store.Row{Trigger: trigger.Trigger{ID: trigger.NewID(), Service: "svc", Due: time.Now().Add(-time.Duration(i) * time.Second).UTC().Truncate(time.Millisecond), N: 1}, State: trigger.StateScheduled}
					require.NoError(t, table.Write(t.Context(), []store.Op{{Kind: store.Insert, Key: row.Key(), Row: &row}})[0].Err)
					require.NoError(t, table.Cancel(t.Context(), row.Key(), trigger.StateScheduled, trigger.StateCancelled, time.Now().Add(24*time.Hour)).Err)
				}
				_, stop := running(t, table, 1, taker(0), services, nil)
				time.Sleep(100 * time.Second)
				var worst time.Duration
				for range 20 {
					time.Sleep(3700 * time.Millisecond)
					at := time.Now()
					fill(t, table, 1, 1, at.Add(-time.Hour), func(int) string { return "svc" }, 10)
					for table.Len() > tombstones {
						time.Sleep(50 * time.Millisecond)
					}
					worst = max(worst, time.Since(at))
				}
				t.Log("found and delivered after", worst)
				if tombstones == 0 {
					require.Less(t, worst, 2500*time.Millisecond)
				}
				require.Less(t, worst, 20*time.Second)
				stop()
			})
		})
	}
}

func TestASweepThatFailsDoesNotSlowPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := memstore.New(memstore.Options{Faults: func(op string, k trigger.Key) (f memstore.Fault) {
			if op == memstore.OpRange && k.Due == 0 && time.Now().After(time.Date(2000, 1, 1, 0, 0, 5, 0, time.UTC)) {
				f.Err = errors.New("an item of the head cannot be read")
			}
			return f
		}})
		services := registry.NewStatic(registry.Service{Name: "healthy", QueueURL: "http://q/1/healthy"})
		out := &measured{worst: map[string]time.Duration{}}
		_, stop := running(t, table, 1, out, services, nil)
		time.Sleep(2 * time.Minute)
		healthy(t, table, 1, 300, 5*time.Second)
		taken, worst := out.of("http://q/1/healthy")
		require.Equal(t, 300, taken)
		require.Less(t, worst, time.Second)
		stop()
	})
}
