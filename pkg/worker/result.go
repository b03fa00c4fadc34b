package worker

import (
	"errors"
	"fmt"
	"time"
)

// Causes with which a handler's context ends; see [context.Cause].
var (
	// ErrTimeout: Options.Timeout has passed.
	ErrTimeout = errors.New("handler timeout")
	// ErrLost: the message's receipt is no longer valid, so another consumer
	// may be handling it now.
	ErrLost = errors.New("message lost: its receipt is no longer valid")
	// ErrTooOld: the message was held for Options.MaxAge; the queue will not
	// hide it much longer.
	ErrTooOld = errors.New("message held too long: the queue's ceiling is near")
	// ErrStopping: the worker stops and its grace period is nearly over.
	ErrStopping = errors.New("worker is stopping")
)

// ErrUnknownName is what a job ends with when its name has no handler and there
// is no default. It is retried, since another version may have one.
var ErrUnknownName = errors.New("no handler for the job name")

// AttrReason is the attribute of a dead-lettered message that says why. SQS
// allows ten attributes: where the message has ten, the reason takes the place
// of traceparent, and where it has none either, it is only logged.
const AttrReason = "Myosin-Reason"

// PayloadError is a payload that does not decode into the handler's type. It
// is retried; middleware may turn it into [DeadLetter].
type PayloadError struct{ Err error }

// Error implements error. Texts of encoding/json name types and offsets, not values.
func (e *PayloadError) Error() string { return "decode payload: " + e.Err.Error() }

// Unwrap returns the decoder's error.
func (e *PayloadError) Unwrap() error { return e.Err }

// PanicError is a panic of a handler or middleware.
type PanicError struct {
	Value any
	Stack []byte
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

type retryError struct {
	after time.Duration
	err   error
}

func (e *retryError) Error() string { return fmt.Sprintf("retry in %s: %v", e.after, e.err) }
func (e *retryError) Unwrap() error { return e.err }

// RetryAfter is a result that makes the message visible again after d (rounded
// up to whole seconds; at most what is left of 12 h) instead of the backoff.
// The receive counts towards maxReceiveCount all the same.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		err = errors.New("retry asked for")
	}
	return &retryError{after: max(d, 0), err: err}
}

type dropError struct{ reason string }

func (e *dropError) Error() string { return "dropped: " + e.reason }

// Drop is a result that deletes the message, with a log line.
func Drop(reason string) error { return &dropError{reason} }

type deadLetterError struct {
	reason    string
	malformed bool
}

func (e *deadLetterError) Error() string { return "dead-lettered: " + e.reason }

// DeadLetter is a result that gives the message up: it goes to
// Options.DeadLetterURL at once.
func DeadLetter(reason string) error { return &deadLetterError{reason: reason} }

// outcomes label the metric of handled messages.
const (
	outcomeDone         = "done"
	outcomeRetried      = "retried"
	outcomePanicked     = "panicked"
	outcomeUnknown      = "unknown_name"
	outcomeDropped      = "dropped"
	outcomeDeadLettered = "dead_lettered"
	outcomeMalformed    = "malformed"
	outcomeInterrupted  = "interrupted"
	outcomeLost         = "lost"
)

type action uint8

const (
	actDelete action = iota
	actRetry
	actBury
	actRelease // visible at once
	actForget
)

// verdict is what becomes of a message.
type verdict struct {
	action  action
	outcome string
	after   time.Duration // actRetry
	reason  string        // actBury, and drops
}

// judge maps a handler's result. lost: the receipt is known to be invalid.
// interrupted: the context was cancelled by a stop. backoff is the usual delay.
func (w *Worker) judge(err error, lost, interrupted bool, backoff time.Duration) verdict {
	var (
		retry *retryError
		drop  *dropError
		dead  *deadLetterError
		pan   *PanicError
	)
	v := verdict{action: actRetry, outcome: outcomeRetried}
	switch {
	case err == nil:
		// Also when lost: a standard queue may still honour the old receipt.
		return verdict{action: actDelete, outcome: outcomeDone}
	case errors.As(err, &drop):
		return verdict{action: actDelete, outcome: outcomeDropped, reason: drop.reason}
	case lost:
		return verdict{action: actForget, outcome: outcomeLost}
	case errors.As(err, &dead):
		v.outcome, v.reason = outcomeDeadLettered, dead.reason
		if dead.malformed {
			v.outcome = outcomeMalformed
		}
		if w.opts.DeadLetterURL != "" {
			v.action = actBury
			return v
		}
	case errors.As(err, &retry):
		v.after = retry.after
		return v
	case interrupted:
		return verdict{action: actRelease, outcome: outcomeInterrupted}
	case errors.As(err, &pan):
		v.outcome = outcomePanicked
	case errors.Is(err, ErrUnknownName):
		v.outcome = outcomeUnknown
	}
	v.after = backoff
	return v
}
