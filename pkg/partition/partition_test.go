package partition_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/partition"
)

var update = flag.Bool("update", false, "write testdata anew (breaks rolling upgrades from older releases)")

func members(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return out
}

// flat returns the owner of each partition and fails if one has none or two.
func flat(t require.TestingT, assigned map[string][]int, n int) []string {
	owner := make([]string, n)
	for m, ps := range assigned {
		require.NotEmpty(t, ps)
		require.True(t, slices.IsSorted(ps))
		for _, p := range ps {
			require.Empty(t, owner[p], "partition %d has two owners", p)
			owner[p] = m
		}
	}
	require.NotContains(t, owner, "")
	return owner
}

func sizes(assigned map[string][]int) []int {
	var out []int
	for _, ps := range assigned {
		out = append(out, len(ps))
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out
}

func TestUnevenSplitDiffersByOneAtMost(t *testing.T) {
	require.Equal(t, []int{3, 3, 2, 2}, sizes(partition.Assign(members("m", 4), 10, "standard")))

	few := partition.Assign(members("m", 5), 3, "standard")
	require.Equal(t, []int{1, 1, 1}, sizes(few))
	idle := 0
	for _, m := range members("m", 5) {
		if partition.Owned(m, members("m", 5), 3, "standard") == nil {
			idle++
		}
	}
	require.Equal(t, 2, idle)
}

func TestNobodyOwnsNothing(t *testing.T) {
	require.Empty(t, partition.Assign(nil, 8, ""))
	require.Empty(t, partition.Assign([]string{"a"}, 0, ""))
	require.Nil(t, partition.Owned("b", []string{"a"}, 8, ""))
	require.Nil(t, partition.Owned("", []string{"a", ""}, 8, ""))
	require.Equal(t, []int{0, 1, 2}, partition.Owned("a", []string{"a"}, 3, ""))
}

func names(t *rapid.T) []string {
	return rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9-]{1,20}`), 1, 40, rapid.ID).Draw(t, "members")
}

func TestEveryPartitionHasOneOwnerForEveryMembership(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ring := names(t)
		n := rapid.IntRange(1, 200).Draw(t, "n")
		salt := rapid.SampledFrom([]string{"", "standard", "urgent"}).Draw(t, "salt")
		assigned := partition.Assign(ring, n, salt)
		flat(t, assigned, n)
		for _, m := range ring {
			k := len(assigned[m])
			require.GreaterOrEqual(t, k, n/len(ring))
			require.LessOrEqual(t, k, (n+len(ring)-1)/len(ring))
			require.Equal(t, assigned[m], partition.Owned(m, ring, n, salt))
		}
	})
}

func TestOrderAndDuplicatesDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ring := names(t)
		n := rapid.IntRange(1, 100).Draw(t, "n")
		shuffled := rapid.Permutation(append(slices.Clone(ring), ring[0], "")).Draw(t, "shuffled")
		before := slices.Clone(shuffled)
		require.Equal(t, partition.Assign(ring, n, "s"), partition.Assign(shuffled, n, "s"))
		require.Equal(t, before, shuffled, "the argument was changed")
	})
}

func moved(a, b []string) int {
	n := 0
	for p := range a {
		if a[p] != b[p] {
			n++
		}
	}
	return n
}

// No membership may make one change move more than four fair shares and four
// partitions; the mean is held to much less by the next test.
func TestOneMembersChangeMovesFewPartitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ring := names(t)
		if len(ring) < 2 {
			ring = append(ring, "one-more-member-of-30-letters")
		}
		n := rapid.IntRange(1, 300).Draw(t, "n")
		gone := rapid.IntRange(0, len(ring)-1).Draw(t, "gone")
		rest := slices.Delete(slices.Clone(ring), gone, gone+1)
		got := moved(flat(t, partition.Assign(ring, n, "s"), n), flat(t, partition.Assign(rest, n, "s"), n))
		share := (n + len(ring) - 1) / len(ring)
		require.LessOrEqual(t, got, 4*share+4, "n=%d members=%d", n, len(ring))
	})
}

func TestMeanMovementIsWithinTwiceTheLeast(t *testing.T) {
	for _, c := range []struct {
		n, members int
		most       float64 // times n/members
	}{
		{64, 4, 1.30}, {64, 6, 1.40}, {64, 9, 1.70}, {64, 17, 2.0}, {256, 11, 1.5}, {1000, 11, 1.3}, {1000, 51, 2.1},
	} {
		sum, runs := 0, 0
		for trial := range 1 + 2000/(c.n*c.members/64) {
			ring := members(fmt.Sprintf("scheduler-%d", trial), c.members)
			full := flat(t, partition.Assign(ring, c.n, "s"), c.n)
			for gone := range min(c.members, 4) {
				rest := slices.Delete(slices.Clone(ring), gone, gone+1)
				sum += moved(full, flat(t, partition.Assign(rest, c.n, "s"), c.n))
				runs++
			}
		}
		ratio := float64(sum) / float64(runs) / float64(c.n) * float64(c.members)
		t.Logf("%4d partitions, %2d members: one change moves %.2f times n/members", c.n, c.members, ratio)
		require.Less(t, ratio, c.most, "n=%d members=%d", c.n, c.members)
	}
}

// Were the salt ignored, both lanes would always pick the same members.
func TestSaltSpreadsLanesOverDifferentMembers(t *testing.T) {
	same, busy := 0, 0
	for trial := range 200 {
		ring := members(fmt.Sprint("m", trial), 16)
		a, b := partition.Assign(ring, 4, "standard"), partition.Assign(ring, 4, "urgent")
		for m := range a {
			busy++
			if len(b[m]) > 0 {
				same++
			}
		}
	}
	// Independent choices of 4 in 16 share a quarter.
	require.InDelta(t, 0.25, float64(same)/float64(busy), 0.06)
}

type vector struct {
	Members []string         `json:"members"`
	N       int              `json:"n"`
	Salt    string           `json:"salt"`
	Owned   map[string][]int `json:"owned"`
}

// During a rollout two releases divide the same partitions: they must agree.
func TestAssignmentIsTheSameInEveryRelease(t *testing.T) {
	const file = "testdata/assignment.v1.json"
	if *update {
		rng := rand.New(rand.NewPCG(1, 2))
		var vs []vector
		for _, c := range [][2]int{{1, 4}, {3, 64}, {4, 10}, {5, 3}, {7, 16}, {12, 64}} {
			for _, salt := range []string{"standard", "urgent"} {
				ring := members(fmt.Sprintf("scheduler-%08x", rng.Uint32()), c[0])
				vs = append(vs, vector{ring, c[1], salt, partition.Assign(ring, c[1], salt)})
			}
		}
		b, err := json.MarshalIndent(vs, "", " ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, append(b, '\n'), 0o644))
	}
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var vs []vector
	require.NoError(t, json.Unmarshal(b, &vs))
	require.Len(t, vs, 12)
	for _, v := range vs {
		require.Equal(t, v.Owned, partition.Assign(v.Members, v.N, v.Salt))
	}
}

func BenchmarkAssign1000Partitions50Members(b *testing.B) {
	ring := members("scheduler", 50)
	for b.Loop() {
		partition.Assign(ring, 1000, "standard")
	}
}
