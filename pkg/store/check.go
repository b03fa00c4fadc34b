package store

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// MaxReason is the length of a dead row's reason, in bytes.
const MaxReason = 1024

// MaxAbsent is the largest number of keys in Op.Absent: a transaction has room
// for a hundred actions.
const MaxAbsent = 99

// CutReason brings a reason to MaxReason bytes without cutting a character.
func CutReason(s string) string {
	if len(s) <= MaxReason {
		return s
	}
	s = s[:MaxReason]
	for len(s) > 0 {
		if r, n := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || n != 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s
}

// CheckOps sets ErrInvalid in the results of ops that break the contract of
// [Store.Write], and leaves the others alone. Both slices have one length.
func CheckOps(ops []Op, results []Result) {
	seen := make(map[trigger.Key]struct{}, len(ops))
	for i := range ops {
		op := &ops[i]
		err := op.check()
		if _, twice := seen[op.Key]; err == nil && twice {
			err = errors.New("its key stands twice in one call")
		}
		seen[op.Key] = struct{}{}
		if err != nil {
			results[i].Err = fmt.Errorf("write %s: %w: %w", op.Key, ErrInvalid, err)
		}
	}
}

func (op *Op) check() error {
	switch op.Kind {
	case Insert:
		return op.checkInsert()
	case Transition:
		if !live(op.From) || !live(op.To) {
			return fmt.Errorf("transition from %q to %q", op.From, op.To)
		}
	case Delete:
	default:
		return fmt.Errorf("op kind %d", op.Kind)
	}
	if op.From.Kind() == trigger.NoState {
		return fmt.Errorf("from no state: %q", op.From)
	}
	return nil
}

func live(s trigger.State) bool { return s.Waiting() || s.Kind() == trigger.Acquired }

func (op *Op) checkInsert() error {
	switch {
	case op.Row == nil:
		return errors.New("insert without a row")
	case op.Row.State.Kind() == trigger.NoState:
		return fmt.Errorf("insert in no state: %q", op.Row.State)
	case op.Row.N < 1 || op.Row.N > trigger.MaxPartitions:
		return fmt.Errorf("partition count %d", op.Row.N)
	case len(op.Row.Payload) > trigger.MaxPayload:
		return fmt.Errorf("payload of %d bytes", len(op.Row.Payload))
	case len(op.Absent) > MaxAbsent:
		return fmt.Errorf("%d absent keys; at most %d", len(op.Absent), MaxAbsent)
	case op.Row.Key() != op.Key:
		return fmt.Errorf("the row's key is %s", op.Row.Key())
	}
	return nil
}
