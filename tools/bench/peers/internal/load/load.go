// Package load is what every peer is given to do, and the account of what it
// did: delayed jobs submitted at a steady rate, and how late each handler
// started.
//
// It knows no peer. A [Ledger] may be used concurrently.
package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Load is a number of delayed jobs.
type Load struct {
	Jobs    int
	Rate    float64       // submissions a second
	Payload int           // bytes
	LeadMin time.Duration // how far ahead jobs are due, evenly spread
	LeadMax time.Duration
	// Patience is how long after the last job could be due it is waited for.
	Patience time.Duration
}

// underWay bounds the submissions not yet answered.
const underWay = 64

// head is how much of a payload names the job.
const head = 32

// Validate reports every field out of range, joined.
func (l *Load) Validate() error {
	var errs []error
	if l.Jobs < 1 || l.Jobs > 1_000_000 {
		errs = append(errs, fmt.Errorf("--jobs %d; want 1 to 1000000", l.Jobs))
	}
	if !(l.Rate > 0) || l.Rate > 20_000 {
		errs = append(errs, fmt.Errorf("--rate %g; want above 0, up to 20000", l.Rate))
	}
	if l.Payload < head || l.Payload > 100_000 {
		errs = append(errs, fmt.Errorf("payload of %d bytes; want %d to 100000", l.Payload, head))
	}
	if l.LeadMin < 0 || l.LeadMax < l.LeadMin || l.Patience <= 0 {
		errs = append(errs, errors.New("lead and patience: want 0 <= min <= max, and patience"))
	}
	return errors.Join(errs...)
}

// Spent is how long the whole may take, from the first submission.
func (l *Load) Spent() time.Duration {
	return time.Duration(float64(l.Jobs)/l.Rate*float64(time.Second)) + l.LeadMax + l.Patience
}

// Payload is text that names the job and its due time, filled up with letters
// and digits.
func Payload(number int, due time.Time, size int) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	p := fmt.Appendf(make([]byte, 0, size), "%d %d ", number, due.UnixMilli())
	for len(p) < size {
		p = append(p, letters[rand.IntN(len(letters))]) //nolint:gosec // a load, not a secret.
	}
	return p
}

// Read reads what Payload wrote.
func Read(payload []byte) (number int, due time.Time, err error) {
	first, rest, ok := strings.Cut(string(payload), " ")
	second, _, also := strings.Cut(rest, " ")
	number, err1 := strconv.Atoi(first)
	ms, err2 := strconv.ParseInt(second, 10, 64)
	if !ok || !also || err1 != nil || err2 != nil {
		return 0, time.Time{}, errors.New("no payload of this load")
	}
	return number, time.UnixMilli(ms), nil
}

// Submitted is what became of the submissions.
type Submitted struct {
	Accepted, Refused int
	Trouble           string        // the first error
	Took              time.Duration // from the first submission to the last answer
	Times             Figures       // of one submission, as its caller sees it
}

// Submit submits every job at its time, whether or not earlier ones have been
// answered. Due times are whole milliseconds.
func (l *Load) Submit(ctx context.Context, send func(ctx context.Context, due time.Time, payload []byte) error) Submitted {
	var (
		s     Submitted
		mu    sync.Mutex
		times []time.Duration
		under sync.WaitGroup
	)
	slots := make(chan struct{}, underWay)
	began := time.Now()
	for i := 0; i < l.Jobs; i++ {
		at := began.Add(time.Duration(float64(i) / l.Rate * float64(time.Second)))
		if Pause(ctx, time.Until(at)) != nil {
			break
		}
		slots <- struct{}{}
		under.Go(func() {
			defer func() { <-slots }()
			start := time.Now()
			due := start.Add(l.LeadMin + rand.N(l.LeadMax-l.LeadMin+1)).Truncate(time.Millisecond) //nolint:gosec // as above.
			err := send(ctx, due, Payload(i, due, l.Payload))
			took := time.Since(start)
			mu.Lock()
			defer mu.Unlock()
			times = append(times, took)
			if err == nil {
				s.Accepted++
				return
			}
			if s.Refused++; s.Trouble == "" {
				s.Trouble = err.Error()
			}
		})
	}
	under.Wait()
	s.Took, s.Times = time.Since(began), figures(times)
	return s
}

// Handled is what became of the jobs.
type Handled struct {
	Jobs     int
	Repeated int // handler starts of a job beyond its first
	Strange  int // payloads of no job
	Early    int // starts before the due time
	// Lateness is from due to handler start, and negative for early ones.
	Lateness Figures
	// Took is from the first handler start to the last.
	Took time.Duration
}

// Ledger notes every handler start.
type Ledger struct {
	want int
	all  chan struct{}

	mu          sync.Mutex
	seen        map[int]struct{}
	late        []time.Duration
	h           Handled
	first, last time.Time
}

// NewLedger returns a ledger that waits for a number of jobs.
func NewLedger(jobs int) *Ledger {
	return &Ledger{want: jobs, all: make(chan struct{}), seen: make(map[int]struct{}, jobs)}
}

// Start notes that a handler was started with a payload.
func (l *Ledger) Start(payload []byte) {
	now := time.Now()
	number, due, err := Read(payload)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.h.Strange++
		return
	}
	if _, again := l.seen[number]; again {
		l.h.Repeated++
		return
	}
	l.seen[number] = struct{}{}
	if l.h.Jobs++; l.h.Jobs == 1 {
		l.first = now
	}
	l.last = now
	late := now.Sub(due)
	if late < 0 {
		l.h.Early++
	}
	l.late = append(l.late, late)
	if l.h.Jobs == l.want {
		close(l.all)
	}
}

// All is closed when every job was started.
func (l *Ledger) All() <-chan struct{} { return l.all }

// Handled returns the account so far.
func (l *Ledger) Handled() Handled {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.h
	h.Lateness, h.Took = figures(l.late), l.last.Sub(l.first)
	return h
}

// Figures sum up durations, exactly.
type Figures struct{ Min, P50, P90, P99, Max time.Duration }

func figures(all []time.Duration) Figures {
	if len(all) == 0 {
		return Figures{}
	}
	sorted := slices.Sorted(slices.Values(all))
	at := func(q float64) time.Duration { return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)] }
	return Figures{Min: sorted[0], P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: sorted[len(sorted)-1]}
}

// Pause waits, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
