package memstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// batch is the number of ops one request carries.
const batch = 25

// maxItem is the largest item DynamoDB takes, in bytes.
const maxItem = 400 << 10

// Write implements store.Store. It does not retry: an injected ErrThrottled is
// answered as it is.
func (s *Store) Write(ctx context.Context, ops []store.Op) []store.Result {
	results := make([]store.Result, len(ops))
	store.CheckOps(ops, results)
	faults := make([]Fault, len(ops))
	var before, after time.Duration
	if s.opts.Faults != nil {
		for i := range ops {
			if results[i].Err == nil {
				faults[i] = s.opts.Faults(opName(ops[i].Kind), ops[i].Key)
				before, after = max(before, faults[i].Delay), max(after, faults[i].ReplyDelay)
			}
		}
	}
	if err := sleep(ctx, before); err != nil {
		return failAll(results, err)
	}
	s.locked(func() { s.applyAll(ops, faults, results) })
	if after > 0 {
		if err := sleep(ctx, after); err != nil {
			return failAll(results, err)
		}
	}
	return results
}

func (s *Store) applyAll(ops []store.Op, faults []Fault, results []store.Result) {
	s.count(OpWrite, Count{Requests: (len(ops) + batch - 1) / batch})
	for i := range ops {
		switch {
		case results[i].Err != nil:
		case faults[i].Err != nil:
			results[i].Err = faults[i].Err
		default:
			results[i] = s.apply(&ops[i])
			if faults[i].LostReply {
				results[i] = store.Result{Err: ErrReplyLost}
			}
		}
	}
}

func failAll(results []store.Result, err error) []store.Result {
	for i := range results {
		if !errors.Is(results[i].Err, store.ErrInvalid) {
			results[i] = store.Result{Err: err}
		}
	}
	return results
}

func opName(k store.OpKind) string {
	switch k {
	case store.Insert:
		return OpInsert
	case store.Transition:
		return OpTransition
	default:
		return OpDelete
	}
}

func (s *Store) apply(op *store.Op) store.Result {
	name := opName(op.Kind)
	r := s.find(op.Key)
	switch op.Kind {
	case store.Insert:
		return s.insert(op, r)
	case store.Transition:
		return s.replace(name, r, op.From, func() *record { return r.with(op.To) })
	default:
		if r == nil && s.opts.LaxDelete {
			s.count(name, Count{Statements: 1, WriteUnits: 1})
			return store.Result{}
		}
		return s.replace(name, r, op.From, func() *record { return nil })
	}
}

func (s *Store) insert(op *store.Op, r *record) store.Result {
	cost := Count{Statements: 1}
	defer func() { s.count(OpInsert, cost) }()
	fresh := newRecord(op.Row, op.Key)
	if fresh.size() > maxItem {
		return store.Result{Err: fmt.Errorf("insert: %w: %d bytes; at most %d", store.ErrInvalid, fresh.size(), maxItem)}
	}
	cost.WriteUnits = writeUnits(r, fresh)
	if len(op.Absent) > 0 { // a transaction
		cost.WriteUnits *= 2
		for _, k := range op.Absent {
			other := s.find(k)
			cost.WriteUnits += 2 * writeUnits(other, nil)
			if r == nil {
				r = other
			}
		}
	}
	if r != nil {
		cost.Conflicts = 1
		return store.Result{Err: fmt.Errorf("insert: %w", store.ErrConflict), Found: r.row()}
	}
	s.set(nil, fresh)
	return store.Result{}
}

// replace is every conditional write on a row that must exist: next is put in
// its place (nil: it is deleted) if its state is from.
func (s *Store) replace(name string, r *record, from trigger.State, next func() *record) store.Result {
	cost := Count{}
	if name == OpTransition || name == OpDelete {
		cost.Statements = 1
	}
	if r == nil || r.state != from {
		cost.Conflicts, cost.WriteUnits = 1, writeUnits(r, nil)
		s.count(name, cost)
		return store.Result{Err: fmt.Errorf("%s: %w", name, store.ErrConflict), Found: rowOf(r)}
	}
	after := next()
	cost.WriteUnits = writeUnits(r, after)
	if r.state == trigger.StateDead || after != nil && after.state == trigger.StateDead {
		cost.WriteUnits *= 2 // the index
	}
	s.count(name, cost)
	s.set(r, after)
	return store.Result{}
}

func (s *Store) replaceOne(ctx context.Context, name string, key trigger.Key, from trigger.State, next func(r *record) *record) store.Result {
	var res store.Result
	err := s.do(ctx, name, key, func(Fault) {
		r := s.find(key)
		res = s.replace(name, r, from, func() *record { return next(r) })
	})
	if err != nil {
		return store.Result{Err: fmt.Errorf("%s: %w", name, err)}
	}
	return res
}

// Cancel implements store.Store.
func (s *Store) Cancel(ctx context.Context, key trigger.Key, from, to trigger.State, expires time.Time) store.Result {
	return s.replaceOne(ctx, OpCancel, key, from, func(r *record) *record { return r.tombstone(to, expires) })
}

// SetState implements store.Store.
func (s *Store) SetState(ctx context.Context, key trigger.Key, from, to trigger.State, expires time.Time) store.Result {
	return s.replaceOne(ctx, OpSetState, key, from, func(r *record) *record {
		c := r.with(to)
		c.expires = toSec(expires)
		return c
	})
}

// Bury implements store.Store.
func (s *Store) Bury(ctx context.Context, key trigger.Key, from trigger.State, reason string, expires time.Time) store.Result {
	return s.replaceOne(ctx, OpBury, key, from, func(r *record) *record { return r.buried(reason, expires) })
}

// PutTombstone implements store.Store.
func (s *Store) PutTombstone(ctx context.Context, h trigger.Handle, state trigger.State, expires time.Time) (time.Time, store.Result) {
	key := h.Key()
	var res store.Result
	var date time.Time
	err := s.do(ctx, OpTombstone, key, func(Fault) {
		date = s.opts.Now().UTC().Truncate(time.Second)
		r := s.find(key)
		row := store.Row{Trigger: trigger.Trigger{Service: h.Service, N: h.N}, State: state, Expires: expires, Created: s.opts.Now()}
		fresh := newRecord(&row, key)
		cost := Count{WriteUnits: writeUnits(r, fresh)}
		if r != nil {
			cost.Conflicts = 1
			res = store.Result{Err: fmt.Errorf("tombstone: %w", store.ErrConflict), Found: r.row()}
		} else {
			s.set(nil, fresh)
		}
		s.count(OpTombstone, cost)
	})
	if err != nil {
		return time.Time{}, store.Result{Err: fmt.Errorf("tombstone: %w", err)}
	}
	return date, res
}

// Move implements store.Store.
func (s *Store) Move(ctx context.Context, old trigger.Key, from trigger.State, next *store.Row, expires time.Time) store.MoveResult {
	key := next.Key()
	check := []store.Result{{}}
	store.CheckOps([]store.Op{{Kind: store.Insert, Key: key, Row: next}}, check)
	switch {
	case check[0].Err != nil:
		return store.MoveResult{Err: fmt.Errorf("move: %w", check[0].Err)}
	case key == old:
		return store.MoveResult{Err: fmt.Errorf("move: %w: to its own key", store.ErrInvalid)}
	}
	var res store.MoveResult
	err := s.do(ctx, OpMove, old, func(Fault) {
		was, taken, fresh := s.find(old), s.find(key), newRecord(next, key)
		cost := Count{WriteUnits: 2 * (writeUnits(was, nil) + writeUnits(taken, fresh))}
		if was == nil || was.state != from || taken != nil && taken.moved == 0 {
			cost.Conflicts = 1
			res = store.MoveResult{Err: fmt.Errorf("move: %w", store.ErrConflict), Found: rowOf(was), Taken: rowOf(taken)}
		} else {
			left := was.tombstone(trigger.StateCancelled, expires)
			left.moved = key.Due
			s.set(was, left)
			s.set(taken, fresh)
		}
		s.count(OpMove, cost)
	})
	if err != nil {
		return store.MoveResult{Err: fmt.Errorf("move: %w", err)}
	}
	return res
}
