// Package memshared is a [protect.Shared] in memory: several gates of one process
// share one. It serves tests and simulation, and can fail and lose answers.
//
// It owns nothing beyond the process and forgets no target; the counts of a
// runner go when they are older than the window. Safe for concurrent use.
package memshared

import (
	"context"
	"errors"
	"sync"

	"github.com/myosin-jobs/myosin/pkg/runner/protect"
)

// Fault is what goes wrong with one exchange.
type Fault uint8

// The faults.
const (
	None Fault = iota
	// Down is an exchange that never took place.
	Down
	// Lost is one that did, but the answer never came.
	Lost
)

// ErrFault is what an exchange with a fault returns.
var ErrFault = errors.New("memshared: injected fault")

// Shared is a [protect.Shared]. The zero value is empty and ready.
type Shared struct {
	mu      sync.Mutex
	records map[string]*record
	fault   func(runner string) Fault
	reports int
}

type record struct {
	state  protect.State
	counts map[string]counts // by runner
}

type counts struct {
	protect.Counts
	at int64 // bucket of the report
}

// SetFault lets f decide what goes wrong with each exchange from now on; nil:
// nothing.
func (s *Shared) SetFault(f func(runner string) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// State returns what a target's breaker is in.
func (s *Shared) State(target string) protect.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec, ok := s.records[target]; ok {
		return rec.state
	}
	return protect.State{}
}

// Reports returns how many reports were taken in.
func (s *Shared) Reports() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reports
}

// Exchange implements [protect.Shared].
func (s *Shared) Exchange(ctx context.Context, runner string, reports []protect.Report) ([]protect.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fault := None
	if s.fault != nil {
		fault = s.fault(runner)
	}
	if fault == Down {
		return nil, ErrFault
	}
	out := make([]protect.Record, 0, len(reports))
	for _, r := range reports {
		out = append(out, s.exchange(runner, r))
	}
	if fault == Lost {
		return nil, ErrFault
	}
	return out, nil
}

func (s *Shared) exchange(runner string, r protect.Report) protect.Record {
	s.reports++
	rec, ok := s.records[r.Target]
	if !ok {
		rec = &record{counts: make(map[string]counts)}
		if s.records == nil {
			s.records = make(map[string]*record)
		}
		s.records[r.Target] = rec
	}
	if r.Next != nil && rec.state.Gen == r.Counts.Gen {
		rec.state = *r.Next
	}
	at := protect.BucketAt(r.At)
	if len(r.Counts.Buckets) > 0 {
		rec.counts[runner] = counts{Counts: r.Counts, at: at}
	}
	out := protect.Record{Target: r.Target, State: rec.state}
	for name, c := range rec.counts {
		switch {
		case name == runner:
		case at-c.at > 2*protect.WindowBuckets:
			delete(rec.counts, name)
		default:
			out.Others = append(out.Others, c.Counts)
		}
	}
	return out
}
