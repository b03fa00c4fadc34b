package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Records are the platform's; every jobstore.Store is one.
type Records interface {
	Job(ctx context.Context, id trigger.ID) (job.Job, error)
	Run(ctx context.Context, id job.RunID) (job.Run, error)
	Runs(ctx context.Context, q jobstore.RunQuery) (jobstore.Page[job.Run], error)
}

// The kinds of disturbances that are no calls' faults.
const (
	Killed = "killed"
	Frozen = "frozen"
	Rolled = "rolled"
)

// Disturbance is what befell a process of the managed layer. A kill has no To.
type Disturbance struct {
	Kind     string
	From, To time.Time
}

func (d *Disturbance) overlaps(from, to time.Time) bool {
	return !to.Before(d.From) && (d.To.IsZero() && !from.After(d.From) || !d.To.IsZero() && !from.After(d.To))
}

// Facts are what the run did.
type Facts struct {
	Start        time.Time
	Disturbances []Disturbance // of runners
	// ClockOff reports whether any clock that decides when a run is called may have
	// been wrong by as much as goes uncorrected, about a time; by no more than
	// Tolerance.
	ClockOff  func(at time.Time) bool
	Tolerance time.Duration
}

// Account is the sum of the managed layer.
type Account struct {
	Jobs, Accepted, NoAnswer, Changed int
	Unsure                            int // of these, a change got no answer at all
	Runs, Calls, Worked               int
	Succeeded, Dead, Cancelled        int // of jobs due once
	Occurrences                       int // of minutely jobs, each a run, a record or in a range
	Requests, FailedRequests          int // of the load, faults included
	Unended, Uncalled                 int
	Early, WithinClock, Voided        int
	Missed                            int // occurrences without any record
	Pendings                          int // minutely jobs without exactly one pending occurrence
	Duplicates, Unexplained, OnRolls  int
	Why                               map[string]int
	SameAttempt                       int // calls that repeat an attempt's number
	LateP50, LateP99, LateMax         float64
	Probe                             Probed
	Breaches                          []string
}

// Share is that of unexplained duplicates among the runs that were called.
func (a *Account) Share() float64 { return float64(a.Unexplained) / float64(max(a.Runs, 1)) }

type auditor struct {
	a     *Account
	l     *Ledger
	f     *Facts
	calls map[string][]Call // by run
	late  []float64
}

// Verdict compares the ledger with the records, when nothing moves any more.
func Verdict(ctx context.Context, l *Ledger, records Records, f Facts) (*Account, error) {
	jobs := l.list(func(*Job) bool { return true })
	l.mu.Lock()
	au := &auditor{a: &Account{Why: make(map[string]int)}, l: l, f: &f, calls: make(map[string][]Call)}
	au.a.Breaches = slices.Clone(l.breaches)
	au.a.Requests, au.a.FailedRequests = l.requests, l.failed
	for _, c := range l.calls {
		au.calls[c.Run] = append(au.calls[c.Run], c)
	}
	l.mu.Unlock()
	byToken := make(map[string]*Job, len(jobs))
	for i := range jobs {
		byToken[jobs[i].Token] = &jobs[i]
	}
	for id, calls := range au.calls {
		slices.SortFunc(calls, func(a, b Call) int { return a.At.Compare(b.At) })
		au.run(id, calls, byToken)
	}
	for i := range jobs {
		if err := au.job(ctx, &jobs[i], records); err != nil {
			return nil, err
		}
	}
	slices.Sort(au.late)
	if n := len(au.late); n > 0 {
		at := func(q float64) float64 { return au.late[int(q*float64(n-1))] }
		au.a.LateP50, au.a.LateP99, au.a.LateMax = at(.5), at(.99), at(1)
	}
	slices.Sort(au.a.Breaches)
	return au.a, nil
}

func (au *auditor) breach(id, format string, args ...any) {
	au.a.Breaches = append(au.a.Breaches, id+": "+fmt.Sprintf(format, args...)+"\n"+au.history(id))
}

// history is that of a run's, or job's, calls and of the processes that named it.
func (au *auditor) history(id string) string {
	jobID, _, _ := strings.Cut(id, "_")
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	for run, calls := range au.calls {
		if strings.HasPrefix(run, jobID) {
			for _, c := range calls {
				lines = append(lines, line{c.At, fmt.Sprintf("call %s, attempt %s of %s, %dms, worked %t, unsure %t", c.Path, c.Attempt, run, c.End.Sub(c.At).Milliseconds(), c.Worked, c.Unsure)})
			}
		}
	}
	au.l.mu.Lock()
	touches := au.l.touches[jobID]
	au.l.mu.Unlock()
	for i := range touches {
		t := &touches[i]
		lines = append(lines, line{t.From, fmt.Sprintf("%s %s, %dms, answered %t %s", t.By, t.Op, t.To.Sub(t.From).Milliseconds(), t.Answered, t.Fault)})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "    %8.3fs %s\n", l.at.Sub(au.f.Start).Seconds(), l.text)
	}
	return b.String()
}

// run checks the calls of one run.
func (au *auditor) run(id string, calls []Call, jobs map[string]*Job) {
	a := au.a
	a.Runs++
	a.Calls += len(calls)
	_, parts, err := job.ParseRunID(id)
	j := jobs[calls[0].Token]
	if err != nil || j == nil || j.ID != "" && parts.Job.String() != j.ID {
		au.breach(id, "called, and no run of a job that was made")
		return
	}
	first := calls[0].At
	au.late = append(au.late, float64(first.Sub(parts.Nominal).Milliseconds()))
	switch early := parts.Nominal.Sub(first); {
	case early <= 0:
	case early <= au.f.Tolerance && au.f.ClockOff(first):
		a.WithinClock++
	default:
		a.Early++
		au.breach(id, "called %s before its nominal time", early)
	}
	for _, v := range j.Voids {
		if parts.Generation < v.Below && parts.Nominal.After(v.At) {
			a.Voided++
			au.breach(id, "called for a time that was no longer its own: %s at %.3fs", v.Why, v.At.Sub(au.f.Start).Seconds())
		}
	}
	if at, ok := j.Cancelled[id]; ok {
		for _, c := range calls {
			if c.At.After(at) && !au.any(Frozen, at.Add(-time.Minute), c.At) {
				a.Voided++
				au.breach(id, "called after its cancel was answered at %.3fs", at.Sub(au.f.Start).Seconds())
				break
			}
		}
	}
	au.repeats(id, calls)
}

// repeats looks for work done twice.
func (au *auditor) repeats(id string, calls []Call) {
	attempts := make(map[string]bool)
	var done *Call
	for i := range calls {
		c := &calls[i]
		if attempts[c.Attempt] {
			au.a.SameAttempt++
		}
		attempts[c.Attempt] = true
		if !c.Worked {
			continue
		}
		au.a.Worked++
		if done == nil {
			done = c
			continue
		}
		au.a.Duplicates++
		if why := au.why(id, done, c); why != "" {
			au.a.Why[why]++
		} else {
			au.a.Unexplained++
			if au.any(Rolled, done.At, c.At) {
				au.a.OnRolls++
			}
			au.breach(id, "worked twice, at %.3fs and %.3fs, and no fault explains it", done.At.Sub(au.f.Start).Seconds(), c.At.Sub(au.f.Start).Seconds())
		}
		done = c
	}
}

// any reports whether a runner was disturbed so within a time.
func (au *auditor) any(kind string, from, to time.Time) bool {
	return slices.ContainsFunc(au.f.Disturbances, func(d Disturbance) bool { return d.Kind == kind && d.overlaps(from, to) })
}

// recording is how soon after a call its result is written, if nothing goes wrong.
const recording = 3 * time.Second

// why explains work that was done again: the result of the first was not
// recorded, or nobody heard that it was.
func (au *auditor) why(id string, done, again *Call) string {
	until := done.End.Add(recording)
	if until.After(again.At) {
		until = again.At
	}
	jobID, _, _ := strings.Cut(id, "_")
	au.l.mu.Lock()
	touches := au.l.touches[jobID]
	au.l.mu.Unlock()
	for i := range touches {
		t := &touches[i]
		if (t.Fault != "" || !t.Answered) && !t.Messages && !t.To.Before(done.At) && t.From.Before(again.At) {
			return "a write of the run met a fault"
		}
	}
	switch {
	case au.any(Killed, done.At, until):
		return "killed between call and record"
	case au.any(Frozen, done.At, until):
		return "frozen between call and record"
	}
	return ""
}

// job checks what became of one job.
func (au *auditor) job(ctx context.Context, j *Job, records Records) error {
	a := au.a
	a.Jobs++
	if j.ID == "" {
		a.NoAnswer++
		return nil
	}
	a.Accepted++
	if j.Edited {
		a.Changed++
	}
	if j.Unsure {
		a.Unsure++
	}
	if j.Cron != "" {
		return au.cron(ctx, j, records)
	}
	if j.Gone || j.Unsure || j.RunID == "" {
		return au.nothingLeft(ctx, j, records)
	}
	r, err := records.Run(ctx, job.RunID(j.RunID))
	switch {
	case errors.Is(err, jobstore.ErrNotFound):
		a.Unended++
		au.breach(j.RunID, "accepted, and there is no run")
		return nil
	case err != nil:
		return fmt.Errorf("read run %s: %w", j.RunID, err)
	}
	au.ended(j, &r)
	return nil
}

// ended compares a run's end with its calls.
func (au *auditor) ended(j *Job, r *job.Run) {
	a, failed, worked := au.a, 0, 0
	for _, c := range au.calls[string(r.ID)] {
		if c.Worked || c.Unsure {
			worked++
		} else {
			failed++
		}
	}
	switch r.State {
	case job.Succeeded:
		a.Succeeded++
		if worked == 0 {
			a.Uncalled++
			au.breach(string(r.ID), "recorded as %s, and no call did its work", r.State)
		}
	case job.Dead:
		a.Dead++
		if failed < j.Tries && j.Path != pathLong {
			au.breach(string(r.ID), "DEAD (%s) after %d failed calls of %d", r.Reason, failed, j.Tries)
		}
	case job.Cancelled:
		a.Cancelled++
		if !j.Edited {
			au.breach(string(r.ID), "CANCELLED (%s), by nobody", r.Reason)
		}
	case job.Skipped:
		if !j.Edited && j.Cron == "" {
			au.breach(string(r.ID), "SKIPPED (%s), by nobody", r.Reason)
		}
	default:
		a.Unended++
		au.breach(string(r.ID), "still %s", r.State)
	}
}

// nothingLeft wants no run under way of a job that is owed none.
func (au *auditor) nothingLeft(ctx context.Context, j *Job, records Records) error {
	return each(ctx, j, records, func(r *job.Run) {
		if !r.State.Terminal() {
			au.a.Unended++
			au.breach(string(r.ID), "called off, and still %s", r.State)
		}
	})
}

// each goes through the runs of a job that have a record.
func each(ctx context.Context, j *Job, records Records, visit func(*job.Run)) error {
	id, err := trigger.ParseID(j.ID)
	if err != nil {
		return err
	}
	for q := (jobstore.RunQuery{Job: id, Limit: 100}); ; {
		page, err := records.Runs(ctx, q)
		if err != nil {
			return fmt.Errorf("runs of job %s: %w", j.ID, err)
		}
		for i := range page.Items {
			visit(&page.Items[i])
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// cron checks that every minute of a job is accounted for.
func (au *auditor) cron(ctx context.Context, j *Job, records Records) error {
	minutes, last := make(map[int64]bool), time.Time{}
	err := each(ctx, j, records, func(r *job.Run) {
		from, until := r.Nominal, r.Nominal
		if r.Skipped.Count > 0 {
			from, until = r.Skipped.From, r.Skipped.Until
		} else if r.State != job.Cancelled && r.State != job.Skipped {
			au.ended(j, r)
		}
		for at := from; !at.After(until); at = at.Add(time.Minute) {
			minutes[at.Unix()] = true
		}
	})
	if err != nil {
		return err
	}
	for _, v := range j.Voids {
		if v.Why == "deleted" && (last.IsZero() || v.At.Before(last)) {
			last = v.At
		}
	}
	if j.changedOnTheWay() {
		return nil // a time between two generations is nobody's
	}
	// Within a second of the answers either side is right.
	for at := j.Created.Add(time.Second).Truncate(time.Minute).Add(time.Minute); at.Before(last.Add(-askFor)); at = at.Add(time.Minute) {
		au.a.Occurrences++
		if !minutes[at.Unix()] {
			au.a.Missed++
			au.breach(j.ID, "nothing became of the occurrence of %s", at.UTC().Format(time.TimeOnly))
		}
	}
	return nil
}

// changedOnTheWay reports whether something else than its end befell a job.
func (j *Job) changedOnTheWay() bool {
	return slices.ContainsFunc(j.Voids, func(v Void) bool { return v.Why != "deleted" }) || j.Unsure
}
