package cron

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Gap says what becomes of wall times that the clock jumps over.
type Gap string

// Fold says what becomes of wall times that come twice.
type Fold string

const (
	// GapShift runs once at the first instant after the gap, however many wall
	// times fell into it. The default.
	GapShift Gap = "shift"
	// GapSkip does not run them; they are reported as skipped.
	GapSkip Gap = "skip"
	// FoldFirst runs at the first of the two. The default.
	FoldFirst Fold = "first"
	// FoldBoth runs at both.
	FoldBoth Fold = "both"
)

// Policy decides for fixed-hour expressions where clocks change. The zero value
// is {shift, first}.
type Policy struct {
	Gap  Gap  `json:"gap,omitempty"`
	Fold Fold `json:"fold,omitempty"`
}

// Validate reports every value that is not one of the constants or empty.
func (p Policy) Validate() error {
	var errs []error
	switch p.Gap {
	case "", GapShift, GapSkip:
	default:
		errs = append(errs, fmt.Errorf("cron: gap %q is neither %s nor %s", p.Gap, GapShift, GapSkip))
	}
	switch p.Fold {
	case "", FoldFirst, FoldBoth:
	default:
		errs = append(errs, fmt.Errorf("cron: fold %q is neither %s nor %s", p.Fold, FoldFirst, FoldBoth))
	}
	return errors.Join(errs...)
}

// Schedule is an expression in a zone under a policy. The zero value is not
// usable: see [New].
type Schedule struct {
	expr   *Expression
	zone   *time.Location
	policy Policy
}

// New returns the schedule of an expression in a zone (nil: UTC), or the
// policy's error.
func New(expr *Expression, zone *time.Location, policy Policy) (*Schedule, error) {
	if expr == nil {
		return nil, errors.New("cron: a schedule needs an expression")
	}
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	if zone == nil {
		zone = time.UTC
	}
	return &Schedule{expr: expr, zone: zone, policy: policy}, nil
}

// Occurrence is one nominal time of a schedule.
type Occurrence struct {
	// At is the nominal instant, in UTC, on a whole second. For wall times of a
	// gap it is the first instant after the gap.
	At time.Time
	// Skipped: nothing runs here. It stands for wall times of a gap under
	// [GapSkip], all of one gap together.
	Skipped bool
	// Gap is how many wall times the gap that ends At swallowed: under [GapShift]
	// they are this run; under [GapSkip] they are lost, also where At is a run of
	// its own (Skipped is false then).
	Gap int64
}

// Counts is what a range of time holds.
type Counts struct {
	Runs    int64 // occurrences that run
	Skipped int64 // wall times lost in gaps under [GapSkip]
}

// The years within which schedules are evaluated, as Unix seconds.
const (
	earliest = -62135596800 // 0001-01-01
	latest   = 253402300800 // 10000-01-01
)

// span is a stretch of time with one offset: [start, end) in Unix seconds.
// passed is how far the wall clock had come before start, in wall seconds: what
// lies between passed and the wall clock at start is a gap if that is later, and
// a fold if it is earlier.
type span struct {
	start, end, offset, passed int64
}

func (s *Schedule) rawSpan(at int64) span {
	t := time.Unix(at, 0).In(s.zone)
	_, offset := t.Zone()
	from, to := t.ZoneBounds()
	r := span{start: earliest - 86400, end: math.MaxInt64 / 4, offset: int64(offset)}
	if !from.IsZero() {
		r.start = from.Unix()
	}
	if !to.IsZero() {
		r.end = to.Unix()
	}
	if r.end <= at {
		// Past a zone's table, Go 1.26 takes every year for 365 days: on the last
		// day of a leap year it names that day's start as the end. No zone changes
		// its clocks by rule on that day.
		r.end = time.Date(t.UTC().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	}
	return r
}

// spanAt returns the span that holds an instant.
func (s *Schedule) spanAt(at int64) span {
	r := s.rawSpan(at)
	r.passed = r.start + r.offset
	if r.start <= earliest {
		return r
	}
	// Offsets differ by 26 hours at most, so older spans do not matter.
	const reach = 26 * 3600
	p := s.rawSpan(r.start - 1)
	r.passed = r.start + p.offset
	for p.start > max(earliest, r.start-reach) {
		end := p.start
		p = s.rawSpan(end - 1)
		r.passed = max(r.passed, end+p.offset)
	}
	return r
}

// wallFrom is the wall second from which wall times of the span fire.
func (s *Schedule) wallFrom(r span) int64 {
	from := r.start + r.offset
	if !s.expr.followsRealTime && s.policy.Fold != FoldBoth {
		from = max(from, r.passed)
	}
	return from
}

// swallowed returns how many wall times the gap before a span holds that a
// policy decides on.
func (s *Schedule) swallowed(r span) int64 {
	if s.expr.followsRealTime || r.passed >= r.start+r.offset {
		return 0
	}
	return s.expr.countWalls(ceilMinute(r.passed), ceilMinute(r.start+r.offset))
}

// opening returns the occurrence at the very start of a span, if there is one.
func (s *Schedule) opening(r span) (Occurrence, bool) {
	gap := s.swallowed(r)
	wall := r.start + r.offset
	regular := wall >= s.wallFrom(r) && floorMod(wall, 60) == 0 && s.expr.nextWall(wall/60) == wall/60
	if gap == 0 && !regular {
		return Occurrence{}, false
	}
	return Occurrence{At: instant(r.start), Gap: gap, Skipped: !regular && s.policy.Gap == GapSkip}, true
}

func instant(unix int64) time.Time { return time.Unix(unix, 0).UTC() }

// Next returns the first occurrence after an instant, usually the nominal time
// of the one before. The result may be a skipped one: record it and ask again
// from its time. The zero Occurrence: there is none before the year 10000.
func (s *Schedule) Next(after time.Time) Occurrence {
	from := max(after.Unix(), earliest) + 1
	if from >= latest {
		return Occurrence{}
	}
	r := s.spanAt(from)
	// No wall time matches in [known, wall).
	var known, wall int64
	for first := true; r.start < latest; first = false {
		if (!first || r.start == from) && r.start >= from {
			if o, ok := s.opening(r); ok {
				return o
			}
		}
		low := ceilMinute(max(from+r.offset, s.wallFrom(r)))
		if first || low < known || low > wall {
			known, wall = low, s.expr.nextWall(low)
		}
		if at := wall*60 - r.offset; at < r.end {
			if at >= latest {
				break
			}
			return Occurrence{At: instant(at)}
		}
		from = r.end
		r = s.spanAt(from)
	}
	return Occurrence{}
}

// Latest returns the last occurrence at or before an instant that runs. The zero
// Occurrence: there is none since the year 1.
func (s *Schedule) Latest(at time.Time) Occurrence {
	until := min(at.Unix(), latest-1)
	for until >= earliest {
		r := s.spanAt(until)
		wall := s.expr.previousWall(floorDiv(until+r.offset, 60))
		start := r.start + r.offset
		if wall*60 > start && wall*60 >= s.wallFrom(r) {
			if wall*60-r.offset < earliest {
				break
			}
			return Occurrence{At: instant(wall*60 - r.offset)}
		}
		if o, ok := s.opening(r); ok && !o.Skipped && r.start >= earliest {
			return o
		}
		until = r.start - 1
		// The spans between here and the matching wall time need no look: instants
		// and wall times differ by less than a day and a half.
		if far := wall*60 + 3*86400; far < until && r.passed <= start {
			until = far
		}
	}
	return Occurrence{}
}

// Count returns how much of the schedule lies after one instant and at or before
// another.
func (s *Schedule) Count(after, until time.Time) Counts {
	from, to := max(after.Unix(), earliest)+1, min(until.Unix(), latest-1)+1
	var c Counts
	for from < to {
		r := s.spanAt(from)
		end := min(r.end, to)
		low := max(from+r.offset, s.wallFrom(r))
		c.Runs += s.expr.countWalls(ceilMinute(low), ceilMinute(end+r.offset))
		if r.start == from {
			if gap := s.swallowed(r); gap > 0 {
				if s.policy.Gap == GapSkip {
					c.Skipped += gap
				} else if wall := r.start + r.offset; s.expr.countWalls(ceilMinute(wall), floorDiv(wall, 60)+1) == 0 {
					c.Runs++
				}
			}
		}
		from = end
	}
	return c
}

// Preview returns the next n instants after one at which the schedule runs.
func (s *Schedule) Preview(after time.Time, n int) []time.Time {
	var fires []time.Time
	for len(fires) < n {
		o := s.Next(after)
		if o.At.IsZero() {
			break
		}
		if after = o.At; !o.Skipped {
			fires = append(fires, o.At)
		}
	}
	return fires
}
