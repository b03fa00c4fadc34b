// Package table is DynamoDB as far as Myosin's adapters use it, in memory and
// for as little processor time as can be: tables whose keys are strings (their
// sort keys numbers too), indexes, conditions, PartiQL batches, queries,
// transactions.
//
// It owns the rows and the limits of capacity, and answers as DynamoDB does,
// throttles and consumed capacity included. It refuses what it does not know
// with a ValidationException, deletes nothing by time to live, and keeps nothing
// on disk. An [Engine] may be used concurrently.
package table

import (
	"bytes"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// Table is one table.
type Table struct {
	name       string
	hash, sort string // names of the key's attributes; sort is empty where there is none
	sortKind   string // kindText or kindNumber
	sortHead   []byte // "s":
	member     []byte // "TableName":"t"
	arn        string
	ttl        string
	indexes    []*index
	written    atomic.Int64 // units, in tenths

	mu    sync.Mutex
	parts map[string]*partition
	order []string // of parts, sorted; nil: to be made
	rows  int      // all, filled ones included
	caps  *capacity
}

// partition is the rows of one hash key.
type partition struct {
	name     string
	head     []byte // {"p":{"S":"s.017"}
	physical int
	rows     ordered[*item]
	filled
}

// index is a global secondary index.
type index struct {
	name, hash, sort string
	sortKind         string // kindText or kindNumber
	keysOnly         bool   // nothing is projected but keys
	parts            map[string]*ordered[*entry]
}

// entry is an item in an index, by its sort key there and then its own key.
type entry struct {
	k  []byte
	it *item
}

func (e *entry) key() []byte { return e.k }

func newTable(name, hash, sort, sortKind string, limits Limits) *Table {
	t := &Table{name: name, hash: hash, sort: sort, sortKind: sortKind, parts: make(map[string]*partition), caps: newCapacity(limits)}
	t.sortHead = append(wire.AppendString(nil, sort), ':')
	t.member = wire.AppendString([]byte(`"TableName":`), name)
	t.arn = "arn:aws:dynamodb:us-east-1:000000000000:table/" + name
	return t
}

// partition returns the partition of a hash key; with make set it is made if need be.
func (t *Table) partition(hash []byte, create bool) *partition {
	if p := t.parts[string(hash)]; p != nil || !create {
		return p
	}
	h := fnv.New32a()
	_, _ = h.Write(hash) // never fails
	p := &partition{name: string(hash), physical: t.caps.physical(h.Sum32())}
	p.head = append(wire.AppendString([]byte{'{'}, t.hash), ':')
	p.head = keyValue(p.head, hash)
	t.parts[p.name], t.order = p, nil
	return p
}

// names returns the hash keys, sorted.
func (t *Table) names() []string {
	if t.order == nil {
		for name := range t.parts {
			t.order = append(t.order, name)
		}
		slices.Sort(t.order)
	}
	return t.order
}

// find returns the item of a key; nil if there is none.
func (t *Table) find(hash, sort []byte) *item {
	p := t.partition(hash, false)
	if p == nil {
		return nil
	}
	if it, ok := p.rows.get(sort); ok {
		return it
	}
	if i, ok := p.filledAt(sort); ok {
		return p.row(t, p, i)
	}
	return nil
}

// put writes an item over old, which is what find returned for its key.
func (t *Table) put(next, old *item) {
	t.unindex(old)
	next.part.rows.put(next)
	if old == nil {
		t.rows++
	} else if i, ok := next.part.filledAt(next.key()); ok {
		next.part.hide(i)
	}
	if !next.indexed {
		return
	}
	for _, x := range t.indexes {
		if hash, k, ok := x.place(t, next); ok {
			list := x.parts[hash]
			if list == nil {
				list = &ordered[*entry]{}
				x.parts[hash] = list
			}
			list.put(&entry{k, next})
		}
	}
}

// delete removes old, which is what find returned.
func (t *Table) delete(old *item) {
	t.unindex(old)
	t.rows--
	if p, ok := old.part.rows.seek(old.key()); ok {
		old.part.rows.remove(p)
		if t.sort == "" { // one partition an item: it goes too
			delete(t.parts, old.part.name)
			t.order = nil
		}
		return
	}
	if i, ok := old.part.filledAt(old.key()); ok {
		old.part.hide(i)
	}
}

func (t *Table) unindex(old *item) {
	if old == nil || !old.indexed {
		return
	}
	for _, x := range t.indexes {
		if hash, k, ok := x.place(t, old); ok {
			if p, there := x.parts[hash].seek(k); there {
				x.parts[hash].remove(p)
			}
		}
	}
}

// place is where an item lies in an index; false if it does not.
func (x *index) place(t *Table, it *item) (hash string, k []byte, ok bool) {
	raw := it.attribute(t, x.hash)
	text, ok := keyText(raw)
	if raw == nil || !ok {
		return "", nil, false
	}
	if x.sort != "" {
		raw := it.attribute(t, x.sort)
		s, ok := keyBytes(x.sortKind, raw)
		if raw == nil || !ok {
			return "", nil, false
		}
		k = append(k, s...)
	}
	return string(text), entryKey(k, []byte(it.part.name), it.key()), true
}

// indexUnits is what the indexes of a table cost where an item takes the place of
// another; either may be nil. Each entry that is made, removed or changed is a
// write of its own, in a transaction too. Their capacity is not limited here.
func (t *Table) indexUnits(old, next *item) float64 {
	sum := 0.0
	for _, x := range t.indexes {
		hadHash, hadKey, had := x.placeOf(t, old)
		hasHash, hasKey, has := x.placeOf(t, next)
		moved := hadHash != hasHash || !bytes.Equal(hadKey, hasKey)
		if had && (!has || moved) {
			sum += writeUnits(x.size(t, old))
		}
		if has && (!had || moved) {
			sum += writeUnits(x.size(t, next))
		}
		if had && has && !moved && !x.keysOnly {
			sum += writeUnits(max(x.size(t, old), x.size(t, next)))
		}
	}
	return sum
}

// placeOf is place for an item that may be nil or in no index.
func (x *index) placeOf(t *Table, it *item) (hash string, k []byte, ok bool) {
	if it == nil || !it.indexed {
		return "", nil, false
	}
	return x.place(t, it)
}

// size is that of an item's entry.
func (x *index) size(t *Table, it *item) int32 {
	if !x.keysOnly {
		return it.size
	}
	n := 0
	for _, name := range x.keys(t) {
		n += len(name) + sizeOf(it.attribute(t, name))
	}
	return int32(n)
}

// keys names the attributes of an entry that has only keys.
func (x *index) keys(t *Table) []string {
	var names []string
	for _, name := range []string{t.hash, t.sort, x.hash, x.sort} {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// entryKey makes the key of an entry of its sort key in the index and the
// item's own key.
func entryKey(k, hash, sort []byte) []byte {
	k = append(k, 0)
	k = append(k, hash...)
	k = append(k, 0)
	return append(k, sort...)
}

// each calls f for the items of a partition from a sort key on, in order, until
// it returns false.
func (p *partition) each(t *Table, from []byte, f func(*item) bool) {
	at, _ := p.rows.seek(from)
	i := p.filledFrom(from)
	for {
		it, ok := p.rows.at(at)
		i = p.shown(i)
		if i < len(p.keys) && (!ok || bytes.Compare(p.keys[i].appendText(nil), it.key()) < 0) {
			it, ok = p.row(t, p, i), true
			i++
		} else if ok {
			at = p.rows.after(at)
		}
		if !ok || !f(it) {
			return
		}
	}
}
