package protect_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/runner/protect"
	"github.com/myosin-jobs/myosin/pkg/runner/protect/memshared"
)

var epoch = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

// fleet runs gates over one Shared in a virtual time of its own.
type fleet struct {
	t       *testing.T
	now     time.Time
	shared  *memshared.Shared
	gates   []*protect.Gate
	skew    []time.Duration
	regs    []*prometheus.Registry
	members int
	rng     *rand.Rand
	events  events
	seq     int
	latency time.Duration
}

type event struct {
	at  time.Time
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if !e[i].at.Equal(e[j].at) {
		return e[i].at.Before(e[j].at)
	}
	return e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// newFleet starts n gates whose clocks differ by up to skew; each exchanges once
// a second, at its own moment of it.
func newFleet(t *testing.T, n int, skew time.Duration) *fleet {
	f := &fleet{
		t: t, now: epoch, shared: &memshared.Shared{}, members: n,
		rng: rand.New(rand.NewPCG(1, uint64(n))), latency: 50 * time.Millisecond,
	}
	for i := range n {
		var s time.Duration
		if n > 1 {
			s = time.Duration(float64(skew) * (float64(i)/float64(n-1) - 0.5))
		}
		f.add(s)
	}
	return f
}

func (f *fleet) add(skew time.Duration) {
	i := len(f.gates)
	reg := prometheus.NewRegistry()
	g, err := protect.New(protect.Options{
		Runner: fmt.Sprint("runner-", i), Shared: f.shared, Members: func() int { return f.members },
		Now: func() time.Time { return f.now.Add(skew) }, Rand: f.rng.Float64, Registerer: reg,
	})
	require.NoError(f.t, err)
	f.gates, f.skew, f.regs = append(f.gates, g), append(f.skew, skew), append(f.regs, reg)
	f.every(f.now.Add(time.Duration(f.rng.Int64N(int64(time.Second)))), time.Second, func() { _, _ = g.Exchange(f.t.Context()) })
}

func (f *fleet) at(t time.Time, do func()) {
	f.seq++
	heap.Push(&f.events, event{at: t, seq: f.seq, do: do})
}

func (f *fleet) every(from time.Time, d time.Duration, do func()) {
	f.at(from, func() { do(); f.every(from.Add(d), d, do) })
}

func (f *fleet) runFor(d time.Duration) {
	end := f.now.Add(d)
	for len(f.events) > 0 && !f.events[0].at.After(end) {
		e := heap.Pop(&f.events).(event)
		f.now = e.at
		e.do()
	}
	f.now = end
}

// traffic is a target's calls, as the fleet sees them.
type traffic struct {
	f         *fleet
	call      protect.Call
	outcome   func() protect.Outcome
	admitted  []time.Time
	probes    []time.Time
	denied    map[protect.Reason]int
	firstOpen time.Time
	waiting   int
}

func (f *fleet) traffic(c protect.Call, o protect.Outcome) *traffic {
	return &traffic{f: f, call: c, outcome: func() protect.Outcome { return o }, denied: make(map[protect.Reason]int)}
}

// come makes one call on any runner; a denied one comes back at its time.
func (tr *traffic) come(deferred bool) {
	f := tr.f
	i := f.rng.IntN(len(f.gates))
	c := tr.call
	c.Deferred = deferred
	p, denied := f.gates[i].Admit(f.now.Add(f.skew[i]), c)
	if denied != nil {
		require.Nil(f.t, p)
		require.True(f.t, denied.Until.After(f.now.Add(f.skew[i])), "back in the past")
		tr.denied[denied.Reason]++
		if denied.Reason == protect.ReasonOpen && tr.firstOpen.IsZero() {
			tr.firstOpen = f.now
		}
		tr.waiting++
		f.at(denied.Until.Add(-f.skew[i]), func() { tr.waiting--; tr.come(true) })
		return
	}
	tr.admitted = append(tr.admitted, f.now)
	if p.Probe() {
		tr.probes = append(tr.probes, f.now)
	}
	f.at(f.now.Add(f.latency), func() { p.Done(tr.outcome()); p.Done(protect.Failure) })
}

// comes makes rate calls a second, from now on.
func (tr *traffic) comes(rate float64) *traffic {
	d := time.Duration(float64(time.Second) / rate)
	tr.f.every(tr.f.now.Add(d), d, func() { tr.come(false) })
	return tr
}

func (tr *traffic) admittedIn(from, to time.Time) int {
	n := 0
	for _, a := range tr.admitted {
		if !a.Before(from) && a.Before(to) {
			n++
		}
	}
	return n
}

var fleets = []struct {
	n    int
	skew time.Duration
}{{1, 0}, {2, 0}, {10, 0}, {2, time.Second}, {10, time.Second}}

func eachFleet(t *testing.T, f func(t *testing.T, fl *fleet)) {
	for _, x := range fleets {
		t.Run(fmt.Sprintf("%d runners, clocks %v apart", x.n, x.skew), func(t *testing.T) { f(t, newFleet(t, x.n, x.skew)) })
	}
}

func TestTenRunnersOpenABreakerWhenOneWould(t *testing.T) {
	for _, rate := range []float64{3, 20, 100} {
		t.Run(fmt.Sprintf("%v calls a second", rate), func(t *testing.T) {
			eachFleet(t, func(t *testing.T, f *fleet) {
				outcome := protect.Success
				tr := f.traffic(protect.Call{Target: "a"}, 0)
				tr.outcome = func() protect.Outcome { return outcome }
				tr.comes(rate)
				f.runFor(20 * time.Second) // healthy at first
				require.Empty(t, tr.denied)
				outcome = protect.Failure
				broke := f.now
				f.runFor(40 * time.Second)
				// One that sees everything needs as many failures as there were
				// successes, and one more.
				one := broke.Add(20 * time.Second).Add(f.latency)
				require.False(t, tr.firstOpen.IsZero(), "it never opened")
				t.Logf("opened %v after one would", tr.firstOpen.Sub(one))
				require.InDelta(t, 0, tr.firstOpen.Sub(one).Seconds(), 2)
			})
		})
	}
}

func TestATargetThatFailsFromTheStartIsFoundOutWithinTwoSeconds(t *testing.T) {
	eachFleet(t, func(t *testing.T, f *fleet) {
		tr := f.traffic(protect.Call{Target: "a"}, protect.Failure).comes(50)
		f.runFor(20 * time.Second)
		require.WithinDuration(t, epoch.Add(200*time.Millisecond), tr.firstOpen, 2*time.Second)
		last := epoch.Add(3200 * time.Millisecond)
		require.Zero(t, tr.admittedIn(last, last.Add(6*time.Second)), "once open, it is open on every runner")
	})
}

func TestProbesAreFewWhateverTheNumberOfRunners(t *testing.T) {
	eachFleet(t, func(t *testing.T, f *fleet) {
		tr := f.traffic(protect.Call{Target: "a"}, protect.Failure).comes(20)
		f.runFor(10 * time.Minute)
		// Pauses of 10, 20, 40, 80, 120, 120, … seconds: eight in ten minutes.
		t.Logf("%d probes, %d denials", len(tr.probes), tr.denied[protect.ReasonOpen])
		require.GreaterOrEqual(t, len(tr.probes), 5)
		require.LessOrEqual(t, len(tr.probes), 8*3)
		require.Equal(t, len(tr.probes), tr.admittedIn(epoch.Add(5*time.Second), f.now))
	})
}

func TestAThinFlowIsProbedTooAndRecovers(t *testing.T) {
	eachFleet(t, func(t *testing.T, f *fleet) {
		outcome := protect.Failure
		tr := f.traffic(protect.Call{Target: "a"}, 0)
		tr.outcome = func() protect.Outcome { return outcome }
		for range 30 {
			tr.come(false)
		}
		f.runFor(3 * time.Second)
		for range 3 {
			tr.come(false)
		}
		require.NotZero(t, tr.waiting) // a runner that had none of the thirty does not know yet
		outcome = protect.Success
		f.runFor(time.Minute)
		require.Zero(t, tr.waiting, "every call was made in the end")
		require.False(t, f.shared.State("a").Open())
	})
}

func TestABreakerClosesAfterAFewProbesOnEveryRunner(t *testing.T) {
	eachFleet(t, func(t *testing.T, f *fleet) {
		outcome := protect.Failure
		tr := f.traffic(protect.Call{Target: "a"}, 0)
		tr.outcome = func() protect.Outcome { return outcome }
		tr.comes(20)
		f.runFor(8 * time.Second)
		outcome = protect.Success
		f.runFor(22 * time.Second)
		t.Logf("%d probes", len(tr.probes))
		require.LessOrEqual(t, len(tr.probes), 6)
		from, denied := f.now, tr.denied[protect.ReasonOpen]
		f.runFor(10 * time.Second)
		require.Equal(t, denied, tr.denied[protect.ReasonOpen], "none is denied any more")
		require.GreaterOrEqual(t, tr.admittedIn(from, f.now), 190)
		for _, reg := range f.regs {
			require.Zero(t, gauge(t, reg, "open_breakers"))
		}
	})
}

func TestOneTargetDoesNotTouchAnother(t *testing.T) {
	eachFleet(t, func(t *testing.T, f *fleet) {
		a := f.traffic(protect.Call{Target: "a", Rate: 5}, protect.Failure).comes(50)
		b := f.traffic(protect.Call{Target: "b"}, protect.Success).comes(50)
		f.runFor(2 * time.Minute)
		require.NotZero(t, a.denied[protect.ReasonOpen])
		require.Empty(t, b.denied)
		require.Len(t, b.admitted, 120*50)
	})
}

func TestTheFleetCallsAtTheRateAllowed(t *testing.T) {
	for _, rate := range []float64{5, 50} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			eachFleet(t, func(t *testing.T, f *fleet) {
				tr := f.traffic(protect.Call{Target: "a", Rate: rate}, protect.Success).comes(2 * rate)
				f.runFor(time.Minute)
				burst := max(rate, float64(len(f.gates)))
				got := float64(len(tr.admitted))
				t.Logf("%v of %v", got, 60*rate)
				require.LessOrEqual(t, got, 1.1*60*rate+burst)
				require.GreaterOrEqual(t, got, 0.9*60*rate)
			})
		})
	}
}

func TestAThousandDeferredRunsDrainAtTheRateAllowed(t *testing.T) {
	eachFleet(t, func(t *testing.T, f *fleet) {
		const rate, runs = 50, 1000
		tr := f.traffic(protect.Call{Target: "a", Rate: rate}, protect.Success)
		for range runs {
			tr.come(false)
		}
		for tr.waiting > 0 && f.now.Before(epoch.Add(time.Minute)) {
			f.runFor(time.Second)
		}
		took := f.now.Sub(epoch).Seconds()
		t.Logf("drained in %v s, %d denials", took, tr.denied[protect.ReasonRate])
		require.Len(t, tr.admitted, runs)
		require.InDelta(t, runs/rate, took, 0.25*runs/rate)
	})
}

func TestANewRunnerLearnsOfAnOpenBreakerWithinASecond(t *testing.T) {
	f := newFleet(t, 2, 0)
	tr := f.traffic(protect.Call{Target: "a"}, protect.Failure).comes(50)
	f.runFor(5 * time.Second)
	joined := f.now
	f.add(0)
	f.members = 3
	f.runFor(5 * time.Second)
	require.LessOrEqual(t, tr.admittedIn(joined, f.now), 25, "its share of a second and no more")
	require.Zero(t, tr.admittedIn(joined.Add(1100*time.Millisecond), f.now))
}

func TestOneRunnerWithABadNetworkDoesNotOpenForAll(t *testing.T) {
	f := newFleet(t, 10, 0)
	tr := f.traffic(protect.Call{Target: "a"}, protect.Success).comes(45)
	f.every(f.now, 200*time.Millisecond, func() {
		p, denied := f.gates[0].Admit(f.now, protect.Call{Target: "a"})
		require.Nil(t, denied)
		p.Done(protect.Failure)
	})
	f.runFor(2 * time.Minute)
	require.Empty(t, tr.denied)
}

func TestALostSharedLeavesEachRunnerToItself(t *testing.T) {
	for _, fault := range []memshared.Fault{memshared.Down, memshared.Lost} {
		eachFleet(t, func(t *testing.T, f *fleet) {
			outcome := protect.Failure
			f.shared.SetFault(func(string) memshared.Fault { return fault })
			tr := f.traffic(protect.Call{Target: "a"}, 0)
			tr.outcome = func() protect.Outcome { return outcome }
			tr.comes(50)
			f.runFor(30 * time.Second)
			require.NotZero(t, tr.denied[protect.ReasonOpen], "opened by what each saw")
			require.NotEmpty(t, tr.probes)
			outcome = protect.Success
			f.runFor(2 * time.Minute)
			from := f.now
			f.runFor(10 * time.Second)
			require.GreaterOrEqual(t, tr.admittedIn(from, f.now), 490, "closed by what each saw")

			f.shared.SetFault(nil)
			f.runFor(2 * time.Minute)
			outcome = protect.Failure
			f.runFor(50 * time.Second)
			require.True(t, f.shared.State("a").Open(), "the fleet agrees again")
		})
	}
}

func TestLostAnswersDoNotMultiplyCounts(t *testing.T) {
	f := newFleet(t, 10, 0)
	flaky := false
	f.shared.SetFault(func(runner string) memshared.Fault {
		if flaky = !flaky; flaky && runner == "runner-0" {
			return memshared.Lost
		}
		return memshared.None
	})
	// Two in five fail: not enough, however often that is said.
	n := 0
	tr := f.traffic(protect.Call{Target: "a"}, 0)
	tr.outcome = func() protect.Outcome {
		if n++; n%5 < 2 {
			return protect.Failure
		}
		return protect.Success
	}
	tr.comes(50)
	f.runFor(3 * time.Minute)
	require.Empty(t, tr.denied)
}

func TestAHealthyTargetIsReportedEveryFiveSecondsAFailingOneEverySecond(t *testing.T) {
	f := newFleet(t, 1, 0)
	f.traffic(protect.Call{Target: "a"}, protect.Success).comes(20)
	f.runFor(time.Minute)
	require.InDelta(t, 12, f.shared.Reports(), 2)

	f = newFleet(t, 1, 0)
	n := 0
	tr := f.traffic(protect.Call{Target: "a"}, 0)
	tr.outcome = func() protect.Outcome { n++; return protect.Outcome(1 + (n%10)/9) }
	tr.comes(20)
	f.runFor(time.Minute)
	require.InDelta(t, 60, f.shared.Reports(), 4)
}
