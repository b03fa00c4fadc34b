package plan

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/myosin-jobs/myosin/tools/chaos/internal/proxy"
)

// managed plans what befalls runners and APIs, by numbers of its own: the rest of
// a seed's schedule is the same without them.
func (p *planner) managed(minutes int) {
	if len(p.o.Managed) == 0 {
		return
	}
	m := &planner{o: p.o, r: rand.New(rand.NewPCG(p.o.Seed, 0x6d616e61676564))} //nolint:gosec // a replay needs a seed.
	m.o.Places = p.o.Managed
	m.process(Freeze, "runner")
	m.process(Clock, "runner")
	for range minutes {
		for _, k := range []Kind{Kill, Kill, Roll, Surge} {
			m.process(k, "runner")
		}
		for _, k := range []Kind{Kill, Roll, Surge} {
			m.process(k, "api")
		}
		for _, k := range []proxy.Kind{
			proxy.Slow, proxy.SlowBack, proxy.ResetBefore, proxy.ResetAfter, proxy.ResetAfter, proxy.Throttle, proxy.Fail, proxy.FailAfter,
			proxy.Partition, proxy.Repeat, proxy.Held,
		} {
			for _, role := range []string{"runner", "api"} {
				m.window(k, role)
			}
		}
	}
	for range minutes - 1 {
		m.process(Freeze, "runner")
		m.process(Clock, "runner")
	}
	p.events = slices.Concat(p.events, m.events)
}

// window plans a window of a kind of fault for the calls of one process of a role.
func (p *planner) window(k proxy.Kind, role string) {
	if k == proxy.Repeat && role == "api" {
		return // it receives nothing
	}
	e := Event{Kind: Calls, Place: p.pick(role), Length: p.secs(5, 15), Window: proxy.Window{Kind: k, Share: 0.05 + 0.3*p.r.Float64()}}
	end := p.o.Length
	switch k {
	case proxy.Partition:
		e.Window.Share = 0
	case proxy.Held:
		end -= 15 * time.Second // or the run ends before the call is carried out
		e.Window.Hold = hold
	default:
	}
	e.At = p.secs(1, (end - e.Length).Seconds())
	p.events = append(p.events, e)
}
