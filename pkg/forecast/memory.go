package forecast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Op names what is done to a [Memory].
type Op string

// The operations of a [Memory].
const (
	OpAdd   Op = "add"
	OpRange Op = "range" // its minute is the first of the range
)

// Fault is what goes wrong with one operation of a [Memory]. The zero value is
// nothing.
type Fault struct {
	Err       error         // answered, and nothing is applied
	Delay     time.Duration // passes before; a context that ends in it leaves the operation unapplied
	LostReply bool          // applied, and answered with [ErrReplyLost]
	// ReplyDelay passes after it was applied; a context that ends in it loses the
	// reply.
	ReplyDelay time.Duration
}

// ErrReplyLost answers an operation that was applied.
var ErrReplyLost = errors.New("forecast memory: the reply was lost")

// Memory is a [Store] in memory, for tests and simulations. The zero value is
// empty and ready. Safe for concurrent use.
type Memory struct {
	// Faults is asked before each operation; nil: nothing goes wrong. It may be
	// called concurrently. Set it before the store is used.
	Faults func(op Op, service string, minute time.Time) Fault

	mu     sync.Mutex
	counts map[pair]int64
}

// Add implements [Store].
func (m *Memory) Add(ctx context.Context, service string, minute time.Time, n int64) error {
	err := m.do(ctx, OpAdd, service, minute, func() {
		if m.counts == nil {
			m.counts = make(map[pair]int64)
		}
		m.counts[pair{minuteOf(minute), service}] += n
	})
	if err != nil {
		return fmt.Errorf("add to forecast of %s: %w", service, err)
	}
	return nil
}

// Range implements [Store].
func (m *Memory) Range(ctx context.Context, service string, from, to time.Time) ([]Point, error) {
	var points []Point
	err := m.do(ctx, OpRange, service, from, func() {
		for p, n := range m.counts {
			if start := startOf(p.minute); p.service == service && !start.Before(from) && start.Before(to) {
				points = append(points, Point{Minute: start, Due: n})
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read forecast of %s: %w", service, err)
	}
	slices.SortFunc(points, func(a, b Point) int { return a.Minute.Compare(b.Minute) })
	return points, nil
}

// do applies an operation, or what goes wrong with it.
func (m *Memory) do(ctx context.Context, op Op, service string, minute time.Time, apply func()) error {
	var f Fault
	if m.Faults != nil {
		f = m.Faults(op, service, minute)
	}
	if err := sleep(ctx, f.Delay); err != nil {
		return err
	}
	if f.Err != nil {
		return f.Err
	}
	m.mu.Lock()
	apply()
	m.mu.Unlock()
	if f.LostReply {
		return ErrReplyLost
	}
	return sleep(ctx, f.ReplyDelay)
}

// sleep waits in (perhaps virtual) time.
func sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

var _ Store = (*Memory)(nil)
