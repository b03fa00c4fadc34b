package jobcontrol

import (
	"context"
	"errors"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/store"
)

// Arm sees to it that the occurrence after a pending one will come: it inserts
// the trigger of step.Pending, then moves the job's progress over the given
// nominal time, with the records of what step skips. j is the job as read; a
// *jobstore.ConflictError means that it, or a run of it, has changed since. A
// trigger whose move failed is acknowledged later without effect.
//
// The occurrence armed over before this one is put on record, SCHEDULED, if its
// run has not begun: so there is never more than one, [job.Progress.Previous],
// that may begin without a record.
func (c *Control) Arm(ctx context.Context, j *job.Job, plan *job.Plan, nominal time.Time, s job.Step) error {
	now := c.now()
	p := j.Progress
	p.Pending, p.Wake = s.Pending, time.Time{}
	var runs []job.Run
	if s.Run {
		var err error
		if runs, err = c.unbegun(ctx, j, now); err != nil {
			return err
		}
		p.Previous = nominal
	}
	if !s.Pending.IsZero() {
		next := NewRun(j, s.Pending)
		due := plan.Due(s.Pending)
		p.Wake = later(due, now)
		row, err := c.trigger(ctx, next, due, string(next.ID))
		if err != nil {
			return err
		}
		err = c.commit(ctx, jobstore.Tx{Triggers: []*store.Row{row}})
		if err != nil && !jobstore.Conflict(err, jobstore.PartTrigger) {
			return err
		}
	}
	err := c.commit(ctx, jobstore.Tx{
		Progress: &jobstore.ProgressWrite{Job: j.ID, Progress: p}, Runs: append(runs, skipRuns(j, now, s.Skips)...),
	})
	if err != nil {
		return err
	}
	p.Seq++
	j.Progress = p
	return nil
}

// unbegun returns the run of the occurrence armed over last if it has no record.
func (c *Control) unbegun(ctx context.Context, j *job.Job, now time.Time) ([]job.Run, error) {
	if j.Previous.IsZero() {
		return nil, nil
	}
	r := NewRun(j, j.Previous)
	if _, err := c.o.Store.Run(ctx, r.ID); !errors.Is(err, jobstore.ErrNotFound) {
		return nil, err
	}
	r.Wake = now // should its message be lost too
	return []job.Run{r}, nil
}

// Begin leases a run. lease applies [job.Run.Lease] and what may come before it;
// Begin adds the overlap claim of a job that has one. What is returned is RUNNING
// if the lease was won; else the run was ended, skipped, or waits for the one
// that holds the claim, and its message is done.
//
// Nothing of an old generation begins: an edit puts the pending occurrence and
// the previous one on record, which a run without a record meets as a conflict;
// for one that is on record and has not begun, the generation is a condition.
func (c *Control) Begin(ctx context.Context, j *job.Job, run job.Run, lease func(*job.Job, job.Run) (job.Run, error)) (job.Run, error) {
	return c.change(ctx, j, run, true, func(ctx context.Context, j *job.Job, r job.Run, tx *jobstore.Tx) (job.Run, error) {
		next, err := lease(j, r)
		if err != nil || next.State != job.Running {
			return next, err
		}
		if r.Kind == job.Occurrence && claims(j) {
			if next, err = c.claim(ctx, j, r, next, tx); err != nil {
				return r, err
			}
		}
		if r.Kind == job.Occurrence && r.State == job.Scheduled && r.Version > 0 && tx.Progress == nil {
			tx.Guard = &jobstore.Guard{Job: j.ID, Generation: j.Generation}
		}
		return next, nil
	})
}

// claims reports whether a job's occurrences run one at a time.
func claims(j *job.Job) bool { return j.Overlap == job.OverlapSkip || j.Overlap == job.OverlapQueue }

// claim takes the job's overlap claim for a run about to begin. Where another
// holds it, the run is skipped, or waits if none does yet.
func (c *Control) claim(ctx context.Context, j *job.Job, r, leased job.Run, tx *jobstore.Tx) (job.Run, error) {
	if j.Active == r.ID {
		return leased, nil
	}
	held := false
	if j.Active != "" {
		active, err := c.o.Store.Run(ctx, j.Active)
		if err != nil && !errors.Is(err, jobstore.ErrNotFound) {
			return r, err
		}
		held = err == nil && !active.State.Terminal()
	}
	p := j.Progress
	switch {
	case !held:
		p.Active = r.ID
		if p.Waiting == r.ID {
			p.Waiting = ""
		}
	case r.State != job.Scheduled:
		return leased, nil // begun before the job had a policy
	case j.Overlap == job.OverlapQueue && p.Waiting == r.ID:
		return r, nil
	case j.Overlap == job.OverlapQueue && p.Waiting == "":
		p.Waiting = r.ID
		r.Wake, r.Reason = time.Time{}, "waits for "+string(j.Active)
		leased = r
	default:
		return r.Skip(c.now(), "overlap with "+string(j.Active))
	}
	tx.Progress = &jobstore.ProgressWrite{Job: j.ID, Progress: p}
	return leased, nil
}

// Wake inserts a new trigger for a run whose message must have been lost, and
// notes when to look again.
func (c *Control) Wake(ctx context.Context, j *job.Job, run job.Run, again time.Time) error {
	row, err := c.trigger(ctx, run, c.now(), "")
	if err != nil {
		return err
	}
	tx := jobstore.Tx{Triggers: []*store.Row{row}}
	if run.Version == 0 {
		p := j.Progress
		p.Wake = again
		tx.Progress = &jobstore.ProgressWrite{Job: j.ID, Progress: p}
	} else {
		run.Wake = again
		tx.Runs = []job.Run{run}
	}
	return c.commit(ctx, tx)
}

// Watch notes when to look at a run again.
func (c *Control) Watch(ctx context.Context, run job.Run, again time.Time) error {
	run.Wake = again
	return c.commit(ctx, jobstore.Tx{Runs: []job.Run{run}})
}

// Sleep inserts another trigger for a pending occurrence whose time lies further
// ahead than a trigger can.
func (c *Control) Sleep(ctx context.Context, run job.Run, due time.Time) error {
	row, err := c.trigger(ctx, run, due, "")
	if err != nil {
		return err
	}
	return c.commit(ctx, jobstore.Tx{Triggers: []*store.Row{row}})
}
