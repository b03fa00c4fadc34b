package audit

import (
	"time"

	"github.com/myosin-jobs/myosin/tools/chaos/internal/journal"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/owner"
)

// The reasons there are for a trigger to be sent, or handled, once more.
const (
	whyReply     = "reply to a send lost"
	whyKill      = "killed between send and completion"
	whyFreeze    = "frozen between claim and completion"
	whyCompleted = "no completion got through"
	whyAgain     = "submission came again after the delivery"
	whyInsert    = "reply to an insert lost, and the row delivered before the next"
	whyLateRow   = "an insert was given up, and applied after the delivery"
	whyLateSend  = "a send was given up, and applied after another"
	whyCopy      = "the queue delivered a copy"
	whyDelete    = "the worker's delete did not get through"
	whyWorker    = "the worker was killed or frozen"
)

// duplicates wants a reason for every send after the first: between the two, and
// of the very process that made the one before, or of the submission.
func (au *auditor) duplicates(o *Order, events, sent []journal.Event) {
	for i := range sent {
		// What a kill may cost: sent, not completed, whether or not it came twice.
		if au.disturbed(Killed, sent[i].By, sent[i].At, time.Time{}) && !completed(events, &sent[i], time.Time{}) {
			au.a.HeldAtKills++
		}
		if i == 0 {
			continue
		}
		au.a.DuplicateSends++
		why := au.reason(events, &sent[i-1], &sent[i])
		if why == "" {
			au.a.Unexplained++
			if au.disturbed(Rolled, sent[i-1].By, sent[i-1].At, sent[i].At) || au.disturbed(Rolled, sent[i].By, sent[i-1].At, sent[i].At) {
				au.a.OnRolls++
			}
			au.breach(o.ID, "sent %d times, and nothing explains number %d", len(sent), i+1)
			continue
		}
		au.a.Why[why]++
	}
}

func (au *auditor) reason(events []journal.Event, before, next *journal.Event) string {
	first, again := rows(events, before, next)
	switch {
	case lateSend(before, next):
		return whyLateSend
	case again != nil && late(first, again):
		return whyLateRow
	case again != nil && receipts(events, again) > 0:
		if first != nil && !first.Answered && first.By == again.By {
			return whyInsert
		}
		return whyAgain
	case completed(events, before, next.At):
		return ""
	case !before.Answered:
		return whyReply
	case au.disturbed(Killed, before.By, before.At, next.At):
		return whyKill
	case au.disturbed(Frozen, before.By, before.At, next.At),
		au.disturbed(Frozen, next.By, before.At, next.At):
		return whyFreeze
	case faultyCompletions(events, before, next):
		return whyCompleted
	}
	return ""
}

// lateSend reports whether the queue took a message late: its sender did not wait
// for the answer, and the call was on its way already when the other was sent.
func lateSend(before, next *journal.Event) bool {
	return !next.Answered && next.Began.Before(before.At)
}

// rows returns the inserts that two sends' rows came of; again is nil where the
// second is of the same row, or of one that was moved.
func rows(events []journal.Event, before, next *journal.Event) (first, again *journal.Event) {
	for i := range events {
		e := &events[i]
		switch {
		case e.What != journal.Insert || !e.Applied || e.At.After(next.At):
		case !e.At.After(before.At):
			first = e
		default:
			again = e
		}
	}
	return first, again
}

// late reports whether a row came of a call that was on its way before the one
// before it was there, was not waited for, and was carried out when that one was
// gone. No condition of a write can tell such an insert from a first one.
func late(first, again *journal.Event) bool {
	return first != nil && !again.Answered && again.Began.Before(first.At)
}

// receipts returns how often a submission had come to a process when it inserted
// the row, beyond the times that it had heard that its insert was done: each
// receipt is for one.
func receipts(events []journal.Event, insert *journal.Event) (left int) {
	for i := range events {
		e := &events[i]
		switch {
		case e.By != insert.By || e.At.After(insert.At) || e == insert:
		case e.What == journal.Drain && e.Answered:
			left++
		case e.What == journal.Insert && e.Applied && e.Answered:
			left--
		}
	}
	return left
}

// disturbed reports whether a process was killed, frozen or rolled in a time; no
// end means until now.
func (au *auditor) disturbed(kind, by string, from, to time.Time) bool {
	if to.IsZero() {
		to = time.Now()
	}
	for _, d := range au.f.Disturbances {
		if d.Kind == kind && d.By == by && d.overlaps(from, to) {
			return true
		}
	}
	return false
}

// completed reports whether the sender deleted the row after a send, and before
// the next one if there is a next.
func completed(events []journal.Event, send *journal.Event, next time.Time) bool {
	for _, e := range events {
		if e.What == journal.Remove && e.Applied && e.By == send.By && e.At.After(send.At) && (next.IsZero() || e.At.Before(next)) {
			return true
		}
	}
	return false
}

// faultyCompletions reports whether the sender tried to complete the row before
// it was sent again, and a fault befell every try.
func faultyCompletions(events []journal.Event, before, next *journal.Event) bool {
	tries := 0
	for _, e := range events {
		if e.What != journal.Remove || e.By != before.By || e.At.Before(before.At) || e.At.After(next.At) {
			continue
		}
		if e.Fault == "" {
			return false
		}
		tries++
	}
	return tries > 0
}

// handledAgain wants a reason for every message that was handled more than once.
func (au *auditor) handledAgain(o *Order, events []journal.Event, handled []owner.Handled) {
	times := make(map[string][]owner.Handled)
	for _, h := range handled {
		times[h.Message] = append(times[h.Message], h)
	}
	for message, hs := range times {
		for i := 1; i < len(hs); i++ {
			au.a.DuplicateHandlers++
			why := au.againReason(events, message, &hs[i-1], &hs[i])
			if why == "" {
				au.a.Unexplained++
				au.breach(o.ID, "message %s handled %d times, and nothing explains number %d", message, len(hs), i+1)
				continue
			}
			au.a.Why[why]++
		}
	}
}

func (au *auditor) againReason(events []journal.Event, message string, before, next *owner.Handled) string {
	received := next.At // by the one who handled it next
	copied, refused, deleted := false, false, false
	first := false // the one who handled it before had a copy, whose delete leaves the message itself
	for _, e := range events {
		if e.Message != message || e.What != journal.Receive {
			continue
		}
		if e.By == next.By && !e.At.After(next.At) {
			received, copied = e.At, copied || e.Fault == "a copy"
		}
		first = first || e.By == before.By && !e.At.After(before.At) && e.Fault == "a copy"
	}
	for _, e := range events {
		if e.Message == message && e.What == journal.Done && !e.At.After(received) {
			refused = refused || !e.Applied && e.Fault != ""
			deleted = deleted || e.Applied
		}
	}
	switch {
	case copied, first && !deleted:
		return whyCopy
	case !deleted && au.anyOf(before.By, before.At, received), au.anyOf(next.By, received, next.At):
		return whyWorker
	case refused && !deleted:
		return whyDelete
	}
	return ""
}

func (au *auditor) anyOf(by string, from, to time.Time) bool {
	return au.disturbed(Killed, by, from, to) || au.disturbed(Frozen, by, from, to)
}
