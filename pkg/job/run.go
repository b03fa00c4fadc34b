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
	StatusCode int       // of an HTTP answer; 0: none
	Excerpt    string    // the beginning of the answer's body
}

// Kind says where a run comes from.
type Kind string

// The kinds of run.
const (
	Occurrence Kind = ""         // of the job's schedule
	Manual     Kind = "manual"   // run now
	Redriven   Kind = "redrive"  // repeats a dead one
	Notice     Kind = "notice"   // tells the owner that a run died
	Gap        Kind = "dst_gap"  // record of what a clock's gap swallowed
	Missed     Kind = "catch_up" // record of a range that was not caught up
)

// Range is what a SKIPPED record stands for when that is more than its own
// nominal time: Count occurrences from From to Until, both included.
type Range struct {
	From, Until time.Time
	Count       int64
}

// Run is one occurrence of a job. The methods change no run: each returns the
// next one, or the run as it was and a [ConflictError]. The store writes the next on
// condition that the version is still that of the one before, and raises it.
type Run struct {
	ID, OriginalID  RunID // OriginalID of a redriven run, else empty
	Job             trigger.ID
	Tenant          string
	Kind            Kind
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
	Attempts        []Attempt // the last ones: see MaxAttemptsKept
	Skipped         Range     // of a SKIPPED record of several
	Ended           time.Time // when it became final
	Redriven        RunID     // the run that repeats this dead one; then it is no dead letter any more
	Urgent          bool      // its triggers go to the urgent lane and queue
	Deferrals       int       // how often its target was not ready

	// Call is what is called in the place of the job's target: a notice's.
	Call *Call
	// Payload is what was sent, kept with a dead run.
	Payload []byte

	// Wake is when somebody should have come back to the run: what the reconciler
	// looks for. Zero once it is final.
	Wake    time.Time
	Version int64 // set by the store: 1 for a new run
}

// Call is a target and what it is sent.
type Call struct {
	Target  Target
	Payload []byte
}

// MaxAttemptsKept is how many records of attempts a run keeps; older ones go.
const MaxAttemptsKept = 20

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
	return Run{ID: NewRunID(job, generation, nominal), Job: job, Generation: generation, Nominal: nominal, State: Scheduled}
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
	r.Wake = r.LeaseUntil
	r.Attempt++
	r.Accepted = false
	kept := r.Attempts[max(0, len(r.Attempts)+1-MaxAttemptsKept):]
	r.Attempts = append(slices.Clone(kept), Attempt{Number: r.Attempt, Start: now})
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
func (r Run) end(now time.Time, s State, e Ending) Run {
	r.State, r.Reason, r.LeaseUntil, r.Accepted = s, e.Reason, time.Time{}, false
	r.Attempts = slices.Clone(r.Attempts)
	if n := len(r.Attempts); n > 0 {
		a := &r.Attempts[n-1]
		a.End, a.Error, a.StatusCode, a.Excerpt = now, e.Reason, e.StatusCode, e.Excerpt
	}
	r.Wake = r.NotBefore
	return r.final(now)
}

// final notes when a run became final, and that nobody need come back.
func (r Run) final(now time.Time) Run {
	if r.State.Terminal() && r.Ended.IsZero() {
		r.Ended, r.Wake = now, time.Time{}
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
	StatusCode int           // of an HTTP answer; 0: none
	Excerpt    string        // the beginning of its body
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
		e.Reason = ""
		return r.end(now, Succeeded, e), nil
	case VerdictDead, VerdictDeadPause:
		r.Failures++
		return r.end(now, Dead, e), nil
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
		return r.end(now, Dead, e)
	case r.CancelRequested:
		return r.end(now, Cancelled, e)
	}
	r.NotBefore = now.Add(wait)
	return r.end(now, Retrying, e)
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
		return r.end(now, Dead, Ending{Reason: "crashed five times"}), nil
	case r.CancelRequested:
		return r.end(now, Cancelled, Ending{Reason: "crashed"}), nil
	}
	r.NotBefore = now
	return r.end(now, Retrying, Ending{Reason: "crashed"}), nil
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
	r.Wake = r.NotBefore
	r.Deferrals++
	return r, nil
}

// PutBack means: RUNNING → RETRY, not before until, without a failure: the call
// was not made, for its target was not ready after all. The loser sees StaleAttempt.
func (r Run) PutBack(now time.Time, attempt int, until time.Time) (Run, error) {
	if err := r.held(attempt, false); err != nil {
		return r, err
	}
	if r.CancelRequested {
		return r.end(now, Cancelled, Ending{Reason: "not ready"}), nil
	}
	r.NotBefore = until
	r.Deferrals++
	return r.end(now, Retrying, Ending{Reason: "not ready"}), nil
}

// Cancel means: SCHEDULED or RETRY → CANCELLED; RUNNING is asked to stop and not
// tried again. The loser sees IsTerminal.
func (r Run) Cancel(now time.Time, reason string) (Run, error) {
	switch r.State {
	case Scheduled, Retrying:
		r.State, r.Reason = Cancelled, reason
		return r.final(now), nil
	case Running:
		r.CancelRequested = true
		return r, nil
	default:
		return r.refuse(WrongState)
	}
}

// Skip means: SCHEDULED → SKIPPED with the reason. The loser sees WrongState.
func (r Run) Skip(now time.Time, reason string) (Run, error) {
	if r.State != Scheduled {
		return r.refuse(WrongState)
	}
	r.State, r.Reason = Skipped, reason
	return r.final(now), nil
}

// Redrive means: DEAD stays; the SCHEDULED run that repeats it is returned, in the
// job's present generation, with the first run's id as its original. Its id
// follows from the dead run's, so redriving twice makes one run.
func (r Run) Redrive(jobGeneration int64) (Run, error) {
	if r.State != Dead {
		return r.refuse(WrongState)
	}
	original := r.OriginalID
	if original == "" {
		original = r.ID
	}
	kind := Redriven
	if r.Kind == Notice {
		kind = Notice // it calls whom it was for
	}
	return Run{
		ID: r.ID.Redriven(), Job: r.Job, Tenant: r.Tenant, Kind: kind, OriginalID: original,
		Generation: jobGeneration, Nominal: r.Nominal, State: Scheduled, Urgent: r.Urgent, Call: r.Call,
	}, nil
}
