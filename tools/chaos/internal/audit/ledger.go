// Package audit owns the account of a run: what callers were told (the [Ledger]),
// what went over the wire (a journal), what workers handled, and whether these
// agree with what Myosin promises.
//
// It trusts nothing that the platform's processes say of themselves. A [Ledger]
// may be used concurrently; [Verdict] is for the end, when nothing moves.
package audit

import (
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/client"
)

// Order is what callers know of one trigger.
type Order struct {
	ID, Service, Payload string
	Urgent               bool
	Handle               string
	Accepted             bool // a submission was acknowledged; the others may or may not have arrived
	Submissions          int
	// Dues are the times it may be delivered for: more than one where the
	// outcome of a move is unknown.
	Dues      map[int64]bool
	MovedFrom map[int64]time.Time // due times it was certainly moved away from, and when
	Moved     bool
	Cancelled time.Time // when a cancel answered that it is; zero for never
	// CancelTried: one may have had its effect, without a promise.
	CancelTried bool
}

// Ledger holds the orders of a run.
type Ledger struct {
	mu       sync.Mutex
	orders   map[string]*Order
	breaches []string // answers that no caller should get
}

// NewLedger returns an empty one.
func NewLedger() *Ledger { return &Ledger{orders: make(map[string]*Order)} }

// Offer notes a submission before it is made. The first one's order stands.
func (l *Ledger) Offer(o Order, due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.orders[o.ID]
	if have == nil {
		have = &o
		have.Dues, have.MovedFrom = map[int64]bool{due.UnixMilli(): true}, make(map[int64]time.Time)
		l.orders[o.ID] = have
	}
	have.Submissions++
}

// Accepted notes that a submission was acknowledged.
func (l *Ledger) Accepted(id, handle string) {
	l.With(id, func(o *Order) { o.Accepted, o.Handle = true, handle })
}

// With changes an order.
func (l *Ledger) With(id string, change func(*Order)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.orders[id]; o != nil {
		change(o)
	}
}

// Breach notes an answer that no caller should get.
func (l *Ledger) Breach(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.breaches = append(l.breaches, text)
}

// Cancelled notes the answer of a cancel.
func (l *Ledger) Cancelled(id string, res client.CancelResult, err error) {
	l.With(id, func(o *Order) {
		switch {
		case err == nil && res.Outcome == client.OutcomeCancelled:
			if o.Cancelled.IsZero() {
				o.Cancelled = time.Now()
			}
		case err == nil && res.Outcome == client.OutcomeBeingDelivered:
			// Nothing was changed.
		default:
			o.CancelTried = true
		}
	})
}

// Moving notes that a move is about to be tried.
func (l *Ledger) Moving(id string, to time.Time) {
	l.With(id, func(o *Order) { o.Dues[to.UnixMilli()] = true })
}

// Moved notes that one succeeded: the times before it are off.
func (l *Ledger) Moved(id string, to time.Time) {
	l.With(id, func(o *Order) {
		o.Moved = true
		for due := range o.Dues {
			if due != to.UnixMilli() {
				o.MovedFrom[due] = time.Now()
			}
		}
		delete(o.MovedFrom, to.UnixMilli())
	})
}

// Missing returns how many orders are to be delivered and were not handled yet,
// and one of them.
func (l *Ledger) Missing(handled, excused func(id string) bool) (n int, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.orders {
		if o.owed() && !handled(o.ID) && !excused(o.ID) {
			n, id = n+1, o.ID
		}
	}
	return n, id
}

// owed reports whether an order must be delivered.
func (o *Order) owed() bool { return o.Accepted && o.Cancelled.IsZero() && !o.CancelTried }
