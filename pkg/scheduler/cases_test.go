package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/dispatch"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/scheduler"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Case 1.
func TestRowsThatCannotMoveDelayNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 16, memstore.Options{}, memqueue.Options{})
		w.service("healthy", nil)
		require.NoError(t, w.services.Put(t.Context(), registry.Service{Name: "gone", QueueURL: "http://memqueue/000000000000/svc-gone"}))
		past := time.Now().Add(-time.Hour)
		var stuck []trigger.ID
		perPart := make(map[int]int)
		for len(stuck) < 200*16 {
			id := w.insert("gone", past.Add(time.Duration(len(stuck))*time.Millisecond), trigger.Standard, nil)
			stuck = append(stuck, id)
			perPart[trigger.Partition(id, 16)]++
		}
		require.Len(t, perPart, 16)
		w.start("p1", alone(), nil)
		time.Sleep(5 * time.Second)
		due := time.Now()
		ok := w.insert("healthy", due, trigger.Standard, nil)
		time.Sleep(5 * time.Second)
		w.once([]trigger.ID{ok}, time.Second)
		require.Equal(t, len(stuck), w.table.Len(), "none of the stuck rows is lost")
		w.service("gone", nil)
		time.Sleep(2 * time.Minute)
		for _, id := range stuck {
			require.Len(t, w.deliveries(id), 1)
		}
		require.Zero(t, w.table.Len())
		w.stop()
	})
}

// Case 5.
func TestScalingOutRobsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 16, memstore.Options{}, memqueue.Options{Faults: slowSends(30 * time.Millisecond)})
		w.service("svc", nil)
		var ids []trigger.ID
		for i := range 10_000 {
			ids = append(ids, w.insert("svc", time.Now().Add(8*time.Second+time.Duration(i)*time.Millisecond/2), trigger.Standard, nil))
		}
		first := alone()
		w.start("p1", first, nil)
		time.Sleep(10 * time.Second)
		all := []string{"a", "b", "c", "d"}
		first.Set(membership.View{Self: "a", Members: all})
		for i, name := range all[1:] {
			w.start(fmt.Sprintf("q%d", i), membership.NewManual(membership.View{Self: name, Members: all}), nil)
		}
		time.Sleep(time.Minute)
		w.once(ids, 10*time.Second)
		require.Zero(t, w.table.Len())
		w.stop()
	})
}

// slowSends makes every send take a while.
func slowSends(d time.Duration) func(memqueue.Entry) memqueue.Fault {
	return func(e memqueue.Entry) memqueue.Fault {
		if e.Op == memqueue.OpSend {
			return memqueue.Fault{Delay: d}
		}
		return memqueue.Fault{}
	}
}

// Case 7, without the Kubernetes part.
func TestRollingRestartDeliversExactlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 16, memstore.Options{}, memqueue.Options{Faults: slowSends(20 * time.Millisecond)})
		w.service("svc", nil)
		w.service("other", nil)
		var ids []trigger.ID
		for i := range 6000 {
			name := "svc"
			if i%3 == 0 {
				name = "other"
			}
			ids = append(ids, w.insert(name, time.Now().Add(5*time.Second+time.Duration(i)*10*time.Millisecond), trigger.Lane(i%2), nil))
		}
		view := func(self string, members ...string) membership.View {
			return membership.View{Self: self, Members: members}
		}
		live := []string{"a0", "b0", "c0"}
		procs := map[string]*proc{}
		for _, name := range live {
			procs[name] = w.start(name, membership.NewManual(view(name, live...)), nil)
		}
		tell := func() {
			for name, p := range procs {
				self := name
				if !slices.Contains(live, name) {
					self = ""
				}
				p.members.Set(view(self, live...))
			}
		}
		time.Sleep(10 * time.Second)
		for i, old := range []string{"a0", "b0", "c0"} {
			fresh := fmt.Sprintf("%c1", 'a'+i)
			live = append(live, fresh) // surge
			procs[fresh] = w.start(fresh, membership.NewManual(view(fresh, live...)), nil)
			tell()
			time.Sleep(5 * time.Second)
			require.Len(t, union(procs, live), 32, "every partition of both lanes is owned")
			live = slices.DeleteFunc(live, func(s string) bool { return s == old })
			tell()
			require.NoError(t, procs[old].stop())
			delete(procs, old)
			time.Sleep(5 * time.Second)
			require.Len(t, union(procs, live), 32)
		}
		time.Sleep(time.Minute)
		w.once(ids, 5*time.Second)
		require.Zero(t, w.table.Len())
		w.stop()
	})
}

func union(procs map[string]*proc, live []string) map[string]bool {
	all := make(map[string]bool)
	for _, name := range live {
		for lane, ids := range procs[name].s.Owned() {
			for _, id := range ids {
				all[trigger.PartitionKey(lane, id)] = true
			}
		}
	}
	return all
}

// Case 10.
func TestStaleAcquiredRowsAreRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4, memstore.Options{}, memqueue.Options{})
		w.service("svc", nil)
		now := time.Now()
		var ids []trigger.ID
		for _, st := range []trigger.State{
			trigger.AcquiredBy("dead", now.Add(-2*time.Minute)), trigger.AcquiredBy("dead", now.Add(-time.Second)),
			"A.dead", "A.dead.", "A.dead.x", trigger.AcquiredBy("dead", now.Add(time.Hour)),
		} {
			ids = append(ids, w.insert("svc", now.Add(-time.Second), trigger.Standard, func(r *store.Row) { r.State = st }))
		}
		w.start("p1", alone(), nil)
		time.Sleep(30 * time.Second)
		require.Len(t, w.deliveries(ids[0]), 1, "two minutes old: at once")
		require.Empty(t, w.deliveries(ids[1]), "a second old: its owner may be alive")
		time.Sleep(2 * time.Minute)
		for _, id := range ids {
			require.Len(t, w.deliveries(id), 1)
		}
		require.Zero(t, w.table.Len())
		w.stop()
	})
}

// Case 11, first half: the process stands still between acquiring and sending.
func TestFrozenOwnerDropsItsStaleClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4, memstore.Options{}, memqueue.Options{})
		w.service("svc", nil)
		stop := &standstill{Store: w.table}
		p := w.start("p1", alone(), func(o *scheduler.Options) { o.Store = stop })
		time.Sleep(3 * time.Second)
		id := w.insert("svc", time.Now().Add(3*time.Second), trigger.Standard, nil)
		stop.next.Store(true)
		time.Sleep(3*time.Second + 65*time.Second)
		require.Empty(t, w.deliveries(id), "still standing")
		time.Sleep(3 * time.Minute)
		require.Len(t, w.deliveries(id), 1)
		require.Greater(t, w.deliveries(id)[0].late, time.Minute, "by the sweep, not by the stale claim")
		require.NoError(t, p.stop())
		require.Zero(t, w.table.Len())
	})
}

// standstill is a table whose next acquiring write is applied, and answers 70 s
// later whatever its context says: what a stopped process sees.
type standstill struct {
	*memstore.Store
	next atomic.Bool
}

func (s *standstill) Write(ctx context.Context, ops []store.Op) []store.Result {
	r := s.Store.Write(ctx, ops)
	if ops[0].To.Kind() == trigger.Acquired && s.next.CompareAndSwap(true, false) {
		time.Sleep(70 * time.Second)
	}
	return r
}

// Case 11, second half.
func TestRecoveryAgainstCompletionCreatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, memstore.Options{}, memqueue.Options{})
		now := time.Now()
		st := trigger.AcquiredBy("owner", now.Add(-2*time.Minute))
		id := w.insert("svc", now, trigger.Standard, func(r *store.Row) { r.State = st })
		key := trigger.KeyOf(trigger.Standard, id, now, 1)
		// The sweeper has read the row; the owner completes it; the sweeper writes.
		done := w.table.Write(t.Context(), []store.Op{{Kind: store.Delete, Key: key, From: st}})
		require.NoError(t, done[0].Err)
		r := w.table.Write(t.Context(), []store.Op{{Kind: store.Transition, Key: key, From: st, To: trigger.StateMaybeSent}})
		require.ErrorIs(t, r[0].Err, store.ErrConflict)
		require.Zero(t, w.table.Len())
	})
}

// Case 15.
func TestLargeMessagesAreSplitAndARefusedOneIsBuriedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, memstore.Options{}, memqueue.Options{Faults: func(e memqueue.Entry) memqueue.Fault {
			if e.Op == memqueue.OpSend && e.Message != nil && len(e.Message.Body) == 1234 {
				return memqueue.Fault{Err: fmt.Errorf("entry: %w", queue.ErrRejected)}
			}
			return memqueue.Fault{}
		}})
		w.service("svc", nil)
		due := time.Now().Add(5 * time.Second)
		var ids []trigger.ID
		for range 10 {
			ids = append(ids, w.insert("svc", due, trigger.Standard, func(r *store.Row) { r.Payload = slices.Repeat([]byte("x"), 150<<10) }))
		}
		bad := w.insert("svc", due, trigger.Standard, func(r *store.Row) { r.Payload = slices.Repeat([]byte("y"), 1234) })
		w.start("p1", alone(), nil)
		time.Sleep(20 * time.Second)
		w.once(ids, 100*time.Millisecond)
		require.Empty(t, w.deliveries(bad))
		dead, err := w.table.Dead(t.Context(), "svc", nil, 0)
		require.NoError(t, err)
		require.Len(t, dead.Rows, 1)
		require.Contains(t, dead.Rows[0].Reason, "refused by the queue")
		w.stop()
	})
}

func TestAServiceStaysWithinItsRateWhileOthersAreOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 16, memstore.Options{}, memqueue.Options{})
		w.service("slow", func(s *registry.Service) { s.Rate = 50 })
		w.service("fast", nil)
		start := time.Now().Add(5 * time.Second)
		var slow, fast []trigger.ID
		for i := range 3000 {
			slow = append(slow, w.insert("slow", start, trigger.Standard, nil))
			fast = append(fast, w.insert("fast", start.Add(time.Duration(i)*10*time.Millisecond), trigger.Standard, nil))
		}
		w.start("p1", alone(), nil)
		time.Sleep(3 * time.Minute)
		w.once(fast, 50*time.Millisecond)
		w.once(slow, 2*time.Minute)
		var last time.Time
		for _, id := range slow {
			if at := w.deliveries(id)[0].at; at.After(last) {
				last = at
			}
		}
		took := last.Sub(start)
		require.Greater(t, took, 58*time.Second, "3000 at 50/s")
		require.Less(t, took, 75*time.Second, "and no slower than the schedulers' part of the rate")
		w.stop()
	})
}

// Case 16a at the scheduler: a flood of one service, one trigger of another.
func TestAFloodDoesNotDelayAnotherService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 8, memstore.Options{}, memqueue.Options{Faults: slowSends(20 * time.Millisecond)})
		w.service("flood", nil)
		w.service("calm", nil)
		due := time.Now().Add(5 * time.Second)
		for i := range 100_000 {
			w.insert("flood", due.Add(time.Duration(i%1000)*time.Millisecond), trigger.Standard, nil)
		}
		w.start("p1", alone(), func(o *scheduler.Options) { o.HeapBytes = 16 << 20 })
		time.Sleep(5 * time.Second)
		var calm []trigger.ID
		for i := range 20 {
			calm = append(calm, w.insert("calm", due.Add(time.Duration(5+i)*time.Second), trigger.Standard, nil))
		}
		time.Sleep(26 * time.Second)
		w.once(calm, 250*time.Millisecond)
		w.stop()
	})
}

func TestAPausedServiceWaitsAndIsDeliveredOldestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4, memstore.Options{}, memqueue.Options{})
		w.service("svc", func(s *registry.Service) { s.Paused = true })
		w.start("p1", alone(), nil)
		var ids []trigger.ID
		for i := range 300 {
			ids = append(ids, w.insert("svc", time.Now().Add(time.Duration(i)*100*time.Millisecond), trigger.Standard, nil))
		}
		time.Sleep(5 * time.Minute)
		for _, id := range ids {
			require.Empty(t, w.deliveries(id))
		}
		require.NoError(t, w.services.SetPaused(t.Context(), "svc", false))
		time.Sleep(10 * time.Second)
		for _, id := range ids {
			require.Len(t, w.deliveries(id), 1)
		}
		w.stop()
	})
}

func TestAnUnknownServiceIsParkedADayThenBuried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, memstore.Options{}, memqueue.Options{})
		w.service("known", nil)
		late := w.insert("later", time.Now(), trigger.Standard, nil)
		never := w.insert("never", time.Now(), trigger.Standard, nil)
		w.start("p1", alone(), func(o *scheduler.Options) {
			o.Tick, o.IdleTick, o.LookAhead = 10*time.Second, 10*time.Second, 30*time.Second
		})
		time.Sleep(23 * time.Hour)
		require.Equal(t, 2, w.table.Len())
		w.service("later", nil)
		time.Sleep(2 * time.Hour)
		require.Len(t, w.deliveries(late), 1)
		require.Empty(t, w.deliveries(never))
		dead, err := w.table.Dead(t.Context(), "never", nil, 0)
		require.NoError(t, err)
		require.Len(t, dead.Rows, 1)
		require.Contains(t, dead.Rows[0].Reason, "registry")
		w.stop()
	})
}

func TestTimesFarAheadFireOnTheMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, memstore.Options{}, memqueue.Options{})
		w.service("svc", nil)
		due := time.Now().AddDate(5, 0, 0)
		id := w.insert("svc", due, trigger.Standard, nil)
		time.Sleep(time.Until(due) - time.Hour) // nothing runs yet: years of ticks prove nothing more
		w.start("p1", alone(), func(o *scheduler.Options) { o.Dispatch = dispatch.Options{Linger: time.Nanosecond} })
		time.Sleep(time.Hour + time.Second)
		require.Len(t, w.deliveries(id), 1)
		require.Zero(t, w.deliveries(id)[0].late.Truncate(time.Millisecond))
		w.stop()
	})
}

func TestNothingIsAcquiredByAnUnusableClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, memstore.Options{}, memqueue.Options{})
		w.service("svc", nil)
		id := w.insert("svc", time.Now().Add(time.Second), trigger.Standard, nil)
		c := clock.New(nil)
		p := w.start("p1", alone(), func(o *scheduler.Options) { o.Clock = c })
		time.Sleep(time.Minute)
		require.Empty(t, w.deliveries(id), "no server time known")
		require.ErrorContains(t, p.s.Ready(), "clock")
		at := time.Now()
		c.Observe(at.Add(-time.Minute), at, at)
		time.Sleep(10 * time.Second)
		require.Empty(t, w.deliveries(id), "a minute off")
		at = time.Now()
		c.Observe(at, at, at)
		time.Sleep(10 * time.Second)
		require.Len(t, w.deliveries(id), 1)
		require.NoError(t, p.s.Ready())
		w.stop()
	})
}

func TestUrgentIsOnTimeWhileTheStandardLaneIsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4, memstore.Options{Faults: func(op string, k trigger.Key) memstore.Fault {
			if k.Lane == trigger.Standard && op != memstore.OpSetEpochs && op != memstore.OpEpochs {
				return memstore.Fault{Err: store.ErrThrottled}
			}
			return memstore.Fault{}
		}}, memqueue.Options{})
		w.service("svc", nil)
		w.start("p1", alone(), nil)
		var ids []trigger.ID
		for i := range 200 {
			ids = append(ids, w.insert("svc", time.Now().Add(5*time.Second+time.Duration(i)*50*time.Millisecond), trigger.Urgent, nil))
		}
		time.Sleep(20 * time.Second)
		w.once(ids, 50*time.Millisecond)
		w.stop()
	})
}

func TestOptionsReportEveryProblem(t *testing.T) {
	_, err := scheduler.New(scheduler.Options{Owner: "a.b", LookAhead: time.Second, StaleAfter: time.Second})
	for _, part := range []string{"Store", "Sender", "Services", "Members", "Clock", "Owner", "LookAhead", "StaleAfter"} {
		require.ErrorContains(t, err, part)
	}
}
