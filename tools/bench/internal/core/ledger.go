package core

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// ledger accounts for every job.
type ledger struct {
	needs time.Duration // the lead from which a job counts as stored in time

	mu       sync.Mutex
	accepted map[trigger.ID]accepted
	arrived  map[trigger.ID]arrival
	refused  int
	why      error // the first trouble
	troubles int
	repeated int // further messages of a job
	again    int // messages that the queue itself delivered again
	strange  int // messages without a readable id
	submits  *hdrhistogram.Histogram
	first    time.Time     // the earliest due time
	last     time.Time     // the latest
	worst    time.Duration // since progress was last asked
}

type accepted struct {
	due   time.Time
	lane  trigger.Lane
	short bool
}

type arrival struct {
	message string // the queue's id of it
	sent    time.Time
	at      time.Time
}

func newLedger(needs time.Duration) *ledger {
	return &ledger{
		needs: needs, accepted: make(map[trigger.ID]accepted), arrived: make(map[trigger.ID]arrival), submits: newHistogram(),
	}
}

// newHistogram holds microseconds up to an hour, to three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, time.Hour.Microseconds(), 3)
}

// record adds a duration; negative ones count as none, longer ones as an hour.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 0), time.Hour.Microseconds())) // in range
}

// submitted notes what the client tells of a submission.
func (l *ledger) submitted(s *submission) {
	l.mu.Lock()
	defer l.mu.Unlock()
	accepted := time.Unix(0, s.Began+s.Took)
	for i := range s.Jobs {
		l.job(&s.Jobs[i], accepted, time.Duration(s.Took))
	}
}

// job notes the outcome of one. Called with mu held.
func (l *ledger) job(j *job, at time.Time, took time.Duration) {
	record(l.submits, took)
	if j.Error != "" {
		// Also one of unknown outcome: it is not to be had on this load.
		l.refused++
		l.note(errors.New(j.Error))
		return
	}
	id, err := trigger.ParseID(j.ID)
	lane, badLane := trigger.ParseLane(j.Lane)
	if err := errors.Join(err, badLane); err != nil {
		l.refused++
		l.note(err)
		return
	}
	due := time.UnixMilli(j.Due)
	l.accepted[id] = accepted{due: due, lane: lane, short: due.Sub(at) < l.needs}
	if due.After(l.last) {
		l.last = due
	}
	if l.first.IsZero() || due.Before(l.first) {
		l.first = due
	}
}

// received notes what the consumers tell of a poll.
func (l *ledger) received(r *receipt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Trouble != "" {
		l.troubles++
		l.note(errors.New(r.Trouble))
	}
	for i := range r.Messages {
		l.message(&r.Messages[i], time.Unix(0, r.At))
	}
}

// message notes one. Called with mu held.
func (l *ledger) message(m *message, at time.Time) {
	id, err := trigger.ParseID(m.Job)
	ms, badDue := strconv.ParseInt(m.Due, 10, 64)
	if err != nil || badDue != nil {
		l.strange++
		return
	}
	if first, known := l.arrived[id]; known {
		if first.message == m.ID {
			l.again++
		} else {
			l.repeated++
		}
		return
	}
	l.arrived[id] = arrival{message: m.ID, sent: time.UnixMilli(m.Sent), at: at}
	l.worst = max(l.worst, at.Sub(time.UnixMilli(ms)))
}

// note keeps the first error. Called with mu held.
func (l *ledger) note(err error) {
	if l.why == nil {
		l.why = err
	}
}

func (l *ledger) lastDue() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// missing is how many jobs that were accepted have not arrived. While none is
// lost or strange the counts alone tell.
func (l *ledger) missing() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.arrived) < len(l.accepted) {
		return len(l.accepted) - len(l.arrived)
	}
	n := 0
	for id := range l.accepted {
		if _, ok := l.arrived[id]; !ok {
			n++
		}
	}
	return n
}

func (l *ledger) progress() (submitted, delivered int, worst time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	worst, l.worst = l.worst, 0
	return len(l.accepted), len(l.arrived), worst
}

// sum fills in what became of the jobs.
func (l *ledger) sum(r *Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Submitted, r.Refused = len(l.accepted), l.refused
	r.Repeated, r.Redelivered, r.Strange = l.repeated, l.again, l.strange
	r.Troubles, r.Trouble = l.troubles, l.why
	r.SubmitTime = figures(l.submits)
	received, visible := make(map[Class]*hdrhistogram.Histogram), make(map[Class]*hdrhistogram.Histogram)
	for _, c := range Classes() {
		received[c], visible[c] = newHistogram(), newHistogram()
	}
	var sent time.Time // the last
	for id, job := range l.accepted {
		a, ok := l.arrived[id]
		if !ok {
			r.Lost++
			continue
		}
		r.Delivered++
		if a.sent.After(sent) {
			sent = a.sent
		}
		if a.sent.Before(job.due) || a.at.Before(job.due) {
			r.Early++
		}
		classes := []Class{All, Class(job.lane.String())}
		if job.short {
			classes = []Class{Short}
		}
		for _, c := range classes {
			record(received[c], a.at.Sub(job.due))
			record(visible[c], a.sent.Sub(job.due))
		}
	}
	r.Dispatching = max(sent.Sub(l.first), 0)
	for id := range l.arrived {
		if _, ok := l.accepted[id]; !ok {
			r.Unaccounted++
		}
	}
	r.Received, r.Visible = make(map[Class]Figures), make(map[Class]Figures)
	for _, c := range Classes() {
		r.Received[c], r.Visible[c] = figures(received[c]), figures(visible[c])
	}
}

func figures(h *hdrhistogram.Histogram) Figures {
	at := func(p float64) time.Duration { return time.Duration(h.ValueAtPercentile(p)) * time.Microsecond }
	return Figures{
		Count: h.TotalCount(), P50: at(50), P90: at(90), P99: at(99),
		Max: time.Duration(h.Max()) * time.Microsecond,
	}
}
