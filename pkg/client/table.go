package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// TableReader is what a [Table] reads with; see store.Store for the contract.
type TableReader interface {
	Get(ctx context.Context, key trigger.Key) (*store.Row, error)
	Dead(ctx context.Context, service string, after *trigger.Key, limit int) (store.Page, error)
	Epochs(ctx context.Context) (trigger.Epochs, error)
}

// TableWriter is what a [Table] writes with; see store.Store for the contract.
type TableWriter interface {
	Cancel(ctx context.Context, key trigger.Key, from, to trigger.State, expires time.Time) store.Result
	PutTombstone(ctx context.Context, h trigger.Handle, state trigger.State, expires time.Time) (time.Time, store.Result)
	SetState(ctx context.Context, key trigger.Key, from, to trigger.State, expires time.Time) store.Result
	Move(ctx context.Context, old trigger.Key, from trigger.State, next *store.Row, expires time.Time) store.MoveResult
}

// TableStore is the part of the trigger table a [Table] uses.
type TableStore interface {
	TableReader
	TableWriter
}

// TableOptions configure a [Table].
type TableOptions struct {
	// Store is the trigger table. Required.
	Store TableStore
	// Now is the clock; default time.Now. Give a clock.Clock's Now where there is one.
	Now func() time.Time
	// Tries bounds how often a call starts over after lost races, throttles and
	// lost replies. Default 10, over about four seconds if each fails at once.
	Tries int
}

const (
	keepCancelled = 24 * time.Hour      // a tombstone made from a row, after max(now, due)
	keepUnstored  = 15 * 24 * time.Hour // one left where no row was: longer than the buffer keeps a submission
	// sureBefore is how long before the due time the table's own clock must stand
	// for a cancel to be sure; ownMargin is added where only the local clock is known.
	sureBefore = 3 * time.Second
	ownMargin  = time.Second

	tableBackoff    = 20 * time.Millisecond
	tableBackoffMax = time.Second
	maxMoves        = 64 // moves followed in one search
)

// Table looks up, moves and cancels triggers in the table itself, for platform
// roles. Owning services go through the HTTP API ([NewHTTP]), which checks whose
// trigger it is; a Table trusts its caller, and the service named in the handle.
type Table struct {
	store TableStore
	now   func() time.Time
	tries int
}

var (
	_ Triggers   = (*Table)(nil)
	_ Partitions = (*Table)(nil)
)

// NewTable returns a Table.
func NewTable(o TableOptions) (*Table, error) {
	if o.Store == nil {
		return nil, errors.New("client table: option Store is required")
	}
	if o.Tries < 0 {
		return nil, fmt.Errorf("client table: option Tries is %d; want 0 (default) or more", o.Tries)
	}
	t := &Table{store: o.Store, now: o.Now, tries: o.Tries}
	if t.now == nil {
		t.now = time.Now
	}
	if t.tries == 0 {
		t.tries = 10
	}
	return t, nil
}

// Get looks a trigger up under every place it may lie, following its moves. A
// row of another service than the handle's is [ErrNotFound].
func (t *Table) Get(ctx context.Context, h trigger.Handle) (TriggerView, error) {
	var view TriggerView
	err := t.repeat(ctx, func() error {
		f, err := t.find(ctx, h)
		switch {
		case err != nil:
			return err
		case f.row == nil:
			return ErrNotFound
		}
		view = ViewOf(f.row)
		return nil
	})
	if err != nil {
		return TriggerView{}, fmt.Errorf("get %s: %w", h.ID, err)
	}
	return view, nil
}

// Epochs implements [Partitions].
func (t *Table) Epochs(ctx context.Context) (trigger.Epochs, error) { return t.store.Epochs(ctx) }

// found is where a trigger lies: the places it may lie at under its newest due
// time, and the row that decides, if any.
type found struct {
	places []trigger.Handle
	at     trigger.Handle // of the row
	row    *store.Row     // nil: no row at any place
}

// errAgain starts a call over: the table changed under it.
var errAgain = errors.New("gave up: the trigger kept changing")

// find reads every place of a trigger and follows the moves.
func (t *Table) find(ctx context.Context, h trigger.Handle) (found, error) {
	var epochs trigger.Epochs
	if h.ID.Keyed() {
		var err error
		if epochs, err = t.store.Epochs(ctx); err != nil {
			return found{}, fmt.Errorf("read partition epochs: %w", err)
		}
	}
	for range maxMoves {
		f := found{places: places(h, epochs), at: h}
		for _, place := range f.places {
			row, err := t.store.Get(ctx, place.Key())
			switch {
			case err != nil:
				return found{}, err
			case row == nil:
				continue
			case row.Service != h.Service:
				return found{}, ErrNotFound // another service's: neither shown nor touched
			}
			if f.row == nil || rank(row) > rank(f.row) {
				f.row, f.at = row, place
			}
		}
		if f.row == nil || !moved(f.row) {
			return f, nil
		}
		h = f.at
		h.Due = f.row.MovedTo
	}
	return found{}, errAgain
}

// places returns a handle for each key of [trigger.Epochs.Places]: the same
// trigger as stored by senders with other partition counts.
func places(h trigger.Handle, epochs trigger.Epochs) []trigger.Handle {
	list := []trigger.Handle{h}
	if !h.ID.Keyed() {
		return list
	}
	seen := map[trigger.Key]bool{h.Key(): true}
	for _, e := range epochs {
		other := h
		other.N = e.N
		if k := other.Key(); !seen[k] {
			seen[k] = true
			list = append(list, other)
		}
	}
	return list
}

// rank orders the rows of one trigger by how much they decide: what is being
// sent, what may be sent, where it went, and at last how it was cancelled.
func rank(row *store.Row) int {
	switch kind := row.State.Kind(); {
	case moved(row):
		return 4
	case kind == trigger.Acquired || kind == trigger.NoState:
		return 8
	case kind == trigger.MaybeSent:
		return 7
	case kind == trigger.Scheduled:
		return 6
	case kind == trigger.Dead:
		return 5
	case unproven(row):
		return 1
	case kind == trigger.Cancelled:
		return 2
	default:
		return 3
	}
}

func moved(row *store.Row) bool { return row.State.Tombstone() && !row.MovedTo.IsZero() }

// unproven reports a tombstone that a cancel left where no row was and has not
// (yet) proven to be in time. Its expiry tells it from one made from a row that
// may have been sent.
func unproven(row *store.Row) bool {
	return row.State == trigger.StateCancelledLate && row.MovedTo.IsZero() && row.Expires.Sub(row.Due) >= keepUnstored-time.Hour
}

// repeat runs fn until it ends otherwise than by a lost race, a throttle or an
// unknown outcome, or the tries or ctx are spent. fn must look afresh each time.
func (t *Table) repeat(ctx context.Context, fn func() error) error {
	var err error
	for try := range t.tries {
		// A lost race means that somebody got on: look again at once, at first.
		if try > 3 || try > 0 && !errors.Is(err, errAgain) {
			if pause(ctx, try, tableBackoff, tableBackoffMax) != nil {
				return err
			}
		}
		if err = fn(); err == nil || final(err) {
			return err
		}
	}
	return err
}

// final reports an error that a repeat would only meet again.
func final(err error) bool {
	var conflict *ConflictError
	var field *trigger.FieldError
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrNotStored) || errors.Is(err, store.ErrInvalid) ||
		errors.As(err, &conflict) || errors.As(err, &field)
}

// later returns the newest of some times.
func later(first time.Time, others ...time.Time) time.Time {
	for _, o := range others {
		if o.After(first) {
			first = o
		}
	}
	return first
}
