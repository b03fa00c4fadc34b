// Package protecttest holds the suite every [protect.Shared] passes.
package protecttest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/runner/protect"
)

// now is the time by which the suite counts.
var now = time.Date(2027, 3, 1, 12, 0, 2, 0, time.UTC)

// Shared runs the suite. open returns an empty Shared each time.
func Shared(t *testing.T, open func(t *testing.T) protect.Shared) {
	t.Run("a target nobody wrote of is closed and without counts", func(t *testing.T) {
		rec := one(t, open(t), "a", protect.Report{Target: "x", At: now})
		require.True(t, rec.State.Equal(protect.State{}))
		require.Empty(t, rec.Others)
	})
	t.Run("others see a runner's counts, the runner does not", func(t *testing.T) {
		s := open(t)
		counts := protect.Counts{Buckets: []protect.Bucket{at(-11, 1, 0), at(-3, 70_000, 300), at(0, 2, 2)}}
		require.Empty(t, one(t, s, "a", protect.Report{Target: "x", At: now, Counts: counts}).Others)
		require.Equal(t, []protect.Counts{counts}, one(t, s, "b", protect.Report{Target: "x", At: now}).Others)
		require.Empty(t, one(t, s, "b", protect.Report{Target: "y", At: now}).Others, "another target's")
	})
	t.Run("counts sent twice count once", func(t *testing.T) {
		s := open(t)
		r := protect.Report{Target: "x", At: now, Counts: protect.Counts{Buckets: []protect.Bucket{at(0, 5, 3)}}}
		one(t, s, "a", r)
		one(t, s, "a", r)
		require.Equal(t, []protect.Counts{r.Counts}, one(t, s, "b", protect.Report{Target: "x", At: now}).Others)
	})
	t.Run("empty counts leave the earlier ones", func(t *testing.T) {
		s := open(t)
		r := protect.Report{Target: "x", At: now, Counts: protect.Counts{Buckets: []protect.Bucket{at(0, 5, 3)}}}
		one(t, s, "a", r)
		one(t, s, "a", protect.Report{Target: "x", At: now})
		require.Equal(t, []protect.Counts{r.Counts}, one(t, s, "b", protect.Report{Target: "x", At: now}).Others)
	})
	t.Run("a proposal is taken on the generation it was made on", func(t *testing.T) {
		s := open(t)
		state := opened(1)
		rec := one(t, s, "a", protect.Report{Target: "x", At: now, Next: &state})
		require.True(t, rec.State.Equal(state), "%+v", rec.State)
		rec = one(t, s, "b", protect.Report{Target: "x", At: now})
		require.True(t, rec.State.Equal(state), "%+v", rec.State)

		leased := state
		leased.Gen, leased.Holder, leased.Lease = 2, "b", now.Add(4*time.Second)
		rec = one(t, s, "b", protect.Report{Target: "x", At: now, Counts: protect.Counts{Gen: 1}, Next: &leased})
		require.True(t, rec.State.Equal(leased), "%+v", rec.State)

		closed := protect.State{Gen: 3}
		rec = one(t, s, "b", protect.Report{Target: "x", At: now, Counts: protect.Counts{Gen: 2}, Next: &closed})
		require.True(t, rec.State.Equal(closed), "%+v", rec.State)
		require.False(t, rec.State.Open())
	})
	t.Run("a proposal that is late changes nothing, its counts are kept", func(t *testing.T) {
		s := open(t)
		first, second := opened(1), opened(1)
		second.Until = second.Until.Add(time.Hour)
		one(t, s, "a", protect.Report{Target: "x", At: now, Next: &first})
		counts := protect.Counts{Buckets: []protect.Bucket{at(0, 1, 1)}}
		rec := one(t, s, "b", protect.Report{Target: "x", At: now, Counts: counts, Next: &second})
		require.True(t, rec.State.Equal(first), "%+v", rec.State)
		require.Equal(t, []protect.Counts{counts}, one(t, s, "a", protect.Report{Target: "x", At: now}).Others)
	})
	t.Run("a proposal that is sent again is seen to have won", func(t *testing.T) {
		s := open(t)
		state := opened(1)
		for range 2 {
			rec := one(t, s, "a", protect.Report{Target: "x", At: now, Next: &state})
			require.True(t, rec.State.Equal(state), "%+v", rec.State)
		}
	})
	t.Run("of ten proposals at once one wins", func(t *testing.T) {
		s := open(t)
		state := opened(1)
		one(t, s, "a", protect.Report{Target: "x", At: now, Next: &state})
		won := make([]bool, 10)
		var wg sync.WaitGroup
		for i := range won {
			wg.Go(func() {
				mine := state
				mine.Gen, mine.Holder, mine.Lease = 2, fmt.Sprint("runner-", i), now.Add(time.Second)
				recs, err := s.Exchange(t.Context(), mine.Holder, []protect.Report{{
					Target: "x", At: now, Counts: protect.Counts{Gen: 1}, Next: &mine,
				}})
				won[i] = err == nil && len(recs) == 1 && recs[0].State.Equal(mine)
			})
		}
		wg.Wait()
		n := 0
		for _, w := range won {
			if w {
				n++
			}
		}
		require.Equal(t, 1, n)
	})
	t.Run("many targets go in one exchange", func(t *testing.T) {
		s := open(t)
		var reports []protect.Report
		for i := range 40 {
			reports = append(reports, protect.Report{
				Target: fmt.Sprint("host-", i, ".example.com"), At: now,
				Counts: protect.Counts{Buckets: []protect.Bucket{at(0, uint32(i+1), 0)}},
			})
		}
		recs, err := s.Exchange(t.Context(), "a", reports)
		require.NoError(t, err)
		require.Len(t, recs, len(reports))
		recs, err = s.Exchange(t.Context(), "b", reports)
		require.NoError(t, err)
		got := make(map[string][]protect.Counts)
		for _, r := range recs {
			got[r.Target] = r.Others
		}
		for _, r := range reports {
			require.Equal(t, []protect.Counts{r.Counts}, got[r.Target], r.Target)
		}
	})
	t.Run("counts of a runner that is gone do not pile up", func(t *testing.T) {
		s := open(t)
		one(t, s, "dead", protect.Report{Target: "x", At: now, Counts: protect.Counts{Buckets: []protect.Bucket{at(0, 5, 3)}}})
		later := protect.Report{Target: "x", At: now.Add(3 * time.Minute), Counts: protect.Counts{Buckets: []protect.Bucket{at(36, 1, 0)}}}
		one(t, s, "a", later)
		// Who would look at them by a clock that is three minutes behind?
		early := one(t, s, "b", protect.Report{Target: "x", At: now})
		require.Equal(t, []protect.Counts{later.Counts}, early.Others)
	})
}

func at(spans int64, calls, failures uint32) protect.Bucket {
	return protect.Bucket{Index: protect.BucketAt(now) + spans, Calls: calls, Failures: failures}
}

func opened(gen uint64) protect.State {
	return protect.State{Gen: gen, Until: now.Add(10*time.Second + 7*time.Millisecond), Pause: 10 * time.Second}
}

func one(t *testing.T, s protect.Shared, runner string, r protect.Report) protect.Record {
	t.Helper()
	recs, err := s.Exchange(t.Context(), runner, []protect.Report{r})
	require.NoError(t, err)
	require.Len(t, recs, 1)
	require.Equal(t, r.Target, recs[0].Target)
	return recs[0]
}
