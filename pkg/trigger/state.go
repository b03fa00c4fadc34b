package trigger

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind is what a row's state means.
type Kind uint8

// The kinds of state. The zero value is no state at all.
const (
	NoState Kind = iota
	// Scheduled waits for its time and was certainly never sent.
	Scheduled
	// MaybeSent waits for its time and may have been sent before.
	MaybeSent
	// Acquired belongs to one process start since a point in time.
	Acquired
	// Cancelled is a tombstone: it keeps a late insert from reviving the trigger.
	Cancelled
	// CancelledLate is a tombstone left when it was too late to be sure.
	CancelledLate
	// Dead cannot be sent; the row says why.
	Dead
)

// String returns the kind's name as people and scripts see it.
func (k Kind) String() string {
	switch k {
	case Scheduled:
		return "scheduled"
	case MaybeSent:
		return "scheduled_maybe_sent"
	case Acquired:
		return "acquired"
	case Cancelled:
		return "cancelled"
	case CancelledLate:
		return "cancelled_late"
	case Dead:
		return "dead"
	default:
		return "none"
	}
}

// State is the packed state attribute of a row, as it is stored: every
// transition is one SET, every fence one equality.
//
//	S            scheduled
//	S!           scheduled, may have been sent before
//	A.<owner>.<ms>  acquired by a process start, at an epoch millisecond
//	C            cancelled in time (tombstone)
//	C!           cancelled, too late to be sure (tombstone)
//	D            dead
type State string

// The states without parameters.
const (
	StateScheduled     State = "S"
	StateMaybeSent     State = "S!"
	StateCancelled     State = "C"
	StateCancelledLate State = "C!"
	StateDead          State = "D"
)

// AcquiredBy returns the state of a row claimed by owner at the given time.
// The owner names one start of one process and must satisfy [ValidOwner].
func AcquiredBy(owner string, at time.Time) State {
	return State("A." + owner + "." + strconv.FormatInt(at.UnixMilli(), 10))
}

// ValidOwner reports whether s can stand in an acquired state: 1 to 64
// characters out of letters, digits, '-' and '_'.
func ValidOwner(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		if !alnum(c) && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// Kind returns what the state means; NoState for text that is no state.
func (s State) Kind() Kind {
	switch s {
	case StateScheduled:
		return Scheduled
	case StateMaybeSent:
		return MaybeSent
	case StateCancelled:
		return Cancelled
	case StateCancelledLate:
		return CancelledLate
	case StateDead:
		return Dead
	}
	if strings.HasPrefix(string(s), "A.") || s == "A" {
		return Acquired
	}
	return NoState
}

// Waiting reports whether the row may be acquired: scheduled, sent before or not.
func (s State) Waiting() bool { return s == StateScheduled || s == StateMaybeSent }

// Tombstone reports whether the row is cancelled.
func (s State) Tombstone() bool { return s == StateCancelled || s == StateCancelledLate }

// Owner returns who acquired the row, and when. The time is zero where the
// state holds none that can be read: rows of unknown age must still be
// recoverable. A time in the future is returned as it stands.
func (s State) Owner() (owner string, at time.Time) {
	rest, ok := strings.CutPrefix(string(s), "A.")
	if !ok {
		return "", time.Time{}
	}
	owner, ms, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil || n <= 0 || n > maxDueMs {
		return owner, time.Time{}
	}
	return owner, time.UnixMilli(n).UTC()
}

// Describe returns the state in words, for errors and people.
func (s State) Describe() string {
	switch s.Kind() {
	case Acquired:
		return "being delivered"
	case MaybeSent:
		return "scheduled again after an attempt that may have been delivered"
	case CancelledLate:
		return "cancelled, too late to be sure"
	case NoState:
		return fmt.Sprintf("unknown state %q", clip(string(s), 80))
	default:
		return s.Kind().String()
	}
}

func alnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
