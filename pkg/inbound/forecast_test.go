package inbound_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/inbound"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// due remembers what a drain says is due.
type due struct {
	mu sync.Mutex
	n  map[string]int // by service and time ahead of the start
	t0 time.Time
}

func (d *due) Add(service string, at time.Time, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n == nil {
		d.n = make(map[string]int)
	}
	d.n[service+" "+at.Sub(d.t0).String()] += n
}

func (d *due) counts() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

func TestTheForecastIsToldOfEveryRowOnceAndOfNoDuplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.service("reports", nil)
		seen := &due{t0: time.Now()}
		w.start("i1", func(o *inbound.Options) { o.Forecast = seen })
		w.schedule("payments", client.At(seen.t0.Add(time.Hour)))
		w.schedule("payments", client.At(seen.t0.Add(time.Hour)), client.UrgentLane())
		w.schedule("reports", client.At(seen.t0.Add(5*time.Second)))
		now := w.schedule("payments", client.At(seen.t0)) // due: claimed and delivered at once
		copied := raw(func(m map[string]any) { m["due"] = seen.t0.Add(2 * time.Hour).UTC().Format(time.RFC3339Nano) })
		for range 5 {
			w.send(trigger.Standard, "payments", copied)
			w.send(trigger.Urgent, "payments", copied)
			time.Sleep(15 * time.Minute) // no memory of it is left after some of these
		}
		w.send(trigger.Standard, "payments", `{"poison":true}`)
		time.Sleep(time.Minute)
		require.Equal(t, 1, w.deliveries(now.ID))
		require.Equal(t, map[string]int{
			"payments 1h0m0s": 2, "reports 5s": 1, "payments 0s": 1, "payments 2h0m0s": 1,
		}, seen.counts())
	})
}

func TestTheForecastIsNotToldOfWhatCouldNotBeStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		seen := &due{t0: time.Now()}
		w.faults(func(op string, _ trigger.Key) memstore.Fault {
			return memstore.Fault{Err: errOf(op == memstore.OpInsert && time.Since(seen.t0) < time.Minute)}
		}, nil)
		w.start("i1", func(o *inbound.Options) { o.Forecast = seen })
		for range 10 {
			w.schedule("payments", client.At(seen.t0.Add(time.Hour)))
		}
		time.Sleep(50 * time.Second)
		require.Empty(t, seen.counts())
		time.Sleep(10 * time.Minute)
		require.Equal(t, map[string]int{"payments 1h0m0s": 10}, seen.counts())
	})
}
