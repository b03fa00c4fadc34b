package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

func TestMissingQueueIsPolledOnWithOneLogAMinute(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		require.NoError(t, r.eng.DeleteQueue(t.Context(), r.url))
		w := r.worker()
		calls := newSeen()
		worker.Handle(w, "x", func(_ context.Context, j worker.Job[note]) error {
			calls.enter(j.ID)
			return nil
		})
		stop := r.run(w)
		r.sleep(10*time.Minute + time.Second)
		logged := r.log.count("queue does not exist")
		require.GreaterOrEqual(t, logged, 9*2) // each line says it twice: message and error
		require.LessOrEqual(t, logged, 11*2)
		require.Less(t, r.called(memqueue.OpReceive), 200)
		require.NoError(t, r.eng.Recreate(t.Context(), r.url))
		r.send("x", note{})
		r.sleep(11 * time.Second)
		require.Equal(t, 1, calls.total())
		require.NoError(t, stop())
	})
}

func TestReceiveErrorsBackOffAndPass(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		r.setFault(func(e memqueue.Entry) memqueue.Fault {
			if e.Op == memqueue.OpReceive && r.since() < time.Minute {
				return memqueue.Fault{Err: queue.ErrThrottled}
			}
			return memqueue.Fault{}
		})
		w := r.worker()
		calls := newSeen()
		worker.Handle(w, "x", func(_ context.Context, j worker.Job[note]) error {
			calls.enter(j.ID)
			return nil
		})
		r.send("x", note{})
		stop := r.run(w)
		r.sleep(time.Minute)
		require.Less(t, r.called(memqueue.OpReceive), 30)
		require.InDelta(t, r.called(memqueue.OpReceive), r.metric("myosin_worker_receive_errors_total"), 1)
		r.sleep(11 * time.Second)
		require.NoError(t, stop())
		calls.once(t, 1)
	})
}

func TestEngineThatAnswersNoneAtOnceIsNotPolledHot(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		hasty := &hastyReceiver{Receiver: r.eng}
		w := r.worker(func(o *worker.Options) { o.Receiver = hasty })
		worker.Handle(w, "x", func(context.Context, worker.Job[note]) error { return nil })
		stop := r.run(w)
		r.sleep(time.Minute)
		require.NoError(t, stop())
		require.Less(t, hasty.n.Load(), int32(300))
	})
}

type hastyReceiver struct {
	worker.Receiver
	n atomic.Int32
}

func (h *hastyReceiver) Receive(context.Context, string, queue.ReceiveOptions) ([]queue.Received, error) {
	h.n.Add(1)
	return nil, nil
}

func TestReceivesOnlyWhatThereIsRoomFor(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker(func(o *worker.Options) { o.Concurrency, o.Prefetch = 3, 4 })
		calls := newSeen()
		worker.Handle(w, "x", func(_ context.Context, j worker.Job[note]) error {
			defer calls.enter(j.ID)()
			work(10 * time.Second)
			return nil
		})
		for range 60 {
			r.send("x", note{})
		}
		stop := r.run(w)
		r.sleep(100 * time.Millisecond) // past the linger of deletes
		for range 60 {
			r.sleep(3 * time.Second)
			require.LessOrEqual(t, r.depth(r.url).InFlight, 7)
		}
		r.sleep(30 * time.Second)
		require.NoError(t, stop())
		calls.once(t, 60)
		require.Equal(t, 3, calls.max)
	})
}

func TestBacklogIsReceivedInBatchesAndAnIdleQueueByOnePoll(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		counting := &countingReceiver{Receiver: r.eng}
		w := r.worker(func(o *worker.Options) { o.Receiver, o.Prefetch = counting, 20 })
		calls := newSeen()
		worker.Handle(w, "x", func(_ context.Context, j worker.Job[note]) error {
			defer calls.enter(j.ID)()
			work(time.Duration(50+10*(calls.total()%10)) * time.Millisecond)
			return nil
		})
		for range 1000 {
			r.send("x", note{})
		}
		stop := r.run(w)
		r.sleep(15 * time.Second)
		calls.once(t, 1000)
		require.LessOrEqual(t, counting.receives.Load(), int32(115))
		require.LessOrEqual(t, counting.deletes.Load(), int32(700))
		before := counting.receives.Load()
		r.sleep(10 * time.Minute)
		require.LessOrEqual(t, counting.receives.Load()-before, int32(32))
		require.NoError(t, stop())
	})
}

func TestUrgentJobsStartAtOnceBehindABulkWave(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		urgent := r.create(queue.Spec{Name: "urgent"})
		w := r.worker(func(o *worker.Options) { o.UrgentQueueURL, o.Concurrency = urgent, 4 })
		calls := newSeen()
		var late []time.Duration
		worker.Handle(w, "bulk", func(_ context.Context, j worker.Job[note]) error {
			defer calls.enter(j.ID)()
			require.False(t, j.Urgent)
			work(30 * time.Second)
			return nil
		})
		worker.Handle(w, "urgent", func(_ context.Context, j worker.Job[note]) error {
			defer calls.enter(j.ID)()
			require.True(t, j.Urgent)
			late = append(late, j.Lateness)
			work(time.Second)
			return nil
		})
		for range 40 {
			r.send("bulk", note{})
		}
		stop := r.run(w)
		for range 5 {
			r.sleep(10 * time.Second)
			_, m := r.message("urgent", note{})
			r.sendTo(urgent, m)
		}
		r.sleep(10 * time.Minute)
		require.NoError(t, stop())
		calls.once(t, 45)
		require.Len(t, late, 5)
		for _, l := range late {
			require.Less(t, l, time.Second)
		}
		require.Equal(t, 4, calls.max)
	})
}
