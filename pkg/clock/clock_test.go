package clock_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/clock"
)

// world is a server with the true time and a local clock that differs by skew
// and gains ppm microseconds a second.
type world struct {
	now   time.Time // true
	start time.Time
	skew  time.Duration
	ppm   int
	clock *clock.Clock
}

func newWorld(skew time.Duration) *world {
	w := &world{now: time.Date(2027, 1, 1, 9, 0, 0, 0, time.UTC), skew: skew}
	w.start = w.now
	w.clock = clock.New(w.local)
	return w
}

func (w *world) off() time.Duration {
	return w.skew + w.now.Sub(w.start)*time.Duration(w.ppm)/1_000_000
}

func (w *world) local() time.Time { return w.now.Add(w.off()) }

// ask makes one request that takes out to the server and back from it.
func (w *world) ask(out, back time.Duration) {
	sent := w.local()
	w.now = w.now.Add(out)
	date := w.now.Truncate(time.Second)
	w.now = w.now.Add(back)
	w.clock.Observe(date, sent, w.local())
}

// ahead is how far the clock is ahead of the server.
func (w *world) ahead() time.Duration { return w.clock.Now().Sub(w.now) }

func span(t *rapid.T, lo, hi time.Duration, name string) time.Duration {
	return time.Duration(rapid.Int64Range(int64(lo), int64(hi)).Draw(t, name))
}

func TestCorrectedClockIsNeverAheadOfTheServerAndLittleBehind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := span(t, 3100*time.Millisecond, time.Hour, "skew")
		if rapid.Bool().Draw(t, "behind") {
			size = -size
		}
		w := newWorld(size)
		w.ppm = rapid.IntRange(-500, 500).Draw(t, "ppm")
		slowest := span(t, time.Millisecond, 5*time.Second, "slowest")
		w.now = w.now.Add(span(t, 0, time.Second, "fraction"))
		w.start = w.now
		var last time.Duration
		for range rapid.IntRange(1, 80).Draw(t, "requests") {
			out, back := span(t, 0, slowest/2, "out"), span(t, 0, slowest/2, "back")
			w.ask(out, back)
			last = out + back
			require.LessOrEqual(t, w.ahead(), time.Duration(0), "ahead after an answer")
			require.GreaterOrEqual(t, w.ahead(), -1200*time.Millisecond-last, "late by more than a second and the round trip")
			w.now = w.now.Add(span(t, 0, 5*time.Second, "gap"))
			require.LessOrEqual(t, w.ahead(), time.Duration(0), "ahead before the next answer")
		}
	})
}

func TestSmallSkewIsLeftAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// The measurement is rough by half a second and half the round trip.
		w := newWorld(span(t, -1400*time.Millisecond, 1400*time.Millisecond, "skew"))
		for range rapid.IntRange(1, 80).Draw(t, "requests") {
			w.ask(span(t, 0, 50*time.Millisecond, "out"), span(t, 0, 50*time.Millisecond, "back"))
			w.now = w.now.Add(span(t, 0, 20*time.Second, "gap"))
			require.Equal(t, w.local(), w.clock.Now())
			require.NoError(t, w.clock.Usable())
			require.NoError(t, w.clock.Ready())
		}
	})
}

func TestManyAnswersNarrowTheSkew(t *testing.T) {
	w := newWorld(7 * time.Second)
	for range 1000 { // five minutes
		w.ask(5*time.Millisecond, 5*time.Millisecond)
		w.now = w.now.Add(317 * time.Millisecond)
		if w.now.Sub(w.start) > 20*time.Second {
			skew, known := w.clock.Skew()
			require.True(t, known)
			require.InDelta(t, 7, skew.Seconds(), 0.05)
			require.InDelta(t, 0, w.ahead().Seconds(), 0.1)
		}
	}
}

func TestNothingIsKnownBeforeTheFirstAnswer(t *testing.T) {
	w := newWorld(0)
	require.ErrorContains(t, w.clock.Usable(), "no answer of AWS")
	require.Error(t, w.clock.Ready())
	_, known := w.clock.Skew()
	require.False(t, known)
	w.clock.Observe(time.Time{}, w.local(), w.local()) // an answer without a Date
	require.Error(t, w.clock.Usable())
	w.ask(time.Millisecond, time.Millisecond)
	require.NoError(t, w.clock.Usable())
}

func TestGrossSkewIsRefusedAndModerateSkewIsUsedButNotReady(t *testing.T) {
	for _, c := range []struct {
		skew          time.Duration
		usable, ready bool
	}{
		{time.Second, true, true}, {-time.Second, true, true},
		{5 * time.Second, true, false}, {-5 * time.Second, true, false},
		{29 * time.Second, true, false}, {-29 * time.Second, true, false},
		{31 * time.Second, false, false}, {-31 * time.Second, false, false},
		{24 * time.Hour, false, false}, {-10 * 365 * 24 * time.Hour, false, false},
	} {
		w := newWorld(c.skew)
		w.ask(10*time.Millisecond, 10*time.Millisecond)
		require.Equal(t, c.usable, w.clock.Usable() == nil, "usable at %s", c.skew)
		require.Equal(t, c.ready, w.clock.Ready() == nil, "ready at %s", c.skew)
	}
}

func TestAStepOfTheLocalClockIsFollowedOnTheNextAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(span(t, -time.Second, time.Second, "skew"))
		for range rapid.IntRange(1, 30).Draw(t, "before") {
			w.ask(10*time.Millisecond, 10*time.Millisecond)
			w.now = w.now.Add(span(t, 0, 5*time.Second, "gap"))
		}
		before := w.skew
		step := span(t, 5*time.Second, time.Hour, "step")
		if rapid.Bool().Draw(t, "back") {
			step = -step
		}
		w.skew += step
		w.ask(10*time.Millisecond, 10*time.Millisecond)
		require.LessOrEqual(t, w.ahead(), time.Duration(0))
		require.GreaterOrEqual(t, w.ahead(), -1200*time.Millisecond)
		require.Error(t, w.clock.Ready())

		w.skew = before // the administrator puts it right
		w.ask(10*time.Millisecond, 10*time.Millisecond)
		require.LessOrEqual(t, w.ahead().Abs(), 1200*time.Millisecond)
		require.NoError(t, w.clock.Usable())
	})
}

// A quiet hour may hide a step too small to contradict the old bounds.
func TestBoundsFromBeforeALongSilenceAreDropped(t *testing.T) {
	w := newWorld(10 * time.Second)
	for range 20 {
		w.ask(0, 0)
		w.now = w.now.Add(101 * time.Millisecond)
	}
	w.now = w.now.Add(time.Hour)
	w.skew += 400 * time.Millisecond
	w.now = w.now.Truncate(time.Second).Add(300 * time.Millisecond)
	w.ask(0, 0)
	require.LessOrEqual(t, w.ahead(), time.Duration(0))
}

func TestAnAnswerDuringWhichTheClockWasSetBackIsIgnored(t *testing.T) {
	w := newWorld(0)
	w.clock.Observe(w.now, w.local(), w.local().Add(-time.Minute))
	require.Error(t, w.clock.Usable())
}

func TestASlowFirstAnswerMayNotMakeJobsEarly(t *testing.T) {
	w := newWorld(3500 * time.Millisecond)
	w.ask(8800*time.Millisecond, 0) // the middle of the bounds is near zero
	require.LessOrEqual(t, w.ahead(), time.Duration(0))
}

func TestTrustedClockIsTheLocalClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.Trusted(nil)
		require.NoError(t, c.Usable())
		require.NoError(t, c.Ready())
		c.Observe(time.Now().Add(time.Hour), time.Now(), time.Now())
		require.Equal(t, time.Now(), c.Now())
		skew, known := c.Skew()
		require.True(t, known)
		require.Zero(t, skew)
	})
}

func TestClockMayBeSharedByManyGoroutines(t *testing.T) {
	c := clock.New(nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				now := c.Local()
				c.Observe(now.Truncate(time.Second), now, now)
				_ = c.Now()
				_ = c.Usable()
			}
		})
	}
	wg.Wait()
	require.NoError(t, c.Ready())
}
