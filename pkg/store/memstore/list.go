package memstore

import (
	"bytes"
	"cmp"
	"slices"
	"sort"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// blockRows is the capacity of a block: small enough that an insert moves
// little, large enough that a million rows make only a few thousand blocks.
const blockRows = 256

// list keeps records sorted by due time, id, lane and partition, in blocks: a
// look-up is two binary searches, an insert or removal moves one block's rest.
type list struct {
	blocks [][]*record // none of them empty
	n      int
}

func compare(r *record, k *trigger.Key) int {
	if c := cmp.Compare(r.due, k.Due); c != 0 {
		return c
	}
	if c := bytes.Compare(r.id[:], k.ID[:]); c != 0 {
		return c
	}
	if c := cmp.Compare(r.lane, k.Lane); c != 0 {
		return c
	}
	return cmp.Compare(int(r.partition), k.Partition)
}

// cursor is a place in a list; it is good until the list changes.
type cursor struct {
	l        *list
	block, i int
}

// at returns the record under the cursor, nil at the end.
func (c *cursor) at() *record {
	if c.block >= len(c.l.blocks) {
		return nil
	}
	return c.l.blocks[c.block][c.i]
}

func (c *cursor) next() {
	if c.i++; c.i >= len(c.l.blocks[c.block]) {
		c.block, c.i = c.block+1, 0
	}
}

// seek returns the place of the first record at or behind the key, and whether
// it is the key's.
func (l *list) seek(k trigger.Key) (cursor, bool) {
	b := sort.Search(len(l.blocks), func(i int) bool {
		block := l.blocks[i]
		return compare(block[len(block)-1], &k) >= 0
	})
	c := cursor{l: l, block: b}
	if b == len(l.blocks) {
		return c, false
	}
	block := l.blocks[b]
	c.i = sort.Search(len(block), func(i int) bool { return compare(block[i], &k) >= 0 })
	return c, compare(block[c.i], &k) == 0
}

func (l *list) get(k trigger.Key) *record {
	if c, found := l.seek(k); found {
		return c.at()
	}
	return nil
}

// put inserts the record, or replaces the one of the same key.
func (l *list) put(r *record) {
	c, found := l.seek(r.key())
	if found {
		l.blocks[c.block][c.i] = r
		return
	}
	l.n++
	if c.block == len(l.blocks) { // behind everything
		if last := len(l.blocks) - 1; last >= 0 && len(l.blocks[last]) < blockRows {
			l.blocks[last] = append(l.blocks[last], r)
			return
		}
		l.blocks = append(l.blocks, []*record{r})
		return
	}
	block := slices.Insert(l.blocks[c.block], c.i, r)
	l.blocks[c.block] = block
	if len(block) > blockRows {
		half := len(block) / 2
		right := slices.Clone(block[half:])
		clear(block[half:])
		l.blocks[c.block] = block[:half]
		l.blocks = slices.Insert(l.blocks, c.block+1, right)
	}
}

func (l *list) remove(k trigger.Key) {
	c, found := l.seek(k)
	if !found {
		return
	}
	l.n--
	block := slices.Delete(l.blocks[c.block], c.i, c.i+1)
	l.blocks[c.block] = block
	switch next := c.block + 1; {
	case len(block) == 0:
		l.blocks = slices.Delete(l.blocks, c.block, next)
	case len(block) < blockRows/8 && next < len(l.blocks) && len(l.blocks[next]) <= blockRows/2:
		l.blocks[c.block] = append(block, l.blocks[next]...)
		l.blocks = slices.Delete(l.blocks, next, next+1)
	}
}
