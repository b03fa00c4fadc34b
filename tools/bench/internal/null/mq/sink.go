package mq

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// sink takes a service queue's messages and keeps how late they came.
type sink struct {
	mu     sync.Mutex
	urgent bool
	tally  tally
}

func newSink(urgent bool) *sink { return &sink{urgent: urgent, tally: newTally(2)} }

// lanes are the sums over all sinks, by lane.
type lanes struct {
	mu   sync.Mutex
	by   [2]tally // standard, urgent
	ids  map[uint64]struct{}
	seed maphash.Seed
	dups int64
}

func (l *lanes) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by = [2]tally{newTally(3), newTally(3)}
	l.ids, l.dups, l.seed = make(map[uint64]struct{}), 0, maphash.MakeSeed()
}

// maxLate is the largest lateness told apart: an hour.
const maxLate = time.Hour

// tally is how late messages came, in microseconds.
type tally struct {
	count, early, noDue, bytes int64
	earliest                   int64 // microseconds before due, of the earliest
	first, last                int64 // arrivals, epoch milliseconds
	late                       *hdrhistogram.Histogram
}

func newTally(figures int) tally {
	return tally{late: hdrhistogram.New(1, maxLate.Microseconds(), figures)}
}

func (t *tally) add(n *entry, us int64) {
	t.count++
	t.bytes += int64(n.size)
	if ms := us / 1000; t.first == 0 || ms < t.first {
		t.first = ms
	}
	t.last = max(t.last, us/1000)
	if n.due == 0 {
		t.noDue++
		return
	}
	late := us - n.due*1000
	if late < 0 {
		t.early++
		t.earliest = max(t.earliest, -late)
	}
	_ = t.late.RecordValue(min(max(late, 0), maxLate.Microseconds())) // always in range
}

func (s *sink) record(e *Engine, entries []entry, now int64) {
	us := now / int64(time.Microsecond)
	s.mu.Lock()
	for i := range entries {
		if n := &entries[i]; n.code == "" {
			n.sent = e.last.Add(1)
			s.tally.add(n, us)
		}
	}
	s.mu.Unlock()
	lane := 0
	if s.urgent {
		lane = 1
	}
	l := &e.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range entries {
		n := &entries[i]
		if n.code != "" {
			continue
		}
		l.by[lane].add(n, us)
		if !e.opts.SinkIDs || n.key == nil {
			continue
		}
		h := maphash.Bytes(l.seed, n.key)
		if _, again := l.ids[h]; again {
			l.dups++
		} else {
			l.ids[h] = struct{}{}
		}
	}
}

// Lateness tells of the messages of a sink, or of a lane's sinks: from due to
// arrival, early ones as zero.
type Lateness struct {
	Messages   int64   `json:"messages"`
	Bytes      int64   `json:"bytes"`
	Early      int64   `json:"early"`
	EarliestMs float64 `json:"earliest_ms"` // before due
	NoDue      int64   `json:"no_due"`      // without Myosin-Due
	FirstMs    int64   `json:"first_arrival_epoch_ms"`
	LastMs     int64   `json:"last_arrival_epoch_ms"`
	MeanMs     float64 `json:"lateness_mean_ms"`
	P50Ms      float64 `json:"lateness_p50_ms"`
	P90Ms      float64 `json:"lateness_p90_ms"`
	P99Ms      float64 `json:"lateness_p99_ms"`
	P999Ms     float64 `json:"lateness_p999_ms"`
	MaxMs      float64 `json:"lateness_max_ms"`
	// Histogram is the whole of it in microseconds, as HdrHistogram encodes it
	// (V2, compressed, base64); of lanes only.
	Histogram string `json:"lateness_hdr,omitempty"`
}

func (t *tally) lateness(whole bool) Lateness {
	ms := func(us int64) float64 { return float64(us) / 1000 }
	l := Lateness{
		Messages: t.count, Bytes: t.bytes, Early: t.early, EarliestMs: ms(t.earliest), NoDue: t.noDue, FirstMs: t.first, LastMs: t.last,
		MeanMs: t.late.Mean() / 1000, MaxMs: ms(t.late.Max()),
	}
	if t.late.TotalCount() == 0 {
		l.MeanMs, l.MaxMs = 0, 0
	}
	at := t.late.ValueAtPercentilesSlice([]float64{50, 90, 99, 99.9})
	l.P50Ms, l.P90Ms, l.P99Ms, l.P999Ms = ms(at[0]), ms(at[1]), ms(at[2]), ms(at[3])
	if whole {
		if b, err := t.late.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err == nil {
			l.Histogram = string(b)
		}
	}
	return l
}
