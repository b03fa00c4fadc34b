package protect_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/runner/protect"
	"github.com/myosin-jobs/myosin/pkg/runner/protect/memshared"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func gauge(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	all, err := reg.Gather()
	require.NoError(t, err)
	for _, m := range all {
		if m.GetName() == "myosin_protect_"+name {
			return m.GetMetric()[0].GetGauge().GetValue()
		}
	}
	require.Fail(t, "no such metric", name)
	return 0
}

func TestOptionsReportEveryProblemTogether(t *testing.T) {
	_, err := protect.New(protect.Options{Every: -1, Pause: -1, Probes: -1})
	for _, want := range []string{"runner:", "shared:", "every:", "pause:", "probes:"} {
		require.ErrorContains(t, err, want)
	}
}

func TestRunExchangesEverySecondAndStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &memshared.Shared{}
		reg := prometheus.NewRegistry()
		g, err := protect.New(protect.Options{Runner: "a", Shared: shared, Registerer: reg})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- g.Run(ctx) }()
		for range 20 {
			if p, _ := g.Admit(time.Now(), protect.Call{Target: "x"}); p != nil {
				p.Done(protect.Failure)
			}
		}
		time.Sleep(2500 * time.Millisecond)
		require.True(t, shared.State("x").Open())
		require.InDelta(t, 1, gauge(t, reg, "open_breakers"), 0)
		_, denied := g.Admit(time.Now(), protect.Call{Target: "x"})
		require.Equal(t, protect.ReasonOpen, denied.Reason)
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestNineFailuresOrHalfOfTheCallsDoNotOpen(t *testing.T) {
	for name, x := range map[string]struct{ ok, bad int }{"nine of nine": {0, 9}, "ten of twenty": {10, 10}} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 1, 0)
			call := func(o protect.Outcome) {
				p, denied := f.gates[0].Admit(f.now, protect.Call{Target: "x"})
				require.Nil(t, denied)
				p.Done(o)
			}
			f.runFor(time.Second)
			for range x.ok {
				call(protect.Success)
			}
			for range x.bad {
				call(protect.Failure)
			}
			for range 50 {
				call(protect.Neutral)
			}
			f.runFor(2 * time.Second)
			require.False(t, f.shared.State("x").Open())
			call(protect.Failure)
			f.runFor(2 * time.Second)
			require.True(t, f.shared.State("x").Open(), "one more does")
		})
	}
}

func TestFailuresOfMoreThanAMinuteAgoDoNotCount(t *testing.T) {
	f := newFleet(t, 2, 0)
	fail := func(n int) {
		for range n {
			p, denied := f.gates[0].Admit(f.now, protect.Call{Target: "x"})
			require.Nil(t, denied)
			p.Done(protect.Failure)
		}
	}
	fail(9)
	f.runFor(61 * time.Second)
	fail(9)
	f.runFor(5 * time.Second)
	require.False(t, f.shared.State("x").Open())
}

func TestRateAndMembersTakeEffectAtOnce(t *testing.T) {
	f := newFleet(t, 1, 0)
	g := f.gates[0]
	admitted := func(rate float64) int {
		for got := range 100 {
			p, _ := g.Admit(f.now, protect.Call{Target: "x", Rate: rate})
			if p == nil {
				return got
			}
			p.Done(protect.Success)
		}
		return 100
	}
	require.Equal(t, 10, admitted(10))
	f.runFor(time.Second)
	require.Equal(t, 10, admitted(10))
	f.members = 5
	f.runFor(time.Second)
	require.Equal(t, 2, admitted(10))
	f.runFor(time.Second)
	require.Equal(t, 2, admitted(10))
	require.Equal(t, 100, admitted(0), "no limit")
}

func TestTheNthDeniedComesBackLaterAndNeverTogether(t *testing.T) {
	f := newFleet(t, 1, 0)
	var last time.Time
	for i := range 500 {
		p, denied := f.gates[0].Admit(f.now, protect.Call{Target: "x", Rate: 10})
		if p != nil {
			require.Less(t, i, 10)
			continue
		}
		require.Equal(t, protect.ReasonRate, denied.Reason)
		require.True(t, denied.Until.After(last))
		last = denied.Until
	}
	require.InDelta(t, 49, last.Sub(f.now).Seconds(), 1)
	// However many wait, none is sent beyond the limit.
	for range 20_000 {
		_, denied := f.gates[0].Admit(f.now, protect.Call{Target: "x", Rate: 10})
		require.LessOrEqual(t, denied.Until.Sub(f.now), 15*time.Minute)
	}
}

func TestTargetsAreForgottenWhenIdleAndWhenThereAreTooMany(t *testing.T) {
	now, reg := epoch, prometheus.NewRegistry()
	g, err := protect.New(protect.Options{
		Runner: "a", Shared: &memshared.Shared{}, Registerer: reg, MaxTargets: 100,
		Now: func() time.Time { return now },
	})
	require.NoError(t, err)
	tracked := func() float64 { return gauge(t, reg, "targets") }
	held, _ := g.Admit(now, protect.Call{Target: "held"})
	for i := range 1000 {
		p, _ := g.Admit(now, protect.Call{Target: fmt.Sprint(i)})
		p.Done(protect.Success)
	}
	require.InDelta(t, 100, tracked(), 0)
	now = now.Add(3 * time.Minute)
	_, err = g.Exchange(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 1, tracked(), 0, "the one with a call on its way is kept")
	held.Done(protect.Success)
	_, err = g.Exchange(t.Context())
	require.NoError(t, err)
	require.Zero(t, tracked())
}

// Whatever is admitted, ended once or twice or not yet, on however many runners:
// a tenant's calls stay within the share, and all of it can be had again.
func TestATenantNeverHasMoreThanItsShareAndNoPermitIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now, members := epoch, rapid.IntRange(1, 12).Draw(rt, "members")
		capOf := rapid.IntRange(1, 20).Draw(rt, "cap")
		share := (capOf + members - 1) / members
		g, err := protect.New(protect.Options{
			Runner: "a", Shared: &memshared.Shared{}, Members: func() int { return members },
			Now: func() time.Time { return now },
		})
		require.NoError(rt, err)
		open := map[string][]*protect.Permit{}
		var ended []*protect.Permit
		targets, tenants := rapid.SampledFrom([]string{"x", "y", "z"}), rapid.SampledFrom([]string{"t", "u"})
		rt.Repeat(map[string]func(*rapid.T){
			"admit": func(rt *rapid.T) {
				tenant := tenants.Draw(rt, "tenant")
				p, denied := g.Admit(now, protect.Call{
					Target: targets.Draw(rt, "target"), Tenant: tenant, Cap: capOf, Rate: rapid.Float64Range(0, 50).Draw(rt, "rate"),
				})
				require.NotEqual(rt, p == nil, denied == nil)
				if p != nil {
					open[tenant] = append(open[tenant], p)
				} else {
					require.True(rt, denied.Until.After(now))
				}
				require.LessOrEqual(rt, len(open[tenant]), share)
			},
			"done": func(rt *rapid.T) {
				tenant := tenants.Draw(rt, "tenant")
				if n := len(open[tenant]); n > 0 {
					p := open[tenant][n-1]
					open[tenant] = open[tenant][:n-1]
					p.Done(rapid.SampledFrom([]protect.Outcome{protect.Neutral, protect.Success, protect.Failure}).Draw(rt, "outcome"))
					ended = append(ended, p)
				}
			},
			"done again": func(rt *rapid.T) {
				if len(ended) > 0 {
					rapid.SampledFrom(ended).Draw(rt, "permit").Done(protect.Failure)
				}
			},
			"time passes": func(rt *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(rt, "ms")) * time.Millisecond)
				_, err := g.Exchange(t.Context())
				require.NoError(rt, err)
			},
		})
		for tenant, held := range open {
			for _, p := range held {
				p.Done(protect.Success)
			}
			for i := range share + 1 {
				p, denied := g.Admit(now, protect.Call{Target: "unused", Tenant: tenant, Cap: capOf})
				if i < share {
					require.NotNil(rt, p, "of %d, %d were had", share, i)
				} else {
					require.Equal(rt, protect.ReasonTenantCap, denied.Reason)
				}
			}
		}
	})
}

func TestASlowCallFromBeforeThePauseSaysNothingAfterIt(t *testing.T) {
	f := newFleet(t, 1, 0)
	g := f.gates[0]
	admit := func(n int) (out []*protect.Permit) {
		for range n {
			p, denied := g.Admit(f.now, protect.Call{Target: "x"})
			require.Nil(t, denied)
			out = append(out, p)
		}
		return out
	}
	end := func(permits []*protect.Permit, o protect.Outcome) {
		for _, p := range permits {
			p.Done(o)
		}
	}
	slow := admit(15)
	end(admit(10), protect.Failure)
	f.runFor(3 * time.Second)
	_, denied := g.Admit(f.now, protect.Call{Target: "x"})
	require.NotNil(t, denied)
	for f.shared.State("x").Holder == "" {
		f.runFor(time.Second)
		require.Less(t, f.now.Sub(epoch), time.Minute)
	}
	probes := admit(3)
	require.True(t, probes[0].Probe())
	end(probes, protect.Success)
	end(slow, protect.Failure)
	f.runFor(5 * time.Second)
	require.False(t, f.shared.State("x").Open())
	require.False(t, admit(1)[0].Probe())
}

func TestThoseWhoWaitedGoFirst(t *testing.T) {
	f := newFleet(t, 1, 0)
	g := f.gates[0]
	call := protect.Call{Target: "x", Rate: 1}
	for i := range 20 {
		_, denied := g.Admit(f.now, call)
		require.Equal(t, i > 0, denied != nil)
	}
	f.runFor(2 * time.Second)
	_, denied := g.Admit(f.now, call)
	require.NotNil(t, denied, "two tokens are there, for others")
	call.Deferred = true
	p, denied := g.Admit(f.now, call)
	require.Nil(t, denied)
	p.Done(protect.Success)
}
