package jobcontrol

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

// maxExcerpt bounds, in bytes, what an attempt keeps of an answer: a run's
// record is written with every change, and paid for by the kilobyte.
const maxExcerpt = 512

// Change applies one of the rules of package job to a run and writes what must
// change with it. apply is called again on what lies in the store when that has
// changed meanwhile; its error ends the change and is returned as it is. A run
// with version 0 is put only if there is none. j is read when it is nil.
func (c *Control) Change(ctx context.Context, j *job.Job, run job.Run, apply func(job.Run) (job.Run, error)) (job.Run, error) {
	return c.change(ctx, j, run, false, func(_ context.Context, _ *job.Job, r job.Run, _ *jobstore.Tx) (job.Run, error) { return apply(r) })
}

// step is what change does to a run: it returns the next one, and may add to
// the transaction.
type step func(ctx context.Context, j *job.Job, r job.Run, tx *jobstore.Tx) (job.Run, error)

func (c *Control) change(ctx context.Context, j *job.Job, run job.Run, needsJob bool, apply step) (job.Run, error) {
	var wrote *job.Run // what an attempt without an answer may have written
	out := run
	err := c.repeat(ctx, func() error {
		if wrote != nil && sameRun(*wrote, run) {
			out = run
			return nil
		}
		if j == nil && needsJob {
			got, err := c.o.Store.Job(ctx, run.Job)
			if err != nil {
				return err
			}
			j = &got
		}
		var tx jobstore.Tx
		next, err := apply(ctx, j, run, &tx)
		if err != nil || (reflect.DeepEqual(next, run) && tx.Parts() == 0) {
			out = run
			return err
		}
		if j == nil {
			got, err := c.o.Store.Job(ctx, run.Job)
			if err != nil {
				return err
			}
			j = &got
		}
		if err := c.changed(ctx, j, run, &next, &tx); err != nil {
			return err
		}
		err = c.commit(ctx, tx)
		if err == nil {
			out = next
			out.Version++
			return nil
		}
		// A transaction that is repeated below may find its own first try in its way.
		// A lease is not told by its looks, since two may begin in one moment.
		if !surelyNot(err) || next.State != job.Running {
			wrote = &next
		}
		if refreshErr := c.refresh(ctx, &j, &run, err); refreshErr != nil {
			return refreshErr
		}
		return errors.Join(errAgain, err)
	})
	return out, err
}

// refresh reads again what an error of a commit may have been about.
func (c *Control) refresh(ctx context.Context, j **job.Job, run *job.Run, cause error) error {
	if errors.Is(cause, jobstore.ErrBusy) || errors.Is(cause, jobstore.ErrTooLarge) {
		return cause
	}
	if !jobstore.Conflict(cause, jobstore.PartRun) && *j != nil {
		got, err := c.o.Store.Job(ctx, run.Job)
		if err != nil {
			return errors.Join(errAgain, err)
		}
		*j = &got
	}
	got, err := c.o.Store.Run(ctx, run.ID)
	switch {
	case err == nil:
		*run = got
	case errors.Is(err, jobstore.ErrNotFound) && run.Version == 0:
	case errors.Is(err, jobstore.ErrNotFound):
		return err
	default: // what lies there is still not known
		return errors.Join(errAgain, err)
	}
	return nil
}

// sameRun reports whether b is a as the store wrote it.
func sameRun(a, b job.Run) bool {
	return b.Version == a.Version+1 && a.State == b.State && a.Attempt == b.Attempt && a.Failures == b.Failures &&
		a.Crashes == b.Crashes && a.Deferrals == b.Deferrals && a.LeaseUntil.Equal(b.LeaseUntil) &&
		a.NotBefore.Equal(b.NotBefore) && a.Accepted == b.Accepted && a.CancelRequested == b.CancelRequested && a.Redriven == b.Redriven
}

// changed composes what goes with a run's change.
func (c *Control) changed(ctx context.Context, j *job.Job, before job.Run, next *job.Run, tx *jobstore.Tx) error {
	now := c.now()
	for i := range next.Attempts {
		next.Attempts[i].Excerpt = cut(next.Attempts[i].Excerpt, maxExcerpt)
	}
	wake := func(at time.Time) error {
		row, err := c.trigger(ctx, *next, at, "")
		if err == nil {
			next.Wake = later(at, now)
			tx.Triggers = append(tx.Triggers, row)
		}
		return err
	}
	var err error
	switch {
	case next.State == job.Retrying && (before.State != job.Retrying || !next.NotBefore.Equal(before.NotBefore)):
		err = wake(next.NotBefore)
	case next.State == job.Scheduled && next.Deferrals > before.Deferrals:
		err = wake(next.NotBefore)
	case next.Accepted && !before.Accepted:
		err = wake(next.LeaseUntil)
	case next.State.Terminal() && !before.State.Terminal():
		err = c.ended(ctx, j, now, next, tx)
	}
	tx.Runs = append([]job.Run{*next}, tx.Runs...)
	return err
}

// ended adds what a run's end brings: the overlap claim goes to the run that
// waits for it, and the owner of a dead one is told.
func (c *Control) ended(ctx context.Context, j *job.Job, now time.Time, r *job.Run, tx *jobstore.Tx) error {
	if r.Kind == job.Occurrence && (claims(j) || j.Active == r.ID || j.Waiting == r.ID) {
		// Whoever ends a run may have read its job long ago.
		got, err := c.o.Store.Job(ctx, r.Job)
		if err != nil {
			return err
		}
		j = &got
	}
	if j.Active == r.ID || j.Waiting == r.ID {
		p := j.Progress
		if j.Waiting == r.ID {
			p.Waiting = ""
		} else {
			p.Active, p.Waiting = j.Waiting, ""
			if err := c.wakeWaiting(ctx, j.Waiting, now, tx); err != nil {
				return err
			}
		}
		tx.Progress = &jobstore.ProgressWrite{Job: j.ID, Progress: p}
	}
	if r.State != job.Dead || r.Kind == job.Notice {
		return nil
	}
	r.Payload = j.Payload
	if r.Call != nil {
		r.Payload = r.Call.Payload
	}
	return c.notice(ctx, j, now, *r, tx)
}

func (c *Control) wakeWaiting(ctx context.Context, id job.RunID, now time.Time, tx *jobstore.Tx) error {
	if id == "" {
		return nil
	}
	w, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return fmt.Errorf("run %s that waits: %w", id, err)
	}
	if w.State.Terminal() {
		return nil
	}
	row, err := c.trigger(ctx, w, now, "")
	if err != nil {
		return err
	}
	w.Wake, w.Reason = now, ""
	tx.Runs = append(tx.Runs, w)
	tx.Triggers = append(tx.Triggers, row)
	return nil
}

// notice adds the run that tells a dead run's owner.
func (c *Control) notice(ctx context.Context, j *job.Job, now time.Time, dead job.Run, tx *jobstore.Tx) error {
	to := j.Notify
	if to.IsZero() {
		t, err := c.o.Store.Tenant(ctx, j.Tenant)
		if err != nil && !errors.Is(err, jobstore.ErrNotFound) {
			return fmt.Errorf("tenant %s: %w", j.Tenant, err)
		}
		to = t.Contact
	}
	if to.IsZero() {
		return nil
	}
	call := noticeCall(j, dead, to, c.o.RunURL)
	n := job.Run{
		ID: dead.ID.Notice(), Job: j.ID, Tenant: j.Tenant, Kind: job.Notice, Generation: dead.Generation,
		Nominal: now, State: job.Scheduled, Call: &call, Wake: now, OriginalID: "",
	}
	row, err := c.trigger(ctx, n, now, "")
	if err != nil {
		return err
	}
	tx.Runs = append(tx.Runs, n)
	tx.Triggers = append(tx.Triggers, row)
	return nil
}

func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && s[limit]&0xc0 == 0x80 {
		limit--
	}
	return s[:limit]
}

// RetryOf is the policy a run is tried by: its job's, or the default for a notice.
func RetryOf(j *job.Job, r job.Run) job.Retry {
	if r.Kind == job.Notice {
		return job.DefaultRetry()
	}
	return j.Retry
}
