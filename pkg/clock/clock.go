// Package clock owns this process's idea of the time: the local clock, checked
// against the Date of AWS answers and corrected by the measured offset where
// they differ by more than two seconds.
//
// A Date has whole seconds, so one answer bounds the offset to a second plus
// the round trip; the bounds of recent answers are intersected. The correction
// is rounded towards late: while answers keep coming, a corrected clock does not
// run ahead of the server's. It lags by a second and a round trip at most.
package clock

import (
	"fmt"
	"sync"
	"time"
)

const (
	// CorrectAbove is the skew beyond which the local clock is corrected.
	CorrectAbove = 2 * time.Second
	// RefuseAbove is the skew beyond which nothing is acquired or sent.
	RefuseAbove = 30 * time.Second
	// window is how long the bounds of answers are gathered before the oldest
	// are dropped, a window at a time: none is used that is over three old.
	window = 30 * time.Second
	// resolution is that of a Date.
	resolution = time.Second
	// drift is what a local clock may have gained on the oldest bound: 90 s at
	// 500 ppm, the most that adjtime(3) slews, rounded up.
	drift = 50 * time.Millisecond
)

// bounds say that local − server lies in [lo, hi].
type bounds struct {
	lo, hi time.Duration
	since  time.Time // local time of the oldest answer that they stem from
}

func (b bounds) overlaps(o bounds) bool { return b.lo <= o.hi && o.lo <= b.hi }

// and returns what both say; they overlap.
func (b bounds) and(o bounds) bounds {
	return bounds{lo: max(b.lo, o.lo), hi: min(b.hi, o.hi), since: b.since}
}

func (b bounds) middle() time.Duration { return (b.lo + b.hi) / 2 }

// Clock is safe for concurrent use. The zero value is not usable: see [New].
type Clock struct {
	local   func() time.Time
	trusted bool

	mu         sync.Mutex
	known      bool
	previous   bounds        // of the window before
	current    bounds        // of the window being gathered; overlaps previous
	correction time.Duration // subtracted from local
}

// New returns a clock over local that knows no server time yet. nil means
// [Steady], which is what a process should use.
func New(local func() time.Time) *Clock {
	if local == nil {
		local = Steady()
	}
	return &Clock{local: local}
}

// Steady returns a local clock that reads the wall once, now, and counts on by
// the monotonic clock: a step of the machine's wall clock cannot make a trigger
// early. Where the monotonic clock stands still (a suspended machine) it runs
// late until an answer of the server corrects it.
func Steady() func() time.Time {
	start := time.Now()
	return func() time.Time { return start.Add(time.Since(start)) }
}

// Trusted returns a clock that takes local (nil: time.Now) for the truth: for
// engines in the same process, which tell no time of their own.
func Trusted(local func() time.Time) *Clock {
	c := New(local)
	c.trusted = true
	return c
}

// Local returns the uncorrected local time.
func (c *Clock) Local() time.Time { return c.local() }

// Now returns the time, corrected where the skew calls for it.
func (c *Clock) Now() time.Time {
	t := c.local()
	if c.trusted {
		return t
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return t.Add(-c.correction)
}

// Observe takes in one answer of a server: its Date, and the local (uncorrected)
// times at which the request left and the answer came.
func (c *Clock) Observe(date, sent, received time.Time) {
	if c.trusted || date.IsZero() {
		return
	}
	// The server's clock read [date, date+1s) somewhere between sent and received.
	b := bounds{lo: sent.Sub(date) - resolution, hi: received.Sub(date), since: received}
	if b.lo > b.hi {
		return // the local clock was set back during the request
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	age := received.Sub(c.current.since)
	switch {
	case !c.known, !b.overlaps(c.previous.and(c.current)), age > 2*window, age < -window:
		// The first answer, or the local clock was stepped, or nothing was heard
		// for long: only the newest counts.
		c.known, c.previous, c.current = true, b, b
	case age > window:
		c.previous, c.current = c.current, b
	default:
		c.current = c.current.and(b)
	}
	c.correction = correction(c.previous.and(c.current))
}

// correction returns what to subtract from the local time. It is zero where the
// skew is likely below CorrectAbove and cannot be over it by more than the
// resolution; after a slow answer it is not zero although the clock may be
// right, because it may as well be wrong.
func correction(b bounds) time.Duration {
	const beyond = CorrectAbove + resolution
	if b.middle().Abs() > CorrectAbove || b.hi > beyond || b.lo < -beyond {
		return b.hi + drift
	}
	return 0
}

// Skew returns local minus server time, the middle of what is possible, and
// whether any answer was seen.
func (c *Clock) Skew() (time.Duration, bool) {
	if c.trusted {
		return 0, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.previous.and(c.current).middle(), c.known
}

// Usable reports why jobs must not be acquired or sent by this clock: no server
// time is known yet, or the skew is over [RefuseAbove]. nil if they may.
func (c *Clock) Usable() error {
	skew, known := c.Skew()
	switch {
	case !known:
		return fmt.Errorf("clock: no answer of AWS seen yet to check it against")
	case skew.Abs() > RefuseAbove:
		return fmt.Errorf("clock: %s from AWS time; nothing is delivered above %s", skew.Round(time.Millisecond), RefuseAbove)
	}
	return nil
}

// Ready reports why the process should not be called ready: [Clock.Usable], or
// a skew that had to be corrected. nil if it may.
func (c *Clock) Ready() error {
	if err := c.Usable(); err != nil {
		return err
	}
	if skew, _ := c.Skew(); skew.Abs() > CorrectAbove {
		return fmt.Errorf("clock: %s from AWS time, corrected; at most %s is normal", skew.Round(time.Millisecond), CorrectAbove)
	}
	return nil
}
