package jobs

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// audit sees every commit, under the table's lock, and notes what must not be.
type audit struct {
	w *World

	mu       sync.Mutex
	breaches []string
	holders  map[job.RunID]holder
	times    map[trigger.ID][]span
	history  map[job.RunID][]string
}

type holder struct {
	p       *Proc
	attempt int
}

// span is a generation in which a job was active: its schedule, and how far its
// occurrences went.
type span struct {
	job.Job           // as it was made
	upTo    time.Time // its last occurrence; zero: it still goes on
}

func newAudit(w *World) *audit {
	return &audit{w: w, holders: map[job.RunID]holder{}, times: map[trigger.ID][]span{}, history: map[job.RunID][]string{}}
}

func (a *audit) breach(format string, args ...any) {
	a.breaches = append(a.breaches, fmt.Sprintf(format, args...))
}

// skew is how far two clocks of a world may be apart.
const skew = 5 * time.Second

func (a *audit) changed(ctx context.Context, changes []Change) {
	p, _ := ctx.Value(writer{}).(*Proc)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range changes {
		switch {
		case c.Job != nil:
			a.job(c.JobBefore, c.Job)
		default:
			a.run(p, c)
		}
	}
}

// job notes in which spans a job was active.
func (a *audit) job(before, after *job.Job) {
	spans := a.times[after.ID]
	if before != nil && before.Generation == after.Generation {
		return
	}
	if n := len(spans); n > 0 && before.Status == job.JobIsActive {
		spans[n-1].upTo = before.Pending
		if before.Pending.IsZero() {
			spans[n-1].upTo = time.Now().Add(-skew)
		}
	}
	if after.Status == job.JobIsActive {
		spans = append(spans, span{Job: *after})
	}
	a.times[after.ID] = spans
}

func (a *audit) run(p *Proc, c Change) {
	before, r := c.RunBefore, c.Run
	name := "a client"
	if p != nil {
		name = p.Name
	}
	a.history[r.ID] = append(a.history[r.ID], fmt.Sprintf("%s %s attempt %d failures %d crashes %d accepted %t (%s) by %s",
		time.Now().Format("15:04:05.000"), r.State, r.Attempt, r.Failures, r.Crashes, r.Accepted, r.Reason, name))
	from := job.Scheduled
	if before != nil {
		from = before.State
		if from.Terminal() && r.State != from {
			a.breach("run %s went from %s to %s", r.ID, from, r.State)
		}
		if r.Attempt < before.Attempt {
			a.breach("run %s went from attempt %d to %d", r.ID, before.Attempt, r.Attempt)
		}
	}
	leased := r.State == job.Running && (before == nil || r.Attempt > before.Attempt)
	if leased {
		a.leased(p, c, from)
		return
	}
	if from != job.Running {
		return
	}
	h := a.holders[r.ID]
	expired := !time.Now().Before(before.LeaseUntil.Add(-skew))
	if r.State != job.Running || r.Accepted != before.Accepted {
		// A result: of the holder, of the target that accepted, or of who found the lease expired.
		switch {
		case before.Accepted && (p == nil || expired):
		case !before.Accepted && p == h.p:
		case !before.Accepted && expired && r.Crashes == before.Crashes+1:
		default:
			a.breach("run %s, whose lease %d is %s's until %s, was ended by %s as %s", r.ID, h.attempt, nameOf(h.p), before.LeaseUntil, name, r.State)
		}
	}
	if !r.LeaseUntil.Equal(before.LeaseUntil) && r.State == job.Running && p != h.p && !before.Accepted {
		a.breach("run %s, whose lease is %s's, was renewed by %s", r.ID, nameOf(h.p), name)
	}
}

func nameOf(p *Proc) string {
	if p == nil {
		return "nobody"
	}
	return p.Name
}

func (a *audit) leased(p *Proc, c Change, from job.State) {
	before, r := c.RunBefore, c.Run
	if from == job.Running && time.Now().Before(before.LeaseUntil.Add(-skew)) {
		a.breach("run %s was leased by %s while %s held it until %s", r.ID, nameOf(p), nameOf(a.holders[r.ID].p), before.LeaseUntil)
	}
	j := c.JobOf
	if from == job.Scheduled && r.Kind == job.Occurrence && (j.Generation != r.Generation || j.Status != job.JobIsActive) {
		a.breach("run %s of generation %d began though its job is %s in generation %d", r.ID, r.Generation, j.Status, j.Generation)
	}
	if j.Status == job.JobIsDeleted && r.Kind != job.Notice {
		a.breach("run %s began though its job is deleted", r.ID)
	}
	if early := time.Until(r.Nominal); early > skew {
		a.breach("run %s began %s early", r.ID, early)
	}
	a.holders[r.ID] = holder{p, r.Attempt}
}

// Breaches returns what was not as promised so far.
func (w *World) Breaches() []string {
	w.audit.mu.Lock()
	defer w.audit.mu.Unlock()
	return slices.Clone(w.audit.breaches)
}

// Account checks that every occurrence of every span in which a job was active
// is on record exactly once: as a run, or inside one counted range.
func (w *World) Account() (breaches []string, occurrences int) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	w.audit.mu.Lock()
	defer w.audit.mu.Unlock()
	for id, spans := range w.audit.times {
		for _, s := range spans {
			if !s.Schedule.Recurs() {
				continue
			}
			if s.upTo.IsZero() {
				s.upTo = w.table.jobs[id].Pending.Add(-time.Millisecond)
			}
			b, n := w.accountFor(s)
			breaches = append(breaches, b...)
			occurrences += n
		}
	}
	slices.Sort(breaches)
	return breaches, occurrences
}

// accountFor compares a span with the records of its generation.
func (w *World) accountFor(s span) (breaches []string, occurrences int) {
	schedule, err := s.Schedule.Compile()
	if err != nil {
		return []string{err.Error()}, 0
	}
	seen := map[int64]int{}
	for o := schedule.Next(s.Updated); !o.At.IsZero() && !o.At.After(s.upTo); o = schedule.Next(o.At) {
		if !o.Skipped {
			seen[o.At.UnixMilli()] = 0
		}
	}
	occurrences = len(seen)
	for _, id := range w.table.ofJob[s.ID] {
		r := &w.table.runs[id].Run
		if r.Generation != s.Generation || (r.Kind != job.Occurrence && r.Kind != job.Missed) {
			continue
		}
		if r.Kind == job.Occurrence {
			if _, ok := seen[r.Nominal.UnixMilli()]; !ok {
				breaches = append(breaches, fmt.Sprintf("run %s (%s, %s) is of no occurrence of its generation, which ended at %s", r.ID, r.State, r.Reason, s.upTo))
				continue
			}
			seen[r.Nominal.UnixMilli()]++
			continue
		}
		from := r.Skipped.From.Add(-time.Nanosecond)
		for o := schedule.Next(from); !o.At.IsZero() && !o.At.After(r.Skipped.Until); o = schedule.Next(o.At) {
			if !o.Skipped {
				seen[o.At.UnixMilli()]++
			}
		}
		c := schedule.Count(from, r.Skipped.Until)
		if n := c.Runs + c.Skipped; n != r.Skipped.Count {
			breaches = append(breaches, fmt.Sprintf("record %s counts %d occurrences, not %d", r.ID, r.Skipped.Count, n))
		}
	}
	for at, n := range seen {
		if n != 1 {
			breaches = append(breaches, fmt.Sprintf("job %s generation %d (%s, %s): the occurrence of %s is on record %d times",
				s.ID, s.Generation, s.Schedule.Cron, s.CatchUp, time.UnixMilli(at).UTC().Format(time.RFC3339), n))
		}
	}
	return breaches, occurrences
}

// History returns what happened to a run.
func (w *World) History(id job.RunID) []string {
	w.audit.mu.Lock()
	defer w.audit.mu.Unlock()
	return slices.Clone(w.audit.history[id])
}
