package table

import (
	"bytes"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// hot is the attribute that changes while a row lives: the state of a trigger.
// It is held apart, so that a change copies nothing else.
const hot = "st"

// item is a row. It never changes: a write puts another in its place, so that
// readers need no lock to encode one.
type item struct {
	part    *partition
	blob    []byte // the sort key, then the other members: "v":{"S":"x"},…
	hot     []byte // the value of the hot attribute; nil: none
	size    int32  // as DynamoDB bills it
	keyLen  uint16
	indexed bool // it may have the hash key of an index
}

// key is the sort key; empty in a table that has none.
func (it *item) key() []byte { return it.blob[:it.keyLen] }

func (it *item) rest() []byte { return it.blob[it.keyLen:] }

// build makes an item of its members; those of the key are passed over.
func (t *Table) build(part *partition, sort []byte, members attrs) *item {
	n := len(sort)
	for i := range members {
		n += len(members[i].name) + len(members[i].raw) + 4
	}
	it := &item{part: part, keyLen: uint16(len(sort)), blob: append(make([]byte, 0, n), sort...)} //nolint:gosec // checked to be at most 1,024.
	size := len(t.hash) + len(part.name) + len(t.sort) + t.sortSize(sort)
	for i := range members {
		m := &members[i]
		switch m.name {
		case t.hash, t.sort:
			continue
		case hot:
			it.hot = bytes.Clone(m.raw)
		default:
			if len(it.blob) > len(sort) {
				it.blob = append(it.blob, ',')
			}
			it.blob = wire.AppendString(it.blob, m.name)
			it.blob = append(it.blob, ':')
			it.blob = append(it.blob, m.raw...)
		}
		size += len(m.name) + sizeOf(m.raw)
		for _, x := range t.indexes {
			it.indexed = it.indexed || x.hash == m.name
		}
	}
	it.size = int32(size) //nolint:gosec // a request is far smaller.
	return it
}

// sortSize is the size of a sort key as DynamoDB bills it.
func (t *Table) sortSize(k []byte) int {
	if t.sortKind == kindNumber {
		return len(k)/2 + 1
	}
	return len(k)
}

// withHot is the item with another value of the hot attribute.
func (it *item) withHot(raw []byte) *item {
	next := *it
	next.hot = bytes.Clone(raw)
	if it.hot == nil {
		next.size += int32(len(hot))
	} else {
		next.size -= int32(sizeOf(it.hot)) //nolint:gosec // far smaller.
	}
	next.size += int32(sizeOf(raw)) //nolint:gosec // far smaller.
	return &next
}

// attribute returns a member's value as it was written; nil if there is none.
func (it *item) attribute(t *Table, name string) []byte {
	switch name {
	case "":
		return nil
	case t.hash:
		return keyValue(nil, []byte(it.part.name))
	case t.sort:
		return appendKeyValue(nil, t.sortKind, it.key())
	case hot:
		return it.hot
	}
	c := wire.Over(it.rest())
	for {
		member, ok := c.Member()
		if !ok {
			return nil
		}
		raw := c.Raw()
		if string(member) == name || bytes.IndexByte(member, '\\') >= 0 && textOf(member) == name {
			return raw
		}
	}
}

// members lists every member but those of the key.
func (it *item) members() attrs {
	var a attrs
	if it.hot != nil {
		a = append(a, attr{hot, it.hot})
	}
	c := wire.Over(it.rest())
	for {
		name, ok := c.Member()
		if !ok {
			return a
		}
		a = append(a, attr{textOf(name), c.Raw()})
	}
}

// appendTo appends the item as an answer has it; project names the members asked
// for, nil: all.
func (it *item) appendTo(dst []byte, t *Table, project []string) []byte {
	if project != nil {
		return it.appendSome(dst, t, project)
	}
	dst = it.appendKey(dst, t)
	if it.hot != nil {
		dst = append(dst, `,"`+hot+`":`...)
		dst = append(dst, it.hot...)
	}
	if rest := it.rest(); len(rest) > 0 {
		dst = append(dst, ',')
		dst = append(dst, rest...)
	}
	return append(dst, '}')
}

// appendKey appends an object of the key's members, left open.
func (it *item) appendKey(dst []byte, t *Table) []byte {
	dst = append(dst, it.part.head...)
	if t.sort != "" {
		dst = append(dst, ',')
		dst = append(dst, t.sortHead...)
		dst = appendKeyValue(dst, t.sortKind, it.key())
	}
	return dst
}

func (it *item) appendSome(dst []byte, t *Table, project []string) []byte {
	dst = append(dst, '{')
	first := len(dst)
	add := func(name string, raw []byte) {
		if raw == nil {
			return
		}
		if len(dst) > first {
			dst = append(dst, ',')
		}
		dst = wire.AppendString(dst, name)
		dst = append(dst, ':')
		dst = append(dst, raw...)
	}
	left := len(project)
	for _, name := range project {
		switch name {
		case t.hash, t.sort:
			add(name, it.attribute(t, name))
			left--
		case hot:
			add(name, it.hot)
			left--
		}
	}
	// The rest in one go over the members; it ends when nothing is left to find.
	for c := wire.Over(it.rest()); left > 0; {
		member, ok := c.Member()
		if !ok {
			break
		}
		raw := c.Raw()
		for _, name := range project {
			if string(member) == name {
				add(name, raw)
				left--
			}
		}
	}
	return append(dst, '}')
}
