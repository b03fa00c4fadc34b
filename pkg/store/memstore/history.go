package memstore

import (
	"slices"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// change is one step of a partition's past; before or after may be nil.
type change struct {
	at            time.Time
	before, after *record
}

func (c *change) key() trigger.Key {
	if c.before != nil {
		return c.before.key()
	}
	return c.after.key()
}

// remember keeps a change for stale reads and drops those too old to matter.
func (p *partition) remember(now time.Time, window time.Duration, before, after *record) {
	old := 0
	for old < len(p.history) && now.Sub(p.history[old].at) > window {
		old++
	}
	p.history = append(slices.Delete(p.history, 0, old), change{now, before, after})
}

// was is what a key held at some time; r is nil for nothing.
type was struct {
	key trigger.Key
	r   *record
}

// past returns what the keys that changed after a time held at it, sorted.
func (p *partition) past(at time.Time) []was {
	then := make(map[trigger.Key]*record)
	for i := len(p.history) - 1; i >= 0 && p.history[i].at.After(at); i-- {
		then[p.history[i].key()] = p.history[i].before
	}
	past := make([]was, 0, len(then))
	for k, r := range then {
		past = append(past, was{k, r})
	}
	slices.SortFunc(past, func(a, b was) int { return a.key.Compare(b.key) })
	return past
}

// scan walks over the records at or behind from, as they are, or as they were
// where past says so. It ends when visit returns false.
func (p *partition) scan(from trigger.Key, past []was, visit func(*record) bool) {
	c, _ := p.rows.seek(from)
	i := 0
	for i < len(past) && past[i].key.Compare(from) < 0 {
		i++
	}
	for {
		r := c.at()
		if i < len(past) && (r == nil || compare(r, &past[i].key) >= 0) {
			if r != nil && compare(r, &past[i].key) == 0 {
				c.next()
			}
			r = past[i].r
			i++
			if r != nil && !visit(r) {
				return
			}
			continue
		}
		if r == nil || !visit(r) {
			return
		}
		c.next()
	}
}
