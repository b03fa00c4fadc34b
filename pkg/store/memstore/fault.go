package memstore

import (
	"context"
	"errors"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// The operations by which [Faults] and [Counts] name what is done. The parts of
// a Write are faulted one by one, under OpInsert, OpTransition and OpDelete.
const (
	OpWrite      = "write" // Counts only: the requests of Write
	OpInsert     = "insert"
	OpTransition = "transition"
	OpDelete     = "delete"
	OpRange      = "range" // key: lane, partition, Due = From
	OpGet        = "get"
	OpCancel     = "cancel"
	OpTombstone  = "tombstone"
	OpSetState   = "setstate"
	OpBury       = "bury"
	OpMove       = "move"      // key: the old one
	OpDead       = "dead"      // key: zero
	OpEpochs     = "epochs"    // key: zero
	OpSetEpochs  = "setepochs" // key: zero
)

// Fault is what goes wrong with one operation, or one part of a Write. The zero
// value is nothing.
type Fault struct {
	// Err is answered, and nothing is applied. store.ErrThrottled is throttling.
	Err error
	// Delay passes before the operation is applied (or Err answered). A context
	// that ends in it leaves the operation unapplied.
	Delay time.Duration
	// ReplyDelay passes after it was applied. A context that ends in it loses the
	// reply.
	ReplyDelay time.Duration
	// LostReply applies the operation and answers [ErrReplyLost].
	LostReply bool
	// Stale lets a Range that is not Consistent see the table as it was this long
	// ago; at most Options.StaleWindow.
	Stale time.Duration
}

// Faults is asked before each operation, and for each part of a Write. It may
// be called concurrently and must not call the store.
type Faults func(op string, key trigger.Key) Fault

// ErrReplyLost answers an operation that was applied.
var ErrReplyLost = errors.New("memstore: the reply was lost")

// sleep waits in (perhaps virtual) time.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) fault(op string, key trigger.Key) Fault {
	if s.opts.Faults == nil {
		return Fault{}
	}
	return s.opts.Faults(op, key)
}

// locked unlocks even where a hook ends the goroutine, as a failed test does.
func (s *Store) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// do runs one whole operation under its fault. apply runs under the lock.
func (s *Store) do(ctx context.Context, op string, key trigger.Key, apply func(f Fault)) error {
	f := s.fault(op, key)
	if err := sleep(ctx, f.Delay); err != nil {
		return err
	}
	s.locked(func() {
		s.count(op, Count{Requests: 1})
		if f.Err == nil {
			apply(f)
		}
	})
	if f.Err != nil {
		return f.Err
	}
	if f.ReplyDelay > 0 {
		if err := sleep(ctx, f.ReplyDelay); err != nil {
			return err
		}
	}
	if f.LostReply {
		return ErrReplyLost
	}
	return nil
}
