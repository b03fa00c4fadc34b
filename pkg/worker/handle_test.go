package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

type note struct {
	N int `json:"n"`
}

func TestTypedHandlerGetsTheJobAndItsMessageIsDeleted(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker()
		var got worker.Job[note]
		worker.Handle(w, "remind", func(_ context.Context, job worker.Job[note]) error {
			got = job
			return nil
		})
		due := time.Now().Add(-1500 * time.Millisecond).UTC()
		id := r.send("remind", note{7}, func(t *trigger.Trigger) {
			t.Due, t.Tenant = due, "t1"
			t.Headers = map[string]string{"k": "v"}
			t.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		})
		stop := r.run(w)
		r.sleep(time.Second)
		r.empty(r.url)
		require.NoError(t, stop())
		require.Equal(t, worker.Job[note]{
			ID: id, Due: due, Name: "remind", Tenant: "t1", Group: "t1", Headers: map[string]string{"k": "v"},
			Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			Attempt:     1, Lateness: 1500 * time.Millisecond, Payload: note{7},
		}, got)
		require.InDelta(t, 1, r.metric("myosin_worker_received_total", "standard"), 0)
		require.InDelta(t, 1, r.metric("myosin_worker_handled_total", "remind", "done"), 0)
		require.InDelta(t, 1, r.metric("myosin_worker_lateness_seconds", "remind"), 0)
		require.InDelta(t, 1, r.metric("myosin_worker_handler_duration_seconds", "remind"), 0)
	})
}

func TestBytesStringsAndRawMessagesArePassedAsTheyAre(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker()
		var (
			mu  sync.Mutex
			got = map[string]any{}
		)
		keep := func(name string, v any) error {
			mu.Lock()
			defer mu.Unlock()
			got[name] = v
			return nil
		}
		worker.Handle(w, "bytes", func(_ context.Context, j worker.Job[[]byte]) error { return keep("bytes", j.Payload) })
		worker.Handle(w, "string", func(_ context.Context, j worker.Job[string]) error { return keep("string", j.Payload) })
		worker.Handle(w, "raw", func(_ context.Context, j worker.Job[json.RawMessage]) error { return keep("raw", j.Payload) })
		worker.Handle(w, "none", func(_ context.Context, j worker.Job[note]) error { return keep("none", j.Payload) })
		for _, name := range []string{"bytes", "string", "raw"} {
			r.send(name, nil, func(t *trigger.Trigger) { t.Payload = []byte("\x00{ no json") })
		}
		r.send("none", nil, func(t *trigger.Trigger) { t.Payload = nil })
		stop := r.run(w)
		r.sleep(time.Second)
		require.NoError(t, stop())
		require.Equal(t, map[string]any{
			"bytes": []byte("\x00{ no json"), "string": "\x00{ no json", "raw": json.RawMessage("\x00{ no json"), "none": note{},
		}, got)
	})
}

func TestFailedJobIsRetriedWithGrowingBackoff(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker(func(o *worker.Options) { o.Wait = time.Second })
		var at []time.Duration
		worker.Handle(w, "x", func(_ context.Context, j worker.Job[note]) error {
			at = append(at, r.since())
			require.Equal(t, len(at), j.Attempt)
			if j.Attempt < 14 {
				return errors.New("not yet")
			}
			return nil
		})
		r.send("x", note{})
		stop := r.run(w)
		r.sleep(4 * time.Hour)
		require.NoError(t, stop())
		require.Len(t, at, 14)
		for i := 1; i < len(at); i++ {
			full := min(time.Second<<(i-1), 15*time.Minute)
			gap := at[i] - at[i-1]
			require.GreaterOrEqual(t, gap, full/2, "retry %d", i)
			require.LessOrEqual(t, gap, full+2*time.Second, "retry %d", i)
		}
		r.empty(r.url)
		require.InDelta(t, 13, r.metric("myosin_worker_handled_total", "x", "retried"), 0)
	})
}

func TestResultsDecideWhatBecomesOfTheMessage(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker(withDLQ(r))
		calls := newSeen()
		var again time.Duration
		worker.Handle(w, "later", func(_ context.Context, j worker.Job[note]) error {
			if calls.enter(j.ID); j.Attempt == 1 {
				return worker.RetryAfter(90*time.Second, errors.New("busy"))
			}
			again = r.since()
			return nil
		})
		worker.Handle(w, "drop", func(_ context.Context, j worker.Job[note]) error {
			calls.enter(j.ID)
			return worker.Drop("obsolete")
		})
		worker.Handle(w, "dead", func(_ context.Context, j worker.Job[note]) error {
			calls.enter(j.ID)
			return errors.Join(errors.New("context"), worker.DeadLetter("no such\x00account"))
		})
		later, drop, dead := r.send("later", note{}), r.send("drop", note{}), r.send("dead", note{3})
		stop := r.run(w)
		r.sleep(100 * time.Second)
		r.empty(r.url)
		require.NoError(t, stop())
		require.Equal(t, []int{2, 1, 1}, []int{calls.of(later), calls.of(drop), calls.of(dead)})
		require.InDelta(t, 90*time.Second, again, float64(time.Second))
		buried := r.eng.Messages(r.dlq)
		require.Len(t, buried, 1)
		require.JSONEq(t, `{"n":3}`, buried[0].Body)
		require.Equal(t, dead.String(), buried[0].Attributes[trigger.AttrID])
		require.Equal(t, "no such account", buried[0].Attributes[worker.AttrReason])
		require.InDelta(t, 1, r.metric("myosin_worker_handled_total", "drop", "dropped"), 0)
		require.InDelta(t, 1, r.metric("myosin_worker_handled_total", "dead", "dead_lettered"), 0)
	})
}

func TestDeadLetterWithoutAQueueIsLeftToTheRedrivePolicyWithoutAHotLoop(t *testing.T) {
	inBubble(t, queue.Spec{MaxReceives: 3}, func(r *rig) {
		t := r.t
		w := r.worker()
		calls := newSeen()
		worker.Handle(w, "dead", func(_ context.Context, j worker.Job[note]) error {
			calls.enter(j.ID)
			return worker.DeadLetter("hopeless")
		})
		r.send("dead", note{})
		r.sendTo(r.url, queue.Message{Body: "not ours"})
		stop := r.run(w)
		r.sleep(900 * time.Millisecond)
		require.Equal(t, 1, calls.total())
		r.sleep(time.Minute)
		require.NoError(t, stop())
		r.empty(r.url)
		require.Equal(t, 3, calls.total())
		require.Len(t, r.eng.Messages(r.dlq), 2)
	})
}

func TestMalformedMessageIsDeadLetteredAtOnceWithItsReason(t *testing.T) {
	inBubble(t, queue.Spec{MaxReceives: 5}, func(r *rig) {
		t := r.t
		w := r.worker(withDLQ(r))
		require.NotNil(t, w)
		w.HandleDefault(func(context.Context, worker.Job[[]byte]) error { panic("not reached") })
		r.sendTo(r.url, queue.Message{Body: "not ours", Attributes: map[string]string{"a": "b"}})
		stop := r.run(w)
		r.sleep(time.Second)
		require.NoError(t, stop())
		r.empty(r.url)
		buried := r.eng.Messages(r.dlq)
		require.Len(t, buried, 1)
		require.Equal(t, "not ours", buried[0].Body)
		require.Equal(t, "b", buried[0].Attributes["a"])
		require.Contains(t, buried[0].Attributes[worker.AttrReason], "malformed: Myosin-Id")
		require.InDelta(t, 1, r.metric("myosin_worker_handled_total", "other", "malformed"), 0)
	})
}

func TestUnknownNameAndUndecodablePayloadAreLeftForAnotherVersion(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker(withDLQ(r))
		worker.Handle(w, "x", func(context.Context, worker.Job[note]) error { return nil })
		r.send("x", "a string")
		r.send("secret-name-\u0041", note{})
		stop := r.run(w)
		r.sleep(time.Second / 2)
		require.NoError(t, stop())
		require.Equal(t, 1, r.log.count("no handler for the job name"))
		require.Equal(t, 1, r.log.count("decode payload"))
		require.InDelta(t, 1, r.metric("myosin_worker_handled_total", "other", "unknown_name"), 0)
		r.empty(r.dlq)

		next := r.worker(func(o *worker.Options) { o.Metrics = nil })
		calls := newSeen()
		next.HandleDefault(func(_ context.Context, j worker.Job[[]byte]) error {
			calls.enter(j.ID)
			require.Greater(t, j.Attempt, 1)
			return nil
		})
		stop = r.run(next)
		r.sleep(5 * time.Second)
		require.NoError(t, stop())
		calls.once(t, 2)
		r.empty(r.url)
	})
}

func TestPanicFailsItsMessageOnly(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker()
		calls := newSeen()
		var sawPanic error
		w.Use(func(next worker.Handler) worker.Handler {
			return func(ctx context.Context, j worker.Job[[]byte]) error {
				if j.Name == "outer" && j.Attempt == 1 {
					panic("in middleware")
				}
				err := next(ctx, j)
				if j.Name == "boom" && err != nil {
					sawPanic = err
				}
				return err
			}
		})
		w.HandleDefault(func(_ context.Context, j worker.Job[[]byte]) error {
			calls.enter(j.ID)
			switch {
			case j.Name == "boom" && j.Attempt == 1:
				panic(errors.New("boom"))
			case j.Name == "exit" && j.Attempt == 1:
				runtime.Goexit()
			}
			return nil
		})
		names := []string{"ok", "boom", "ok", "exit", "outer", "ok"}
		for _, n := range names {
			r.send(n, note{})
		}
		stop := r.run(w)
		r.sleep(500 * time.Millisecond)
		require.InDelta(t, 3, r.metric("myosin_worker_handled_total", "done"), 0)
		r.sleep(5 * time.Second)
		require.NoError(t, stop())
		r.empty(r.url)
		var pan *worker.PanicError
		require.ErrorAs(t, sawPanic, &pan)
		require.Contains(t, string(pan.Stack), "handle_test.go")
		require.Equal(t, 8, calls.total())
		require.InDelta(t, 2, r.metric("myosin_worker_handled_total", "panicked"), 0)
		require.Positive(t, r.log.count("stack="))
	})
}

func TestFirstMiddlewareIsOutermost(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker()
		var order []string
		mw := func(name string) worker.Middleware {
			return func(next worker.Handler) worker.Handler {
				return func(ctx context.Context, j worker.Job[[]byte]) error {
					order = append(order, name+" in")
					defer func() { order = append(order, name+" out") }()
					return next(ctx, j)
				}
			}
		}
		w.Use(mw("a"), mw("b"))
		w.Use(mw("c"))
		worker.Handle(w, "x", func(context.Context, worker.Job[note]) error {
			order = append(order, "handler")
			return nil
		})
		r.send("x", note{})
		stop := r.run(w)
		r.sleep(time.Second)
		require.NoError(t, stop())
		require.Equal(t, []string{"a in", "b in", "c in", "handler", "c out", "b out", "a out"}, order)
	})
}

func TestTimeoutCancelsTheContextWithItsCause(t *testing.T) {
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker(func(o *worker.Options) { o.Timeout = 3 * time.Second })
		var cause error
		worker.Handle(w, "x", func(ctx context.Context, _ worker.Job[note]) error {
			<-ctx.Done()
			require.Equal(t, 3*time.Second, r.since())
			cause = context.Cause(ctx)
			return nil
		})
		r.send("x", note{})
		stop := r.run(w)
		r.sleep(4 * time.Second)
		require.NoError(t, stop())
		require.ErrorIs(t, cause, worker.ErrTimeout)
		r.empty(r.url)
	})
}

func TestMistakesAreReportedTogether(t *testing.T) {
	_, err := worker.New(worker.Options{
		Concurrency: -1, Visibility: 1500 * time.Millisecond, Wait: time.Minute, MaxAge: 12 * time.Hour, DeadLetterURL: "x",
	})
	for _, part := range []string{"receiver", "queue URL", "concurrency", "visibility", "wait", "max age", "without a sender"} {
		require.ErrorContains(t, err, part)
	}
	inBubble(t, queue.Spec{}, func(r *rig) {
		t := r.t
		w := r.worker(func(o *worker.Options) { o.Metrics = nil })
		require.ErrorContains(t, w.Run(t.Context()), "no handler")
		w = r.worker()
		fn := func(context.Context, worker.Job[note]) error { return nil }
		worker.Handle(w, "x", fn)
		worker.Handle(w, "x", fn)
		worker.Handle(w, "", fn)
		worker.Handle[note](w, "nil", nil)
		w.HandleDefault(nil)
		err := w.Run(t.Context())
		for _, part := range []string{`"x" is set twice`, "without a job name", `"nil" is nil`, "default handler is nil"} {
			require.ErrorContains(t, err, part)
		}
		_, err = worker.New(r.options())
		require.ErrorContains(t, err, "register worker metrics")
	})
}
