// Package plan owns the schedule of a run's faults: what happens to which place,
// when and for how long, as a seed decides. It is a pure function.
package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/tools/chaos/internal/proxy"
)

// Kind is what happens to a process or a queue; the faults of calls are windows.
type Kind string

// What happens.
const (
	Kill   Kind = "kill"   // SIGKILL, and another one after a while
	Freeze Kind = "freeze" // SIGSTOP, then SIGCONT
	Roll   Kind = "roll"   // SIGTERM, then another one
	Surge  Kind = "surge"  // another one, then SIGTERM
	Clock  Kind = "clock"  // rolled to one whose clock is off, and back
	Queue  Kind = "queue"  // a service's queue is deleted, and made again
	Disk   Kind = "disk"   // the engine's disk is full
	Calls  Kind = "calls"  // a window of faults of single calls
)

// Event is one thing that happens.
type Event struct {
	At, Length time.Duration // since the start of the load
	Kind       Kind
	Place      string
	Window     proxy.Window  // of Calls
	Offset     time.Duration // of Clock
	Instead    bool          // of Freeze: a replacement is started meanwhile
}

// String is the event's line in the schedule.
func (e *Event) String() string {
	return fmt.Sprintf("%6.1fs %-7s %-12s %s", e.At.Seconds(), e.Kind, e.Place, e.Detail())
}

// Detail is what there is to say beside time, kind and place.
func (e *Event) Detail() string {
	s := fmt.Sprintf("for %4.1fs", e.Length.Seconds())
	switch {
	case e.Kind == Calls:
		s += "  " + e.Window.String()
	case e.Kind == Clock:
		s += fmt.Sprintf("  %+.1fs", e.Offset.Seconds())
	case e.Instead:
		s += "  with a replacement"
	}
	return s
}

// Options bound a schedule.
type Options struct {
	Seed   uint64
	Length time.Duration // everything begins and ends within; at least MinLength
	// Places by role: the names that a place begins with.
	Places []string
	Queue  string // the place that stands for the queue to be deleted
	Caller string // the place of the callers
	Engine string // the place whose disk is to be filled; empty: no disk is
	// Managed are the places of the managed layer, runner-… and api-…; empty: none.
	Managed []string
}

// MinLength leaves room for a freeze of 70 s.
const MinLength = 100 * time.Second

// hold is longer than any process waits for a call that is no poll.
const hold = 10*time.Second + 500*time.Millisecond

type planner struct {
	o      Options
	r      *rand.Rand
	events []Event
}

// Make returns the schedule of a seed, by time. Every kind of fault comes at
// least once, as far as there is room.
func Make(o Options) []Event {
	p := &planner{o: o, r: rand.New(rand.NewPCG(o.Seed, 0x6368616f73))} //nolint:gosec // a replay needs a seed.
	// The longest first, while there is room.
	p.process(Freeze, "scheduler")
	p.process(Clock, "scheduler")
	p.process(Queue, o.Queue)
	minutes := max(1, int(o.Length/(2*time.Minute)))
	for range minutes {
		for _, k := range []Kind{Kill, Kill, Roll, Surge} {
			p.process(k, "scheduler")
		}
		for _, role := range []string{"inbound", "worker"} {
			p.process([]Kind{Roll, Surge, Kill}[p.r.IntN(3)], role)
			p.process(Kill, role)
		}
		p.windows()
	}
	for range minutes - 1 {
		p.process(Freeze, []string{"scheduler", "inbound", "worker"}[p.r.IntN(3)])
		p.process(Clock, []string{"scheduler", "scheduler", "inbound"}[p.r.IntN(3)])
		p.process(Queue, o.Queue)
	}
	for range minutes {
		if o.Engine != "" { // last, so that the rest of a seed's schedule is the same without it
			p.process(Disk, o.Engine)
		}
	}
	p.managed(minutes)
	slices.SortStableFunc(p.events, func(a, b Event) int { return int(a.At - b.At) })
	return p.events
}

func (p *planner) secs(lo, hi float64) time.Duration {
	return time.Duration((lo + (hi-lo)*p.r.Float64()) * float64(time.Second)).Truncate(100 * time.Millisecond)
}

func (p *planner) pick(role string) string {
	var fit []string
	for _, place := range p.o.Places {
		if strings.HasPrefix(place, role) {
			fit = append(fit, place)
		}
	}
	return fit[p.r.IntN(len(fit))]
}

// process plans something that one process, queue or disk suffers, where nothing else
// of the kind happens to it about that time.
func (p *planner) process(k Kind, role string) {
	const apart = 4 * time.Second
	for range 60 {
		e := Event{Kind: k, Place: role}
		if k != Queue && k != Disk {
			e.Place = p.pick(role)
		}
		switch k {
		case Kill:
			e.Length = p.secs(0.2, 8)
		case Freeze:
			e.Length, e.Instead = p.secs(60, 70), p.r.IntN(2) == 0
		case Roll, Surge:
			e.Length = p.secs(0, 2)
		case Clock:
			e.Length, e.Offset = p.secs(20, 35), p.secs(5, 25)
			if p.r.IntN(4) == 0 {
				e.Offset = p.secs(0.5, 1.9) // too little to be corrected
			}
			if p.r.IntN(2) == 0 {
				e.Offset = -e.Offset
			}
		case Queue:
			e.Length = p.secs(15, 30)
		case Disk:
			e.Length = p.secs(8, 20)
		}
		if p.o.Length < e.Length+2*apart {
			continue
		}
		e.At = p.secs(2, (p.o.Length - e.Length - apart).Seconds())
		if !slices.ContainsFunc(p.events, func(o Event) bool {
			return o.Kind != Calls && o.Place == e.Place && e.At < o.At+o.Length+apart && o.At < e.At+e.Length+apart
		}) {
			p.events = append(p.events, e)
			return
		}
	}
}

// windows plans one window of each kind of fault of calls, and a second
// partition.
func (p *planner) windows() {
	for _, k := range []proxy.Kind{
		proxy.Slow, proxy.SlowBack, proxy.ResetBefore, proxy.ResetAfter, proxy.Throttle, proxy.Refuse, proxy.Fail, proxy.FailAfter,
		proxy.Repeat, proxy.Repeat, proxy.Partition, proxy.Partition, proxy.Date, proxy.Date, proxy.ResetAfter, proxy.Throttle,
		proxy.Held, proxy.Held,
	} {
		e := Event{Kind: Calls, Length: p.secs(6, 20), Window: proxy.Window{Kind: k, Share: 0.05 + 0.35*p.r.Float64()}}
		switch k {
		case proxy.Partition:
			e.Window.Share, e.Length, e.Place = 0, p.secs(5, 20), p.pick("")
		case proxy.Date:
			// Ahead by no more than goes unnoticed: the endpoint's word is the truth
			// that a cancel relies on. Behind, a scheduler is late and no more.
			e.Window.Share = 0
			if e.Place = p.pick([]string{"scheduler", "inbound"}[p.r.IntN(2)]); strings.HasPrefix(e.Place, "scheduler") && p.r.IntN(2) == 0 {
				e.Window.Shift = -p.secs(4, 25).Truncate(time.Second)
			} else {
				e.Window.Shift = []time.Duration{-2, -1, 1, 2}[p.r.IntN(4)] * time.Second
			}
		case proxy.Repeat:
			e.Place = p.pick([]string{"inbound", "worker"}[p.r.IntN(2)])
		case proxy.Refuse:
			// Batches are what inbound and workers delete in, and schedulers send.
			e.Place = p.pick("")
		default:
			if e.Place = p.pick(""); p.r.IntN(5) == 0 {
				e.Place = p.o.Caller
			}
		}
		end := p.o.Length
		if k == proxy.Held {
			end -= 15 * time.Second // or the run ends before the call is carried out
			e.Window.Hold = hold
		}
		e.At = p.secs(1, (end - e.Length).Seconds())
		p.events = append(p.events, e)
	}
}
