package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

var errGoexit = errors.New("handler ended its goroutine")

// start runs the handler of a message. mu is held.
func (w *Worker) start(e *entry) {
	e.state = running
	e.lane.running++
	w.running++
	if e.lane.fifo {
		e.lane.active[e.msg.Group] = e
	}
	ctx, cancel := context.WithCancelCause(w.base)
	e.cancel = cancel
	w.handling.Go(func() { w.process(ctx, e) })
}

func (w *Worker) process(ctx context.Context, e *entry) {
	var (
		err   = errGoexit
		began = time.Now()
	)
	defer func() { w.finish(ctx, e, err, time.Since(began)) }()
	if e.bad != nil {
		err = &deadLetterError{reason: "malformed: " + e.bad.Error(), malformed: true}
		return
	}
	late := max(w.opts.Now().Sub(e.job.Due), 0)
	w.metrics.lateness.WithLabelValues(w.label(e)).Observe(late.Seconds())
	hctx := ctx
	if w.opts.Timeout > 0 {
		var cancel context.CancelFunc
		hctx, cancel = context.WithTimeoutCause(ctx, w.opts.Timeout, ErrTimeout)
		defer cancel()
	}
	err = w.chain(hctx, Job[[]byte]{
		ID: e.job.ID, Due: e.job.Due, Name: e.job.Name, Tenant: e.job.Tenant, Group: e.msg.Group, Headers: e.job.Headers,
		Traceparent: e.job.Traceparent, Urgent: e.lane.lane == trigger.Urgent, Attempt: e.msg.ReceiveCount,
		Lateness: late, Payload: e.job.Payload,
	})
}

// route is the innermost handler: it picks by name. Handlers do not change
// once the worker has started.
func (w *Worker) route(ctx context.Context, job Job[[]byte]) error {
	if h := w.handlers[job.Name]; h != nil {
		return h(ctx, job)
	}
	if w.fallback != nil {
		return w.fallback(ctx, job)
	}
	return fmt.Errorf("%w %q: left for a version that has one", ErrUnknownName, job.Name)
}

// guard turns a panic of h into an error.
func guard(h Handler) Handler {
	return func(ctx context.Context, job Job[[]byte]) (err error) {
		returned := false
		defer func() {
			if !returned {
				// nil on runtime.Goexit, which goes on.
				err = &PanicError{Value: recover(), Stack: debug.Stack()}
			}
		}()
		err = h(ctx, job)
		returned = true
		return err
	}
}

// finish applies the result of a handler and starts the next.
func (w *Worker) finish(ctx context.Context, e *entry, err error, took time.Duration) {
	cause := context.Cause(ctx)
	backoff := w.backoff(e)
	e.cancel(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	e.lane.running--
	defer e.lane.signal()
	defer w.dispatch()
	if e.bad == nil {
		w.metrics.duration.WithLabelValues(w.label(e)).Observe(took.Seconds())
	}
	if _, held := w.entries[e]; !held || e.state != running {
		return // given back by a stop
	}
	now := time.Now()
	v := w.judge(err, e.lost, errors.Is(cause, ErrStopping), backoff)
	w.metrics.handled.WithLabelValues(w.label(e), v.outcome).Inc()
	w.report(e, err, &v)
	switch v.action {
	case actDelete:
		w.groupDone(e)
		e.state = deleting
		e.lane.deletes.add(e)
	case actBury:
		e.state, e.reason = burying, v.reason // the group waits until it is buried
		e.lane.burials.add(e)
	case actRetry, actRelease:
		w.groupFailed(e, now.Add(v.after))
		w.release(e, v.after)
	case actForget:
		w.groupFailed(e, now)
		w.forget(e)
	}
}

// backoff asks for the delay of a retry. Callers do not hold mu: the function is the user's.
func (w *Worker) backoff(e *entry) time.Duration { return w.opts.Backoff(max(e.msg.ReceiveCount, 1)) }

func (w *Worker) report(e *entry, err error, v *verdict) {
	about := append(w.about(e), "outcome", v.outcome)
	if pan, ok := errors.AsType[*PanicError](err); ok {
		about = append(about, "stack", string(pan.Stack))
	}
	switch v.action {
	case actDelete:
		if v.outcome == outcomeDropped {
			w.log.Info("job dropped", append(about, "reason", v.reason)...)
		}
	case actBury:
		w.log.Warn("job given up; it goes to the dead-letter queue", append(about, "reason", v.reason)...)
	case actRetry:
		w.log.Warn("job failed; it is retried", append(about, "error", err, "in", v.after)...)
	default:
		w.log.Warn("job not finished", append(about, "error", err)...)
	}
}

// groupDone lets the next message of a FIFO group start. mu is held.
func (w *Worker) groupDone(e *entry) {
	if l := e.lane; l.fifo {
		if l.active[e.msg.Group] == e {
			delete(l.active, e.msg.Group)
		}
		delete(l.failing, e.msg.Group)
	}
}

// groupFailed ends the turn of a FIFO group, and gives back what waits behind. mu is held.
func (w *Worker) groupFailed(e *entry, until time.Time) {
	w.groupDone(e)
	w.failGroup(e, until)
}
