package dispatch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/dispatch"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

type lookup struct{ s *registry.Static }

func (l lookup) Lookup(ctx context.Context, name string) (registry.Service, error) {
	return l.s.Get(ctx, name)
}

func gateOf(t *testing.T, svc registry.Service, change func(*dispatch.GateOptions)) (*dispatch.Gate, *registry.Static) {
	reg := registry.NewStatic(svc)
	o := dispatch.GateOptions{Services: lookup{reg}, Clock: clock.Trusted(nil)}
	if change != nil {
		change(&o)
	}
	g := dispatch.NewGates(o).For(svc.Name)
	g.Refresh(t.Context())
	return g, reg
}

func TestBreakerOpensProbesAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := gateOf(t, registry.Service{Name: "svc", QueueURL: "http://q/1/svc"}, nil)
		verdict := func(l trigger.Lane) dispatch.Verdict { v, _ := g.Verdict(l); return v }
		g.Failed(trigger.Standard, queue.ErrThrottled)
		g.Failed(trigger.Standard, queue.ErrThrottled)
		require.Equal(t, dispatch.Open, verdict(trigger.Standard), "two failures may be chance")
		g.Failed(trigger.Standard, queue.ErrThrottled)
		require.Equal(t, dispatch.Parked, verdict(trigger.Standard))
		require.Equal(t, dispatch.Open, verdict(trigger.Urgent), "each lane has its own")
		require.Zero(t, g.Take(trigger.Standard, 5))
		time.Sleep(1300 * time.Millisecond)
		require.Equal(t, dispatch.Open, verdict(trigger.Standard), "a probe")
		require.Equal(t, queue.MaxBatch, g.Quota(trigger.Standard))
		require.Equal(t, 4, g.Take(trigger.Standard, 4))
		g.Return(trigger.Standard, 1)
		require.Equal(t, 7, g.Take(trigger.Standard, 25), "one batch in all")
		require.Zero(t, g.Take(trigger.Standard, 1))
		g.Failed(trigger.Standard, queue.ErrThrottled)
		require.Equal(t, dispatch.Parked, verdict(trigger.Standard), "a failed probe opens at once")
		time.Sleep(1300 * time.Millisecond)
		require.Equal(t, dispatch.Parked, verdict(trigger.Standard), "for longer")
		time.Sleep(1300 * time.Millisecond)
		require.Equal(t, 10, g.Take(trigger.Standard, 25))
		g.Succeeded(trigger.Standard)
		require.Equal(t, 25, g.Take(trigger.Standard, 25))
		require.Equal(t, -1, g.Quota(trigger.Standard))
	})
}

func TestAProbeWithoutOutcomeIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := gateOf(t, registry.Service{Name: "svc", QueueURL: "http://q/1/svc"}, nil)
		g.Failed(trigger.Standard, queue.ErrMissing)
		time.Sleep(2 * time.Second)
		require.Equal(t, 10, g.Take(trigger.Standard, 10))
		require.Zero(t, g.Take(trigger.Standard, 10))
		time.Sleep(2 * time.Minute)
		require.Equal(t, 10, g.Take(trigger.Standard, 10))
	})
}

func TestAMissingQueueParksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := gateOf(t, registry.Service{Name: "svc", QueueURL: "http://q/1/svc"}, nil)
		g.Failed(trigger.Standard, queue.ErrMissing)
		v, why := g.Verdict(trigger.Standard)
		require.Equal(t, dispatch.Parked, v)
		require.Contains(t, why, "does not exist")
	})
}

func TestRateIsThisProcessesShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, reg := gateOf(t, registry.Service{Name: "svc", QueueURL: "http://q/1/svc", Rate: 100}, func(o *dispatch.GateOptions) {
			o.Share = func() float64 { return 0.25 }
		})
		taken := 0
		for range 100 {
			taken += g.Take(trigger.Standard, 10)
			taken += g.Take(trigger.Urgent, 10) // the lanes share it
			time.Sleep(100 * time.Millisecond)
		}
		require.InDelta(t, 25*10+25, taken, 15, "25 a second and one burst")
		require.Equal(t, 50, g.Quota(trigger.Standard))
		require.NoError(t, reg.SetRate(t.Context(), "svc", 0))
		time.Sleep(2 * time.Second)
		g.Refresh(t.Context())
		require.Equal(t, 1000, g.Take(trigger.Standard, 1000), "limit removed live")
	})
}

func TestPausedUnknownAndCondemned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, reg := gateOf(t, registry.Service{Name: "svc", QueueURL: "http://q/1/svc", Paused: true}, nil)
		v, why := g.Verdict(trigger.Standard)
		require.Equal(t, dispatch.Parked, v)
		require.Contains(t, why, "paused")
		require.NoError(t, reg.Delete(t.Context(), "svc"))
		time.Sleep(2 * time.Second)
		g.Refresh(t.Context())
		v, _ = g.Verdict(trigger.Standard)
		require.Equal(t, dispatch.Parked, v)
		time.Sleep(25 * time.Hour)
		v, _ = g.Verdict(trigger.Standard)
		require.Equal(t, dispatch.Condemned, v)
		require.NoError(t, reg.Put(t.Context(), registry.Service{Name: "svc", QueueURL: "http://q/1/svc"}))
		g.Refresh(t.Context())
		v, _ = g.Verdict(trigger.Standard)
		require.Equal(t, dispatch.Open, v, "registered after all")
	})
}

func TestARegistryThatFailsKeepsWhatWasKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, reg := gateOf(t, registry.Service{Name: "svc", QueueURL: "http://q/1/svc"}, nil)
		reg.Fail(errors.New("registry is down"))
		time.Sleep(48 * time.Hour)
		g.Refresh(t.Context())
		v, _ := g.Verdict(trigger.Standard)
		require.Equal(t, dispatch.Open, v)
	})
}
