package table

import (
	"bytes"
	"slices"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// bind makes bounds of a key condition.
func (r *read) bind(e *expr) error {
	if e.op == "AND" {
		if err := r.bind(e.kids[0]); err != nil {
			return err
		}
		return r.bind(e.kids[1])
	}
	if len(e.args) < 2 {
		return invalid("key condition not understood by this endpoint")
	}
	name, _ := r.scope.name(e.args[0])
	if name == r.hashName() && e.op == "=" {
		var ok bool
		if r.hash, ok = keyText(r.scope.values.get(e.args[1])); !ok {
			return wrongKey()
		}
		return nil
	}
	if name != r.sortName() || name == "" {
		return invalid("Query key condition not supported")
	}
	text, ok := keyBytes(r.sortKind(), r.scope.values.get(e.args[1]))
	if !ok {
		return wrongKey()
	}
	switch e.op {
	case "=":
		r.low, r.high = text, text
	case ">=":
		r.low = text
	case ">":
		if r.low = append(bytes.Clone(text), 0); r.index != nil {
			r.low[len(text)] = 1 // behind every entry of that key
		}
	case "<":
		r.high, r.below = text, true
	case "<=":
		r.high = text
	case "BETWEEN":
		high, ok := keyBytes(r.sortKind(), r.scope.values.get(e.args[2]))
		if !ok {
			return wrongKey()
		}
		r.low, r.high = text, high
	case "begins":
		r.low, r.prefix = text, text
	default:
		return invalid("Query key condition not supported")
	}
	return nil
}

func wrongKey() *wire.Error {
	return invalid("One or more parameter values were invalid: Condition parameter type does not match schema type")
}

// collectBackwards reads a page from the end. It finds the range from its
// beginning, which costs time in proportion to the range and no units.
func (r *read) collectBackwards(startHash, startSort []byte) {
	var items []*item
	index := r.index
	if index != nil {
		var before []byte // the place to go on at
		if r.start != nil {
			k, _ := keyBytes(index.sortKind, r.start.get(index.sort))
			before = entryKey(bytes.Clone(k), startHash, startSort)
		}
		if list := index.parts[string(r.hash)]; list != nil {
			for at, _ := list.seek(r.low); ; at = list.after(at) {
				x, ok := list.at(at)
				if !ok || before != nil && bytes.Compare(x.k, before) >= 0 {
					break
				}
				if k, _, _ := bytes.Cut(x.k, []byte{0}); !r.within(k) {
					break
				}
				items = append(items, x.it)
			}
		}
	} else if p := r.table.parts[string(r.hash)]; p != nil {
		p.each(r.table, r.low, func(it *item) bool {
			if r.start != nil && bytes.Compare(it.key(), startSort) >= 0 || !r.within(it.key()) {
				return false
			}
			items = append(items, it)
			return true
		})
	}
	for _, it := range slices.Backward(items) {
		if !r.take(it) {
			return
		}
	}
}
