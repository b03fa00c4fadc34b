package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/runner/protect"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

// errLost is the cause with which a call ends whose run is another's by now.
var errLost = errors.New("the run's lease was lost")

// writeFor bounds the writes after a call: they go on when the runner stops.
const writeFor = 10 * time.Second

// putBack is the verdict on a call that was not made: its target was paused
// between the question whether it is ready and the call.
const putBack job.Verdict = "put_back"

// call calls the target, with the lease renewed meanwhile, and records the end.
func (r *Runner) call(ctx context.Context, a Attempt, permit *protect.Permit) error {
	callCtx, cancel := context.WithCancelCause(ctx)
	run := a.Run
	var renewing sync.WaitGroup
	stop := make(chan struct{})
	renewing.Go(func() { run = r.renew(callCtx, stop, a.Job, run, cancel) })
	if a.Run.Attempt == 1 && a.Run.Kind == job.Occurrence {
		r.m.lateness.Observe(max(r.o.Now().Sub(a.Run.Nominal), 0).Seconds())
	}
	r.m.running.Inc()
	res := r.o.Caller.Call(callCtx, a)
	r.m.running.Dec()
	close(stop)
	renewing.Wait()
	lost := errors.Is(context.Cause(callCtx), errLost)
	cancel(nil)

	policy := jobcontrol.RetryOf(a.Job, run)
	verdict := policy.Judge(res.StatusCode, job.ErrKind(res.Kind))
	if res.Deferred() {
		verdict = putBack
	}
	permit.Done(health(verdict, res))
	if lost {
		r.m.done("lost")
		return nil
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), writeFor)
	defer done()
	ended, err := r.record(ctx, a.Job, run, verdict, res, policy)
	var conflict *job.ConflictError
	switch {
	case errors.As(err, &conflict):
		r.m.done("lost")
		return nil
	case err != nil:
		return fmt.Errorf("record run %s: %w", run.ID, err)
	case verdict == job.VerdictNone:
		return worker.RetryAfter(job.LeaseFor, context.Cause(ctx))
	}
	r.m.done(string(ended.State))
	return nil
}

// record writes what became of a call.
func (r *Runner) record(ctx context.Context, j *job.Job, run job.Run, verdict job.Verdict, res target.Result, policy job.Retry) (job.Run, error) {
	attempt := run.Attempt
	switch verdict {
	case job.VerdictNone:
		return run, nil
	case putBack:
		return r.o.Control.Change(ctx, j, run, func(x job.Run) (job.Run, error) {
			return x.PutBack(r.now(), attempt, r.now().Add(pausedFor))
		})
	case job.VerdictAccepted:
		return r.o.Control.Change(ctx, j, run, func(x job.Run) (job.Run, error) { return x.Accept(r.now(), attempt) })
	}
	e := job.Ending{
		Verdict: verdict, Reason: describe(res), Jitter: r.o.Random(), StatusCode: res.StatusCode, Excerpt: res.Excerpt,
	}
	if res.RetryAfter != nil {
		e.RetryAfter = *res.RetryAfter
	}
	ended, err := r.o.Control.Change(ctx, j, run, func(x job.Run) (job.Run, error) {
		return x.Finish(r.now(), attempt, false, e, policy)
	})
	if err == nil && gone(ended) {
		err = r.pause(ctx, ended)
	}
	return ended, err
}

// gone reports whether a run ended with the answer 410.
func gone(r job.Run) bool {
	n := len(r.Attempts)
	return r.State == job.Dead && r.Kind != job.Notice && n > 0 && r.Attempts[n-1].Error == "HTTP 410"
}

// pause pauses the job of a run whose target is gone.
func (r *Runner) pause(ctx context.Context, run job.Run) error {
	_, err := r.o.Control.Edit(ctx, jobcontrol.Actor{}, run.Job, 0, func(x *job.Job) error {
		x.Status = job.JobIsPaused
		return nil
	})
	if errors.Is(err, jobcontrol.ErrDeleted) {
		return nil
	}
	return err
}

func describe(res target.Result) string {
	switch text := res.ErrorText(); {
	case text != "":
		return text
	case res.StatusCode != 0:
		return fmt.Sprintf("HTTP %d", res.StatusCode)
	default:
		return string(res.Kind)
	}
}

// health is what a call says of its target: refusals are answers of one that works.
func health(v job.Verdict, res target.Result) protect.Outcome {
	switch v {
	case job.VerdictSuccess, job.VerdictAccepted:
		return protect.Success
	case job.VerdictNone:
		return protect.Neutral
	case job.VerdictRetry:
		return protect.Failure
	}
	if res.Kind == target.KindNone {
		return protect.Success
	}
	return protect.Neutral // never sent
}

// renew renews the lease until stop is closed, and returns the run as last
// written. A lease that is another's ends the call.
func (r *Runner) renew(ctx context.Context, stop <-chan struct{}, j *job.Job, run job.Run, cancel context.CancelCauseFunc) job.Run {
	t := time.NewTicker(job.LeaseFor / 3)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return run
		case <-t.C:
		}
		writeCtx, done := context.WithTimeout(context.WithoutCancel(ctx), job.LeaseFor/3)
		next, err := r.o.Control.Change(writeCtx, j, run, func(x job.Run) (job.Run, error) { return x.Renew(r.now(), run.Attempt) })
		done()
		var conflict *job.ConflictError
		switch {
		case err == nil:
			run = next
		case errors.As(err, &conflict):
			cancel(errLost)
			return run
		default:
			r.log.WarnContext(ctx, "renewing a lease failed", "run", run.ID, "error", err)
		}
	}
}
