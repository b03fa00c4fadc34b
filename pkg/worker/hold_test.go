package worker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

var errEngine = errors.New("engine hiccup")

// Case 14: visibility is extended for buffered messages too.
func TestTenPrefetchedMessagesOfTwentySecondsEachAreHandledOnce(t *testing.T) {
	for name, fault := range map[string]func(memqueue.Entry) memqueue.Fault{
		"healthy engine": nil,
		"extensions fail two times out of three": func() func(e memqueue.Entry) memqueue.Fault {
			var (
				mu    sync.Mutex
				tries = map[string]int{}
			)
			return func(e memqueue.Entry) memqueue.Fault {
				if e.Op != memqueue.OpVisibility {
					return memqueue.Fault{}
				}
				mu.Lock()
				defer mu.Unlock()
				if tries[e.Receipt]++; tries[e.Receipt]%3 != 0 {
					return memqueue.Fault{Err: errEngine}
				}
				return memqueue.Fault{}
			}
		}(),
		"replies of extensions are lost": func(e memqueue.Entry) memqueue.Fault {
			return memqueue.Fault{LoseReply: e.Op == memqueue.OpVisibility}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, queue.Spec{Visibility: 30 * time.Second}, func(r *rig) {
				t := r.t
				r.setFault(fault)
				w := r.worker(func(o *worker.Options) { o.Concurrency, o.Prefetch = 1, 10 })
				calls := newSeen()
				worker.Handle(w, "slow", func(_ context.Context, j worker.Job[note]) error {
					defer calls.enter(j.ID)()
					if name != "replies of extensions are lost" { // those are not known to be hidden, so not started
						require.Equal(t, 1, j.Attempt)
					}
					work(20 * time.Second)
					return nil
				})
				for range 10 {
					r.send("slow", note{})
				}
				stop := r.run(w)
				r.sleep(time.Second)
				require.InDelta(t, 10, r.metric("myosin_worker_in_flight"), 0)
				r.sleep(10 * time.Minute)
				require.NoError(t, stop())
				calls.once(t, 10)
				r.empty(r.url)
			})
		})
	}
}

func TestExtensionsAreBatched(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		counting := &countingReceiver{Receiver: r.eng}
		w := r.worker(func(o *worker.Options) { o.Receiver = counting })
		worker.Handle(w, "slow", func(context.Context, worker.Job[note]) error {
			work(time.Minute)
			return nil
		})
		for range 20 {
			r.send("slow", note{})
		}
		stop := r.run(w)
		r.sleep(150 * time.Second)
		require.NoError(t, stop())
		r.empty(r.url)
		// Ten held for one minute and ten for two, extended every 10 s, ten a call.
		require.LessOrEqual(t, counting.extensions.Load(), int32(18))
		// The handlers end together, ten at a time.
		require.LessOrEqual(t, counting.deletes.Load(), int32(4))
	})
}

type countingReceiver struct {
	worker.Receiver
	extensions, deletes, receives atomic.Int32
}

func (c *countingReceiver) Receive(ctx context.Context, url string, o queue.ReceiveOptions) ([]queue.Received, error) {
	c.receives.Add(1)
	return c.Receiver.Receive(ctx, url, o)
}

func (c *countingReceiver) Delete(ctx context.Context, url string, receipts []string) []error {
	c.deletes.Add(1)
	return c.Receiver.Delete(ctx, url, receipts)
}

func (c *countingReceiver) ChangeVisibility(ctx context.Context, url string, v []queue.Visibility) []error {
	c.extensions.Add(1)
	return c.Receiver.ChangeVisibility(ctx, url, v)
}

// Case 14, second half.
func TestAtTheCeilingThereIsAnErrorEventNotASilentRedelivery(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker(func(o *worker.Options) { o.Visibility = 7 * time.Minute })
		var (
			cause   error
			after   time.Duration
			attempt atomic.Int32
		)
		worker.Handle(w, "forever", func(ctx context.Context, j worker.Job[note]) error {
			if attempt.Store(int32(j.Attempt)); j.Attempt > 1 {
				return nil
			}
			<-ctx.Done()
			cause, after = context.Cause(ctx), r.since()
			work(4*time.Minute + 40*time.Second) // winding down, under the queue's own limit
			require.EqualValues(t, 1, attempt.Load())
			return cause
		})
		r.send("forever", note{})
		stop := r.run(w)
		r.sleep(11*time.Hour + 54*time.Minute)
		require.NoError(t, cause)
		require.Zero(t, r.log.count("ceiling"))
		r.sleep(5 * time.Minute)
		require.ErrorIs(t, cause, worker.ErrTooOld)
		require.InDelta(t, 11*time.Hour+55*time.Minute, after, float64(2*time.Minute))
		require.Equal(t, 1, r.log.count("level=ERROR msg=\"message held until the queue's ceiling is near\""))
		require.InDelta(t, 1, r.metric("myosin_worker_too_old_total"), 0)
		r.sleep(5 * time.Minute)
		require.EqualValues(t, 2, attempt.Load())
		require.NoError(t, stop())
		r.empty(r.url)
	})
}

func TestBufferedMessageAtTheCeilingIsGivenBack(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker(func(o *worker.Options) { o.Concurrency, o.Prefetch, o.MaxAge = 1, 1, time.Hour })
		worker.Handle(w, "slow", func(_ context.Context, j worker.Job[note]) error {
			if j.Payload.N == 1 && j.Attempt == 1 {
				work(2 * time.Hour)
			}
			return nil
		})
		r.send("slow", note{1})
		r.send("slow", note{2})
		stop := r.run(w)
		r.sleep(3 * time.Hour)
		require.NoError(t, stop())
		require.Positive(t, r.metric("myosin_worker_released_total", "too_old"))
		r.empty(r.url)
	})
}

func TestLostReceiptCancelsTheHandler(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker()
		var cause error
		worker.Handle(w, "x", func(ctx context.Context, _ worker.Job[note]) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return cause
		})
		r.send("x", note{})
		stop := r.run(w)
		r.sleep(time.Second)
		r.setFault(func(e memqueue.Entry) memqueue.Fault {
			if e.Op == memqueue.OpVisibility {
				return memqueue.Fault{Err: queue.ErrReceipt}
			}
			return memqueue.Fault{}
		})
		r.sleep(20 * time.Second)
		require.ErrorIs(t, cause, worker.ErrLost)
		require.InDelta(t, 1, r.metric("myosin_worker_handled_total", "x", "lost"), 0)
		require.InDelta(t, 1, r.metric("myosin_worker_extension_failures_total"), 0)
		require.InDelta(t, 0, r.metric("myosin_worker_in_flight"), 0)
		require.NoError(t, stop())
	})
}

func TestReleaseIsNotUndoneByAnExtensionUnderWay(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		r.setFault(func(e memqueue.Entry) memqueue.Fault {
			if e.Op == memqueue.OpVisibility && r.since() < 11*time.Second {
				return memqueue.Fault{Delay: 3 * time.Second} // applied from 10 s on at 13 s
			}
			return memqueue.Fault{}
		})
		w := r.worker()
		var at []time.Duration
		worker.Handle(w, "x", func(_ context.Context, j worker.Job[note]) error {
			if at = append(at, r.since()); j.Attempt > 1 {
				return nil
			}
			work(11 * time.Second)
			return worker.RetryAfter(0, errEngine)
		})
		r.send("x", note{})
		stop := r.run(w)
		r.sleep(time.Minute)
		require.NoError(t, stop())
		require.Len(t, at, 2)
		require.InDelta(t, 13*time.Second, at[1], float64(time.Second))
	})
}

func TestBufferedMessageThatIsVisibleAgainIsNotStarted(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		r.setFault(func(e memqueue.Entry) memqueue.Fault {
			if e.Op == memqueue.OpVisibility {
				return memqueue.Fault{Err: errEngine}
			}
			return memqueue.Fault{}
		})
		w := r.worker(func(o *worker.Options) { o.Concurrency, o.Prefetch, o.Wait = 1, 1, time.Second })
		var attempts []int
		worker.Handle(w, "slow", func(_ context.Context, j worker.Job[note]) error {
			if j.Payload.N == 2 {
				attempts = append(attempts, j.Attempt)
				return nil
			}
			if j.Attempt == 1 {
				work(31 * time.Second)
			}
			return nil
		})
		r.send("slow", note{1})
		r.send("slow", note{2})
		stop := r.run(w)
		r.sleep(5 * time.Minute)
		require.NoError(t, stop())
		require.Equal(t, []int{2}, attempts)
		require.Positive(t, r.metric("myosin_worker_lost_total"))
		require.Equal(t, 1, r.log.count("visibility not extended"))
		r.empty(r.url)
	})
}

func TestFinishedJobWhoseDeleteKeepsFailingIsNotRunAgain(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		r.setFault(func(e memqueue.Entry) memqueue.Fault {
			if e.Op == memqueue.OpDelete && r.since() < 10*time.Minute {
				return memqueue.Fault{Err: errEngine}
			}
			return memqueue.Fault{}
		})
		w := r.worker()
		calls := newSeen()
		worker.Handle(w, "x", func(_ context.Context, j worker.Job[note]) error {
			defer calls.enter(j.ID)()
			return nil
		})
		for range 500 {
			r.send("x", note{})
		}
		stop := r.run(w)
		r.sleep(9 * time.Minute)
		require.Less(t, calls.total(), 250, "polling must pause while deletes do not get through")
		require.Equal(t, calls.total(), r.depth(r.url).InFlight)
		require.LessOrEqual(t, r.log.count("delete of a finished job failed"), 10)
		r.sleep(3 * time.Minute)
		require.NoError(t, stop())
		calls.once(t, 500)
		r.empty(r.url)
	})
}

func TestLostDeleteRepliesMakeNoDuplicate(t *testing.T) {
	for _, fifo := range []bool{false, true} {
		spec := queue.Spec{}
		if fifo {
			spec = queue.Spec{Name: "jobs.fifo", FIFO: true}
		}
		inBubble(t, spec, func(r *rig) {
			t := r.t
			var lost sync.Map
			r.setFault(func(e memqueue.Entry) memqueue.Fault {
				if e.Op == memqueue.OpDelete {
					_, again := lost.LoadOrStore(e.Receipt, true)
					return memqueue.Fault{LoseReply: !again}
				}
				return memqueue.Fault{}
			})
			w := r.worker()
			calls := newSeen()
			worker.Handle(w, "x", func(_ context.Context, j worker.Job[note]) error {
				defer calls.enter(j.ID)()
				return nil
			})
			for range 50 {
				r.send("x", note{})
			}
			stop := r.run(w)
			r.sleep(2 * time.Minute)
			require.NoError(t, stop())
			calls.once(t, 50)
			r.empty(r.url)
			require.InDelta(t, 50, r.metric("myosin_worker_delete_errors_total"), 0)
			require.Zero(t, r.log.count("could not be deleted"))
		})
	}
}

func TestDeadLetterThatDoesNotGetThroughIsTriedAgainThenLeftToTheRedrivePolicy(t *testing.T) {
	inBubble(t, queue.Spec{MaxReceives: 3}, func(r *rig) {
		t := r.t
		r.setFault(func(e memqueue.Entry) memqueue.Fault {
			if e.Op == memqueue.OpSend && e.URL == r.dlq && r.since() < 1500*time.Millisecond {
				return memqueue.Fault{Err: errEngine}
			}
			return memqueue.Fault{}
		})
		w := r.worker(withDLQ(r))
		calls := newSeen()
		worker.Handle(w, "dead", func(_ context.Context, j worker.Job[note]) error {
			calls.enter(j.ID)
			return worker.DeadLetter("x")
		})
		r.send("dead", note{})
		stop := r.run(w)
		r.sleep(10 * time.Second)
		calls.once(t, 1)
		require.Len(t, r.eng.Messages(r.dlq), 1)

		r.setFault(func(e memqueue.Entry) memqueue.Fault {
			if e.Op == memqueue.OpSend && e.URL == r.dlq {
				return memqueue.Fault{Err: queue.ErrDenied}
			}
			return memqueue.Fault{}
		})
		id := r.send("dead", note{})
		r.sleep(2 * time.Minute)
		require.NoError(t, stop())
		require.Equal(t, 3, calls.of(id))
		require.Equal(t, 3, r.log.count("dead-letter queue does not take"))
		require.Len(t, r.eng.Messages(r.dlq), 2)
		r.empty(r.url)
	})
}

func TestDeadLetteredMessageOfTenAttributesLosesItsTraceNotItsReason(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker(withDLQ(r))
		var headers map[string]string
		w.HandleDefault(func(_ context.Context, j worker.Job[[]byte]) error {
			headers = j.Headers
			return worker.DeadLetter("full")
		})
		full := func(t *trigger.Trigger) {
			t.Tenant, t.Payload = "t", []byte{0}
			t.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
			t.Headers = map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}
		}
		r.send("x", note{}, full)
		stop := r.run(w)
		r.sleep(time.Second)
		buried := r.eng.Messages(r.dlq)
		require.Len(t, buried, 1)
		require.Len(t, buried[0].Attributes, 10)
		require.Equal(t, "full", buried[0].Attributes[worker.AttrReason])
		require.NotContains(t, buried[0].Attributes, trigger.AttrTraceparent)

		// Redriven, it is a job like any other.
		r.sendTo(r.url, buried[0])
		r.sleep(time.Second)
		require.NoError(t, stop())
		require.Equal(t, map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}, headers)
		require.Len(t, r.eng.Messages(r.dlq), 2)
	})
}
