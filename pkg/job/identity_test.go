package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func TestARunIsNamedByJobGenerationAndNominalTime(t *testing.T) {
	a, b := trigger.NewID(), trigger.NewID()
	at := time.UnixMilli(1_800_000_000_000)
	id := RunID(a, 1, at)
	require.True(t, id.Keyed())
	require.Equal(t, id, RunID(a, 1, at.In(time.FixedZone("x", 3600))))
	require.NotEqual(t, id, RunID(b, 1, at))
	require.NotEqual(t, id, RunID(a, 2, at))
	require.NotEqual(t, id, RunID(a, 1, at.Add(time.Millisecond)))
}

func TestSpreadStaysInsideToleranceAndHalfThePeriod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var id trigger.ID
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		tolerance := time.Duration(rapid.Int64Range(-1, int64(48*time.Hour)).Draw(t, "tolerance"))
		period := time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "period"))
		got := Spread(id, tolerance, period)
		require.Equal(t, got, Spread(id, tolerance, period))
		require.GreaterOrEqual(t, got, time.Duration(0))
		require.LessOrEqual(t, got, max(tolerance, 0))
		if period > 0 {
			require.LessOrEqual(t, got, period/2)
		}
	})
}

func TestSpreadIsFlat(t *testing.T) {
	var tenths [10]int
	for range 20_000 {
		tenths[Spread(trigger.NewID(), time.Hour, 0)/(6*time.Minute)]++
	}
	for _, n := range tenths {
		require.InDelta(t, 2000, n, 300)
	}
}
