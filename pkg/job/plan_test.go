package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/cron"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func utc(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

func cronJob(expr, zone string, c CatchUp) Job {
	j := Job{ID: trigger.NewID(), Spec: Spec{Tenant: "t", Schedule: Timing{Cron: expr, Zone: zone}, CatchUp: c}}
	j.Spec = j.WithDefaults()
	return j
}

func plan(t require.TestingT, j Job) *Plan {
	p, err := j.Plan()
	require.NoError(t, err)
	return p
}

// Case 24, with minutes: down for five hours.
func TestAfterAnOutageThePolicyChoosesWhatStillRuns(t *testing.T) {
	nominal, now := utc("2026-03-01T10:00:00Z"), utc("2026-03-01T15:00:30Z")
	t.Run("latest", func(t *testing.T) {
		p := plan(t, cronJob("* * * * *", "UTC", CatchUpLatest))
		s := p.After(nominal, now)
		require.Equal(t, Step{Pending: utc("2026-03-01T15:00:00Z"), Skips: []Skip{{
			Range: Range{From: nominal, Until: utc("2026-03-01T14:59:00Z"), Count: 300}, Kind: Missed, Reason: "catch-up: latest",
		}}}, s)
		require.Equal(t, Step{Run: true, Pending: utc("2026-03-01T15:01:00Z")}, p.After(s.Pending, now))
	})
	t.Run("skip", func(t *testing.T) {
		s := plan(t, cronJob("* * * * *", "UTC", CatchUpSkip)).After(nominal, now)
		require.Equal(t, Step{Pending: utc("2026-03-01T15:01:00Z"), Skips: []Skip{{
			Range: Range{From: nominal, Until: utc("2026-03-01T15:00:00Z"), Count: 301}, Kind: Missed, Reason: "catch-up: skip",
		}}}, s)
	})
	t.Run("all", func(t *testing.T) {
		j := cronJob("* * * * *", "UTC", CatchUpAll)
		j.CatchUpWindow = 24 * time.Hour
		p := plan(t, j)
		s := p.After(nominal, now)
		require.False(t, s.Run)
		require.Equal(t, utc("2026-03-01T13:21:00Z"), s.Pending)
		require.Equal(t, int64(201), s.Skips[0].Count)
		runs := 0
		for at := s.Pending; !at.After(now); runs++ {
			s = p.After(at, now)
			require.True(t, s.Run)
			require.Empty(t, s.Skips)
			at = s.Pending
		}
		require.Equal(t, 100, runs)
	})
	t.Run("all within its window", func(t *testing.T) {
		j := cronJob("* * * * *", "UTC", CatchUpAll)
		j.CatchUpWindow = 10 * time.Minute
		s := plan(t, j).After(nominal, now)
		require.Equal(t, utc("2026-03-01T14:51:00Z"), s.Pending)
		require.Equal(t, int64(291), s.Skips[0].Count)
	})
}

func TestAnOccurrenceInTimeRunsAndTheNextFollowsFromItsNominalTime(t *testing.T) {
	p := plan(t, cronJob("0 9 * * 1-5", "Asia/Ho_Chi_Minh", CatchUpLatest))
	s := p.After(utc("2026-11-27T02:00:00Z"), utc("2026-11-27T05:00:00Z"))
	require.Equal(t, Step{Run: true, Pending: utc("2026-11-30T02:00:00Z")}, s)
}

// Case 19.
func TestUnderSkipAGapIsARecordOfItsOwn(t *testing.T) {
	j := cronJob("0 2 * * *", "America/Los_Angeles", CatchUpLatest)
	j.Schedule.Policy = cron.Policy{Gap: cron.GapSkip}
	s := plan(t, j).After(utc("2025-03-08T10:00:00Z"), utc("2025-03-08T10:00:01Z"))
	require.True(t, s.Run)
	require.Equal(t, utc("2025-03-10T09:00:00Z"), s.Pending)
	require.Len(t, s.Skips, 1)
	require.Equal(t, Gap, s.Skips[0].Kind)
	require.Equal(t, utc("2025-03-09T10:00:00Z"), s.Skips[0].From)

	j.Schedule.Cron = "0,30 2,3 * * *" // 03:00 is a run of its own, where the gap ends
	s = plan(t, j).After(utc("2025-03-08T11:30:00Z"), utc("2025-03-08T11:30:01Z"))
	require.Equal(t, utc("2025-03-09T10:00:00Z"), s.Pending)
	require.Len(t, s.Skips, 1)
	require.Equal(t, int64(2), s.Skips[0].Count)

	j.Schedule.Policy = cron.Policy{}
	s = plan(t, j).After(utc("2025-03-08T11:30:00Z"), utc("2025-03-08T11:30:01Z"))
	require.Equal(t, utc("2025-03-09T10:00:00Z"), s.Pending)
	require.Empty(t, s.Skips)
}

func TestAJobThatRunsOnceRunsHoweverLate(t *testing.T) {
	at := utc("2026-01-01T00:00:00Z")
	j := Job{ID: trigger.NewID(), Spec: Spec{Schedule: Timing{At: at}}}
	p := plan(t, j)
	first, skips := p.First(at.AddDate(1, 0, 0))
	require.Equal(t, at, first)
	require.Empty(t, skips)
	require.Equal(t, Step{Run: true}, p.After(at, at.AddDate(1, 0, 0)))
}

// Every occurrence is a run or inside a counted range, whenever the messages come.
func TestEveryOccurrenceIsARunOrCounted(t *testing.T) {
	exprs := []string{"* * * * *", "*/7 * * * *", "0 2 * * *", "30 1 * * *", "0 */3 * * *", "15 1-4 * * *"}
	zones := []string{"UTC", "America/Los_Angeles", "Australia/Lord_Howe", "Asia/Ho_Chi_Minh"}
	rapid.Check(t, func(t *rapid.T) {
		j := cronJob(rapid.SampledFrom(exprs).Draw(t, "expr"), rapid.SampledFrom(zones).Draw(t, "zone"),
			rapid.SampledFrom([]CatchUp{CatchUpLatest, CatchUpAll, CatchUpSkip}).Draw(t, "catchUp"))
		j.Schedule.Policy.Gap = rapid.SampledFrom([]cron.Gap{cron.GapShift, cron.GapSkip}).Draw(t, "gap")
		tolerance := time.Duration(rapid.IntRange(0, 600).Draw(t, "tolerance")) * time.Second
		j.Tolerance = &tolerance
		p := plan(t, j)
		start := utc("2025-03-07T00:00:00Z").Add(time.Duration(rapid.IntRange(0, 8*24*3600).Draw(t, "start")) * time.Second)
		if rapid.Bool().Draw(t, "autumn") {
			start = start.AddDate(0, 7, 25)
		}
		at, skips := p.First(start)
		var runs, skipped int64
		count := func(skips []Skip) {
			for _, s := range skips {
				skipped += s.Count
			}
		}
		count(skips)
		now := p.Due(at)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, rapid.SampledFrom([]int64{5, 600, 40_000}).Draw(t, "late")).Draw(t, "after")) * time.Second)
			if due := p.Due(at); now.Before(due) {
				now = due
			}
			s := p.After(at, now)
			count(s.Skips)
			if s.Run {
				runs++
			}
			require.True(t, s.Pending.After(at), "goes on")
			at = s.Pending
		}
		c, err := j.Schedule.Compile()
		require.NoError(t, err)
		want := c.Count(start, at.Add(-time.Nanosecond))
		gapAt := c.Count(at.Add(-time.Nanosecond), at).Skipped // already recorded with the arming
		require.Equal(t, want.Runs+want.Skipped+gapAt, runs+skipped)
	})
}
