package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// fault is a kill or a freeze of a process.
type fault struct {
	at   time.Time
	held map[string]bool // triggers it had acquired
}

// transit is how long a message that was sent before the fault may be on its
// way. A claim is recovered, and its trigger sent again, 60 s after it was made.
const transit = 10 * time.Second

// explains reports whether the fault explains that a trigger came twice: it was
// being delivered then, and the first message was sent before.
func (f *fault) explains(id string, arrived []delivery) bool {
	if len(arrived) != 2 || !f.held[id] {
		return false
	}
	first, second := arrived[0].At, arrived[1].At
	return first.Before(f.at.Add(transit)) && second.After(f.at.Add(transit))
}

// account is the sum of a run.
type account struct {
	submitted, delivered, cancelled, tooLate, moved, twice int
	duplicates                                             int // explained ones
	held                                                   int // rows that explain one
	late                                                   []time.Duration
	breaches                                               []string
}

// missing returns the orders that are to be delivered and were not yet.
func (l *ledger) missing(got map[string][]delivery) (ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, o := range l.orders {
		if !o.cancelled && !o.tooLate && len(got[id]) == 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// settle compares what callers were told with what arrived.
func (l *ledger) settle(got map[string][]delivery, f *fault) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &account{submitted: len(l.orders), held: len(f.held), breaches: slices.Clone(l.faults)}
	breach := func(o *order, format string, args ...any) {
		a.breaches = append(a.breaches, fmt.Sprintf("%s: %s: %+v, arrived %+v", o.id, fmt.Sprintf(format, args...), *o, got[o.id]))
	}
	for id, o := range l.orders {
		arrived := got[id]
		a.moved += btoi(o.moved)
		a.twice += btoi(o.twice)
		a.cancelled += btoi(o.cancelled)
		a.tooLate += btoi(o.tooLate)
		switch n := len(arrived); {
		case o.cancelled && n > 0:
			breach(o, "cancelled and delivered")
		case n == 0 && !o.cancelled && !o.tooLate:
			breach(o, "lost")
		case n > 1 && !f.explains(id, arrived):
			breach(o, "delivered %d times, and nothing explains it", n)
		case n > 1:
			a.duplicates++
		}
		if len(arrived) > 0 {
			a.delivered++
		}
		for i, d := range arrived {
			if i == 0 {
				a.late = append(a.late, d.At.Sub(d.Due).Round(time.Millisecond))
			}
			switch {
			case d.Sent.Before(d.Due) || d.At.Before(d.Due):
				breach(o, "early")
			case !d.Due.Equal(o.due):
				breach(o, "delivered for another due time")
			case d.Payload != o.payload || d.Name != "order" || d.Lane != o.lane().String():
				breach(o, "not what was submitted")
			case d.Attempt != 1:
				breach(o, "received again without a fault of the worker")
			}
		}
	}
	for id := range got {
		if l.orders[id] == nil {
			a.breaches = append(a.breaches, "delivered and never submitted: "+id)
		}
	}
	slices.Sort(a.late)
	return a
}

func (a *account) quantile(q float64) time.Duration {
	if len(a.late) == 0 {
		return 0
	}
	return a.late[int(q*float64(len(a.late)-1))]
}

// String is the account in one line.
func (a *account) String() string {
	return fmt.Sprintf("submitted %d (%d twice), delivered %d, cancelled %d (%d too late), moved %d; lost, early, cancelled but delivered, unexplained: %d; "+
		"duplicates %d, of %d rows held at the fault; lateness p50 %s p99 %s max %s",
		a.submitted, a.twice, a.delivered, a.cancelled, a.tooLate, a.moved, len(a.breaches),
		a.duplicates, a.held, a.quantile(.5), a.quantile(.99), a.quantile(1))
}

// broken describes the first breaches.
func (a *account) broken() string {
	n := len(a.breaches)
	return fmt.Sprintf("%d breaches:\n%s", n, strings.Join(a.breaches[:min(n, 20)], "\n"))
}
