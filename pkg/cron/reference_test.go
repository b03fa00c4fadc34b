package cron_test

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/cron"
)

// match is an expression beside the obvious way to ask whether a minute matches.
type match struct {
	expr  string
	fixed bool
	on    func(wall time.Time) bool
}

func matches() []match {
	return []match{
		{"30 1 * * *", true, func(w time.Time) bool { return w.Hour() == 1 && w.Minute() == 30 }},
		{"*/20 0,2,3 * * *", true, func(w time.Time) bool {
			return (w.Hour() == 0 || w.Hour() == 2 || w.Hour() == 3) && w.Minute()%20 == 0
		}},
		{"0 0 * * 0", true, func(w time.Time) bool { return w.Hour() == 0 && w.Minute() == 0 && w.Weekday() == 0 }},
		{"15 0-23/2 * * *", false, func(w time.Time) bool { return w.Hour()%2 == 0 && w.Minute() == 15 }},
		{"0 */3 1-15 * 0", false, func(w time.Time) bool {
			return w.Hour()%3 == 0 && w.Minute() == 0 && (w.Day() <= 15 || w.Weekday() == 0)
		}},
		{"*/30 * * * *", false, func(w time.Time) bool { return w.Minute()%30 == 0 }},
	}
}

func policies() []cron.Policy {
	return []cron.Policy{
		{Gap: cron.GapShift, Fold: cron.FoldFirst}, {Gap: cron.GapShift, Fold: cron.FoldBoth},
		{Gap: cron.GapSkip, Fold: cron.FoldFirst}, {Gap: cron.GapSkip, Fold: cron.FoldBoth},
	}
}

// minute is one minute of real time and what the wall clock shows then.
type minute struct {
	at, local time.Time
	again     bool        // the wall clock has shown this before
	jumped    []time.Time // wall times passed over since the minute before
}

// walk visits every minute of real time in (from, to], remembering each wall
// minute it has passed, from two days before.
func walk(zone *time.Location, from, to time.Time) []minute {
	var out []minute
	seen := map[int64]bool{}
	var top int64
	lead := from.Add(-48 * time.Hour)
	for t := lead; !t.After(to); t = t.Add(time.Minute) {
		m := minute{at: t.UTC(), local: t.In(zone)}
		_, offset := m.local.Zone()
		wall := (t.Unix() + int64(offset)) / 60
		for w := top + 1; t != lead && w < wall; w++ {
			seen[w] = true
			m.jumped = append(m.jumped, time.Unix(w*60, 0).UTC())
		}
		m.again = seen[wall]
		seen[wall] = true
		if top = max(top, wall); t.After(from) {
			out = append(out, m)
		}
	}
	return out
}

// expected is what the minutes make of a schedule.
func expected(minutes []minute, m match, p cron.Policy) []cron.Occurrence {
	var out []cron.Occurrence
	for _, now := range minutes {
		var gap int64
		for _, w := range now.jumped {
			if m.fixed && m.on(w) {
				gap++
			}
		}
		runs := m.on(now.local) && (!m.fixed || p.Fold == cron.FoldBoth || !now.again)
		if runs || gap > 0 {
			out = append(out, cron.Occurrence{At: now.at, Gap: gap, Skipped: !runs && p.Gap == cron.GapSkip})
		}
	}
	return out
}

func schedule(t testing.TB, expr, zone string, p cron.Policy) *cron.Schedule {
	t.Helper()
	e, err := cron.Parse(expr)
	require.NoError(t, err)
	loc, err := cron.LoadZone(zone)
	require.NoError(t, err)
	s, err := cron.New(e, loc, p)
	require.NoError(t, err)
	return s
}

type transition struct {
	zone *time.Location
	at   time.Time
}

// transitions lists the changes of offset from 2015 to 2037 of every zone.
func transitions(t *testing.T) []transition {
	names, err := os.ReadFile("zones.txt")
	require.NoError(t, err)
	var all []transition
	for name := range strings.FieldsSeq(string(names)) {
		zone, err := cron.LoadZone(name)
		require.NoError(t, err)
		at := time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC)
		for {
			_, end := at.In(zone).ZoneBounds()
			if end.IsZero() || end.Year() > 2037 {
				break
			}
			if !end.After(at) { // see rawSpan
				end = time.Date(at.Year()+1, 1, 1, 0, 0, 0, 0, time.UTC)
			}
			_, before := end.Add(-time.Second).In(zone).Zone()
			if _, after := end.In(zone).Zone(); before != after {
				all = append(all, transition{zone, end.UTC()})
			}
			at = end.UTC()
		}
	}
	require.Greater(t, len(all), 5000)
	return all
}

// By default one transition of each zone, chosen by a fixed seed; all of them with
// MYOSIN_CRON_ALL=1.
func TestEveryTransitionAgreesWithWalkingEveryMinute(t *testing.T) {
	t.Parallel()
	all := transitions(t)
	if os.Getenv("MYOSIN_CRON_ALL") == "" {
		rng := rand.New(rand.NewPCG(1, 2))
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		// One of each zone, so that none is left out.
		seen := map[string]bool{}
		var some []transition
		for _, c := range all {
			if !seen[c.zone.String()] {
				seen[c.zone.String()] = true
				some = append(some, c)
			}
		}
		all = some
	}
	t.Logf("%d transitions", len(all))
	for _, c := range all {
		from, to := c.at.Add(-72*time.Hour), c.at.Add(72*time.Hour)
		minutes := walk(c.zone, from, to)
		for _, m := range matches() {
			for _, p := range policies() {
				compare(t, m, c.zone, p, from, to, expected(minutes, m, p))
			}
		}
	}
}

func compare(t *testing.T, m match, zone *time.Location, p cron.Policy, from, to time.Time, want []cron.Occurrence) {
	t.Helper()
	e, err := cron.Parse(m.expr)
	require.NoError(t, err)
	s, err := cron.New(e, zone, p)
	require.NoError(t, err)
	var counts cron.Counts
	var last cron.Occurrence
	at := from
	for i, w := range want {
		got := s.Next(at)
		if got != w {
			require.Equal(t, w, got, "%s %s %v: occurrence %d after %s", m.expr, zone, p, i, at)
		}
		if at = got.At; !w.Skipped {
			counts.Runs++
			last = w
			if l := s.Latest(at.Add(30 * time.Second)); l != w {
				require.Equal(t, w, l, "%s %s %v: latest at %s", m.expr, zone, p, at)
			}
		}
		if p.Gap == cron.GapSkip {
			counts.Skipped += w.Gap
		}
	}
	require.True(t, s.Next(at).At.After(to), "%s %s %v: one too many", m.expr, zone, p)
	require.Equal(t, counts, s.Count(from, to), "%s %s %v from %s", m.expr, zone, p, from)
	if !last.At.IsZero() {
		require.Equal(t, last, s.Latest(to), "%s %s %v", m.expr, zone, p)
	}
}
