// Package clock owns this process's idea of the time: the local clock, checked
// against the Date of AWS answers and corrected by the measured offset where
// they differ by more than two seconds.
//
// A Date has whole seconds, so one answer bounds the offset to a second plus
// the round trip; the bounds of recent answers are intersected. The correction
// is rounded towards late: a corrected clock never runs ahead of the server's.
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
	// window is how long an answer's bounds are trusted.
	window = 30 * time.Second
)

// Clock is safe for concurrent use. The zero value is not usable: see [New].
type Clock struct {
	local   func() time.Time
	trusted bool

	mu         sync.Mutex
	known      bool
	lo, hi     time.Duration // local − server lies in [lo, hi]
	since      time.Time     // local time of the oldest bound in lo, hi
	nlo, nhi   time.Duration // bounds of the window being collected
	nsince     time.Time
	correction time.Duration // subtracted from local
}

// New returns a clock over local (nil: time.Now) that knows no server time yet.
func New(local func() time.Time) *Clock {
	if local == nil {
		local = time.Now
	}
	return &Clock{local: local}
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
	lo, hi := sent.Sub(date)-time.Second, received.Sub(date)
	if lo > hi {
		return // the local clock was set back during the request
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.known || lo > c.hi || hi < c.lo:
		// First answer, or the local clock was stepped: only the newest counts.
		c.known = true
		c.lo, c.hi, c.since = lo, hi, received
		c.nlo, c.nhi, c.nsince = lo, hi, received
	default:
		c.lo, c.hi = max(c.lo, lo), min(c.hi, hi)
		if lo > c.nhi || hi < c.nlo {
			c.nlo, c.nhi, c.nsince = lo, hi, received
		} else {
			c.nlo, c.nhi = max(c.nlo, lo), min(c.nhi, hi)
		}
		if received.Sub(c.since) > window || received.Before(c.since) {
			c.lo, c.hi, c.since = c.nlo, c.nhi, c.nsince
			c.nlo, c.nhi, c.nsince = lo, hi, received
		}
	}
	c.correction = 0
	if skew := (c.lo + c.hi) / 2; skew.Abs() > CorrectAbove {
		c.correction = c.hi
	}
}

// Skew returns local minus server time, the middle of what is possible, and
// whether any answer was seen.
func (c *Clock) Skew() (time.Duration, bool) {
	if c.trusted {
		return 0, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return (c.lo + c.hi) / 2, c.known
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
