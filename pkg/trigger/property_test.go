package trigger_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func drawID(t *rapid.T) trigger.ID {
	return trigger.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
}

func drawEpochs(t *rapid.T) trigger.Epochs {
	counts := rapid.SliceOfNDistinct(rapid.IntRange(1, trigger.MaxPartitions), 1, 6, rapid.ID[int]).Draw(t, "counts")
	slices.Sort(counts)
	e := trigger.Epochs{{N: counts[0]}}
	from := submitted
	for _, n := range counts[1:] {
		e = append(e, trigger.Epoch{N: n, From: from})
		from = from.Add(time.Duration(rapid.Int64Range(1, 1e6).Draw(t, "gap")) * time.Millisecond)
	}
	return e
}

func TestPartitionLiesBelowTheCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, trigger.MaxPartitions).Draw(t, "n")
		id := drawID(t)
		p := trigger.Partition(id, n)
		require.GreaterOrEqual(t, p, 0)
		require.Less(t, p, n)
		require.Equal(t, p, trigger.Partition(id, n))
	})
	require.Panics(t, func() { trigger.Partition(trigger.ID{}, 0) })
}

func TestPartitionsShareTheLoadEvenly(t *testing.T) {
	// Ids that count up are the hardest to spread. 64 partitions with 1,000 each
	// on average: the standard deviation is 31, so 200 is over six of them.
	const n, each = 64, 1000
	for name, id := range map[string]func(int) trigger.ID{
		"random":   func(int) trigger.ID { return trigger.NewID() },
		"counting": func(i int) trigger.ID { return trigger.ID{13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)} },
		"keyed":    func(i int) trigger.ID { return trigger.KeyedID("payments", "", strconv.Itoa(i)) },
	} {
		counts := make([]int, n)
		for i := range n * each {
			counts[trigger.Partition(id(i), n)]++
		}
		require.InDelta(t, each, slices.Min(counts), 200, name)
		require.InDelta(t, each, slices.Max(counts), 200, name)
	}
}

func TestEpochInForceIsTheLastThatHasBegun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEpochs(t)
		require.NoError(t, e.Validate())
		require.Equal(t, e[0].N, e.At(time.Time{}))
		for i, ep := range e {
			if i > 0 {
				require.Equal(t, e[i-1].N, e.At(ep.From.Add(-time.Millisecond)))
			}
			require.Equal(t, ep.N, e.At(ep.From))
			require.LessOrEqual(t, ep.N, e.Max())
		}
		require.Equal(t, e.Max(), e.At(submitted.AddDate(1, 0, 0)))
		require.Less(t, e.At(submitted.Add(-time.Hour)), e.Max()+1)
	})
}

func TestPlacesOfAKeyedIDAreAllTheKeysItMayLieUnder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEpochs(t)
		id := trigger.KeyedID("payments", "", rapid.String().Draw(t, "key"))
		n := e[rapid.IntRange(0, len(e)-1).Draw(t, "epoch")].N
		k := trigger.KeyOf(trigger.Urgent, id, submitted, n)
		places := e.Places(k)
		require.Equal(t, k, places[0])
		for _, ep := range e {
			require.Contains(t, places, trigger.KeyOf(trigger.Urgent, id, submitted, ep.N))
		}
		require.LessOrEqual(t, len(places), len(e))
		slices.SortFunc(places, func(a, b trigger.Key) int { return a.Partition - b.Partition })
		require.Len(t, slices.Compact(slices.Clone(places)), len(places), "a key twice")

		random := trigger.KeyOf(trigger.Standard, trigger.NewID(), submitted, n)
		require.Equal(t, []trigger.Key{random}, e.Places(random))
	})
}

func TestKeyedIDsOfDifferentPartsNeverMeet(t *testing.T) {
	// A small alphabet makes parts that run together when joined: "a"+"bc" and
	// "ab"+"c". Their lengths keep them apart.
	part := rapid.StringOfN(rapid.SampledFrom([]rune("ab\x00-")), 0, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		a := [3]string{part.Draw(t, "a0"), part.Draw(t, "a1"), part.Draw(t, "a2")}
		b := [3]string{part.Draw(t, "b0"), part.Draw(t, "b1"), part.Draw(t, "b2")}
		require.Equal(t, a == b, trigger.KeyedID(a[0], a[1], a[2]) == trigger.KeyedID(b[0], b[1], b[2]))
	})
}

func TestAcquiredStateTellsItsOwnerAndTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		owner := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "owner")
		at := time.UnixMilli(rapid.Int64Range(1, 9_999_999_999_999).Draw(t, "ms")).UTC()
		require.True(t, trigger.ValidOwner(owner))
		s := trigger.AcquiredBy(owner, at)
		require.Equal(t, trigger.Acquired, s.Kind())
		require.False(t, s.Waiting())
		gotOwner, gotAt := s.Owner()
		require.Equal(t, owner, gotOwner)
		require.Equal(t, at, gotAt)
	})
	for _, s := range []string{"", "a.b", "a b", "ä", string(make([]byte, 65))} {
		require.False(t, trigger.ValidOwner(s), "%q", s)
	}
}

func TestAnAcquiredStateWithoutAUsableTimeIsStillAcquired(t *testing.T) {
	// Case 10: such rows must be recoverable, so they must be recognised.
	rapid.Check(t, func(t *rapid.T) {
		s := trigger.State("A.x." + rapid.StringMatching(`(|0|-[0-9]+|[a-z.+-]+|[1-9][0-9]{13,40})`).Draw(t, "garbage"))
		require.Equal(t, trigger.Acquired, s.Kind())
		owner, at := s.Owner()
		require.Equal(t, "x", owner)
		require.True(t, at.IsZero(), "%s", at)
	})
}

func TestKeysSortAsTheTableDoes(t *testing.T) {
	due := rapid.Int64Range(0, 9_999_999_999_999)
	rapid.Check(t, func(t *rapid.T) {
		a := trigger.Key{Due: due.Draw(t, "a"), ID: drawID(t)}
		b := trigger.Key{Due: due.Draw(t, "b"), ID: drawID(t)}
		if rapid.Bool().Draw(t, "same time") {
			b.Due = a.Due
		}
		require.Equal(t, a.S() < b.S(), a.Compare(b) < 0)
		require.Equal(t, a.S() > b.S(), a.Compare(b) > 0)
		require.GreaterOrEqual(t, a.S(), trigger.SortFrom(a.Due))
		require.Less(t, a.S(), trigger.SortFrom(a.Due)+"$")
	})
	require.Equal(t, "0000000000000", trigger.SortFrom(-1))
	require.Equal(t, "9999999999999", trigger.SortFrom(1<<60))
}
