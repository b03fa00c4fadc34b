package jobcontrol

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// IdempotencyRequest asks for the answer of a create to be kept with it.
type IdempotencyRequest struct {
	Key      string
	BodyHash [32]byte
	// Answer makes the answer to be kept.
	Answer func(job.Job) (status int, body []byte)
}

// KeepAnswers is how long the answer to an Idempotency-Key is kept.
const KeepAnswers = 24 * time.Hour

// Create stores a job, its defaults filled in and validated, with the trigger of
// its first occurrence. A *jobstore.ConflictError of PartIdempotency means that
// the key has been used: read the kept answer.
func (c *Control) Create(ctx context.Context, a Actor, spec job.Spec, idem *IdempotencyRequest) (job.Job, error) {
	now := c.now()
	j := job.Job{
		ID: c.o.NewID(), Spec: spec, Status: job.JobIsActive, Generation: 1, Created: now, Updated: now, Version: 1,
	}
	tx, err := c.start(ctx, &j, now, time.Time{})
	if err != nil {
		return job.Job{}, fmt.Errorf("create job: %w", err)
	}
	tx.Create = &j
	tx.Audit = c.audit(a, now, "job.create", j.ID.String(), "")
	if idem != nil {
		status, body := idem.Answer(j)
		tx.Idempotency = &jobstore.Idempotency{
			Tenant: spec.Tenant, Key: idem.Key, BodyHash: idem.BodyHash, Status: status, Answer: body,
			Expires: now.Add(KeepAnswers),
		}
	}
	err = c.repeat(ctx, func() error {
		err := c.commit(ctx, tx)
		if err == nil {
			return nil
		}
		// The answer of an earlier attempt may have been lost.
		if got, readErr := c.o.Store.Job(ctx, j.ID); readErr == nil {
			j = got
			return nil
		}
		if jobstore.Conflict(err, jobstore.PartIdempotency) {
			return &usedError{err}
		}
		if !surelyNot(err) {
			return errors.Join(errAgain, err)
		}
		return err
	})
	if used, ok := errors.AsType[*usedError](err); ok {
		err = used.error
	}
	if err != nil {
		return job.Job{}, fmt.Errorf("create job: %w", err)
	}
	return j, nil
}

// usedError keeps repeat from repeating a conflict.
type usedError struct{ error }

// start sets the first occurrence after an instant as pending (a job that runs
// once: its time), and returns a transaction with its trigger and gap records.
func (c *Control) start(ctx context.Context, j *job.Job, now, after time.Time) (jobstore.Tx, error) {
	var tx jobstore.Tx
	j.Progress = job.Progress{Active: j.Active, Waiting: j.Waiting, Seq: j.Seq}
	plan, err := j.Plan()
	if err != nil {
		return tx, err
	}
	if after.IsZero() {
		after = now
	}
	first, skips := plan.First(after)
	tx.Runs = skipRuns(j, now, skips)
	if first.IsZero() {
		return tx, nil
	}
	due := plan.Due(first)
	j.Pending, j.Wake = first, later(due, now)
	row, err := c.trigger(ctx, NewRun(j, first), due, "")
	if err != nil {
		return tx, err
	}
	tx.Triggers = append(tx.Triggers, row)
	return tx, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Edit changes a job by a function that may set its Spec and switch its Status
// between active and paused; ifVersion, unless 0, must be the job's version. What
// waits of the old schedule does not start any more; what has begun goes on, and
// its further attempts use the new target. change may be called several times.
func (c *Control) Edit(ctx context.Context, a Actor, id trigger.ID, ifVersion int64, change func(*job.Job) error) (job.Job, error) {
	j, err := c.edit(ctx, a, id, ifVersion, change)
	if err != nil {
		return job.Job{}, fmt.Errorf("edit job %s: %w", id, err)
	}
	return j, nil
}

// Delete marks a job deleted: nothing of it starts any more, runs in RETRY
// are CANCELLED, running ones are asked to stop.
func (c *Control) Delete(ctx context.Context, a Actor, id trigger.ID, ifVersion int64) (job.Job, error) {
	j, err := c.edit(ctx, a, id, ifVersion, func(j *job.Job) error {
		j.Status = job.JobIsDeleted
		return nil
	})
	if err != nil {
		return job.Job{}, fmt.Errorf("delete job %s: %w", id, err)
	}
	return j, nil
}

func (c *Control) edit(ctx context.Context, a Actor, id trigger.ID, ifVersion int64, change func(*job.Job) error) (job.Job, error) {
	var out job.Job
	var wrote *job.Job // what an attempt without an answer wrote
	err := c.repeat(ctx, func() error {
		before, err := c.o.Store.Job(ctx, id)
		if err != nil {
			return err
		}
		if wrote != nil && before.Version == wrote.Version && before.Updated.Equal(wrote.Updated) && before.Generation == wrote.Generation {
			out = before
			return nil
		}
		switch {
		case before.Status == job.JobIsDeleted:
			return ErrDeleted
		case ifVersion != 0 && before.Version != ifVersion:
			return &VersionError{Version: before.Version}
		}
		next := before
		if err := change(&next); err != nil {
			return err
		}
		edits := editsOf(&before, &next)
		if len(edits) == 0 && reflect.DeepEqual(before.Spec, next.Spec) {
			out = before
			return nil
		}
		tx, err := c.edited(ctx, &before, &next, edits)
		if err != nil {
			return err
		}
		tx.Audit = c.audit(a, next.Updated, action(edits), id.String(), fields(&before.Spec, &next.Spec))
		if err := c.commit(ctx, tx); err != nil {
			if !surelyNot(err) {
				wrote = &next
				return errors.Join(errAgain, err)
			}
			return err
		}
		out = next
		out.Seq++
		return nil
	})
	return out, err
}

// surelyNot reports whether an error of a commit means that nothing was applied.
func surelyNot(err error) bool {
	var conflict *jobstore.ConflictError
	return errors.As(err, &conflict) || errors.Is(err, jobstore.ErrBusy) || errors.Is(err, jobstore.ErrTooLarge)
}

// editsOf returns what an edit does to the job's generation.
func editsOf(before, next *job.Job) []job.Edit {
	var edits []job.Edit
	if next.Status == job.JobIsDeleted {
		return []job.Edit{job.Delete}
	}
	if !reflect.DeepEqual(before.Schedule, next.Schedule) || !reflect.DeepEqual(before.Tolerance, next.Tolerance) {
		edits = append(edits, job.Schedule)
	}
	switch {
	case before.Status == job.JobIsActive && next.Status == job.JobIsPaused:
		edits = append(edits, job.Pause)
	case before.Status == job.JobIsPaused && next.Status == job.JobIsActive:
		edits = append(edits, job.Resume)
	}
	return edits
}

func action(edits []job.Edit) string {
	if len(edits) == 0 {
		return "job.edit"
	}
	return "job." + string(edits[len(edits)-1])
}

// fields names what differs between two specs.
func fields(a, b *job.Spec) string {
	var names []string
	va, vb := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range va.NumField() {
		if !reflect.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			names = append(names, va.Type().Field(i).Name)
		}
	}
	return strings.Join(names, " ")
}

// edited composes what an edit writes.
func (c *Control) edited(ctx context.Context, before, next *job.Job, edits []job.Edit) (jobstore.Tx, error) {
	now := c.now()
	next.Version, next.Updated = before.Version+1, now
	if len(edits) == 0 {
		return jobstore.Tx{Edit: next}, nil
	}
	status, generation := before.Status, before.Generation
	for _, e := range edits {
		status, generation, _ = e.Apply(status, generation)
	}
	next.Status, next.Generation = status, generation
	last := edits[len(edits)-1]
	ended, err := c.overtaken(ctx, before, now, last)
	if err != nil {
		return jobstore.Tx{}, err
	}
	var tx jobstore.Tx
	next.Progress = job.Progress{Active: before.Active, Seq: before.Seq}
	starts := status == job.JobIsActive
	if !next.Schedule.Recurs() && reflect.DeepEqual(before.Schedule, next.Schedule) {
		// It has run or was cancelled, or its time passed while it was paused.
		starts = starts && (!before.Pending.IsZero() || (last == job.Resume && next.Schedule.At.After(now)))
	}
	if starts {
		if tx, err = c.start(ctx, next, now, now); err != nil {
			return tx, err
		}
	}
	tx.Edit = next
	tx.Runs = append(tx.Runs, ended...)
	return tx, nil
}

// overtaken returns the runs that an edit ends: the occurrence that waits, the
// one before it if its message was seen but no attempt has begun, the one that
// waits for another to end; after a deletion also what is in RETRY.
func (c *Control) overtaken(ctx context.Context, j *job.Job, now time.Time, e job.Edit) ([]job.Run, error) {
	var out []job.Run
	for _, nominal := range []time.Time{j.Pending, j.Previous} {
		if nominal.IsZero() {
			continue
		}
		r := NewRun(j, nominal)
		switch _, err := c.o.Store.Run(ctx, r.ID); {
		case errors.Is(err, jobstore.ErrNotFound):
			out = append(out, r.Edited(now, e))
		case err != nil:
			return nil, err
		}
	}
	page, err := c.o.Store.Runs(ctx, jobstore.RunQuery{Job: j.ID, Limit: 50})
	if err != nil {
		return nil, err
	}
	var ids []job.RunID
	if j.Waiting != "" {
		ids = append(ids, j.Waiting) // nobody wakes it later, and the list may be behind
	}
	for _, listed := range page.Items {
		ofSchedule := listed.Kind == job.Occurrence
		if !listed.State.Terminal() && (ofSchedule || e == job.Delete) && listed.Kind != job.Notice && listed.ID != j.Waiting {
			ids = append(ids, listed.ID)
		}
	}
	for _, id := range ids {
		r, err := c.o.Store.Run(ctx, id)
		if errors.Is(err, jobstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if changed := r.Edited(now, e); !reflect.DeepEqual(changed, r) {
			out = append(out, changed)
		}
	}
	return out, nil
}
