package inbound_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/inbound"
	"github.com/myosin-jobs/myosin/pkg/lifecycle/lifecycletest"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func TestSubmissionsOfBothLanesBecomeRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.start("i1", nil)
		var want []client.Scheduled
		for i := range 500 {
			opts := []client.Option{client.In(time.Hour), client.Header("k", "v"), client.Tenant("t1"), client.Name("remind")}
			if i%2 == 0 {
				opts = append(opts, client.UrgentLane())
			}
			want = append(want, w.schedule("payments", opts...))
		}
		time.Sleep(time.Second)
		for _, s := range want {
			rows := w.rows(s.ID)
			require.Len(t, rows, 1)
			require.Equal(t, trigger.StateScheduled, rows[0].State)
			require.Equal(t, handle(t, s).Key(), rows[0].Key())
			require.Equal(t, map[string]string{"k": "v"}, rows[0].Headers)
			require.Equal(t, "remind", rows[0].Name)
		}
		w.empty()
		require.Equal(t, 500, p.outcome(t, "inserted"))
		require.NoError(t, p.in.Ready())
		require.NoError(t, p.stop())
		require.Error(t, p.in.Ready(), "stopped")
	})
}

// Case 2.
func TestRedeliveryNeitherRevivesNorTouchesARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.faults(nil, func(e memqueue.Entry) memqueue.Fault {
			return memqueue.Fault{Duplicate: e.Op == memqueue.OpSend && e.URL != w.urls.DLQ, DuplicateAfter: 5 * time.Second}
		})
		// Another process does the second delivery: it has no memory of the first.
		p1 := w.start("i1", nil)
		s := w.schedule("payments", client.In(time.Hour))
		time.Sleep(time.Second)
		row := w.rows(s.ID)[0]
		require.NoError(t, p1.stop())
		acquired := trigger.AcquiredBy("scheduler", time.Now())
		require.NoError(t, w.table.Write(t.Context(), acquire(row.Key(), acquired))[0].Err)
		p2 := w.start("i2", nil)
		time.Sleep(10 * time.Second)
		row.State = acquired
		require.Equal(t, row, w.rows(s.ID)[0], "the acquired row is untouched")
		require.Equal(t, 1, p2.outcome(t, "duplicate"))
		w.empty()
	})
}

func TestRedeliveryAfterDeliveryIsRecognisedByTheProcessThatStoredIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.faults(nil, func(e memqueue.Entry) memqueue.Fault { // deletes are lost for a while
			return memqueue.Fault{Err: errOf(e.Op == memqueue.OpDelete && e.URL == w.urls.Inbound[trigger.Standard])}
		})
		p := w.start("i1", nil)
		s := w.schedule("payments")
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, w.deliveries(s.ID))
		require.Empty(t, w.rows(s.ID), "completed")
		w.faults(nil, nil)
		time.Sleep(2 * time.Minute)
		require.Equal(t, 1, w.deliveries(s.ID))
		require.Equal(t, 1, p.outcome(t, "duplicate_remembered"))
		require.Positive(t, p.count(t, "myosin_inbound_delete_failures_total"))
		// Nothing but the very same submission is swallowed.
		w.send(trigger.Standard, "payments", raw(func(m map[string]any) {
			m["id"], m["due"], m["n"], m["name"] = s.ID.String(), s.Due.Format(time.RFC3339Nano), 16, "other"
		}))
		time.Sleep(time.Second)
		require.Equal(t, 2, w.deliveries(s.ID))
		w.empty()
	})
}

// Case 3, the inbound half.
func TestCancelBeforeDrainIsNeverDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		table, err := client.NewTable(client.TableOptions{Store: w.table})
		require.NoError(t, err)
		s := w.schedule("payments", client.In(time.Minute))
		res, err := table.Cancel(t.Context(), handle(t, s))
		require.NoError(t, err)
		require.Equal(t, client.OutcomeCancelled, res.Outcome)
		p := w.start("i1", nil)
		time.Sleep(2 * time.Minute)
		require.Zero(t, w.deliveries(s.ID))
		require.Equal(t, trigger.StateCancelled, w.rows(s.ID)[0].State)
		require.Equal(t, 1, p.outcome(t, "cancelled"))
		w.empty()

		// Inserted, its message not deleted, cancelled, delivered again.
		w.faults(nil, func(e memqueue.Entry) memqueue.Fault {
			return memqueue.Fault{Err: errOf(e.Op == memqueue.OpDelete)}
		})
		s = w.schedule("payments", client.In(10*time.Minute))
		time.Sleep(20 * time.Second)
		require.NoError(t, p.stop())
		res, err = table.Cancel(t.Context(), handle(t, s))
		require.NoError(t, err)
		require.Equal(t, client.OutcomeCancelled, res.Outcome)
		// The old time of a job that was moved away is no different.
		moved := w.schedule("payments", client.In(10*time.Minute))
		w.faults(nil, nil)
		w.start("i2", nil)
		time.Sleep(2 * time.Minute)
		next, err := table.Reschedule(t.Context(), handle(t, moved), time.Now().Add(time.Hour))
		require.NoError(t, err)
		w.send(trigger.Standard, "payments", raw(func(m map[string]any) {
			m["id"], m["due"], m["n"] = moved.ID.String(), moved.Due.Format(time.RFC3339Nano), 16
		}))
		time.Sleep(15 * time.Minute)
		require.Zero(t, w.deliveries(s.ID))
		require.Zero(t, w.deliveries(moved.ID))
		require.Equal(t, trigger.StateCancelled, w.rows(s.ID)[0].State)
		for _, r := range w.rows(moved.ID) {
			require.Equal(t, r.Due.Equal(next.Due), r.State == trigger.StateScheduled)
		}
		w.empty()
	})
}

// Case 4.
func TestARelativeDelayCountsFromTheSubmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sent := time.Now()
		s := w.schedule("payments", client.In(time.Minute))
		id := trigger.NewID()
		w.send(trigger.Standard, "payments", raw(func(m map[string]any) {
			delete(m, "due")
			m["id"], m["delay_ms"] = id.String(), 60_000
		}))
		time.Sleep(40 * time.Second)
		w.start("i1", nil)
		time.Sleep(time.Second)
		row, err := w.table.Get(t.Context(), handle(t, s).Key())
		require.NoError(t, err)
		require.NotNil(t, row, "the handle finds it")
		require.Equal(t, sent.Add(time.Minute).UnixMilli(), row.Due.UnixMilli())
		require.Equal(t, sent.Add(time.Minute).UnixMilli(), w.rows(id)[0].Due.UnixMilli(), "counted from SentTimestamp")
	})
}

// Case 16a at this level.
func TestAFloodOfOneServiceDelaysNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.service("email", nil)
		w.faults(func(string, trigger.Key) memstore.Fault { return memstore.Fault{Delay: 10 * time.Millisecond} }, nil)
		var msgs []queue.Message
		due := time.Now().Add(time.Hour).UTC()
		for range 100_000 {
			tr := trigger.Trigger{ID: trigger.NewID(), Service: "payments", Due: due, N: 16, Payload: []byte("x")}
			b, err := trigger.EncodeInbound(&tr, time.Time{})
			require.NoError(t, err)
			msgs = append(msgs, queue.Message{Body: string(b), Group: "payments"})
		}
		for _, err := range w.queues.SendBatch(t.Context(), w.urls.Inbound[trigger.Standard], msgs) {
			require.NoError(t, err)
		}
		w.start("i1", func(o *inbound.Options) { o.Rate = 2000 })
		time.Sleep(time.Second)
		at := time.Now()
		s := w.schedule("email", client.In(5*time.Second))
		u := w.schedule("payments", client.In(5*time.Second), client.UrgentLane())
		time.Sleep(3 * time.Second)
		require.Greater(t, w.depth().Visible, 50_000, "the flood is still there")
		require.WithinRange(t, w.insertedAt(s.ID), at, at.Add(time.Second))
		require.WithinRange(t, w.insertedAt(u.ID), at, at.Add(100*time.Millisecond))
	})
}

// Case 16b.
func TestTwoServicesMayUseOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.service("email", nil)
		p := w.start("i1", nil)
		at := client.At(time.Now().Add(time.Hour))
		a := w.schedule("payments", at, client.Key("order-42"))
		b := w.schedule("email", at, client.Key("order-42"))
		again := w.schedule("email", at, client.Key("order-42"))
		time.Sleep(time.Second)
		require.NotEqual(t, a.ID, b.ID)
		require.Equal(t, b.ID, again.ID)
		require.Len(t, w.table.Rows(), 2)
		require.Equal(t, 2, p.outcome(t, "inserted"))
		// One key, another payload: a conflict, told and kept.
		_, err := w.client.Schedule(t.Context(), "email", "other", at, client.Key("order-42"))
		require.NoError(t, err)
		time.Sleep(time.Second)
		letters := w.letters()
		require.Len(t, letters, 1)
		require.Equal(t, inbound.ReasonConflict, letters[0].Reason)
		require.Equal(t, "payload", letters[0].Errors[0].Field)
		w.empty()
	})
}

// Case 16c, the inbound half.
func TestOneRowPerKeyWhilePartitionsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start("i1", nil)
		time.Sleep(time.Minute)
		from := time.Now().Add(70 * time.Second).UTC()
		old := trigger.Epochs{{N: 16}}
		require.NoError(t, w.table.SetEpochs(t.Context(), old, trigger.Epochs{{N: 16}, {N: 32, From: from}}))
		due := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
		ids := make([]trigger.ID, 100)
		for i := range ids {
			ids[i] = trigger.KeyedID("payments", "", fmt.Sprint("key", i))
		}
		submit := func(n any) {
			for _, id := range ids {
				w.send(trigger.Standard, "payments", raw(func(m map[string]any) {
					m["id"], m["due"] = id.String(), due.Format(time.RFC3339Nano)
					if n != nil {
						m["n"] = n
					}
				}))
			}
		}
		submit(16)
		time.Sleep(65 * time.Second)
		submit(nil)
		submit(32) // early, but known
		time.Sleep(10 * time.Second)
		submit(nil)
		submit(16)
		fresh := w.schedule("payments", client.In(time.Hour)).ID
		bare := trigger.NewID()
		w.send(trigger.Standard, "payments", raw(func(m map[string]any) { m["id"] = bare.String() }))
		time.Sleep(5 * time.Second)
		for _, id := range ids {
			require.Len(t, w.rows(id), 1)
		}
		require.Len(t, w.rows(fresh), 1)
		require.Equal(t, 32, w.rows(bare)[0].N, "the count in force when it was sent")
		require.Empty(t, w.letters())
		w.empty()
	})
}

func TestACountThatNobodyScansIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start("i1", nil)
		w.send(trigger.Standard, "payments", raw(func(m map[string]any) { m["n"] = 500 }))
		time.Sleep(3 * time.Second)
		require.Len(t, w.letters(), 1)
		require.Equal(t, "n", w.letters()[0].Errors[0].Field)
		require.Empty(t, w.table.Rows())
	})
}

func TestTheFleetRateIsDividedAmongMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for range 3000 {
			w.send(trigger.Standard, "payments", raw(nil))
		}
		members := []*membership.Manual{
			membership.NewManual(membership.View{Self: "a", Members: []string{"a", "b"}}),
			membership.NewManual(membership.View{Self: "b", Members: []string{"a", "b"}}),
		}
		for i, m := range members {
			w.start(fmt.Sprint("i", i), func(o *inbound.Options) { o.Rate, o.Members = 100, m })
		}
		time.Sleep(10 * time.Second)
		require.InDelta(t, 1000, w.table.Len(), 60)
		members[0].Set(membership.View{Self: "a", Members: []string{"a"}})
		w.stops[1]()
		before := w.table.Len()
		time.Sleep(10 * time.Second)
		require.InDelta(t, 1000, w.table.Len()-before, 60, "the one left takes it all over")
	})
}

func TestAPausedDrainLeavesSubmissionsWhereTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.start("i1", nil)
		time.Sleep(time.Second)
		p.in.SetPaused(true) // polls are under way
		s := w.schedule("payments", client.In(time.Hour))
		time.Sleep(30 * time.Second)
		require.Equal(t, queue.Depth{Visible: 1}, w.depth())
		require.Empty(t, w.rows(s.ID))
		p.in.SetPaused(false)
		time.Sleep(2 * time.Second)
		require.Len(t, w.rows(s.ID), 1)
	})
}

// Case 13.
func TestShutdownInALongPollStrandsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.start("i1", nil)
		time.Sleep(5 * time.Second) // in the middle of polls
		began := time.Now()
		require.NoError(t, p.stop())
		require.Less(t, time.Since(began), time.Second)
		// A poll whose answer comes after the stop.
		w.faults(nil, func(e memqueue.Entry) memqueue.Fault {
			if e.Op == memqueue.OpReceive {
				return memqueue.Fault{ReplyDelay: time.Second}
			}
			return memqueue.Fault{}
		})
		p = w.start("i2", nil)
		s := w.schedule("payments", client.In(time.Hour))
		time.Sleep(500 * time.Millisecond)
		began = time.Now()
		require.NoError(t, p.stop())
		require.Less(t, time.Since(began), 5*time.Second)
		require.Equal(t, queue.Depth{Visible: 1}, w.depth(), "visible at once")
		require.Empty(t, w.rows(s.ID))
	})
}

func TestShutdownFinishesWhatIsInHandWithinItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.faults(func(string, trigger.Key) memstore.Fault { return memstore.Fault{Delay: 3 * time.Second} }, nil)
		for range 300 {
			w.send(trigger.Standard, "payments", raw(nil))
		}
		p := w.start("i1", nil)
		time.Sleep(5 * time.Second)
		require.NoError(t, p.stop())
		require.Zero(t, w.depth().InFlight)
		require.Equal(t, 300, w.table.Len()+w.depth().Visible)
		require.NotZero(t, w.table.Len())
		// A table that hangs: what is in hand goes back.
		w.faults(func(op string, _ trigger.Key) memstore.Fault {
			if op == memstore.OpEpochs {
				return memstore.Fault{}
			}
			return memstore.Fault{Delay: time.Hour}
		}, nil)
		w.send(trigger.Standard, "payments", raw(nil))
		p = w.start("i2", nil)
		time.Sleep(time.Second)
		began := time.Now()
		require.NoError(t, p.stop())
		require.LessOrEqual(t, time.Since(began), 20*time.Second)
		require.Zero(t, w.depth().InFlight)
	})
}

func TestStoppingAtOnceIsClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 20 {
			p := w.start(fmt.Sprint("i", i), nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
			<-ctx.Done()
			cancel()
			require.NoError(t, p.stop())
		}
	})
}

func TestRunKeepsTheContractOfLongLivedParts(t *testing.T) {
	lifecycletest.Check(t, func() lifecycletest.Runner {
		w := newWorld(t)
		for range 50 {
			w.later("payments", 0)
		}
		in, err := inbound.New(inbound.Options{
			Store: w.table, Queue: w.queues, Services: lookup{w.services}, Members: alone(),
			Clock: clock.Trusted(nil), Owner: "o", URLs: w.urls, Registerer: prometheus.NewPedanticRegistry(),
		})
		require.NoError(t, err)
		return in.Run
	})
}
