package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

func group(name string) func(*trigger.Trigger) {
	return func(t *trigger.Trigger) { t.Group = name }
}

func TestMessagesOfAGroupRunOneAfterTheOtherInOrder(t *testing.T) {
	inBubble(t, queue.Spec{Name: "jobs.fifo", FIFO: true}, func(r *rig) {
		t := r.t
		w := r.worker()
		var (
			mu      sync.Mutex
			done    = map[string][]int{}
			running = map[string]int{}
			peak    int
			overlap bool
		)
		worker.Handle(w, "x", func(_ context.Context, j worker.Job[note]) error {
			mu.Lock()
			running[j.Group]++
			overlap = overlap || running[j.Group] > 1
			done[j.Group] = append(done[j.Group], j.Payload.N)
			now := 0
			for _, n := range running {
				now += n
			}
			peak = max(peak, now)
			mu.Unlock()
			work(time.Duration(1+rand.IntN(900)) * time.Millisecond)
			mu.Lock()
			running[j.Group]--
			mu.Unlock()
			return nil
		})
		var want []int
		for i := range 30 {
			want = append(want, i)
			for g := range 5 {
				r.send("x", note{i}, group(fmt.Sprint(g)))
			}
		}
		stop := r.run(w)
		r.sleep(5 * time.Minute)
		require.NoError(t, stop())
		r.empty(r.url)
		require.Len(t, done, 5)
		require.False(t, overlap, "a group runs one at a time")
		require.Greater(t, peak, 1, "groups run side by side")
		for g := range done {
			require.Equal(t, want, done[g], "group %s", g)
		}
	})
}

func TestOrderOfAGroupHoldsWhenMessagesFail(t *testing.T) {
	inBubble(t, queue.Spec{Name: "jobs.fifo", FIFO: true}, func(r *rig) {
		t := r.t
		w := r.worker(withDLQ(r))
		var (
			mu     sync.Mutex
			done   = map[string][]int{}
			buried = map[string]int{}
		)
		worker.Handle(w, "x", func(_ context.Context, j worker.Job[note]) error {
			work(time.Duration(rand.IntN(300)) * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			switch rand.IntN(6) {
			case 0:
				return errors.New("failed")
			case 1:
				return worker.RetryAfter(time.Duration(rand.IntN(4))*time.Second, nil)
			case 2:
				done[j.Group] = append(done[j.Group], j.Payload.N)
				buried[j.Group]++
				return worker.DeadLetter("by chance")
			}
			done[j.Group] = append(done[j.Group], j.Payload.N)
			return nil
		})
		var want []int
		for i := range 25 {
			want = append(want, i)
			for g := range 4 {
				r.send("x", note{i}, group(fmt.Sprint(g)))
			}
		}
		stop := r.run(w)
		r.sleep(2 * time.Hour)
		require.NoError(t, stop())
		r.empty(r.url)
		require.Len(t, done, 4)
		total := 0
		for g := range done {
			require.Equal(t, want, done[g], "group %s", g)
			total += buried[g]
		}
		require.Len(t, r.eng.Messages(r.dlq), total)
		require.Positive(t, r.metric("myosin_worker_released_total", "group"))
	})
}

func TestPoisonMessageOfAGroupDoesNotDragTheOthersToTheDeadLetterQueue(t *testing.T) {
	inBubble(t, queue.Spec{Name: "jobs.fifo", FIFO: true, MaxReceives: 5}, func(r *rig) {
		t := r.t
		w := r.worker()
		calls := newSeen()
		worker.Handle(w, "x", func(_ context.Context, j worker.Job[note]) error {
			defer calls.enter(j.ID)()
			if j.Payload.N == 0 {
				return errors.New("poison")
			}
			return nil
		})
		var ids []trigger.ID
		for i := range 10 {
			ids = append(ids, r.send("x", note{i}, group("g")))
		}
		stop := r.run(w)
		r.sleep(10 * time.Minute)
		require.NoError(t, stop())
		r.empty(r.url)
		require.Equal(t, 5, calls.of(ids[0]))
		for _, id := range ids[1:] {
			require.Equal(t, 1, calls.of(id))
		}
		require.Len(t, r.eng.Messages(r.dlq), 1)
	})
}

func TestGroupWaitsUntilItsDeadLetterIsSent(t *testing.T) {
	inBubble(t, queue.Spec{Name: "jobs.fifo", FIFO: true}, func(r *rig) {
		t := r.t
		r.setFault(func(e memqueue.Entry) memqueue.Fault {
			if e.Op == memqueue.OpSend && e.URL == r.dlq {
				return memqueue.Fault{Err: errEngine}
			}
			return memqueue.Fault{}
		})
		w := r.worker(withDLQ(r))
		var order []int
		worker.Handle(w, "x", func(_ context.Context, j worker.Job[note]) error {
			order = append(order, j.Payload.N)
			if j.Payload.N == 0 && j.Attempt == 1 {
				return worker.DeadLetter("not taken")
			}
			return nil
		})
		for i := range 3 {
			r.send("x", note{i}, group("g"))
		}
		stop := r.run(w)
		r.sleep(time.Minute)
		require.NoError(t, stop())
		require.Equal(t, []int{0, 0, 1, 2}, order)
		r.empty(r.url)
	})
}

func TestStopGivesAGroupBackInOrder(t *testing.T) {
	inBubble(t, queue.Spec{Name: "jobs.fifo", FIFO: true}, func(r *rig) {
		t := r.t
		var order []int
		for i := range 5 {
			r.send("x", note{i}, group("g"))
		}
		for i := range 2 {
			w := r.worker(func(o *worker.Options) { o.Metrics, o.Wait = nil, time.Second })
			worker.Handle(w, "x", func(_ context.Context, j worker.Job[note]) error {
				work(5 * time.Second)
				order = append(order, j.Payload.N)
				return nil
			})
			stop := r.run(w)
			r.sleep(time.Duration(8+20*i) * time.Second)
			require.NoError(t, stop())
		}
		require.Equal(t, []int{0, 1, 2, 3, 4}, order)
		r.empty(r.url)
	})
}
