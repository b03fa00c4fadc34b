package job

import (
	"fmt"
	"slices"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// State is where a run stands.
type State string

// The states of a run; the last four are final.
const (
	Scheduled State = "SCHEDULED"
	Running   State = "RUNNING"
	Retrying  State = "RETRY"
	Succeeded State = "SUCCEEDED"
	Dead      State = "DEAD"
	Cancelled State = "CANCELLED"
	Skipped   State = "SKIPPED"
)

// Terminal reports whether nothing follows the state.
func (s State) Terminal() bool {
	return s == Succeeded || s == Dead || s == Cancelled || s == Skipped
}

const (
	// LeaseFor is how long a lease lasts without renewal.
	LeaseFor = 30 * time.Second
	// MaxCrashes is the number of crashes that ends a run.
	MaxCrashes = 5
)

// Attempt is the record of one lease.
type Attempt struct {
	Number     int
	Start, End time.Time // End is zero while it runs
	Error      string    // "" where it went well
}

// Run is one occurrence of a job. The methods change no run: each returns the
// next one, or the run as it was and a [ConflictError]. The store writes the next on
// condition that state, generation and attempt are still those of the one before.
type Run struct {
	ID, Job         trigger.ID
	OriginalID      trigger.ID // of a redriven run, else zero
	Generation      int64
	Nominal         time.Time
	State           State
	Attempt         int // leases so far
	Failures        int
	Crashes         int
	LeaseUntil      time.Time
	NotBefore       time.Time
	Accepted        bool // answered 202
	CancelRequested bool
	Reason          string
	Attempts        []Attempt
}

// ConflictKind says why a change was refused.
type ConflictKind string

// The kinds of conflict.
const (
	StaleGeneration ConflictKind = "stale_generation" // acknowledge the message
	StaleMessage    ConflictKind = "stale_message"    // of an earlier failure: acknowledge
	StaleAttempt    ConflictKind = "stale_attempt"    // the lease is another's
	LeaseHeld       ConflictKind = "lease_held"       // come back at Until
	LeaseExpired    ConflictKind = "lease_expired"    // apply Expire first
	TooEarly        ConflictKind = "too_early"        // come back at Until
	IsTerminal      ConflictKind = "terminal"
	WrongState      ConflictKind = "wrong_state"
	JobPaused       ConflictKind = "paused" // apply Skip
	JobDeleted      ConflictKind = "deleted"
)

// ConflictError is the refusal of a change.
type ConflictError struct {
	Kind  ConflictKind
	State State     // of the run
	Until time.Time // with LeaseHeld and TooEarly
}

func (c *ConflictError) Error() string {
	if c.Until.IsZero() {
		return fmt.Sprintf("run is %s: %s", c.State, c.Kind)
	}
	return fmt.Sprintf("run is %s: %s until %s", c.State, c.Kind, c.Until.UTC().Format(time.RFC3339Nano))
}

func (r Run) refuse(kind ConflictKind) (Run, error) {
	if r.State.Terminal() {
		kind = IsTerminal
	}
	return r, &ConflictError{Kind: kind, State: r.State}
}

// NewRun returns the SCHEDULED run of a nominal time.
func NewRun(job trigger.ID, generation int64, nominal time.Time) Run {
	return Run{ID: RunID(job, generation, nominal), Job: job, Generation: generation, Nominal: nominal, State: Scheduled}
}

// JobStatus is whether a job's runs may start.
type JobStatus string

// The statuses of a job.
const (
	JobIsActive  JobStatus = "active"
	JobIsPaused  JobStatus = "paused"
	JobIsDeleted JobStatus = "deleted"
)

// Claim is what a lease is asked with: the message's account of the run and
// the job's state as read.
type Claim struct {
	Generation    int64 // the message's
	Failures      int   // the message's
	JobGeneration int64
	JobStatus     JobStatus
}

// Lease means: SCHEDULED or RETRY → RUNNING with attempt+1. A run in RETRY survives
// an edit and a pause of its job, one that never began does not. The loser sees
// LeaseHeld until the winner's lease ends; over an expired lease the caller
// applies Expire and leases what that returns, in one write.
func (r Run) Lease(now time.Time, c Claim) (Run, error) {
	switch {
	case r.State.Terminal():
		return r.refuse(IsTerminal)
	case c.Generation != r.Generation:
		return r.refuse(StaleGeneration)
	case r.State == Running && now.Before(r.LeaseUntil):
		return r, &ConflictError{Kind: LeaseHeld, State: r.State, Until: r.LeaseUntil}
	case r.State == Running:
		return r.refuse(LeaseExpired)
	case c.Failures != r.Failures:
		return r.refuse(StaleMessage)
	case c.JobStatus == JobIsDeleted:
		return r.refuse(JobDeleted)
	case r.State == Scheduled && c.JobGeneration != r.Generation:
		return r.refuse(StaleGeneration)
	case r.State == Scheduled && c.JobStatus == JobIsPaused:
		return r.refuse(JobPaused)
	case now.Before(r.NotBefore):
		return r, &ConflictError{Kind: TooEarly, State: r.State, Until: r.NotBefore}
	}
	r.State, r.LeaseUntil = Running, now.Add(LeaseFor)
	r.Attempt++
	r.Accepted = false
	r.Attempts = append(slices.Clone(r.Attempts), Attempt{Number: r.Attempt, Start: now})
	return r, nil
}

// held refuses whoever does not hold the run's lease. A late holder whom
// nobody has replaced still holds it: the attempt is the fence, not the clock.
func (r Run) held(attempt int, accepted bool) error {
	kind := WrongState
	switch {
	case r.State.Terminal():
		kind = IsTerminal
	case attempt != r.Attempt:
		kind = StaleAttempt
	case r.State == Running && r.Accepted == accepted:
		return nil
	}
	return &ConflictError{Kind: kind, State: r.State}
}

// end leaves RUNNING and closes the attempt's record.
func (r Run) end(now time.Time, s State, reason string) Run {
	r.State, r.Reason, r.LeaseUntil, r.Accepted = s, reason, time.Time{}, false
	r.Attempts = slices.Clone(r.Attempts)
	if n := len(r.Attempts); n > 0 {
		r.Attempts[n-1].End, r.Attempts[n-1].Error = now, reason
	}
	return r
}

// Renew means: RUNNING → RUNNING with a lease from now. The loser sees StaleAttempt.
func (r Run) Renew(now time.Time, attempt int) (Run, error) { return r.extend(now, attempt, false) }

// Heartbeat is Renew by the target of an accepted run, which reads
// CancelRequested in what it returns.
func (r Run) Heartbeat(now time.Time, attempt int) (Run, error) { return r.extend(now, attempt, true) }

func (r Run) extend(now time.Time, attempt int, accepted bool) (Run, error) {
	if err := r.held(attempt, accepted); err != nil {
		return r, err
	}
	if until := now.Add(LeaseFor); until.After(r.LeaseUntil) {
		r.LeaseUntil = until
	}
	return r, nil
}

// Accept (on 202) means: RUNNING → RUNNING, accepted. The loser sees StaleAttempt.
func (r Run) Accept(now time.Time, attempt int) (Run, error) {
	next, err := r.extend(now, attempt, false)
	next.Accepted = next.Accepted || err == nil
	return next, err
}

// Ending is how an attempt ended.
type Ending struct {
	Verdict    Verdict
	Reason     string        // stored with the run and the attempt
	RetryAfter time.Duration // 0: the target named none
	Jitter     float64       // in [0, 1), drawn by the caller
}

// Finish means: RUNNING → what the verdict says: SUCCEEDED; DEAD; or RETRY with
// failures+1 and not_before, DEAD where that uses the attempts up, CANCELLED
// where cancelling was asked for. accepted says that the target itself ends a
// run it accepted, by complete. The loser sees StaleAttempt.
func (r Run) Finish(now time.Time, attempt int, accepted bool, e Ending, p Retry) (Run, error) {
	if err := r.held(attempt, accepted); err != nil {
		return r, err
	}
	switch e.Verdict {
	case VerdictSuccess:
		return r.end(now, Succeeded, ""), nil
	case VerdictDead, VerdictDeadPause:
		r.Failures++
		return r.end(now, Dead, e.Reason), nil
	case VerdictRetry:
		return r.fail(now, e, p), nil
	default:
		return r.refuse(WrongState)
	}
}

func (r Run) fail(now time.Time, e Ending, p Retry) Run {
	wait := p.Wait(r.Failures, e.RetryAfter, e.Jitter)
	r.Failures++
	switch {
	case r.Failures >= p.MaxAttempts:
		return r.end(now, Dead, e.Reason)
	case r.CancelRequested:
		return r.end(now, Cancelled, e.Reason)
	}
	r.NotBefore = now.Add(wait)
	return r.end(now, Retrying, e.Reason)
}

// Expire means: RUNNING with an expired lease → RETRY. After 202 that is a failed
// attempt; without, a crash: no failure, at once, DEAD at the fifth. The loser,
// and whoever comes before the lease ends, sees LeaseHeld.
func (r Run) Expire(now time.Time, p Retry, jitter float64) (Run, error) {
	switch {
	case r.State != Running:
		return r.refuse(WrongState)
	case now.Before(r.LeaseUntil):
		return r, &ConflictError{Kind: LeaseHeld, State: r.State, Until: r.LeaseUntil}
	case r.Accepted:
		return r.fail(now, Ending{Reason: "no heartbeat", Jitter: jitter}, p), nil
	}
	r.Crashes++
	switch {
	case r.Crashes >= MaxCrashes:
		return r.end(now, Dead, "crashed five times"), nil
	case r.CancelRequested:
		return r.end(now, Cancelled, "crashed"), nil
	}
	r.NotBefore = now
	return r.end(now, Retrying, "crashed"), nil
}

// Defer means: SCHEDULED or RETRY stays so, not before until; no attempt is used.
// The loser, whose run began meanwhile, sees WrongState.
func (r Run) Defer(until time.Time) (Run, error) {
	if r.State != Scheduled && r.State != Retrying {
		return r.refuse(WrongState)
	}
	if until.After(r.NotBefore) {
		r.NotBefore = until
	}
	return r, nil
}

// Cancel means: SCHEDULED or RETRY → CANCELLED; RUNNING is asked to stop and not
// tried again. The loser sees IsTerminal.
func (r Run) Cancel(reason string) (Run, error) {
	switch r.State {
	case Scheduled, Retrying:
		r.State, r.Reason = Cancelled, reason
		return r, nil
	case Running:
		r.CancelRequested = true
		return r, nil
	default:
		return r.refuse(WrongState)
	}
}

// Skip means: SCHEDULED → SKIPPED with the reason. The loser sees WrongState.
func (r Run) Skip(reason string) (Run, error) {
	if r.State != Scheduled {
		return r.refuse(WrongState)
	}
	r.State, r.Reason = Skipped, reason
	return r, nil
}

// Redrive means: DEAD stays; the SCHEDULED run that repeats it is returned, in the
// job's present generation, with the first run's id as its original. Its id
// follows from the dead run's, so redriving twice makes one run.
func (r Run) Redrive(jobGeneration int64) (Run, error) {
	if r.State != Dead {
		return r.refuse(WrongState)
	}
	original := r.OriginalID
	if original.IsZero() {
		original = r.ID
	}
	return Run{
		ID: trigger.KeyedID("myosin-redrive", r.Job.String(), r.ID.String()), Job: r.Job, OriginalID: original,
		Generation: jobGeneration, Nominal: r.Nominal, State: Scheduled,
	}, nil
}
