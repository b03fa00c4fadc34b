package worker

import (
	"context"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// state is where a held message stands. Its visibility is extended in every
// state but releasing.
type state uint8

const (
	buffered  state = iota
	running         // its handler runs
	burying         // on its way to the dead-letter queue
	deleting        // finished, to be deleted
	releasing       // to be made visible, now or later
)

func (s state) String() string {
	return [...]string{"buffered", "running", "burying", "deleting", "releasing"}[s]
}

// entry is one held message. Worker.mu guards everything below job.
type entry struct {
	lane *lane
	msg  queue.Received
	job  trigger.Trigger
	bad  error // not a delivered job

	received time.Time // when the receive returned
	until    time.Time // hidden until then, as far as is known
	state    state
	lost     bool // the receipt is invalid
	tooOld   bool // MaxAge was reported
	cancel   context.CancelCauseFunc

	// extending: an extension is under way. A release then waits in parked, lest
	// the extension arrive after it and hide the message again.
	extending bool
	parked    bool
	timeout   time.Duration // of a release
	reason    string        // of a burial, or how it ended
	tries     int
}

func (w *Worker) newEntry(l *lane, m *queue.Received, now time.Time) *entry {
	e := &entry{lane: l, msg: *m, received: now, until: now.Add(w.opts.Visibility)}
	e.job, e.bad = trigger.ReadDelivered(m.Body, m.Attributes)
	// A redriven message still carries why it was dead-lettered.
	delete(e.job.Headers, AttrReason)
	w.entries[e] = struct{}{}
	return e
}

// forget ends the worker's hold on a message. mu is held.
func (w *Worker) forget(e *entry) {
	if _, ok := w.entries[e]; !ok {
		return
	}
	delete(w.entries, e)
	e.lane.signal()
	w.checkDrained()
}

// about returns what logs say of a message: never its payload.
func (w *Worker) about(e *entry) []any {
	a := []any{"queue", e.lane.url, "message", e.msg.ID, "attempt", e.msg.ReceiveCount}
	if e.bad == nil {
		a = append(a, "id", e.job.ID.String(), "name", e.job.Name)
	}
	return a
}

// label is the bounded name of a job in metrics.
func (w *Worker) label(e *entry) string {
	if e.bad == nil && w.handlers[e.job.Name] != nil {
		return e.job.Name
	}
	return otherName
}

// left is how long the queue can still hide the message, in whole seconds.
func (e *entry) left(now time.Time) time.Duration {
	return max(queue.MaxVisibility-now.Sub(e.received)-time.Second, 0).Truncate(time.Second)
}
