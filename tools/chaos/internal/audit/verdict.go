package audit

import (
	"fmt"
	"slices"
	"time"

	"github.com/myosin-jobs/myosin/tools/chaos/internal/journal"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/owner"
)

// The kinds of disturbances. A roll is a reason for nothing.
const (
	Killed = "killed"
	Frozen = "frozen"
	Rolled = "rolled"
)

// Disturbance is what befell a process start.
type Disturbance struct {
	By   string // the process start
	Kind string
	// From is when it began; To when it ended. A kill has no end.
	From, To time.Time
}

func (d *Disturbance) overlaps(from, to time.Time) bool {
	return !to.Before(d.From) && (d.To.IsZero() || !from.After(d.To))
}

// Facts are what the run did, beside the calls.
type Facts struct {
	Start        time.Time
	Disturbances []Disturbance
	// Deleted says when a queue was deleted, with all that lay on it.
	Deleted map[string][]time.Time
	// ClockOff reports whether a process start's clock may be wrong by as much as
	// goes uncorrected, at a time.
	ClockOff func(by string, at time.Time) bool
}

// Tolerance is how early a message may be by the true clock where a clock is
// wrong by less than is corrected: see "Never early" in services/README.md. It
// is corrected from 2 s on, measured to about a second.
const Tolerance = 3100 * time.Millisecond

// Account is the sum of a run.
type Account struct {
	Submitted, Accepted, Repeated, Delivered int
	Unsure                                   int // submissions without an answer
	Cancelled, CancelUnsure, Moved           int
	LostWithQueue                            int // gone with the queue that was deleted
	Lost, Early, CancelledAndSent            int
	WrongDelivery                            int
	// WithinClock are those that were early by no more than a clock may be wrong.
	WithinClock       int
	DuplicateSends    int
	DuplicateHandlers int            // messages handled again
	Why               map[string]int // reasons of both
	Unexplained       int            // those without
	OnRolls           int            // of these, while a process that sent either was being rolled
	HeldAtKills       int            // rows sent and not completed
	LateP50           float64        // milliseconds; also below
	LateP99, LateMax  float64
	Breaches          []string
}

// auditor goes through the orders.
type auditor struct {
	a       *Account
	j       *journal.Journal
	f       *Facts
	handled map[string][]owner.Handled
	late    []float64
}

// Verdict compares what callers were told with what happened.
func Verdict(l *Ledger, j *journal.Journal, handled []owner.Handled, f Facts) *Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	au := &auditor{a: &Account{Why: make(map[string]int)}, j: j, f: &f, handled: make(map[string][]owner.Handled)}
	for _, h := range handled {
		au.handled[h.ID] = append(au.handled[h.ID], h)
	}
	for _, hs := range au.handled {
		slices.SortFunc(hs, func(a, b owner.Handled) int { return a.At.Compare(b.At) })
	}
	au.a.Breaches = slices.Clone(l.breaches)
	for _, o := range l.orders {
		au.order(o)
	}
	for id, hs := range au.handled {
		if l.orders[id] == nil {
			au.a.WrongDelivery++
			au.breach(id, "handled and never submitted: %+v", hs)
		}
	}
	slices.Sort(au.late)
	at := func(q float64) float64 {
		if len(au.late) == 0 {
			return 0
		}
		return au.late[int(q*float64(len(au.late)-1))]
	}
	au.a.LateP50, au.a.LateP99, au.a.LateMax = at(.5), at(.99), at(1)
	slices.Sort(au.a.Breaches)
	return au.a
}

func (au *auditor) breach(id, format string, args ...any) {
	au.a.Breaches = append(au.a.Breaches, id+": "+fmt.Sprintf(format, args...)+"\n"+au.j.Text(id, au.f.Start))
}

// Sends are the messages of a trigger that its service's queue took.
func Sends(events []journal.Event) (out []journal.Event) {
	for _, e := range events {
		if e.What == journal.Deliver && e.Applied {
			out = append(out, e)
		}
	}
	return out
}

// restored is when a row was inserted after an earlier one was delivered and
// deleted; zero for never.
func restored(events []journal.Event) time.Time {
	gone := false
	for _, e := range events {
		switch {
		case e.What == journal.Remove && e.Applied:
			gone = true
		case e.What == journal.Insert && e.Applied && gone:
			return e.At
		}
	}
	return time.Time{}
}

func (au *auditor) order(o *Order) {
	a := au.a
	events := au.j.Of(o.ID)
	sent := Sends(events)
	handled := au.handled[o.ID]
	a.Submitted++
	a.Repeated += o.Submissions - 1
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	count(&a.Accepted, o.Accepted)
	count(&a.Unsure, !o.Accepted)
	count(&a.Delivered, len(handled) > 0)
	count(&a.Cancelled, !o.Cancelled.IsZero())
	count(&a.CancelUnsure, o.CancelTried)
	count(&a.Moved, o.Moved)

	if len(handled) == 0 {
		switch {
		case o.owed() && Excused(sent, au.f.Deleted):
			a.LostWithQueue++
		case o.owed():
			a.Lost++
			au.breach(o.ID, "lost")
		case len(sent) > 0 && !Excused(sent, au.f.Deleted):
			a.Lost++
			au.breach(o.ID, "on its queue and never handled")
		}
	}
	again := restored(events)
	for i := range handled {
		au.delivery(o, &handled[i], sent, again)
	}
	if len(handled) > 0 {
		au.late = append(au.late, float64(handled[0].At.Sub(handled[0].Due).Milliseconds()))
	}
	if !o.Cancelled.IsZero() {
		for _, s := range sent {
			if s.At.After(o.Cancelled) || again.IsZero() {
				a.CancelledAndSent++
				au.breach(o.ID, "cancelled at %.3fs, and delivered", o.Cancelled.Sub(au.f.Start).Seconds())
				break
			}
		}
	}
	au.duplicates(o, events, sent)
	au.handledAgain(o, events, handled)
}

// Excused reports whether every message of a trigger lay on a queue, or may
// have, when that was deleted: gone with it, by the operator's own hand. A send
// that was under way then may have come before or after, whenever its answer did.
func Excused(sent []journal.Event, deleted map[string][]time.Time) bool {
	for _, s := range sent {
		gone := false
		for _, at := range deleted[s.Queue] {
			gone = gone || !s.Began.After(at)
		}
		if !gone {
			return false
		}
	}
	return len(sent) > 0
}

// delivery checks one message as the worker saw it.
func (au *auditor) delivery(o *Order, h *owner.Handled, sent []journal.Event, again time.Time) {
	due := h.Due.UnixMilli()
	from, moved := o.MovedFrom[due]
	switch {
	case h.Payload != o.Payload, h.Urgent != o.Urgent, h.Service != o.Service:
		au.a.WrongDelivery++
		au.breach(o.ID, "not what was submitted: %+v", *h)
	case !o.Dues[due]:
		au.a.WrongDelivery++
		au.breach(o.ID, "delivered for %d, which is none of its due times", due)
	case moved && (h.Sent.After(from) || again.IsZero()):
		au.a.WrongDelivery++
		au.breach(o.ID, "delivered for %d after it was moved away from there", due)
	}
	if h.Message == "" || h.Sent.IsZero() {
		au.breach(o.ID, "handled without a message: %+v", *h)
		return
	}
	early := h.Due.Sub(h.Sent)
	if early <= 0 {
		return
	}
	for _, s := range sent {
		if s.Message == h.Message && au.f.ClockOff(s.By, s.At) && early <= Tolerance {
			au.a.WithinClock++
			return
		}
	}
	au.a.Early++
	au.breach(o.ID, "%s early", early)
}
