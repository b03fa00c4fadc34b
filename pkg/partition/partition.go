// Package partition owns the arithmetic of dividing partitions among members:
// rendezvous hashing with bounded load.
//
// It refuses nothing and remembers nothing: the assignment is a function of the
// set of members, the number of partitions and a salt, so processes that see
// the same members agree without talking. Functions may be called concurrently.
package partition

import (
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Assign divides the partitions 0 to n−1 among the members: every partition has
// exactly one owner, and the sizes of two members differ by at most one. With
// more members than partitions some own none and are left out of the answer.
// The order of members does not matter, duplicates and empty names are ignored,
// and each list is ascending. No members, or n below one, give an empty map.
//
// The salt (the lane's name) makes unrelated assignments of the same members,
// so that the partitions of a second lane do not pile up on those that carry
// more of the first.
//
// When one member comes or goes, 1/members of the partitions must move; on
// average 1.2 to 2 times that many do (1.2 at 64 partitions and 4 members, 1.7
// at 64 and 17), which is the price of sizes that differ by one at most.
//
// The rule: every pair of member and partition has a score; pairs are taken
// from the highest score down, and a pair counts if its partition is free and
// its member has room. Changing it lets two releases disagree during a rollout;
// a golden test guards it.
func Assign(members []string, n int, salt string) map[string][]int {
	ring := distinct(members)
	owned := make(map[string][]int, len(ring))
	for p, m := range owners(ring, n, salt) {
		owned[ring[m]] = append(owned[ring[m]], p)
	}
	return owned
}

// Owned returns what [Assign] gives to self, ascending; nil if self owns
// nothing or is not among the members.
func Owned(self string, members []string, n int, salt string) []int {
	ring := distinct(members)
	me, ok := slices.BinarySearch(ring, self)
	if !ok {
		return nil
	}
	var owned []int
	for p, m := range owners(ring, n, salt) {
		if m == me {
			owned = append(owned, p)
		}
	}
	return owned
}

func distinct(members []string) []string {
	ring := slices.DeleteFunc(slices.Clone(members), func(m string) bool { return m == "" })
	slices.Sort(ring)
	return slices.Compact(ring)
}

// owners returns for each partition the index of its owner in ring.
func owners(ring []string, n int, salt string) []int {
	if n < 1 || len(ring) == 0 {
		return nil
	}
	floor, extras := n/len(ring), n%len(ring) // so many members own one more
	owner := make([]int, n)
	for p := range owner {
		owner[p] = -1
	}
	size := make([]int, len(ring))
	pairs, mask := ranked(ring, n, salt)
	left := n
	for i := len(pairs) - 1; left > 0; i-- {
		at := int(pairs[i] & mask) //nolint:gosec // below n × members.
		m, p := at/n, at%n
		if owner[p] >= 0 {
			continue
		}
		switch {
		case size[m] < floor:
		case size[m] == floor && extras > 0:
			extras--
		default:
			continue
		}
		size[m]++
		owner[p] = m
		left--
	}
	return owner
}

// ranked returns all pairs in ascending order of score. A pair is one word, the
// score above and the index (member × n + partition) under the mask: sorting
// words is several times as fast as sorting structs.
func ranked(ring []string, n int, salt string) (pairs []uint64, mask uint64) {
	total := len(ring) * n
	mask = 1<<bits.Len(uint(total-1)) - 1
	pairs = make([]uint64, 0, total)
	for _, name := range ring {
		seed := xxhash.Sum64String(salt + "\x00" + name)
		for p := range n {
			pairs = append(pairs, mix(seed^mix(uint64(p)+golden))&^mask|uint64(len(pairs)))
		}
	}
	slices.Sort(pairs)
	return pairs, mask
}

// golden is 2^64 divided by the golden ratio, made odd.
const golden = 0x9e3779b97f4a7c15

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood, 2014): a bijection
// under which any changed bit changes half of all bits.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
