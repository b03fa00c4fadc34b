package inbound

import (
	"sync"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// busy keeps the copies of one submission in order: while one is being inserted
// the others wait, and then find it stored. Beside saving writes it makes the
// state of a claimed row prove who wrote it.
type busy struct {
	mu sync.Mutex
	m  map[place][]waiter
}

// place is what two submissions of one trigger share, whatever lane and
// partition count they name.
type place struct {
	id  trigger.ID
	due int64
}

type waiter struct {
	l  *lane
	it *item
}

func newBusy() *busy { return &busy{m: make(map[place][]waiter)} }

// enter makes the item the only one of its trigger in progress; if another is,
// it waits behind that one and enter reports false.
func (b *busy) enter(l *lane, it *item) bool {
	if it.busy {
		return true
	}
	p := place{it.t.ID, it.t.Due.UnixMilli()}
	b.mu.Lock()
	defer b.mu.Unlock()
	if waiting, taken := b.m[p]; taken {
		b.m[p] = append(waiting, waiter{l, it})
		return false
	}
	b.m[p] = nil
	it.busy = true
	return true
}

// leave ends what enter began and lets those that waited try.
func (b *busy) leave(it *item) {
	if !it.busy {
		return
	}
	it.busy = false
	p := place{it.t.ID, it.t.Due.UnixMilli()}
	b.mu.Lock()
	waiting := b.m[p]
	delete(b.m, p)
	b.mu.Unlock()
	for _, w := range waiting {
		w.l.inserts.Add(w.it)
	}
}
