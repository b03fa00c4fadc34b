package protect

import (
	"context"
	"time"
)

// Shared is what the runners of a fleet know together of their targets: one
// record a target, of the breaker's state and of every runner's own counts.
//
// Each runner writes nothing but its own counts, and those as they stand, not
// what was added: an exchange that is sent twice, or whose answer is lost,
// changes nothing. Totals are the sum over runners, made by who reads.
type Shared interface {
	// Exchange puts the runner's counts and proposals into the records of the
	// reports' targets, one report a target, and returns those records as they
	// are afterwards, in any order. A record that is missing was perhaps not
	// exchanged, whatever the reason; err says why.
	//
	// A proposal takes effect only where the record's state has the generation
	// of the report's counts (none is 0); the loser gets the state that won.
	Exchange(ctx context.Context, runner string, reports []Report) ([]Record, error)
}

// Report is what a runner says of one target.
type Report struct {
	Target string
	// At is the time by the runner's clock.
	At time.Time
	// Counts are the runner's own of the last minute. Empty ones leave what the
	// runner wrote before as it is.
	Counts Counts
	// Next, if set, is the state proposed; its Gen is Counts.Gen + 1.
	Next *State
}

// Record is what the fleet has of one target.
type Record struct {
	Target string
	State  State
	// Others are the counts of the other runners. Those not of State.Gen, and
	// buckets older than a minute, are to be ignored and may be missing.
	Others []Counts
}

// Counts are one runner's calls of one target, within one generation.
type Counts struct {
	// Gen is the generation of the state under which the calls began. A new one
	// starts from nothing, so that what opened a breaker cannot open it again.
	Gen uint64
	// Buckets ascend by Index; empty ones are left out.
	Buckets []Bucket
}

// Bucket counts what ended within one [BucketSpan].
type Bucket struct {
	// Index is the Unix time in spans, rounded down.
	Index int64
	// Calls include Failures.
	Calls, Failures uint32
}

// BucketSpan is the width of a bucket; [WindowBuckets] make the sliding minute.
const (
	BucketSpan    = 5 * time.Second
	WindowBuckets = 12
)

// BucketAt returns the index of the bucket that t falls into.
func BucketAt(t time.Time) int64 {
	ms, span := t.UnixMilli(), BucketSpan.Milliseconds()
	if ms < 0 {
		ms -= span - 1
	}
	return ms / span
}

// State is that of a breaker. The zero State is closed, as are all those without
// Until. Times have whole milliseconds.
type State struct {
	// Gen rises by one with every change of the record's state.
	Gen uint64
	// Until is when the pause ends; zero: closed. From then on the breaker is
	// half open: probes decide.
	Until time.Time
	// Pause is how long this pause is; the next one is twice as long.
	Pause time.Duration
	// Holder is the runner that may probe until Lease; empty: none yet.
	Holder string
	Lease  time.Time
}

// Open reports whether calls are refused, save probes.
func (s State) Open() bool { return !s.Until.IsZero() }

// Equal reports whether both are the same state of the same generation.
func (s State) Equal(o State) bool {
	return s.Gen == o.Gen && s.samePhase(o) && s.Pause == o.Pause && s.Lease.Equal(o.Lease)
}

// samePhase reports whether a probe of s is one of o too: a lease may have been
// prolonged, nothing else.
func (s State) samePhase(o State) bool { return s.Until.Equal(o.Until) && s.Holder == o.Holder }
