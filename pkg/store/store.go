// Package store is the contract of the trigger table: rows, conditional batch
// writes, range reads, the tombstone and the move that cancellation and
// rescheduling need, and the settings row.
//
// It owns no transport. Implementations are dynamostore and memstore; storetest
// is the suite they all pass. Every method may be called concurrently. Every
// write is conditional: nothing here can overwrite a row it has not seen.
package store

import (
	"context"
	"errors"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Row is a trigger as it lies in the table. Tombstones have no payload, name,
// tenant, group, headers or trace context.
type Row struct {
	trigger.Trigger
	State   trigger.State
	Reason  string    // why the row is dead; empty otherwise
	Expires time.Time // when DynamoDB may delete the row; whole seconds; zero for never
	Created time.Time // when it was inserted; whole milliseconds
	// MovedTo is set on a tombstone that a move left behind: the due time of the
	// row that lives on, under the same id, lane and partition count.
	MovedTo time.Time
}

// Size is the memory the row takes in a queue, in bytes, roughly.
func (r *Row) Size() int {
	n := 400 + len(r.Service) + len(r.Payload) + len(r.Name) + len(r.Tenant) + len(r.Group) + len(r.Traceparent)
	for k, v := range r.Headers {
		n += 64 + len(k) + len(v)
	}
	return n
}

// OpKind says what an [Op] does.
type OpKind uint8

// The batched writes, each with its condition.
const (
	// Insert puts Op.Row as it is (state S, or A for a row already due).
	// Condition: no row under its key, nor under any of Op.Absent.
	Insert OpKind = iota + 1
	// Transition changes the state from Op.From to Op.To and nothing else; both are
	// S, S! or A (the other states have methods of their own).
	// Condition: the row exists and its state is Op.From.
	Transition
	// Delete removes the row. Condition: its state is Op.From. A row that is missing
	// is a conflict that found nothing, or, on an engine that cannot tell (PartiQL),
	// no error: a delete proves no ownership.
	Delete
)

// Op is one conditional write of a batch.
type Op struct {
	Kind OpKind
	Key  trigger.Key // of the row; for Insert it must equal Row.Key()
	From trigger.State
	To   trigger.State
	Row  *Row // Insert only
	// Absent are further keys that must hold no row for an Insert to apply: the
	// other places of a keyed id (see [trigger.Epochs.Places]). Usually empty.
	Absent []trigger.Key
}

// ErrConflict is the error of a write whose condition did not hold.
var ErrConflict = errors.New("condition failed")

// ErrThrottled wraps errors by which the table refused work for lack of
// capacity. Nothing was applied.
var ErrThrottled = errors.New("throttled")

// ErrInvalid wraps errors by which the table refused one write for good, such
// as an item that is too large. Nothing was applied; a repeat fails again.
var ErrInvalid = errors.New("refused by the table")

// Result is the outcome of one [Op].
type Result struct {
	// Err is nil if the write applied. If it is ErrConflict (test with errors.Is),
	// the condition failed and Found tells what was there. ErrThrottled and
	// ErrInvalid mean it was not applied. Any other error means unknown: applied
	// or not; repeat the same Op and compare Found with what it would have left.
	Err error
	// Found is the row in the way after ErrConflict; nil if there was none (or
	// it was gone when looked for). For Insert it may lie under one of Absent.
	Found *Row
}

// Page is one answer to a range read.
type Page struct {
	Rows []Row // ascending by key
	// Next continues the read; nil at the end of the range.
	Next *trigger.Key
}

// Range asks for the rows of one partition with From ≤ due ≤ To.
type Range struct {
	Lane      trigger.Lane
	Partition int
	From, To  int64        // epoch milliseconds, both included
	After     *trigger.Key // continue behind this key; Page.Next of the page before
	Limit     int          // rows to read at most, before filtering; 0: one page of the engine
	// Service, when set, keeps other services' rows out of the answer. They are
	// still read and billed.
	Service string
	// Heads asks for key, state and service alone: less to carry, same bill.
	Heads bool
	// Consistent reads see every write that was acknowledged before.
	Consistent bool
}

// MoveResult tells how a move ended; see [Store.Move].
type MoveResult struct {
	Err error // as in Result
	// Found and Taken are the rows at the old and the new key after ErrConflict, or
	// nil. A lost reply shows as a tombstone at the old key and next at the new.
	Found, Taken *Row
}

// Store is the trigger table.
type Store interface {
	// Write applies ops independently of each other, in any order, and returns
	// one Result per Op in the order given. It retries what the engine throttled
	// within its own bounded budget. Ops of one call must not share a key.
	Write(ctx context.Context, ops []Op) []Result

	// Range reads one page of a partition.
	Range(ctx context.Context, r Range) (Page, error)

	// Get reads one row, strongly consistent. A missing row is nil, nil.
	Get(ctx context.Context, key trigger.Key) (*Row, error)

	// Cancel turns a waiting row into a tombstone: from → to, payload and all
	// optional attributes removed, expiring at expires.
	// Condition: the row exists and its state is from.
	Cancel(ctx context.Context, key trigger.Key, from, to trigger.State, expires time.Time) Result

	// PutTombstone leaves a tombstone of the given state where no row is.
	// Condition: no row under the key. The time returned is the table's own
	// clock, cut to the second, when it answered; zero if it told none.
	PutTombstone(ctx context.Context, h trigger.Handle, state trigger.State, expires time.Time) (time.Time, Result)

	// SetState changes the state of a tombstone, and its expiry.
	// Condition: the row exists and its state is from.
	SetState(ctx context.Context, key trigger.Key, from, to trigger.State, expires time.Time) Result

	// Bury marks an acquired row dead, with a reason of at most 1024 bytes,
	// expiring at expires, and lists it in the index of dead triggers.
	// Condition: the row exists and its state is from.
	Bury(ctx context.Context, key trigger.Key, from trigger.State, reason string, expires time.Time) Result

	// Move replaces the row at old by next in one transaction: old becomes a
	// tombstone (StateCancelled) with MovedTo = next.Due, expiring at expires, and
	// next is inserted. Condition: old exists in state from; under next's key
	// lies no row, or a tombstone with MovedTo (a trigger moved back).
	Move(ctx context.Context, old trigger.Key, from trigger.State, next *Row, expires time.Time) MoveResult

	// Dead lists dead rows of a service, oldest due first. Eventually consistent.
	// limit 0 means 100.
	Dead(ctx context.Context, service string, after *trigger.Key, limit int) (Page, error)

	// Epochs reads the partition epochs, strongly consistent; a table without a
	// settings row answers [trigger.DefaultPartitions] from the zero time.
	Epochs(ctx context.Context) (trigger.Epochs, error)

	// SetEpochs replaces the partition epochs. Condition: they are still what
	// Epochs answered as old (nil: there is no settings row). The loser gets
	// ErrConflict.
	SetEpochs(ctx context.Context, old, next trigger.Epochs) error
}
