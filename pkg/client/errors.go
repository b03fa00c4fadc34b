package client

import (
	"errors"
	"fmt"
	"time"
)

// Errors a caller may branch on, with errors.Is. Faults of a submission are
// [*trigger.FieldError], found with errors.As; an unknown service is one for
// the field service that also wraps registry.ErrUnknown.
var (
	// ErrUncertain: the submission may have been accepted or not; no answer came.
	// Repeat it with the same Key, or cancel it by the handle returned beside
	// this error.
	ErrUncertain = errors.New("submission may or may not have been accepted")
	// ErrNotFound: no row of this service lies where the handle points. It may
	// not have been stored yet, or it has been delivered.
	ErrNotFound = errors.New("trigger not found")
	// ErrNotStored: there is nothing to move. The submission was not stored yet:
	// try again in a moment, unless the due time is past: then it was delivered.
	ErrNotStored = errors.New("trigger is not stored yet, or was delivered")
	// ErrPaused: the service is paused, and a direct message would not be held back.
	ErrPaused = errors.New("service is paused")
	// ErrNoTriggers: the client was made without Options.Triggers.
	ErrNoTriggers = errors.New("client has no Triggers: set Options.Triggers to look up, move or cancel")
)

// ConflictError says that a trigger is in a state that does not allow what was asked.
type ConflictError struct {
	// State is what stood in the way: one of the names of [trigger.Kind], such
	// as "acquired" or "cancelled".
	State string
	// Due is the due time of the row in that state.
	Due time.Time
	// Taken: the row in the way is another one, under the due time asked for.
	Taken bool
}

// Error implements error.
func (e *ConflictError) Error() string {
	if e.Taken {
		return fmt.Sprintf("another trigger of this id is due at that time: it is %s", e.State)
	}
	return fmt.Sprintf("trigger is %s", e.State)
}
