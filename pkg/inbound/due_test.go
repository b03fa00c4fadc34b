package inbound_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/inbound"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func TestAJobDueAlreadyIsDeliveredAtOnceAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.start("i1", nil)
		time.Sleep(time.Second)
		var all []client.Scheduled
		for i := range 100 {
			opts := []client.Option{}
			if i%2 == 0 {
				opts = append(opts, client.UrgentLane())
			}
			all = append(all, w.schedule("payments", opts...))
		}
		time.Sleep(200 * time.Millisecond)
		for _, s := range all {
			require.Equal(t, 1, w.deliveries(s.ID))
			require.Empty(t, w.rows(s.ID), "completed")
		}
		require.Equal(t, 100, p.outcome(t, "inserted_due"))
		w.empty()
	})
}

func TestALimitedOrPausedServiceKeepsItsDueJobsInTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.service("slow", func(s *registry.Service) { s.Rate = 20 })
		w.service("paused", func(s *registry.Service) { s.Paused = true })
		w.start("i1", nil)
		time.Sleep(time.Second)
		sent := 0
		var all []client.Scheduled
		for range 100 {
			all = append(all, w.later("slow", 0))
			time.Sleep(100 * time.Millisecond)
		}
		held, unknown := w.later("paused", 0), w.later("nobody", 0)
		time.Sleep(time.Second)
		for _, s := range all {
			if n := w.deliveries(s.ID); n > 0 {
				sent += n
				continue
			}
			require.Equal(t, trigger.StateScheduled, w.rows(s.ID)[0].State, "left to the schedulers")
		}
		require.InDelta(t, 20, sent, 4, "a tenth of 20/s over ten seconds")
		require.Equal(t, trigger.StateScheduled, w.rows(held.ID)[0].State)
		require.Equal(t, trigger.StateScheduled, w.rows(unknown.ID)[0].State)
	})
}

func TestAQueueThatFailsLeavesDueJobsToTheSchedulers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		svc, err := w.services.Get(t.Context(), "payments")
		require.NoError(t, err)
		require.NoError(t, w.queues.DeleteQueue(t.Context(), svc.QueueURL))
		p := w.start("i1", nil)
		first := w.later("payments", 0)
		time.Sleep(time.Minute)
		require.Equal(t, trigger.StateScheduled, w.rows(first.ID)[0].State, "released")
		require.Equal(t, 1, p.outcome(t, "inserted_due"))
		w.empty()
	})
}

func TestNothingIsSentByAClockThatCannotBeTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := clock.New(nil)
		p := w.start("i1", func(o *inbound.Options) { o.Clock = c })
		s := w.later("payments", 0)
		time.Sleep(time.Second)
		require.Equal(t, trigger.StateScheduled, w.rows(s.ID)[0].State)
		require.Error(t, p.in.Ready())
		c.Observe(time.Now().Truncate(time.Second), time.Now(), time.Now())
		s = w.later("payments", 0)
		time.Sleep(time.Second)
		require.Equal(t, 1, w.deliveries(s.ID))
	})
}

func TestALostReplyOfADueInsertDeliversOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		lost := 0
		w.faults(func(op string, _ trigger.Key) memstore.Fault {
			if op != memstore.OpInsert {
				return memstore.Fault{}
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			lost++
			return memstore.Fault{LostReply: lost <= 2}
		}, func(e memqueue.Entry) memqueue.Fault {
			// Both copies are received together.
			return memqueue.Fault{Duplicate: e.Op == memqueue.OpSend && e.URL == w.urls.Inbound[trigger.Standard]}
		})
		s := w.later("payments", 0)
		w.start("i1", nil)
		time.Sleep(5 * time.Second)
		require.Equal(t, 1, w.deliveries(s.ID))
		require.Empty(t, w.rows(s.ID))
		require.Equal(t, 1, w.inserts[s.ID])
		w.empty()
	})
}

func TestACrashAfterADueInsertLeavesARowToRecover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		svc, err := w.services.Get(t.Context(), "payments")
		require.NoError(t, err)
		hung := func(e memqueue.Entry) memqueue.Fault {
			if e.Op == memqueue.OpSend && e.URL == svc.QueueURL {
				return memqueue.Fault{Delay: time.Hour} // as good as dead: sends nothing
			}
			return memqueue.Fault{}
		}
		w.faults(nil, hung)
		w.start("i1", func(o *inbound.Options) { o.Dispatch.SendTimeout = 5 * time.Second })
		s := w.later("payments", 0)
		time.Sleep(time.Second)
		row := w.rows(s.ID)[0]
		require.Equal(t, trigger.Acquired, row.State.Kind())
		owner, at := row.State.Owner()
		require.Equal(t, "i1", owner)
		require.WithinDuration(t, time.Now(), at, 2*time.Second, "the sweep knows how old it is")
		w.empty() // the row stands for it
		// Another process recovers it; the first one wakes and must leave it alone.
		res := w.table.Write(t.Context(), []store.Op{{Kind: store.Transition, Key: row.Key(), From: row.State, To: trigger.StateMaybeSent}})
		require.NoError(t, res[0].Err)
		w.faults(nil, nil)
		time.Sleep(time.Minute)
		require.Len(t, w.rows(s.ID), 1)
		require.LessOrEqual(t, w.deliveries(s.ID), 1)
	})
}

func TestShutdownDeliversWhatWasClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		svc, err := w.services.Get(t.Context(), "payments")
		require.NoError(t, err)
		w.faults(nil, func(e memqueue.Entry) memqueue.Fault {
			if e.Op == memqueue.OpSend && e.URL == svc.QueueURL {
				return memqueue.Fault{ReplyDelay: 2 * time.Second}
			}
			return memqueue.Fault{}
		})
		p := w.start("i1", nil)
		time.Sleep(time.Second)
		var all []client.Scheduled
		for range 50 {
			all = append(all, w.later("payments", 0))
		}
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, p.stop())
		for _, s := range all {
			require.Equal(t, 1, w.deliveries(s.ID))
			require.Empty(t, w.rows(s.ID))
		}
		require.Equal(t, queue.Depth{}, w.depth())
	})
}
