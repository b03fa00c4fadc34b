package table

import (
	"bytes"
	"slices"
	"sort"
)

// keyed is an element of an ordered list.
type keyed interface{ key() []byte }

// blockMax is how many elements a block holds at most. Inserting moves half a
// block at worst: about a microsecond.
const blockMax = 512

// ordered is a sorted list of blocks: O(log n) to find a key, and neighbours lie
// side by side. Keys are unique.
type ordered[T keyed] struct {
	blocks [][]T
	n      int
}

// place is where an element lies, or would.
type place struct{ block, at int }

// seek returns the place of the first element whose key is not below k.
func (o *ordered[T]) seek(k []byte) (p place, found bool) {
	p.block = sort.Search(len(o.blocks), func(i int) bool {
		b := o.blocks[i]
		return bytes.Compare(b[len(b)-1].key(), k) >= 0
	})
	if p.block == len(o.blocks) {
		return p, false
	}
	b := o.blocks[p.block]
	p.at = sort.Search(len(b), func(i int) bool { return bytes.Compare(b[i].key(), k) >= 0 })
	return p, bytes.Equal(b[p.at].key(), k)
}

func (o *ordered[T]) get(k []byte) (v T, ok bool) {
	p, found := o.seek(k)
	if !found {
		return v, false
	}
	return o.blocks[p.block][p.at], true
}

// put inserts v, or replaces the element of its key.
func (o *ordered[T]) put(v T) {
	p, found := o.seek(v.key())
	if found {
		o.blocks[p.block][p.at] = v
		return
	}
	o.n++
	if p.block == len(o.blocks) { // behind all others
		if p.block == 0 {
			o.blocks = append(o.blocks, append(make([]T, 0, 8), v))
			return
		}
		p.block--
		p.at = len(o.blocks[p.block])
	}
	b := slices.Insert(o.blocks[p.block], p.at, v)
	if len(b) <= blockMax {
		o.blocks[p.block] = b
		return
	}
	// Rows come mostly at the end, which is then left full.
	half := len(b) / 2
	if p.block == len(o.blocks)-1 && p.at == len(b)-1 {
		half = len(b) - 1
	}
	o.blocks = slices.Insert(o.blocks, p.block+1, append(make([]T, 0, blockMax), b[half:]...))
	clear(b[half:])
	o.blocks[p.block] = b[:half]
}

// remove removes the element at a place.
func (o *ordered[T]) remove(p place) {
	o.n--
	b := slices.Delete(o.blocks[p.block], p.at, p.at+1)
	if len(b) == 0 {
		o.blocks = slices.Delete(o.blocks, p.block, p.block+1)
		return
	}
	o.blocks[p.block] = b
}

// at returns the element at a place; false behind the last.
func (o *ordered[T]) at(p place) (v T, ok bool) {
	if p.block >= len(o.blocks) {
		return v, false
	}
	return o.blocks[p.block][p.at], true
}

// after returns the place behind p.
func (o *ordered[T]) after(p place) place {
	if p.at++; p.at >= len(o.blocks[p.block]) {
		return place{block: p.block + 1}
	}
	return p
}
