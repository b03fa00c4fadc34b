package mq

import (
	"slices"
	"time"
)

// groups are the messages of a FIFO queue, by group: a group with messages in
// flight hands out none.
type groups struct {
	by   map[string]*group
	free []*group // with messages ready and none in flight, in the order they came free
	now  *group   // being received from

	seen map[string]time.Time // deduplication ids
	old  []dedup
}

// group is one message group.
type group struct {
	name   string
	ready  []*message // by id: the order they were sent in
	flying int
	listed bool // in free
}

type dedup struct {
	at time.Time
	id string
}

// dedupLife is how long a deduplication id is remembered.
const dedupLife = 5 * time.Minute

// enter puts a message in its group's order.
func (g *groups) enter(m *message) {
	if m.group == nil {
		name := string(m.groupID())
		if g.by == nil {
			g.by = make(map[string]*group)
		}
		if g.by[name] == nil {
			g.by[name] = &group{name: name}
		}
		m.group = g.by[name]
	}
	at, _ := slices.BinarySearchFunc(m.group.ready, m.id, func(o *message, id uint64) int {
		if o.id < id {
			return -1
		}
		return 1
	})
	m.group.ready = slices.Insert(m.group.ready, at, m)
	g.freed(m.group)
}

// freed lists a group that may hand out messages again.
func (g *groups) freed(one *group) {
	switch {
	case one == nil || one.flying > 0 || one.listed || one == g.now:
	case len(one.ready) > 0:
		one.listed = true
		g.free = append(g.free, one)
	case g.by[one.name] == one:
		delete(g.by, one.name)
	}
}

// next takes the next message, from one group as long as that has any.
func (g *groups) next() *message {
	for {
		if g.now != nil && len(g.now.ready) > 0 {
			m := g.now.ready[0]
			g.now.ready = slices.Delete(g.now.ready, 0, 1)
			return m
		}
		g.settle()
		if len(g.free) == 0 {
			return nil
		}
		g.now = g.free[0]
		g.now.listed = false
		g.free = slices.Delete(g.free, 0, 1)
	}
}

// settle ends receiving from a group.
func (g *groups) settle() {
	one := g.now
	g.now = nil
	g.freed(one)
}

// leave takes a ready message out.
func (g *groups) leave(m *message) {
	if i := slices.Index(m.group.ready, m); i >= 0 {
		m.group.ready = slices.Delete(m.group.ready, i, i+1)
	}
	if len(m.group.ready) == 0 && m.group.listed {
		m.group.listed = false
		g.free = slices.DeleteFunc(g.free, func(o *group) bool { return o == m.group })
	}
}

// repeated reports whether a deduplication id was used in the last five minutes,
// and remembers it.
func (g *groups) repeated(id string, now time.Time) bool {
	over := 0
	for over < len(g.old) && now.Sub(g.old[over].at) >= dedupLife {
		delete(g.seen, g.old[over].id)
		over++
	}
	g.old = slices.Delete(g.old, 0, over)
	if _, ok := g.seen[id]; ok {
		return true
	}
	if g.seen == nil {
		g.seen = make(map[string]time.Time)
	}
	g.seen[id] = now
	g.old = append(g.old, dedup{now, id})
	return false
}

func (g *groups) purge() { g.by, g.free, g.now = nil, nil, nil }
