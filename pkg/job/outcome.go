package job

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Retry says how often and when a failed run is tried again.
type Retry struct {
	MaxAttempts int           // 1 to 100; crashes are not counted
	Base        time.Duration // first bound of the wait, 1 ms to Max
	Max         time.Duration // largest wait, Retry-After included; at most 24 h
	Also        []int         // 4xx codes that are tried again, never 410
}

const (
	maxAttemptsLimit = 100
	minBase          = time.Millisecond
	maxWait          = 24 * time.Hour
)

// Validate joins one error per field out of its limits.
func (r Retry) Validate() error {
	var errs []error
	if r.MaxAttempts < 1 || r.MaxAttempts > maxAttemptsLimit {
		errs = append(errs, fmt.Errorf("retry.max_attempts: %d; want 1 to %d", r.MaxAttempts, maxAttemptsLimit))
	}
	if r.Max < minBase || r.Max > maxWait {
		errs = append(errs, fmt.Errorf("retry.max: %s; want %s to %s", r.Max, minBase, maxWait))
	}
	if r.Base < minBase || r.Base > r.Max {
		errs = append(errs, fmt.Errorf("retry.base: %s; want %s to retry.max (%s)", r.Base, minBase, r.Max))
	}
	for i, code := range r.Also {
		if code < 400 || code > 499 || code == 410 {
			errs = append(errs, fmt.Errorf("retry.also[%d]: %d; want 400 to 499 and not 410", i, code))
		}
	}
	return errors.Join(errs...)
}

// ErrKind says what went wrong with a call; the values are those of pkg/target.
type ErrKind string

// The kinds of error. Judge by kind first: a code may have arrived before it.
const (
	ErrNone      ErrKind = ""
	ErrInvalid   ErrKind = "invalid"
	ErrRefused   ErrKind = "refused"
	ErrDNS       ErrKind = "dns"
	ErrConnect   ErrKind = "connect"
	ErrTLS       ErrKind = "tls"
	ErrTimeout   ErrKind = "timeout"
	ErrReset     ErrKind = "reset"
	ErrHeaders   ErrKind = "headers_too_large"
	ErrProtocol  ErrKind = "protocol"
	ErrCancelled ErrKind = "cancelled"
)

// Verdict is what a call's end means for its run.
type Verdict string

// The verdicts.
const (
	// VerdictSuccess ends the run well.
	VerdictSuccess Verdict = "success"
	// VerdictAccepted (202): the target goes on and completes the run itself.
	VerdictAccepted Verdict = "accepted"
	// VerdictRetry counts a failure; the run is tried again while attempts last.
	VerdictRetry Verdict = "retry"
	// VerdictDead ends the run at once.
	VerdictDead Verdict = "dead"
	// VerdictDeadPause (410) ends the run and pauses its job.
	VerdictDeadPause Verdict = "dead_pause"
	// VerdictNone: the runner itself was stopped, which says nothing of the
	// target. Nothing is written; the lease expires.
	VerdictNone Verdict = "none"
)

// Judge applies the outcome table of the contract. A kind or code that the
// table does not know is tried again, for it may be passing.
func (r Retry) Judge(code int, kind ErrKind) Verdict {
	switch kind {
	case ErrNone:
	case ErrInvalid, ErrRefused:
		return VerdictDead
	case ErrCancelled:
		return VerdictNone
	default:
		return VerdictRetry
	}
	switch {
	case code == 202:
		return VerdictAccepted
	case code >= 200 && code <= 299:
		return VerdictSuccess
	case code == 410:
		return VerdictDeadPause
	case code == 429, slices.Contains(r.Also, code):
		return VerdictRetry
	case code >= 300 && code <= 499:
		return VerdictDead
	default:
		return VerdictRetry
	}
}

// Wait returns how long to wait before the next attempt after so many failures
// (the one just counted excluded): full jitter, a share of base × 2^failures
// capped at Max. jitter is in [0, 1). A Retry-After is a floor, itself capped
// at Max; zero means none.
// Source of full jitter: AWS Architecture Blog, "Exponential Backoff And Jitter".
func (r Retry) Wait(failures int, retryAfter time.Duration, jitter float64) time.Duration {
	if !(jitter >= 0) { // NaN too
		jitter = 0
	}
	bound := r.Max
	// Beyond 62 doublings anything is past the cap.
	if n := max(failures, 0); n < 62 && r.Base <= r.Max>>n {
		bound = r.Base << n
	}
	wait := time.Duration(float64(bound) * math.Min(jitter, 1))
	return min(max(wait, retryAfter, 0), r.Max)
}
