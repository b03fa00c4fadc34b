package jobcontrol

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// unbegunFor is how long after its time an occurrence that was armed over and has
// no record counts as not begun: far less than records are kept.
const unbegunFor = time.Hour

// Run returns a run: what is recorded, or the SCHEDULED run of the occurrence
// that waits, or was armed over just now, which has no record (version 0) before
// it begins.
func (c *Control) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	r, err := c.o.Store.Run(ctx, id)
	if !errors.Is(err, jobstore.ErrNotFound) {
		return r, err
	}
	_, parts, parseErr := job.ParseRunID(string(id))
	if parseErr != nil {
		return job.Run{}, err
	}
	j, jobErr := c.o.Store.Job(ctx, parts.Job)
	if jobErr != nil || !pending(&j, parts) && !c.armed(&j, parts) {
		return job.Run{}, err
	}
	plan, planErr := j.Plan()
	if planErr != nil {
		return job.Run{}, planErr
	}
	r = NewRun(&j, parts.Nominal)
	r.NotBefore = plan.Due(parts.Nominal)
	return r, nil
}

// armed reports whether the id is of the occurrence armed over last, whose message
// is on its way to a runner.
func (c *Control) armed(j *job.Job, p job.RunParts) bool {
	return p.Suffix == "" && p.Generation == j.Generation && j.Status == job.JobIsActive && p.Nominal.Equal(j.Previous) &&
		c.now().Sub(j.Previous) < unbegunFor
}

// pending reports whether the id is of the occurrence that waits.
func pending(j *job.Job, p job.RunParts) bool {
	return p.Suffix == "" && p.Generation == j.Generation && j.Status == job.JobIsActive && p.Nominal.Equal(j.Pending)
}

// RunNow makes a run beside the schedule. A paused job may be run by hand.
func (c *Control) RunNow(ctx context.Context, a Actor, id trigger.ID) (job.Run, error) {
	j, err := c.o.Store.Job(ctx, id)
	if err == nil && j.Status == job.JobIsDeleted {
		err = ErrDeleted
	}
	if err != nil {
		return job.Run{}, fmt.Errorf("run job %s now: %w", id, err)
	}
	now := c.now()
	r := NewRun(&j, now)
	r.ID, r.Kind, r.Wake = r.ID.Manual(strings.ToLower(rand.Text()[:10])), job.Manual, now
	err = c.add(ctx, r, nil, c.audit(a, now, "job.run", string(r.ID), ""))
	if err != nil {
		return job.Run{}, fmt.Errorf("run job %s now: %w", id, err)
	}
	r.Version = 1
	return r, nil
}

// add puts a run that waits, with its trigger and what else changes.
func (c *Control) add(ctx context.Context, r job.Run, beside []job.Run, audit []jobstore.AuditRecord) error {
	return c.repeat(ctx, func() error {
		row, err := c.trigger(ctx, r, c.now(), "")
		if err != nil {
			return err
		}
		err = c.commit(ctx, jobstore.Tx{Runs: append([]job.Run{r}, beside...), Triggers: []*store.Row{row}, Audit: audit})
		if err == nil {
			return nil
		}
		if _, readErr := c.o.Store.Run(ctx, r.ID); readErr == nil {
			return nil // the answer of an earlier attempt was lost, or another made it
		}
		if !surelyNot(err) {
			return errors.Join(errAgain, err)
		}
		return err
	})
}

// Redrive repeats a dead run: a new run with the first one's id as its original.
// Redriving again, while that run is not dead itself, returns the same run.
func (c *Control) Redrive(ctx context.Context, a Actor, id job.RunID) (job.Run, error) {
	var out job.Run
	err := c.repeat(ctx, func() error {
		dead, err := c.o.Store.Run(ctx, id)
		if err != nil {
			return err
		}
		if dead.Redriven != "" {
			out, err = c.o.Store.Run(ctx, dead.Redriven)
			return err
		}
		j, err := c.o.Store.Job(ctx, dead.Job)
		if err != nil {
			return err
		}
		if j.Status == job.JobIsDeleted {
			return ErrDeleted
		}
		next, err := dead.Redrive(j.Generation)
		if err != nil {
			return err
		}
		now := c.now()
		next.Wake = now
		dead.Redriven = next.ID
		if err := c.add(ctx, next, []job.Run{dead}, c.audit(a, now, "run.redrive", string(id), string(next.ID))); err != nil {
			return err
		}
		next.Version = 1
		out = next
		return nil
	})
	if err != nil {
		return job.Run{}, fmt.Errorf("redrive run %s: %w", id, err)
	}
	return out, nil
}

// Heartbeat extends the lease of a run that its target accepted; read
// CancelRequested in what it returns. A *job.ConflictError says why not.
func (c *Control) Heartbeat(ctx context.Context, id job.RunID, attempt int) (job.Run, error) {
	r, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return job.Run{}, fmt.Errorf("heartbeat of run %s: %w", id, err)
	}
	return c.Change(ctx, nil, r, func(r job.Run) (job.Run, error) { return r.Heartbeat(c.now(), attempt) })
}

// Complete ends a run that its target accepted. A failure is tried again as the
// job's retry policy says.
func (c *Control) Complete(ctx context.Context, id job.RunID, attempt int, success bool, message string) (job.Run, error) {
	r, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return job.Run{}, fmt.Errorf("complete run %s: %w", id, err)
	}
	j, err := c.o.Store.Job(ctx, r.Job)
	if err != nil {
		return job.Run{}, fmt.Errorf("complete run %s: %w", id, err)
	}
	e := job.Ending{Verdict: job.VerdictSuccess, Excerpt: message}
	if !success {
		e = job.Ending{Verdict: job.VerdictRetry, Reason: cut("target: "+message, maxExcerpt), Jitter: c.o.Random()}
	}
	return c.Change(ctx, &j, r, func(r job.Run) (job.Run, error) {
		return r.Finish(c.now(), attempt, true, e, RetryOf(&j, r))
	})
}

// CancelRun ends a run that waits, or asks a running one to stop. Cancelling the
// occurrence that waits leaves the job with the one after it.
func (c *Control) CancelRun(ctx context.Context, a Actor, id job.RunID) (job.Run, error) {
	var out job.Run
	err := c.repeat(ctx, func() error {
		r, err := c.Run(ctx, id)
		if err != nil {
			return err
		}
		if r.State == job.Cancelled {
			out = r
			return nil
		}
		cancel := func(r job.Run) (job.Run, error) { return r.Cancel(c.now(), "cancelled by "+a.Subject) }
		if r.Version == 0 {
			out, err = c.cancelPending(ctx, a, r, cancel)
			if !errors.Is(err, errArmed) {
				return err
			}
		}
		out, err = c.change(ctx, nil, r, false, func(_ context.Context, _ *job.Job, r job.Run, tx *jobstore.Tx) (job.Run, error) {
			next, err := cancel(r)
			if err == nil && !reflect.DeepEqual(next, r) {
				tx.Audit = c.audit(a, c.now(), "run.cancel", string(id), "")
			}
			return next, err
		})
		return err
	})
	if err != nil {
		return job.Run{}, fmt.Errorf("cancel run %s: %w", id, err)
	}
	return out, nil
}

// errArmed means that a run without a record no longer waits: it is put on record
// as cancelled, which its message then meets.
var errArmed = errors.New("the run is about to begin")

func (c *Control) cancelPending(ctx context.Context, a Actor, r job.Run, cancel func(job.Run) (job.Run, error)) (job.Run, error) {
	j, err := c.o.Store.Job(ctx, r.Job)
	if err != nil {
		return job.Run{}, err
	}
	switch _, parts, err := job.ParseRunID(string(r.ID)); {
	case err == nil && c.armed(&j, parts):
		return job.Run{}, errArmed
	case err != nil || !pending(&j, parts):
		return job.Run{}, errAgain
	}
	now := c.now()
	r.NotBefore = r.Nominal
	ended, err := cancel(r)
	if err != nil {
		return job.Run{}, err
	}
	tx := jobstore.Tx{Audit: c.audit(a, now, "run.cancel", string(r.ID), "")}
	p := j.Progress
	p.Pending, p.Wake = time.Time{}, time.Time{}
	if j.Schedule.Recurs() {
		before := j.Progress
		started, err := c.start(ctx, &j, now, r.Nominal)
		if err != nil {
			return job.Run{}, err
		}
		p.Pending, p.Wake = j.Pending, j.Wake
		j.Progress = before
		tx.Triggers, tx.Runs = started.Triggers, started.Runs
	}
	tx.Runs = append(tx.Runs, ended)
	tx.Progress = &jobstore.ProgressWrite{Job: j.ID, Progress: p}
	if err := c.commit(ctx, tx); err != nil {
		if !surelyNot(err) {
			return job.Run{}, errors.Join(errAgain, err)
		}
		return job.Run{}, err
	}
	ended.Version = 1
	return ended, nil
}
