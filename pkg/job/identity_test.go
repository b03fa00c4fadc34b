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
	id := NewRunID(a, 1, at)
	back, parts, err := ParseRunID(string(id))
	require.NoError(t, err)
	require.Equal(t, id, back)
	require.Equal(t, RunParts{Job: a, Sort: id.Sort(), Nominal: at.UTC(), Generation: 1}, parts)
	require.Equal(t, id+"-r1", id.Redriven())
	require.Equal(t, id+"-r2", id.Redriven().Redriven())
	for _, s := range []RunID{id.Manual("Ab9"), id.Gap(), id.Redriven().Notice()} {
		_, p, err := ParseRunID(string(s))
		require.NoError(t, err, s)
		require.Equal(t, a, p.Job)
		require.Equal(t, s.Sort(), p.Sort)
	}
	require.Equal(t, id, NewRunID(a, 1, at.In(time.FixedZone("x", 3600))))
	require.NotEqual(t, id, NewRunID(b, 1, at))
	require.NotEqual(t, id, NewRunID(a, 2, at))
	require.NotEqual(t, id, NewRunID(a, 1, at.Add(time.Millisecond)))
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

func FuzzParseRunID(f *testing.F) {
	f.Add(string(NewRunID(trigger.NewID(), 3, time.UnixMilli(1_800_000_000_000)).Redriven()))
	f.Add("x_000000000000001-1")
	f.Fuzz(func(t *testing.T, s string) {
		id, p, err := ParseRunID(s)
		if err != nil {
			return
		}
		require.Equal(t, s, string(id))
		require.Equal(t, s, p.Job.String()+"_"+p.Sort)
		require.Positive(t, p.Generation)
		require.NotContains(t, s, ".", "the target's signature is over id.timestamp.body")
	})
}
