package jobs

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/store"
)

// kind names a fault.
type kind string

// The faults. Those of calls hit a part of the calls in a window of time.
const (
	storeBusy  kind = "store-busy"       // refused, not applied
	storeFail  kind = "store-fail"       // unknown outcome, not applied
	storeLost  kind = "store-lost-reply" // unknown outcome, applied
	storeSlow  kind = "store-slow"
	storeStale kind = "store-stale-lists"

	sendLost    kind = "send-lost-reply" // so the message comes twice
	sendAgain   kind = "send-duplicate"
	receiveFail kind = "receive-fail"
	receiveLost kind = "receive-lost-reply"
	redeliver   kind = "redeliver"
	deleteFail  kind = "delete-fail"
	hideFail    kind = "visibility-fail"
	vanish      kind = "trigger-lost" // deleted by hand from the queue

	killRunner   kind = "kill-runner" // between any two of its calls
	freezeRunner kind = "freeze-runner"
	rollRunner   kind = "roll-runner"
	clockStep    kind = "clock-step"
	outage       kind = "outage" // of the schedulers
)

// fault is one fault of a seed.
type fault struct {
	n      int
	kind   kind
	from   time.Duration // from the start of the plan
	length time.Duration
	share  float64 // of the calls it hits
	target int
	by     time.Duration
}

// String describes the fault for a failing seed's report.
func (f fault) String() string {
	return fmt.Sprintf("%2d %-18s at %6.1fs for %5.1fs share %.2f target %d by %s", f.n, f.kind, f.from.Seconds(), f.length.Seconds(), f.share, f.target, f.by)
}

func planFaults(r *rand.Rand, n int, span time.Duration) []fault {
	kinds := []kind{
		storeBusy, storeFail, storeLost, storeSlow, storeStale, storeFail, storeLost,
		sendLost, sendAgain, receiveFail, receiveLost, redeliver, deleteFail, hideFail, vanish,
		killRunner, killRunner, killRunner, killRunner, freezeRunner, freezeRunner, rollRunner, clockStep, clockStep, outage,
	}
	fs := make([]fault, n)
	for i := range fs {
		f := fault{
			n: i, kind: kinds[r.IntN(len(kinds))], from: time.Duration(r.Float64() * float64(span)), share: 0.05 + 0.4*r.Float64(),
			length: time.Duration((2 + 20*r.Float64()) * float64(time.Second)), target: r.IntN(1000),
			by: time.Duration(r.Float64() * float64(3*time.Second)),
		}
		switch f.kind {
		case freezeRunner:
			f.length = time.Duration((2 + 70*r.Float64()) * float64(time.Second))
		case clockStep:
			f.by = time.Duration((r.Float64()*2 - 1) * float64(2*time.Second))
		case outage:
			f.length = time.Duration((10 + 170*r.Float64()) * float64(time.Second))
		case vanish:
			f.share = 0.3
		case storeStale:
			f.share, f.length = 0.8, 2*f.length
		default:
		}
		fs[i] = f
	}
	return fs
}

// hits decides whether a fault hits an operation: a function of the seed, the
// operation and the moment, whatever else runs.
func (s *sim) hits(f *fault, what string) bool {
	since := time.Since(s.start)
	if since < f.from || since >= f.from+f.length {
		return false
	}
	var b [24]byte
	binary.LittleEndian.PutUint64(b[0:], s.seed)
	binary.LittleEndian.PutUint64(b[8:], uint64(f.n))                          //nolint:gosec // not negative.
	binary.LittleEndian.PutUint64(b[16:], uint64(since/(20*time.Millisecond))) //nolint:gosec // not negative.
	h := xxhash.New()
	_, _ = h.Write(b[:])
	_, _ = h.WriteString(what)
	return float64(h.Sum64()>>11)/(1<<53) < f.share
}

func (s *sim) storeFault(op string) (out Fault) {
	for i := range s.faults {
		f := &s.faults[i]
		switch f.kind {
		case storeBusy, storeFail, storeLost, storeSlow, storeStale:
		default:
			continue
		}
		if !s.hits(f, op) {
			continue
		}
		switch f.kind {
		case storeBusy:
			out.Err = jobstore.ErrBusy
		case storeFail:
			out.Err = errUnknown
		case storeLost:
			out.Lost = true
		case storeSlow:
			out.Delay = f.by
		default:
			out.Stale = f.by
		}
	}
	return out
}

func (s *sim) queueFault(e memqueue.Entry) (out memqueue.Fault) {
	for i := range s.faults {
		f := &s.faults[i]
		if !s.hits(f, e.Op.String()+e.Receipt) {
			continue
		}
		switch {
		case e.Op == memqueue.OpSend && f.kind == sendLost:
			out.LoseReply = true
		case e.Op == memqueue.OpSend && f.kind == sendAgain, e.Op == memqueue.OpDeliver && f.kind == redeliver:
			out.Duplicate, out.DuplicateAfter = true, f.by
		case e.Op == memqueue.OpReceive && f.kind == receiveFail,
			e.Op == memqueue.OpDelete && f.kind == deleteFail, e.Op == memqueue.OpVisibility && f.kind == hideFail:
			out.Err = errUnknown
		case e.Op == memqueue.OpReceive && f.kind == receiveLost:
			out.LoseReply = true
		default:
		}
	}
	return out
}

// lost tells triggers that vanish from the queue. Only those of a run that waits
// are the platform's to find: what a worker has taken in, SQS keeps.
func (s *sim) lost(row *store.Row) bool {
	for i := range s.faults {
		if f := &s.faults[i]; f.kind == vanish && s.hits(f, row.ID.String()) {
			return true
		}
	}
	return false
}
