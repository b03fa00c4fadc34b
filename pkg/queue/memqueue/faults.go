package memqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
)

// Op names what is being done when [Options.Faults] is asked.
type Op uint8

// The operations. All but OpReceive and OpDepth are asked for once per entry.
const (
	OpSend       Op = iota + 1
	OpReceive       // one Receive call, before it looks for messages
	OpDeliver       // one message that a Receive is about to return
	OpDelete        // one receipt
	OpVisibility    // one receipt
	OpDepth
)

// String returns the operation's name.
func (o Op) String() string {
	switch o {
	case OpSend:
		return "send"
	case OpReceive:
		return "receive"
	case OpDeliver:
		return "deliver"
	case OpDelete:
		return "delete"
	case OpVisibility:
		return "visibility"
	case OpDepth:
		return "depth"
	default:
		return "unknown"
	}
}

// Entry is what a fault is asked for.
type Entry struct {
	Op      Op
	URL     string
	Message *queue.Message  // OpSend; not to be changed
	Receipt string          // OpDelete, OpVisibility
	Deliver *queue.Received // OpDeliver; not to be changed
}

// ErrLost is the error of an operation whose reply was lost: its outcome is
// unknown to the caller.
var ErrLost = errors.New("memqueue: reply lost")

// Fault says what goes wrong with one entry. The zero value is no fault.
type Fault struct {
	// Err fails the entry without applying it: queue.ErrThrottled, ErrDenied,
	// ErrNotSent, or any other error, which a caller must take for an unknown
	// outcome. Ignored for OpDeliver.
	Err error
	// LoseReply applies the entry and answers Err, or [ErrLost] if Err is nil.
	// For OpReceive the messages stay in flight until their visibility ends.
	LoseReply bool
	// Delay holds the call before it is applied, ReplyDelay its answer. A call
	// with several entries takes the longest. If ctx ends meanwhile, the call
	// ends with ctx's error: not applied during Delay, applied during ReplyDelay.
	Delay      time.Duration
	ReplyDelay time.Duration
	// Duplicate makes the message come a second time, DuplicateAfter from now,
	// whatever becomes of the first: OpSend, OpDeliver.
	Duplicate      bool
	DuplicateAfter time.Duration
	// Hold keeps a sent message invisible for longer, as if replicas lagged; the
	// others overtake it. OpSend on standard queues.
	Hold time.Duration
	// Reorder puts a sent message before all others of its group. OpSend on
	// standard queues.
	Reorder bool
}

func (e *Engine) fault(en Entry) Fault {
	if e.opts.Faults == nil {
		return Fault{}
	}
	return e.opts.Faults(en)
}

// before waits and returns the error of an operation that is not applied.
func (f *Fault) before(ctx context.Context) error {
	if err := pause(ctx, f.Delay); err != nil {
		return err
	}
	if f.Err != nil && !f.LoseReply {
		return f.Err
	}
	return nil
}

// after returns the error of an operation that was applied.
func (f *Fault) after() error {
	switch {
	case !f.LoseReply:
		return nil
	case f.Err != nil:
		return f.Err
	default:
		return ErrLost
	}
}

// pause waits; it fails at once when ctx has ended, even for no wait.
func pause(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d <= 0 {
		return nil
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

// faultsOf asks for the faults of n entries and waits out the longest delay.
// It returns nil when there are none.
func (e *Engine) faultsOf(ctx context.Context, n int, entry func(i int) Entry) ([]Fault, time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	if e.opts.Faults == nil {
		return nil, 0, nil
	}
	fs := make([]Fault, n)
	var delay, reply time.Duration
	for i := range fs {
		fs[i] = e.opts.Faults(entry(i))
		delay, reply = max(delay, fs[i].Delay), max(reply, fs[i].ReplyDelay)
	}
	return fs, reply, pause(ctx, delay)
}

func at(fs []Fault, i int) *Fault {
	if fs == nil {
		return &Fault{}
	}
	return &fs[i]
}

// all returns n errors, each err.
func all(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func notBegun(op string, err error) error {
	return fmt.Errorf("memqueue: %s: %w: %w", op, queue.ErrNotSent, err)
}
