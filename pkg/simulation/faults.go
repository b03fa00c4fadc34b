package simulation

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// kind names a fault.
type kind string

// The faults. Those of calls hit a part of the calls in a window of time.
const (
	tableThrottle kind = "table-throttle"   // refused, not applied
	tableFail     kind = "table-fail"       // unknown outcome, not applied
	tableLost     kind = "table-lost-reply" // unknown outcome, applied
	tableSlow     kind = "table-slow"
	tableSlowBack kind = "table-slow-reply"
	tableStale    kind = "table-stale-reads"
	tableDown     kind = "table-down" // everything refused

	sendThrottle  kind = "send-throttle"
	sendFail      kind = "send-fail"
	sendLost      kind = "send-lost-reply"
	sendNot       kind = "send-not-sent"
	sendSlow      kind = "send-slow"
	sendDenied    kind = "send-denied"
	sendDuplicate kind = "send-duplicate"
	sendReorder   kind = "send-reorder"
	receiveFail   kind = "receive-fail"
	receiveLost   kind = "receive-lost-reply"
	redeliver     kind = "redeliver" // a message comes again though it was received
	deleteLost    kind = "delete-lost-reply"
	deleteFail    kind = "delete-fail"

	queueMissing    kind = "queue-missing" // a service's queue is deleted, and made again
	servicePaused   kind = "service-paused"
	killScheduler   kind = "kill-scheduler"
	killInbound     kind = "kill-inbound"
	killWorker      kind = "kill-worker"
	freezeScheduler kind = "freeze-scheduler"
	freezeInbound   kind = "freeze-inbound"
	rollScheduler   kind = "roll-scheduler"
	rollInbound     kind = "roll-inbound"
	clockAtStart    kind = "clock-at-start" // a scheduler is replaced by one whose clock is off
	clockStep       kind = "clock-step"     // small, as by a slewing daemon that gives up
	viewLag         kind = "view-lag"       // members disagree for a while
	growPartitions  kind = "grow-partitions"
)

var callKinds = []kind{
	tableThrottle, tableFail, tableLost, tableSlow, tableSlowBack, tableStale, tableDown,
	sendThrottle, sendFail, sendLost, sendNot, sendSlow, sendDenied, sendDuplicate, sendReorder,
	receiveFail, receiveLost, redeliver, deleteLost, deleteFail,
}

var eventKinds = []kind{
	queueMissing, servicePaused, killScheduler, killInbound, killWorker, freezeScheduler, freezeInbound,
	rollScheduler, rollInbound, clockAtStart, clockStep, viewLag,
}

// fault is one fault of a seed.
type fault struct {
	n        int // its place in the plan
	kind     kind
	from     time.Duration // from the start of the world
	length   time.Duration
	share    float64 // of the calls it hits
	target   int     // process or service, by number
	duration time.Duration
}

// String describes the fault for a failing seed's report.
func (f fault) String() string {
	return fmt.Sprintf("%2d %-18s at %6.1fs for %5.1fs share %.2f target %d", f.n, f.kind, f.from.Seconds(), f.length.Seconds(), f.share, f.target)
}

// planFaults draws a seed's faults. Windows of calls end well before the claims
// they disturb could be taken for abandoned, so that such a fault alone never
// explains a duplicate.
func planFaults(r *rand.Rand, n int, span time.Duration) []fault {
	var fs []fault
	for i := range n {
		f := fault{
			n: i, from: time.Duration(r.Float64() * float64(span)), target: r.IntN(1000),
			share: 0.05 + 0.4*r.Float64(), length: time.Duration((1 + 14*r.Float64()) * float64(time.Second)),
			duration: time.Duration(r.Float64() * float64(time.Second)),
		}
		if r.IntN(2) == 0 {
			f.kind = callKinds[r.IntN(len(callKinds))]
		} else {
			f.kind = eventKinds[r.IntN(len(eventKinds))]
		}
		switch f.kind {
		case tableDown:
			f.share, f.length = 1, min(f.length, 8*time.Second)
		case freezeScheduler, freezeInbound:
			f.length = time.Duration((5 + 70*r.Float64()) * float64(time.Second))
		case tableStale:
			f.share = 0.8
		case clockAtStart:
			f.duration = time.Duration((r.Float64()*2 - 1) * float64(25*time.Second))
		case clockStep:
			f.duration = time.Duration((r.Float64()*2 - 1) * float64(700*time.Millisecond))
		case viewLag, servicePaused, queueMissing:
			f.length = time.Duration((2 + 18*r.Float64()) * float64(time.Second))
		}
		fs = append(fs, f)
	}
	if r.IntN(3) == 0 {
		fs = append(fs, fault{n: len(fs), kind: growPartitions, from: time.Duration(r.Float64() * float64(span/2))})
	}
	return fs
}

// hits decides whether a fault hits an operation: a function of the seed, the
// operation and the moment, whatever else runs.
func (w *world) hits(f *fault, what string) bool {
	since := time.Since(w.start)
	if since < f.from || since >= f.from+f.length {
		return false
	}
	var b [24]byte
	binary.LittleEndian.PutUint64(b[0:], w.seed)
	binary.LittleEndian.PutUint64(b[8:], uint64(f.n))
	binary.LittleEndian.PutUint64(b[16:], uint64(since/(20*time.Millisecond)))
	h := xxhash.New()
	_, _ = h.Write(b[:])
	_, _ = h.WriteString(what)
	return float64(h.Sum64()>>11)/(1<<53) < f.share
}

// aftermath is how long a fault is felt when it has ended: claims of processes
// that are gone wait for the sweep, others for a back-off or a probe.
func (f *fault) aftermath() time.Duration {
	switch f.kind {
	case killScheduler, killInbound, freezeScheduler, freezeInbound, killWorker, viewLag, clockAtStart, clockStep, growPartitions:
		return 90 * time.Second
	default:
		return 45 * time.Second
	}
}

// calm is when every fault is over, and what it left behind.
func (w *world) calm() (at time.Duration) {
	for i := range w.faults {
		f := &w.faults[i]
		at = max(at, f.from+f.length+f.aftermath())
	}
	return at
}

var errUnknown = errors.New("simulation: connection reset")

// tableFault is asked by the table for every operation.
func (w *world) tableFault(op string, k trigger.Key) (out memstore.Fault) {
	what := op + k.String()
	for i := range w.callFaults {
		f := &w.callFaults[i]
		if !strings.HasPrefix(string(f.kind), "table-") || !w.hits(f, what) {
			continue
		}
		switch f.kind {
		case tableThrottle, tableDown:
			out.Err = store.ErrThrottled
		case tableFail:
			out.Err = errUnknown
		case tableLost:
			out.LostReply = true
			w.insertLost(op, k)
		case tableSlow:
			out.Delay = f.duration
		case tableSlowBack:
			out.ReplyDelay = f.duration
			w.insertLost(op, k)
		case tableStale:
			out.Stale = f.duration
		default:
		}
	}
	return out
}

// insertLost explains a second insert: of a job that is due, delivered and
// gone before the first insert's answer was missed.
func (w *world) insertLost(op string, k trigger.Key) {
	if op == memstore.OpInsert {
		w.audit.comesAgain([]string{k.ID.String()}, "reply to its insert lost")
	}
}

// queueFault is asked by the queues for every entry.
func (w *world) queueFault(e memqueue.Entry) (out memqueue.Fault) {
	what := e.Op.String() + e.URL + e.Receipt
	var ids []string
	switch {
	case e.Message != nil:
		ids = idsOf(e.Message.Body, e.Message.Attributes)
	case e.Deliver != nil:
		ids = idsOf(e.Deliver.Body, e.Deliver.Attributes)
	}
	what += strings.Join(ids, "")
	if e.Op == memqueue.OpDeliver && e.Deliver.ReceiveCount > 1 && w.isInbound(e.URL) {
		w.audit.comesAgain(ids, "submission received again")
	}
	for i := range w.callFaults {
		f := &w.callFaults[i]
		if strings.HasPrefix(string(f.kind), "table-") || !w.hits(f, what) {
			continue
		}
		w.applyQueueFault(f, e, ids, &out)
	}
	return out
}

func (w *world) applyQueueFault(f *fault, e memqueue.Entry, ids []string, out *memqueue.Fault) {
	switch {
	case e.Op == memqueue.OpSend && (out.Err != nil || out.LoseReply):
		// One outcome a call: a message taken and called refused is no fault of this world.
	case e.Op == memqueue.OpSend:
		switch f.kind {
		case sendThrottle:
			out.Err = fmt.Errorf("send: %w", queue.ErrThrottled)
		case sendDenied:
			if !w.isInbound(e.URL) {
				out.Err = fmt.Errorf("send: %w", queue.ErrDenied)
			}
		case sendNot:
			out.Err = fmt.Errorf("send: %w", queue.ErrNotSent)
		case sendFail:
			out.Err = errUnknown
		case sendLost:
			out.LoseReply = true
		case sendSlow:
			out.Delay = f.duration
		case sendDuplicate:
			out.Duplicate, out.DuplicateAfter = true, f.duration
			w.audit.explain(ids, "duplicated by the queue")
		case sendReorder:
			out.Reorder, out.Hold = true, f.duration
		default:
		}
		if out.LoseReply && out.Err == nil {
			w.audit.explain(ids, "reply to a send lost")
		}
	case e.Op == memqueue.OpReceive && f.kind == receiveFail:
		out.Err = errUnknown
	case e.Op == memqueue.OpReceive && f.kind == receiveLost:
		out.LoseReply = true
	case e.Op == memqueue.OpDeliver && f.kind == redeliver:
		out.Duplicate, out.DuplicateAfter = true, f.duration
		if w.isInbound(e.URL) {
			w.audit.comesAgain(ids, "submission redelivered")
		}
	case e.Op == memqueue.OpDelete && f.kind == deleteLost:
		out.LoseReply = true
	case e.Op == memqueue.OpDelete && f.kind == deleteFail:
		out.Err = errUnknown
	}
}
