package dynamoshared

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/runner/protect"
)

func TestCountsComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := stored{at: rapid.Int64Range(0, 1<<40).Draw(rt, "at")}
		s.Gen = rapid.Uint64().Draw(rt, "gen")
		for range rapid.IntRange(0, maxBuckets).Draw(rt, "buckets") {
			s.Buckets = append(s.Buckets, protect.Bucket{
				Index: s.at - rapid.Int64Range(-2, 100).Draw(rt, "before"),
				Calls: rapid.Uint32().Draw(rt, "calls"), Failures: rapid.Uint32().Draw(rt, "failures"),
			})
		}
		got, err := decodeCounts(encodeCounts(s))
		require.NoError(rt, err)
		require.Equal(rt, s, got)
	})
}

func FuzzDecodeCounts(f *testing.F) {
	f.Add(encodeCounts(stored{at: 7, Counts: protect.Counts{Gen: 3, Buckets: []protect.Bucket{{Index: 6, Calls: 2, Failures: 1}}}}))
	f.Add([]byte{})
	f.Add([]byte{countsVersion, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeCounts(b)
		if err != nil {
			return
		}
		again, err := decodeCounts(encodeCounts(s))
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}
