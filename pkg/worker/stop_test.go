package worker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

// Case 13.
func TestStopInsideALongPollStrandsNoMessage(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker()
		calls := newSeen()
		worker.Handle(w, "x", func(_ context.Context, j worker.Job[note]) error {
			calls.enter(j.ID)
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		r.sleep(3 * time.Second) // the poll began at 0 and waits 20 s
		cancel()
		r.sleep(2 * time.Second)
		for range 5 {
			r.send("x", note{})
		}
		r.sleep(100 * time.Millisecond)
		require.Equal(t, queue.Depth{Visible: 5}, r.depth(r.url), "what a poll brings after the stop is given back at once")
		require.NoError(t, <-done)
		require.Less(t, r.since(), 3*time.Second+27*time.Second)
		require.Zero(t, calls.total())
		require.Equal(t, queue.Depth{Visible: 5}, r.depth(r.url))
		require.Positive(t, r.metric("myosin_worker_released_total", "stop"))
	})
}

// Case 13, with an engine whose answer is on its way when the stop begins.
func TestMessagesOnTheirWayAtTheStopAreGivenBack(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		r.setFault(func(e memqueue.Entry) memqueue.Fault {
			if e.Op == memqueue.OpReceive {
				return memqueue.Fault{ReplyDelay: 5 * time.Second}
			}
			return memqueue.Fault{}
		})
		w := r.worker()
		worker.Handle(w, "x", func(context.Context, worker.Job[note]) error { panic("not reached") })
		r.send("x", note{})
		stop := r.run(w)
		r.sleep(time.Second)
		require.Equal(t, queue.Depth{InFlight: 1}, r.depth(r.url))
		require.NoError(t, stop())
		require.Less(t, r.since(), 10*time.Second)
		require.Equal(t, queue.Depth{Visible: 1}, r.depth(r.url))
	})
}

func TestPollThatOutlivesTheGraceIsCut(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker(func(o *worker.Options) { o.Grace = 5 * time.Second })
		worker.Handle(w, "x", func(context.Context, worker.Job[note]) error { return nil })
		stop := r.run(w)
		r.sleep(time.Second)
		require.NoError(t, stop())
		// Early enough to give back what a poll still brings.
		require.LessOrEqual(t, r.since(), 5100*time.Millisecond)
	})
}

// Cases 13 and 14.
func TestStopGivesBackWhatIsBufferedAndLetsHandlersFinish(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker(func(o *worker.Options) { o.Concurrency, o.Prefetch, o.Wait = 2, 8, time.Second })
		calls := newSeen()
		worker.Handle(w, "slow", func(ctx context.Context, j worker.Job[note]) error {
			defer calls.enter(j.ID)()
			work(15 * time.Second)
			return ctx.Err()
		})
		for range 10 {
			r.send("slow", note{})
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		r.sleep(5 * time.Second)
		require.Equal(t, queue.Depth{InFlight: 10}, r.depth(r.url))
		cancel()
		r.sleep(100 * time.Millisecond)
		require.Equal(t, queue.Depth{Visible: 8, InFlight: 2}, r.depth(r.url))
		require.NoError(t, <-done)
		require.InDelta(t, 15*time.Second, r.since(), float64(time.Second))
		require.Equal(t, queue.Depth{Visible: 8}, r.depth(r.url))
		calls.once(t, 2)
	})
}

func TestHandlersAreCancelledBeforeTheGraceEndsAndTheirMessagesGivenBack(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker(func(o *worker.Options) { o.Wait = time.Second })
		var cause error
		worker.Handle(w, "obedient", func(ctx context.Context, _ worker.Job[note]) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		})
		wake := make(chan struct{})
		worker.Handle(w, "deaf", func(context.Context, worker.Job[note]) error {
			<-wake
			return nil
		})
		r.send("obedient", note{})
		r.send("deaf", note{})
		stop := r.run(w)
		r.sleep(time.Second)
		began := time.Now()
		err := stop()
		require.ErrorContains(t, err, "1 handlers still running")
		require.LessOrEqual(t, time.Since(began), 27*time.Second)
		require.GreaterOrEqual(t, time.Since(began), 20*time.Second)
		require.ErrorIs(t, cause, worker.ErrStopping)
		require.Equal(t, queue.Depth{Visible: 2}, r.depth(r.url))
		require.InDelta(t, 2, r.metric("myosin_worker_handled_total", "interrupted"), 0)
		close(wake)
		synctest.Wait()
	})
}

func TestStopIsIdempotentAndBoundedByItsContext(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker(func(o *worker.Options) { o.Wait = time.Second })
		worker.Handle(w, "slow", func(context.Context, worker.Job[note]) error {
			work(10 * time.Second)
			return nil
		})
		r.send("slow", note{})
		done := make(chan error, 1)
		go func() { done <- w.Run(t.Context()) }()
		r.sleep(time.Second)
		worker.Handle(w, "late", func(context.Context, worker.Job[note]) error { return nil })
		require.Equal(t, 1, r.log.count("handler ignored"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, w.Stop(ctx), context.DeadlineExceeded)
		require.NoError(t, w.Stop(t.Context()))
		require.NoError(t, w.Stop(t.Context()))
		require.NoError(t, <-done)
		r.empty(r.url)
		require.ErrorContains(t, w.Run(t.Context()), "only once")

		idle := r.worker(func(o *worker.Options) { o.Metrics = nil })
		worker.Handle(idle, "x", func(context.Context, worker.Job[note]) error { return nil })
		require.NoError(t, idle.Stop(t.Context()))
		began := time.Now()
		require.NoError(t, idle.Run(t.Context()))
		require.Less(t, time.Since(began), time.Second)
	})
}

func TestStopRetriesWhatItGivesBackAndIsDoneWithinTheGraceOnADeadEngine(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker(func(o *worker.Options) { o.Concurrency, o.Prefetch, o.Wait = 1, 5, time.Second })
		worker.Handle(w, "slow", func(context.Context, worker.Job[note]) error {
			work(3 * time.Second)
			return nil
		})
		for range 6 {
			r.send("slow", note{})
		}
		stop := r.run(w)
		r.sleep(time.Second)
		r.setFault(func(e memqueue.Entry) memqueue.Fault {
			switch {
			case e.Op == memqueue.OpVisibility && r.since() < 1500*time.Millisecond:
				return memqueue.Fault{Err: errEngine}
			case e.Op == memqueue.OpDelete:
				return memqueue.Fault{Delay: time.Hour}
			}
			return memqueue.Fault{}
		})
		began := time.Now()
		require.NoError(t, stop())
		require.LessOrEqual(t, time.Since(began), 27*time.Second)
		require.Equal(t, queue.Depth{Visible: 5, InFlight: 1}, r.depth(r.url))
		require.Equal(t, 1, r.log.count("message left to its visibility timeout"))
	})
}

func TestErrorDuringAStopIsStillRetriedWithBackoff(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker(func(o *worker.Options) { o.Wait = time.Second })
		worker.Handle(w, "x", func(context.Context, worker.Job[note]) error {
			work(5 * time.Second)
			return worker.RetryAfter(time.Minute, errors.New("busy"))
		})
		r.send("x", note{})
		stop := r.run(w)
		r.sleep(time.Second)
		require.NoError(t, stop())
		require.Equal(t, queue.Depth{InFlight: 1}, r.depth(r.url))
		r.sleep(time.Minute)
		require.Equal(t, queue.Depth{Visible: 1}, r.depth(r.url))
	})
}
