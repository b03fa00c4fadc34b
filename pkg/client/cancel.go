package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Cancel tries to keep a trigger from being delivered. It may be called for a
// trigger that is not stored yet: the tombstone it leaves keeps the late insert
// out. What it answers, by what lies under the trigger's key:
//
//	S              → C    cancelled
//	S!             → C!   too late to be sure: an earlier attempt may have arrived
//	A              left   being delivered
//	D              left   dead
//	C, moved               go on at the new due time
//	C, C!          left   cancelled, too late to be sure
//	no row         → C! → C  cancelled; or → C!, too late to be sure
//
// A write that loses its race looks again; another service's row is
// [ErrNotFound] and stays as it is.
//
// Where no row is, it may be that none was stored yet, or that the trigger was
// delivered and its row is gone. Nothing is delivered before its time, so a
// tombstone that the table's own clock puts three seconds or more before the
// due time proves that it will never be. The tombstone is C! at first and
// becomes C only after that proof: whoever finds C may trust it, wherever the
// one who left it has died in between, and a repeat finds C! and can still
// prove it. A trigger with a keyed id may lie under the key of each partition
// count; all of them get a tombstone before anything is claimed.
func (t *Table) Cancel(ctx context.Context, h trigger.Handle) (CancelResult, error) {
	var result CancelResult
	err := t.repeat(ctx, func() error {
		f, err := t.find(ctx, h)
		if err != nil {
			return err
		}
		result, err = t.cancel(ctx, f)
		return err
	})
	if err != nil {
		return CancelResult{}, fmt.Errorf("cancel %s: %w", h.ID, err)
	}
	return result, nil
}

// cancel acts on what was found. errAgain asks for another look.
func (t *Table) cancel(ctx context.Context, f found) (CancelResult, error) {
	if f.row == nil || unproven(f.row) {
		return t.leave(ctx, f)
	}
	answer := func(o Outcome, s trigger.State) CancelResult {
		return CancelResult{Outcome: o, State: s.Kind().String(), Due: f.at.Due}
	}
	state := f.row.State
	to, outcome := trigger.StateCancelled, OutcomeCancelled
	switch state.Kind() {
	case trigger.Acquired:
		return answer(OutcomeBeingDelivered, state), nil
	case trigger.Dead:
		return answer(OutcomeDead, state), nil
	case trigger.Cancelled:
		return answer(OutcomeCancelled, state), nil
	case trigger.CancelledLate:
		return answer(OutcomeTooLate, state), nil
	case trigger.Scheduled:
	case trigger.MaybeSent:
		to, outcome = trigger.StateCancelledLate, OutcomeTooLate
	default:
		return CancelResult{}, &ConflictError{State: state.Describe(), Due: f.at.Due}
	}
	expires := later(t.now(), f.at.Due).Add(keepCancelled)
	switch res := t.store.Cancel(ctx, f.at.Key(), state, to, expires); {
	case errors.Is(res.Err, store.ErrConflict):
		return CancelResult{}, errAgain
	case res.Err != nil:
		return CancelResult{}, res.Err
	case len(f.places) > 1:
		// Look again: only once no place holds a row that can move is it over.
		return CancelResult{}, errAgain
	}
	return answer(outcome, to), nil
}

// leave puts a tombstone at every place of a trigger without a row.
func (t *Table) leave(ctx context.Context, f found) (CancelResult, error) {
	due := f.at.Due
	expires := later(t.now(), due).Add(keepUnstored)
	inTime := true
	for _, place := range f.places {
		date, res := t.store.PutTombstone(ctx, place, trigger.StateCancelledLate, expires)
		switch {
		case res.Err == nil:
		case !errors.Is(res.Err, store.ErrConflict):
			return CancelResult{}, res.Err
		case res.Found == nil || res.Found.Service != place.Service || moved(res.Found):
			return CancelResult{}, errAgain
		case unproven(res.Found) || res.Found.State == trigger.StateCancelled:
			// Left by another cancel, or by this one whose reply was lost.
		default:
			return CancelResult{}, errAgain
		}
		inTime = inTime && t.sure(date, due)
	}
	if !inTime {
		return CancelResult{Outcome: OutcomeTooLate, State: trigger.CancelledLate.String(), Due: due}, nil
	}
	t.prove(ctx, f.places, expires)
	return CancelResult{Outcome: OutcomeCancelled, State: trigger.Cancelled.String(), Due: due}, nil
}

// sure reports whether a tombstone left when the table's clock showed date came
// early enough. Without a date the local clock must do, with more to spare.
func (t *Table) sure(date, due time.Time) bool {
	if date.IsZero() {
		return t.now().Add(sureBefore + ownMargin).Before(due)
	}
	return date.Add(sureBefore).Before(due)
}

// prove turns C! into C for those who look later. What the caller is told is
// true without it, so a failure is no error: the next cancel proves it again.
func (t *Table) prove(ctx context.Context, places []trigger.Handle, expires time.Time) {
	for _, place := range places {
		_ = t.repeat(ctx, func() error {
			res := t.store.SetState(ctx, place.Key(), trigger.StateCancelledLate, trigger.StateCancelled, expires)
			if errors.Is(res.Err, store.ErrConflict) {
				return nil // proven by another
			}
			return res.Err
		})
	}
}
