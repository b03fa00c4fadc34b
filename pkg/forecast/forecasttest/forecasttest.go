// Package forecasttest holds the suite every forecast store passes.
package forecasttest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/forecast"
)

// Store runs the suite. open returns an empty store each time.
func Store(t *testing.T, open func(t *testing.T) forecast.Store) {
	start := time.Now().Add(time.Minute).Truncate(time.Minute).UTC()
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	add := func(t *testing.T, s forecast.Store, service string, minute, n int) {
		t.Helper()
		require.NoError(t, s.Add(t.Context(), service, at(minute), int64(n)))
	}
	read := func(t *testing.T, s forecast.Store, service string, from, to time.Time) []forecast.Point {
		t.Helper()
		points, err := s.Range(t.Context(), service, from, to)
		require.NoError(t, err)
		return points
	}

	point := func(minute time.Time, due int64) forecast.Point { return forecast.Point{Minute: minute, Due: due} }

	t.Run("counts of a minute add up", func(t *testing.T) {
		s := open(t)
		add(t, s, "payments", 3, 5)
		add(t, s, "payments", 3, 7)
		add(t, s, "payments", 3, 4_000_000_000)
		require.Equal(t, []forecast.Point{{Minute: at(3), Due: 4_000_000_012}}, read(t, s, "payments", at(0), at(60)))
	})
	t.Run("adds at once are all counted", func(t *testing.T) {
		s := open(t)
		var all sync.WaitGroup
		errs := make([]error, 20)
		for i := range errs {
			all.Go(func() { errs[i] = s.Add(t.Context(), "payments", at(i%2), 3) })
		}
		all.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		require.Equal(t, []forecast.Point{{Minute: at(0), Due: 30}, {Minute: at(1), Due: 30}}, read(t, s, "payments", at(0), at(60)))
	})
	t.Run("a range holds its first minute and not its last, in order", func(t *testing.T) {
		s := open(t)
		for _, minute := range []int{9, 10, 2, 1, 0, 11, -1} {
			add(t, s, "payments", minute, minute+2)
		}
		require.Equal(t, []forecast.Point{point(at(1), 3), point(at(2), 4), point(at(9), 11), point(at(10), 12)}, read(t, s, "payments", at(1), at(11)))
		require.Equal(t, []forecast.Point{point(at(2), 4)}, read(t, s, "payments", at(1).Add(time.Second), at(2).Add(time.Second)),
			"it counts when a minute starts")
		require.Empty(t, read(t, s, "payments", at(3), at(9)))
		require.Empty(t, read(t, s, "payments", at(2), at(2)))
		require.Empty(t, read(t, s, "payments", at(9), at(1)))
	})
	t.Run("a service sees its own counts only", func(t *testing.T) {
		s := open(t)
		add(t, s, "runs", 1, 1)
		add(t, s, "runs-urgent", 1, 2)
		require.Equal(t, []forecast.Point{point(at(1), 1)}, read(t, s, "runs", at(0), at(60)))
		require.Equal(t, []forecast.Point{point(at(1), 2)}, read(t, s, "runs-urgent", at(0), at(60)))
		require.Empty(t, read(t, s, "run", at(0), at(60)))
	})
	t.Run("a time within a minute is that minute, in any zone", func(t *testing.T) {
		s := open(t)
		zone := time.FixedZone("here", 5*3600+45*60)
		require.NoError(t, s.Add(t.Context(), "payments", at(1).Add(59*time.Second).In(zone), 1))
		require.Equal(t, []forecast.Point{point(at(1), 1)}, read(t, s, "payments", at(0).In(zone), at(60).In(zone)))
	})
	t.Run("years ahead", func(t *testing.T) {
		s := open(t)
		const years = 10 * 366 * 24 * 60
		add(t, s, "payments", years, 1)
		require.Equal(t, []forecast.Point{point(at(years), 1)}, read(t, s, "payments", at(years), at(years+60)))
		require.Empty(t, read(t, s, "payments", at(0), at(60)))
	})
	t.Run("a failure is no empty answer", func(t *testing.T) {
		s := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, s.Add(ctx, "payments", at(0), 1), context.Canceled)
		_, err := s.Range(ctx, "payments", at(0), at(60))
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, read(t, s, "payments", at(0), at(60)))
	})
}
