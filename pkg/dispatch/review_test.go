package dispatch_test

import (
	"context"
	"errors"
	"sync/atomic"
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

func TestAFIFOQueueKeepsItsOrderWhenTheNextBatchWaitsBehindAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, registry.Service{FIFO: true}, nil)
		b.out.latency = 50 * time.Millisecond
		b.out.answer([]error{queue.ErrThrottled})
		due := time.Now().Truncate(time.Millisecond)
		var want, got []string
		for i := range 35 { // all due before the first send has failed
			id := b.claim(due.Add(time.Duration(i)*time.Millisecond), trigger.StateScheduled)
			want = append(want, id.String())
		}
		time.Sleep(5 * time.Second)
		calls, _ := b.out.sent()
		for _, call := range calls[1:] {
			for _, m := range call {
				got = append(got, m.Attributes[trigger.AttrID])
			}
		}
		require.Equal(t, want, got)
	})
}

func TestARegistryThatFailsCondemnsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, reg := gateOf(t, registry.Service{Name: "svc", QueueURL: "http://q/1/svc"}, nil)
		require.NoError(t, reg.Delete(t.Context(), "svc"))
		time.Sleep(2 * time.Second)
		g.Refresh(t.Context())
		require.NoError(t, reg.Put(t.Context(), registry.Service{Name: "svc", QueueURL: "http://q/1/svc"}))
		reg.Fail(errors.New("registry is down"))
		time.Sleep(25 * time.Hour)
		g.Refresh(t.Context())
		v, _ := g.Verdict(trigger.Standard)
		require.Equal(t, dispatch.Parked, v, "nobody has said for a day that it is unknown")
	})
}

// hung never answers before its context ends.
type hung struct{ calls atomic.Int32 }

func (h *hung) Lookup(ctx context.Context, _ string) (registry.Service, error) {
	h.calls.Add(1)
	<-ctx.Done()
	return registry.Service{}, ctx.Err()
}

func TestARegistryThatHangsDelaysReadersOnceNotForEveryRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := dispatch.NewGates(dispatch.GateOptions{Services: &hung{}, Clock: clock.Trusted(nil)}).For("svc")
		start := time.Now()
		for range 250 { // a page
			g.Refresh(t.Context())
		}
		require.Less(t, time.Since(start), 2*time.Second)
		v, _ := g.Verdict(trigger.Standard)
		require.Equal(t, dispatch.Parked, v)
	})
}
