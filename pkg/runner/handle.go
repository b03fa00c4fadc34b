package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/runner/protect"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

// early is how long before its time a message is still handled: clocks differ.
const early = time.Second

// delivery is one message of a run on its way through the steps.
type delivery struct {
	msg         jobcontrol.Message
	parts       job.RunParts
	j           *job.Job
	fresh       bool // its occurrence was armed over just now
	traceparent string
}

// handle takes a message through: arm, admit, lease, call, record. A nil error
// acknowledges it.
func (r *Runner) handle(ctx context.Context, m worker.Job[[]byte]) error {
	msg, parts, err := jobcontrol.ReadMessage(m.Payload)
	if err != nil {
		r.m.done("unreadable")
		return worker.DeadLetter(err.Error())
	}
	d := &delivery{msg: msg, parts: parts, traceparent: m.Traceparent}
	j, err := r.o.Store.Job(ctx, parts.Job)
	switch {
	case errors.Is(err, jobstore.ErrNotFound):
		r.m.done("no_job")
		return worker.Drop("no job " + parts.Job.String())
	case err != nil:
		return fmt.Errorf("read job %s: %w", parts.Job, err)
	}
	d.j = &j
	runs, err := r.arm(ctx, d)
	if err != nil || !runs {
		return err
	}
	return r.start(ctx, d)
}

// arm makes sure of the occurrence after this one, if this is the pending one.
// It reports whether this one itself is to run. Where it was missed and a later
// one runs in its place, d is that one's from here on: a queue that is behind by
// more than a job's period would else never run it.
func (r *Runner) arm(ctx context.Context, d *delivery) (bool, error) {
	if d.parts.Suffix != "" {
		return true, nil
	}
	for try := 0; ; try++ {
		j := d.j
		if j.Status != job.JobIsActive || d.parts.Generation != j.Generation || !d.parts.Nominal.Equal(j.Pending) {
			return true, nil // what becomes of it, its record says
		}
		plan, err := r.plans.of(j)
		if err != nil {
			return false, err
		}
		now := r.now()
		if due := plan.Due(j.Pending); now.Before(due.Add(-early)) {
			return false, r.early(ctx, d, due)
		}
		step := plan.After(j.Pending, now)
		err = r.o.Control.Arm(ctx, j, plan, d.parts.Nominal, step)
		switch {
		case err == nil:
			r.m.armed.Inc()
			d.fresh = step.Run
			if step.Run {
				return true, nil
			}
			r.m.done("missed")
			if step.Pending.IsZero() || plan.Due(step.Pending).After(now) {
				return false, nil
			}
			d.parts.Nominal = step.Pending
			d.msg = jobcontrol.Message{Run: job.NewRunID(j.ID, j.Generation, step.Pending)}
			continue
		case try == 4:
			return false, fmt.Errorf("arm the run after %s: %w", d.msg.Run, err)
		}
		again, readErr := r.o.Store.Job(ctx, d.parts.Job)
		if readErr != nil {
			return false, errors.Join(err, readErr)
		}
		d.j = &again
	}
}

// early puts off a message that came before its time: one whose time lies
// further ahead than triggers can, or a clock's error.
func (r *Runner) early(ctx context.Context, d *delivery, due time.Time) error {
	if wait := due.Sub(r.now()); wait <= 10*time.Minute {
		return worker.RetryAfter(wait, errEarly)
	}
	run := jobcontrol.NewRun(d.j, d.parts.Nominal)
	return r.o.Control.Sleep(ctx, run, due)
}

var errEarly = errors.New("before its time")

// start admits and leases the run, and calls its target.
func (r *Runner) start(ctx context.Context, d *delivery) error {
	run, err := r.find(ctx, d)
	if err != nil {
		return err
	}
	if run.State.Terminal() {
		if gone(run) && !d.j.Updated.After(run.Ended) {
			return r.pause(ctx, run) // the message came again: the first try failed
		}
		return nil
	}
	tenant, err := r.o.Tenants.Get(ctx, d.j.Tenant)
	if err != nil {
		return err
	}
	t, payload := d.j.Target, d.j.Payload
	if run.Call != nil {
		t, payload = run.Call.Target, run.Call.Payload
	}
	permit, until, reason := r.admit(ctx, d, run, t, tenant)
	if permit == nil {
		return r.putOff(ctx, d, run, until, reason)
	}
	leased, err := r.o.Control.Begin(ctx, d.j, run, r.lease(d))
	if err != nil {
		permit.Done(protect.Neutral)
		return r.refused(ctx, d, run, err)
	}
	if leased.State != job.Running {
		permit.Done(protect.Neutral)
		r.m.done(string(leased.State))
		return nil
	}
	return r.call(ctx, Attempt{Job: d.j, Run: leased, Target: t, Payload: payload, Tenant: tenant, Traceparent: d.traceparent}, permit)
}

// find returns the run as recorded, or as it begins. Terminal: there is nothing
// to do. The one run that may begin without a record is that of the occurrence
// armed over last; any other message without one is of an old generation, of a
// run that has expired, or of an occurrence that became part of a counted range
// after its trigger was made.
func (r *Runner) find(ctx context.Context, d *delivery) (job.Run, error) {
	if d.fresh {
		return jobcontrol.NewRun(d.j, d.parts.Nominal), nil
	}
	run, err := r.o.Store.Run(ctx, d.msg.Run)
	if !errors.Is(err, jobstore.ErrNotFound) {
		return run, err
	}
	if d.parts.Suffix == "" && d.parts.Generation == d.j.Generation && d.parts.Nominal.Equal(d.j.Previous) {
		return jobcontrol.NewRun(d.j, d.parts.Nominal), nil
	}
	r.m.done("stale")
	return job.Run{State: job.Cancelled}, nil
}

// lease applies the rules: an expired lease is ended and taken in one.
func (r *Runner) lease(d *delivery) func(*job.Job, job.Run) (job.Run, error) {
	return func(j *job.Job, run job.Run) (job.Run, error) {
		now, failures := r.now(), d.msg.Failures
		c := job.Claim{Generation: run.Generation, Failures: failures, JobGeneration: j.Generation, JobStatus: j.Status}
		if run.Kind != job.Occurrence {
			c.JobGeneration = run.Generation // beside the schedule
			if j.Status == job.JobIsPaused || run.Kind == job.Notice {
				c.JobStatus = job.JobIsActive
			}
		}
		if run.State == job.Running && !now.Before(run.LeaseUntil) {
			crashed := !run.Accepted
			expired, err := run.Expire(now, jobcontrol.RetryOf(j, run), r.o.Random())
			if err != nil || expired.State != job.Retrying || now.Before(expired.NotBefore) {
				return expired, err
			}
			if crashed {
				r.m.crashes.Inc()
			}
			run, c.Failures = expired, expired.Failures
		}
		return run.Lease(now, c)
	}
}

// refused says what becomes of a message whose run could not be leased.
func (r *Runner) refused(ctx context.Context, d *delivery, run job.Run, err error) error {
	var c *job.ConflictError
	if !errors.As(err, &c) {
		return fmt.Errorf("lease run %s: %w", d.msg.Run, err)
	}
	now := r.now()
	switch c.Kind {
	case job.LeaseHeld, job.TooEarly:
		r.m.done(string(c.Kind))
		return worker.RetryAfter(max(c.Until.Sub(now), time.Second), err)
	case job.JobPaused:
		_, err = r.o.Control.Change(ctx, d.j, run, func(x job.Run) (job.Run, error) { return x.Skip(now, "paused") })
	case job.JobDeleted:
		_, err = r.o.Control.Change(ctx, d.j, run, func(x job.Run) (job.Run, error) { return x.Cancel(now, "job: delete") })
	case job.StaleGeneration:
		_, err = r.o.Control.Change(ctx, d.j, run, func(x job.Run) (job.Run, error) { return x.Edited(now, job.Schedule), nil })
	default:
		err = nil
	}
	if errors.As(err, &c) {
		err = nil // ended meanwhile
	}
	r.m.done("refused")
	return err
}

// admit asks whether the target may be called now; nil: not before until.
func (r *Runner) admit(ctx context.Context, d *delivery, run job.Run, t job.Target, tenant Tenant) (*protect.Permit, time.Time, string) {
	if until, ready := r.o.Caller.Ready(ctx, t); !ready {
		return nil, until, "target_paused"
	}
	key := t.Key()
	permit, denied := r.o.Gate.Admit(r.o.Now(), protect.Call{
		Target: d.j.Tenant + "/" + key, Tenant: d.j.Tenant, Rate: tenant.Rates[key], Cap: tenant.MaxConcurrent, Deferred: run.Deferrals > 0,
	})
	if denied != nil {
		return nil, denied.Until, string(denied.Reason)
	}
	return permit, time.Time{}, ""
}

// putOff defers a run whose target may not be called now: no attempt is used.
func (r *Runner) putOff(ctx context.Context, d *delivery, run job.Run, until time.Time, reason string) error {
	until = until.UTC().Truncate(time.Millisecond).Add(time.Millisecond)
	if run.State == job.Running {
		return worker.RetryAfter(max(until.Sub(r.now()), time.Second), errors.New(reason)) // an expired lease, which waits too
	}
	r.m.deferred.WithLabelValues(reason).Inc()
	deferred, err := r.o.Control.Begin(ctx, d.j, run, func(j *job.Job, x job.Run) (job.Run, error) {
		if _, err := r.lease(d)(j, x); err != nil {
			return x, err
		}
		return x.Defer(until)
	})
	if err != nil {
		return r.refused(ctx, d, run, err)
	}
	if tolerance := r.tolerance(d.j); deferred.State == job.Scheduled && until.Sub(deferred.Nominal) > tolerance {
		r.m.overdue.Inc()
		r.log.WarnContext(ctx, "run is put off past its tolerance", "run", d.msg.Run, "reason", reason, "until", until, "tolerance", tolerance)
	}
	return nil
}

// tolerance is how late a run may be before somebody is told.
func (r *Runner) tolerance(j *job.Job) time.Duration {
	if j.Spec.Tolerance != nil && *j.Spec.Tolerance > 0 {
		return *j.Spec.Tolerance
	}
	return 10 * time.Minute
}
