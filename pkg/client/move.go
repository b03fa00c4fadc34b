package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Reschedule moves a trigger to another due time, in one transaction: at every
// moment there is the old row or the new one. Only a scheduled trigger that was
// certainly never sent can be moved; any other state is a [*ConflictError]. A
// trigger without a row gives [ErrNotStored]. To the time it has, it is no
// change. The id stays; both handles find the trigger afterwards.
func (t *Table) Reschedule(ctx context.Context, h trigger.Handle, due time.Time) (Scheduled, error) {
	due = wholeMillis(due)
	var from *found // where a move was tried whose outcome is unknown
	var moved Scheduled
	err := t.repeat(ctx, func() error {
		if from != nil {
			done, err := t.movedTo(ctx, from.at, due)
			if err != nil {
				return err
			}
			if done {
				next := from.row.Trigger
				next.Due = due
				moved = scheduledOf(&next)
				return nil
			}
		}
		f, err := t.find(ctx, h)
		switch {
		case err != nil:
			return err
		case f.row == nil:
			return ErrNotStored
		case f.row.State != trigger.StateScheduled:
			return &ConflictError{State: f.row.State.Kind().String(), Due: f.row.Due}
		case f.row.Due.Equal(due):
			moved = scheduledOf(&f.row.Trigger)
			return nil
		}
		next := *f.row
		next.Due = due
		if err := next.Validate(t.now()); err != nil {
			return err
		}
		moved = scheduledOf(&next.Trigger)
		unknown, err := t.move(ctx, &f, &next)
		if unknown {
			from = &f
		}
		return err
	})
	if err != nil {
		return Scheduled{}, fmt.Errorf("reschedule %s: %w", h.ID, err)
	}
	return moved, nil
}

// DigUp makes a dead trigger due now, under its id. It comes back as one that
// may have been sent before, since nobody knows any more what became of its
// earlier attempts. A trigger in another state gives a [*ConflictError].
func (t *Table) DigUp(ctx context.Context, h trigger.Handle) (Scheduled, error) {
	due := wholeMillis(t.now())
	var from *found
	var risen Scheduled
	err := t.repeat(ctx, func() error {
		if from != nil {
			done, err := t.movedTo(ctx, from.at, due)
			if err != nil || done {
				return err // risen is as it was tried
			}
		}
		f, err := t.find(ctx, h)
		switch {
		case err != nil:
			return err
		case f.row == nil:
			return ErrNotFound
		case f.row.State != trigger.StateDead:
			return &ConflictError{State: f.row.State.Kind().String(), Due: f.row.Due}
		}
		if !due.After(f.row.Due) {
			due = f.row.Due.Add(time.Millisecond)
		}
		next := *f.row
		next.Due, next.State, next.Reason, next.Expires = due, trigger.StateMaybeSent, "", time.Time{}
		risen = scheduledOf(&next.Trigger)
		unknown, err := t.move(ctx, &f, &next)
		if unknown {
			from = &f
		}
		return err
	})
	if err != nil {
		return Scheduled{}, fmt.Errorf("dig up %s: %w", h.ID, err)
	}
	return risen, nil
}

// Dead lists the dead triggers of a service, oldest due first, from behind
// after (nil: from the start); limit 0 means 100. The key returned continues the
// list; nil at its end. The list may be a moment old.
func (t *Table) Dead(ctx context.Context, service string, after *trigger.Key, limit int) ([]TriggerView, *trigger.Key, error) {
	var page store.Page
	err := t.repeat(ctx, func() (err error) {
		page, err = t.store.Dead(ctx, service, after, limit)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list dead triggers of %s: %w", service, err)
	}
	views := make([]TriggerView, len(page.Rows))
	for i := range page.Rows {
		views[i] = ViewOf(&page.Rows[i])
	}
	return views, page.Next, nil
}

// move makes one attempt. unknown means that no answer came: look before
// trying again.
func (t *Table) move(ctx context.Context, f *found, next *store.Row) (unknown bool, err error) {
	expires := later(t.now(), f.row.Due, next.Due).Add(keepCancelled)
	res := t.store.Move(ctx, f.at.Key(), f.row.State, next, expires)
	switch {
	case res.Err == nil:
		return false, nil
	case errors.Is(res.Err, store.ErrThrottled), errors.Is(res.Err, store.ErrInvalid):
		return false, res.Err
	case !errors.Is(res.Err, store.ErrConflict):
		return true, res.Err
	case res.Found != nil && moved(res.Found) && res.Found.MovedTo.Equal(next.Due):
		return false, nil // by this call, whose first answer was lost, or by one that asked the same
	case res.Found != nil && res.Found.State == f.row.State && res.Taken != nil:
		return false, &ConflictError{State: res.Taken.State.Kind().String(), Due: res.Taken.Due, Taken: true}
	}
	return false, errAgain
}

// movedTo reports whether the row at a place has been moved to due.
func (t *Table) movedTo(ctx context.Context, at trigger.Handle, due time.Time) (bool, error) {
	row, err := t.store.Get(ctx, at.Key())
	if err != nil {
		return false, err
	}
	return row != nil && moved(row) && row.MovedTo.Equal(due), nil
}
