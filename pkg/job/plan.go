package job

import (
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/cron"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Plan is a job's timing made ready to be asked. It is immutable.
type Plan struct {
	at      time.Time      // of a job that runs once
	cron    *cron.Schedule // nil for such a job
	offset  time.Duration  // from nominal to due: tolerance spreading
	catchUp CatchUp
	window  time.Duration
}

// Compile returns the timing's cron schedule, nil where it runs once.
func (t Timing) Compile() (*cron.Schedule, error) {
	if !t.Recurs() {
		return nil, nil //nolint:nilnil // no schedule is the answer.
	}
	expr, err := cron.Parse(t.Cron)
	if err != nil {
		return nil, err
	}
	zone, err := cron.LoadZone(t.Zone)
	if err != nil {
		return nil, err
	}
	return cron.New(expr, zone, t.Policy)
}

func (t Timing) validate(now time.Time) []error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, &trigger.FieldError{Field: field, Msg: fmt.Sprintf(format, args...)})
	}
	if !t.Recurs() {
		switch {
		case t.At.IsZero():
			bad("schedule.run_at", "missing")
		case t.At.After(now.Add(MaxAhead)):
			bad("schedule.run_at", "%s is over ten years away", t.At.UTC().Format(time.RFC3339))
		}
		if t.Policy != (cron.Policy{}) {
			bad("dst", "needs a cron schedule")
		}
		return errs
	}
	if !t.At.IsZero() {
		bad("schedule.run_at", "stands beside expr; want one of them")
	}
	if _, err := cron.Parse(t.Cron); err != nil {
		bad("schedule.expr", "%v", err)
	}
	if _, err := cron.LoadZone(t.Zone); err != nil {
		bad("schedule.tz", "%v", err)
	}
	if err := t.Policy.Validate(); err != nil {
		bad("dst", "%v", err)
	}
	return errs
}

// Plan returns the job's timing made ready.
func (j Job) Plan() (*Plan, error) {
	c, err := j.Schedule.Compile()
	if err != nil {
		return nil, fmt.Errorf("schedule of job %s: %w", j.ID, err)
	}
	p := &Plan{at: j.Schedule.At, cron: c, catchUp: j.CatchUp, window: j.CatchUpWindow}
	if j.Tolerance != nil && *j.Tolerance > 0 {
		var period time.Duration
		if c != nil {
			expr, err := cron.Parse(j.Schedule.Cron)
			if err != nil {
				return nil, fmt.Errorf("schedule of job %s: %w", j.ID, err)
			}
			period = expr.Shortest()
		}
		p.offset = Spread(j.ID, *j.Tolerance, period)
	}
	return p, nil
}

// Due returns when the run of a nominal time is due: later by the job's offset
// where it has a tolerance.
func (p *Plan) Due(nominal time.Time) time.Time { return nominal.Add(p.offset) }

// First returns the first occurrence after an instant, and the records of gaps
// before it. A job that runs once runs at its time, however late. Zero: none.
func (p *Plan) First(after time.Time) (time.Time, []Skip) {
	if p.cron == nil {
		return p.at, nil
	}
	return p.next(after)
}

// Skip is what a SKIPPED record says.
type Skip struct {
	Range
	Kind   Kind // Gap, Missed, or Occurrence: the overlap and pause of a single one
	Reason string
}

// Step is what follows from an occurrence whose message has come.
type Step struct {
	Run     bool      // the occurrence itself runs; else it is part of a Skip
	Pending time.Time // the next occurrence to arm; zero: none
	Skips   []Skip    // records to write with it
}

// After decides what follows an occurrence handled at an instant. Occurrences
// with a later one due as well are missed, the given one too: of those the job's
// catch-up policy chooses which still run. The cost does not depend on how many
// were missed.
func (p *Plan) After(nominal, now time.Time) Step {
	if p.cron == nil {
		return Step{Run: true}
	}
	now = now.Add(-p.offset) // what is due now has this nominal time
	next, skips := p.next(nominal)
	if next.IsZero() || next.After(now) {
		return Step{Run: true, Pending: next, Skips: skips}
	}
	latest := p.cron.Latest(now).At
	switch p.catchUp {
	case CatchUpSkip:
		pending, gaps := p.next(latest)
		return Step{Pending: pending, Skips: append(p.missed(nominal, latest), gaps...)}
	case CatchUpAll:
		if first := p.within(nominal, now); first.After(nominal) {
			return Step{Pending: first, Skips: p.missed(nominal, first.Add(-time.Nanosecond))}
		}
		return Step{Run: true, Pending: next, Skips: skips}
	default:
		return Step{Pending: latest, Skips: p.missed(nominal, latest.Add(-time.Nanosecond))}
	}
}

// next returns the first occurrence after an instant that runs, and a record
// for each gap that swallowed some before it.
func (p *Plan) next(after time.Time) (time.Time, []Skip) {
	var skips []Skip
	for {
		o := p.cron.Next(after)
		if !o.At.IsZero() && o.Gap > 0 && (o.Skipped || p.gapSkips(o)) {
			skips = append(skips, Skip{
				Range: Range{From: o.At, Until: o.At, Count: o.Gap}, Kind: Gap, Reason: "the clock's gap",
			})
		}
		if o.At.IsZero() || !o.Skipped {
			return o.At, skips
		}
		after = o.At
	}
}

// gapSkips reports whether what a gap swallowed is lost though a run of its own
// follows at its end.
func (p *Plan) gapSkips(o cron.Occurrence) bool {
	return p.cron.Count(o.At.Add(-time.Nanosecond), o.At).Skipped > 0
}

// missed is the record of the occurrences from one on up to an instant.
func (p *Plan) missed(from, until time.Time) []Skip {
	n := p.cron.Count(from.Add(-time.Nanosecond), until)
	if n.Runs+n.Skipped == 0 {
		return nil
	}
	last := p.cron.Latest(until).At
	if last.Before(from) {
		last = from
	}
	return []Skip{{Range: Range{From: from, Until: last, Count: n.Runs + n.Skipped}, Kind: Missed, Reason: "catch-up: " + string(p.catchUp)}}
}

// within returns the first of the occurrences from nominal to now that the
// window and MaxCatchUp let run.
func (p *Plan) within(nominal, now time.Time) time.Time {
	first := nominal
	if start := now.Add(-p.window); p.window > 0 && nominal.Before(start) {
		first, _ = p.next(start.Add(-time.Nanosecond))
		if first.After(now) {
			first = p.cron.Latest(now).At // at least the last one
		}
	}
	count := func(from time.Time) int64 { return p.cron.Count(from.Add(-time.Nanosecond), now).Runs }
	if count(first) <= MaxCatchUp {
		return first
	}
	// The last MaxCatchUp: by bisection over whole seconds.
	low, high := first.Unix(), now.Unix() // count(low) > MaxCatchUp ≥ count(high+1)
	for low < high {
		mid := low + (high-low)/2
		if count(time.Unix(mid, 0)) > MaxCatchUp {
			low = mid + 1
		} else {
			high = mid
		}
	}
	first, _ = p.next(time.Unix(low, 0).Add(-time.Nanosecond))
	return first
}
