package cron

import (
	"fmt"
	"math/bits"
	"time"
)

// Warning is something the author of a schedule may not have meant.
type Warning struct {
	// Code is stable: every_minute, uneven_step, frequent, gap or fold.
	Code string `json:"code"`
	// Message is for people.
	Message string `json:"message"`
}

// frequent is the spacing below which a schedule's pace is pointed out.
const frequent = 5 * time.Minute

// Shortest returns the least time between two runs on a wall clock without
// transitions: the schedule is never more often than that. Where a clock changes,
// runs may come closer.
func (e *Expression) Shortest() time.Duration {
	first, _ := e.firstMinute(0)
	least, previous := int64(1<<62), int64(first)
	for m := first + 1; m < minutesPerDay; m++ {
		at, ok := e.firstMinute(m)
		if !ok {
			break
		}
		least, previous, m = min(least, int64(at)-previous), int64(at), at
	}
	apart := e.daysApart()
	least = min(least, apart*minutesPerDay-previous+int64(first))
	return time.Duration(least) * time.Minute
}

// daysApart returns the least distance of two matching days, over all of the
// calendar's 400 years.
func (e *Expression) daysApart() int64 {
	least, last := int64(1<<32), int64(-1<<31)
	m := monthOf(2000, 1)
	for range 2 * cycle {
		for set := e.daysOf(m); set != 0; set &= set - 1 {
			day := m.first + int64(bits.TrailingZeros32(set)) - 1
			least, last = min(least, day-last), day
		}
		if least == 1 {
			break
		}
		m = m.next()
	}
	return least
}

// Warnings returns what to tell the author, looking a year ahead from an instant.
func (s *Schedule) Warnings(from time.Time) []Warning {
	var out []Warning
	add := func(code, format string, args ...any) {
		out = append(out, Warning{Code: code, Message: fmt.Sprintf(format, args...)})
	}
	e := s.expr
	hours := bits.OnesCount32(e.hours)
	if e.minuteStar && !e.hourAll {
		add("every_minute", "the minute field is * beside a fixed hour: it runs every minute of that hour, %d times a day; for once an hour start with 0, as in \"0 %s %s %s %s\"",
			60*hours, e.fields[1], e.fields[2], e.fields[3], e.fields[4])
	}
	neighbours := e.hours&(e.hours<<1) != 0
	if a, b, ok := uneven(e.minutes, e.fields[0], 60); ok && neighbours {
		add("uneven_step", "the minute field %s starts anew each hour: runs are %d and then %d minutes apart", e.fields[0], a, b)
	}
	if a, b, ok := uneven(uint64(e.hours), e.fields[1], 24); ok {
		add("uneven_step", "the hour field %s starts anew each day: runs are %d and then %d hours apart", e.fields[1], a, b)
	}
	if d := e.Shortest(); d < frequent {
		add("frequent", "runs as often as every %d min, never more often: up to %d times a day", int(d.Minutes()), e.perDay())
	}
	return append(out, s.clockWarnings(from.Unix(), from.AddDate(1, 0, 0).Unix())...)
}

// uneven reports the two distances of a */n that does not divide its field.
func uneven(set uint64, text string, size int) (int, int, bool) {
	var step int
	if n, err := fmt.Sscanf(text, "*/%d", &step); n != 1 || err != nil || text != fmt.Sprintf("*/%d", step) || size%step == 0 {
		return 0, 0, false
	}
	last := size - (bits.Len64(set) - 1)
	return step, last, bits.OnesCount64(set) > 1
}

// clockWarnings names the wall times that the zone's transitions ahead touch.
// Hourly and denser schedules go unmentioned: for them nothing changes.
func (s *Schedule) clockWarnings(from, until int64) []Warning {
	if from < earliest || until > latest || s.expr.hourAll {
		return nil
	}
	var out []Warning
	for r := s.spanAt(from); r.end < until; {
		r = s.spanAt(r.end)
		wall := r.start + r.offset
		lo, hi := min(wall, r.passed), max(wall, r.passed)
		n := s.expr.countWalls(ceilMinute(lo), ceilMinute(hi))
		if n == 0 {
			continue
		}
		w := Warning{Code: "gap"}
		what, effect := "does not exist", fmt.Sprintf("runs once at %s", clockOf(hi))
		switch {
		case r.passed > wall:
			w.Code, what, effect = "fold", "comes twice", "runs at the first only"
			if s.expr.followsRealTime || s.policy.Fold == FoldBoth {
				effect = "runs at both"
			}
		case s.expr.followsRealTime:
			effect = "no run in its place, as the hour field is a step"
		case s.policy.Gap == GapSkip:
			effect = "skipped"
		}
		w.Message = fmt.Sprintf("on %s %s-%s %s in %s: %s (%d of this schedule's times)",
			time.Unix(lo, 0).UTC().Format(time.DateOnly), clockOf(lo), clockOf(hi), what, s.zone, effect, n)
		out = append(out, w)
	}
	return out
}

func clockOf(wall int64) string { return time.Unix(wall, 0).UTC().Format("15:04") }
