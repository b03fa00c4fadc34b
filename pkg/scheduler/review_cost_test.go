package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
)

// What an hour with nothing due costs: 64 partitions, both lanes, by DynamoDB's
// prices of 2026 ($0.125 a million read units).
func TestAnIdleHourCostsCents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := memstore.New(memstore.Options{})
		_, stop := running(t, table, 64, taker(0), registry.NewStatic(), nil)
		time.Sleep(time.Minute)
		table.ResetCounts()
		time.Sleep(time.Hour)
		c := table.Counts().Total()
		dollars := c.ReadUnits / 1e6 * 0.125
		t.Logf("%d requests, %.0f read units, $%.4f an hour", c.Requests, c.ReadUnits, dollars)
		require.Less(t, dollars, 0.025)
		require.Zero(t, c.WriteUnits)
		stop()
	})
}

func TestAParkedBacklogIsNotReadOverAndOver(t *testing.T) {
	for name, rate := range map[string]float64{"paused": 0, "limited": 500} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := memstore.New(memstore.Options{})
				services := registry.NewStatic(registry.Service{Name: "svc", QueueURL: "http://q/1/svc", Rate: rate, Paused: rate == 0})
				fill(t, table, 40_000, 8, time.Now().Add(-time.Hour), func(int) string { return "svc" }, 100)
				_, stop := running(t, table, 8, taker(20*time.Millisecond), services, nil)
				time.Sleep(10 * time.Second)
				table.ResetCounts()
				left := table.Len()
				time.Sleep(30 * time.Second)
				c := table.Counts()[memstore.OpRange]
				t.Logf("%d pages, %d rows, %.0f read units while %d were delivered", c.Requests, c.Rows, c.ReadUnits, left-table.Len())
				require.Less(t, c.Requests, 4000)
				stop()
			})
		})
	}
}

func TestAThousandServicesAndPartitionsAreOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := memstore.New(memstore.Options{})
		services := registry.NewStatic()
		named(services, 1000, "svc%d", "http://q/1/healthy")
		out := &measured{worst: map[string]time.Duration{}}
		_, stop := running(t, table, 1000, out, services, nil)
		time.Sleep(10 * time.Second)
		fill(t, table, 1000, 1000, time.Now().Add(8*time.Second), func(i int) string { return fmt.Sprintf("svc%d", i) }, 100)
		time.Sleep(20 * time.Second)
		taken, worst := out.of("http://q/1/healthy")
		require.Equal(t, 1000, taken)
		require.Less(t, worst, 100*time.Millisecond)
		stop()
	})
}
