package proxy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"
)

// Kind is a fault of single calls.
type Kind string

// The faults of calls. A window of one hits a share of the calls of a place.
const (
	Slow        Kind = "slow"         // held up to two seconds on the way there
	Held        Kind = "held"         // held for longer than a process waits, then carried out
	SlowBack    Kind = "slow-back"    // held as long on the way back
	ResetBefore Kind = "reset-before" // connection cut, nothing applied
	ResetAfter  Kind = "reset-after"  // applied, then the connection is cut
	Throttle    Kind = "throttle"     // of the call
	Refuse      Kind = "refuse-parts" // some entries or statements of a batch fail
	Fail        Kind = "server-error" // 500 or 503, nothing applied
	FailAfter   Kind = "error-after"  // applied, then 500
	Repeat      Kind = "repeat"       // messages received are received again
	Partition   Kind = "partition"    // nothing comes through, either way
	Date        Kind = "date"         // the Date of answers is off
)

// Window is a fault of a place for a while.
type Window struct {
	Kind  Kind
	Until time.Time
	Share float64       // of the calls, for the kinds that hit single ones
	Shift time.Duration // of Date; whole seconds
	Hold  time.Duration // of Held, at least; up to 1.4 times that
}

// Place is a slot for processes, one after the other or for a while two: the
// faults of one place hit all its processes, and nobody else.
type Place struct {
	mu      sync.Mutex
	rand    *rand.Rand
	windows []Window
	counts  map[Kind]int
	shifts  []shift
}

// shift is what the Date was off by, from a time on.
type shift struct {
	from time.Time
	by   time.Duration
}

// NewPlace returns a place without faults.
func NewPlace(seed, place uint64) *Place {
	return &Place{rand: rand.New(rand.NewPCG(seed, place)), counts: make(map[Kind]int)} //nolint:gosec // a replay needs a seed.
}

// Open begins a window.
func (p *Place) Open(w Window) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.windows = append(p.windows, w)
	if w.Kind == Date || w.Kind == Partition {
		p.counts[w.Kind]++
	}
	if w.Kind == Date {
		p.shifts = append(p.shifts, shift{time.Now(), w.Shift}, shift{w.Until, 0})
	}
}

// Heal ends every window.
func (p *Place) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.windows = nil
}

// Counts returns how often each fault was injected; of partitions and of Date,
// the windows.
func (p *Place) Counts() map[Kind]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// dateMemory is how long a clock may go by an answer: see package clock.
const dateMemory = 100 * time.Second

// DateWasOff reports whether the clock of a process here may rest on a Date that
// was off, at a time.
func (p *Place) DateWasOff(at time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.shifts {
		if !s.from.After(at) && at.Sub(s.from) < dateMemory {
			return true
		}
	}
	return false
}

// partitioned returns when the partition ends that is on now; zero without one.
func (p *Place) partitioned() (until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, w := range p.windows {
		if w.Kind == Partition && w.Until.After(now) && w.Until.After(until) {
			until = w.Until
		}
	}
	return until
}

// dateShift is what the Date of answers is off by now.
func (p *Place) dateShift() (by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, w := range p.windows {
		if w.Kind == Date && w.Until.After(now) {
			by = w.Shift
		}
	}
	return by
}

// dice is what is to happen to one call.
type dice struct {
	kind  Kind // of the one fault that hits it; empty for none
	delay time.Duration
	coin  float64 // for what else is to be chosen
}

// roll decides on one call: the first window that hits it does. A kind that can
// do nothing to it does not count; see able.
func (p *Place) roll(able func(Kind) bool) dice {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, w := range p.windows {
		if w.Share == 0 || !w.Until.After(now) || p.rand.Float64() >= w.Share || !able(w.Kind) {
			continue
		}
		p.counts[w.Kind]++
		share, coin := p.rand.Float64(), p.rand.Float64()
		d := dice{kind: w.Kind, delay: time.Duration(share * float64(2*time.Second)), coin: coin}
		if d.kind == Held {
			d.delay = w.Hold + time.Duration(share*0.4*float64(w.Hold))
		}
		return d
	}
	return dice{}
}

// String describes a window for the schedule.
func (w Window) String() string {
	switch {
	case w.Kind == Date:
		return fmt.Sprintf("%s %+ds", w.Kind, int(w.Shift.Seconds()))
	case w.Share > 0:
		return fmt.Sprintf("%s %.0f%%", w.Kind, 100*w.Share)
	}
	return string(w.Kind)
}
