package storetest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

var cancelTests = []test{
	{"cancel leaves a tombstone without payload and attributes", func(t *testing.T, s store.Store) {
		for i, step := range [][2]trigger.State{
			{trigger.StateScheduled, trigger.StateCancelled}, {trigger.StateMaybeSent, trigger.StateCancelledLate},
		} {
			r := in(fullRow(int64(i)), step[0])
			insert(t, s, r)
			require.NoError(t, s.Cancel(t.Context(), r.Key(), step[0], step[1], expiry()).Err)
			holds(t, s, tombstoneOf(r, step[1]))
		}
	}},
	{"cancel of a row in another state conflicts and finds it", func(t *testing.T, s store.Store) {
		r := in(fullRow(0), mine(1))
		insert(t, s, r)
		conflict(t, s.Cancel(t.Context(), r.Key(), trigger.StateScheduled, trigger.StateCancelled, expiry()), r)
		holds(t, s, r)
	}},
	{"cancel of a missing row conflicts and creates nothing", func(t *testing.T, s store.Store) {
		r := newRow(0)
		conflict(t, s.Cancel(t.Context(), r.Key(), trigger.StateScheduled, trigger.StateCancelled, expiry()), nil)
		holdsNothing(t, s, r.Key())
	}},
	{"a cancelled id cannot be inserted", func(t *testing.T, s store.Store) {
		r := fullRow(0)
		insert(t, s, r)
		require.NoError(t, s.Cancel(t.Context(), r.Key(), r.State, trigger.StateCancelled, expiry()).Err)
		conflict(t, write(t, s, insertOp(r)), tombstoneOf(r, trigger.StateCancelled))
	}},
	{"a tombstone where no row is keeps a late insert out", func(t *testing.T, s store.Store) {
		r := fullRow(0)
		before := time.Now().Add(-2 * time.Second)
		date, res := s.PutTombstone(t.Context(), r.Handle(), trigger.StateCancelled, expiry())
		require.NoError(t, res.Err)
		if !date.IsZero() {
			require.Equal(t, date.Truncate(time.Second), date)
			require.WithinRange(t, date, before, time.Now().Add(2*time.Second))
		}
		got, err := s.Get(t.Context(), r.Key())
		require.NoError(t, err)
		want := tombstoneOf(r, trigger.StateCancelled)
		want.Created = got.Created
		same(t, want, got)
		conflict(t, write(t, s, insertOp(r)), want)
	}},
	{"a tombstone does not replace a row", func(t *testing.T, s store.Store) {
		r := fullRow(0)
		insert(t, s, r)
		_, res := s.PutTombstone(t.Context(), r.Handle(), trigger.StateCancelled, expiry())
		conflict(t, res, r)
		holds(t, s, r)
	}},
	{"a tombstone changes its state and expiry", func(t *testing.T, s store.Store) {
		r := fullRow(0)
		insert(t, s, r)
		require.NoError(t, s.Cancel(t.Context(), r.Key(), r.State, trigger.StateCancelled, expiry()).Err)
		later := expiry().Add(time.Hour)
		require.NoError(t, s.SetState(t.Context(), r.Key(), trigger.StateCancelled, trigger.StateCancelledLate, later).Err)
		want := tombstoneOf(r, trigger.StateCancelledLate)
		want.Expires = later
		holds(t, s, want)
		conflict(t, s.SetState(t.Context(), r.Key(), trigger.StateCancelled, trigger.StateCancelledLate, later), want)
		missing := newRow(9)
		conflict(t, s.SetState(t.Context(), missing.Key(), trigger.StateCancelled, trigger.StateCancelledLate, later), nil)
		holdsNothing(t, s, missing.Key())
	}},
	{"a move leaves a tombstone and the row at its new time", func(t *testing.T, s store.Store) {
		r := fullRow(0)
		insert(t, s, r)
		next := movedTo(r, 60_000)
		require.NoError(t, s.Move(t.Context(), r.Key(), r.State, next, expiry()).Err)
		left := tombstoneOf(r, trigger.StateCancelled)
		left.MovedTo = next.Due
		holds(t, s, left)
		holds(t, s, next)
	}},
	{"a trigger can be moved back over the tombstone it left", func(t *testing.T, s store.Store) {
		r := fullRow(0)
		insert(t, s, r)
		next := movedTo(r, 60_000)
		require.NoError(t, s.Move(t.Context(), r.Key(), r.State, next, expiry()).Err)
		require.NoError(t, s.Move(t.Context(), next.Key(), next.State, r, expiry()).Err)
		holds(t, s, r)
		left := tombstoneOf(next, trigger.StateCancelled)
		left.MovedTo = r.Due
		holds(t, s, left)
	}},
	{"a move over a tombstone of a cancel changes nothing", func(t *testing.T, s store.Store) {
		r := fullRow(0)
		next := movedTo(r, 60_000)
		insert(t, s, r, next)
		require.NoError(t, s.Cancel(t.Context(), next.Key(), next.State, trigger.StateCancelled, expiry()).Err)
		res := s.Move(t.Context(), r.Key(), r.State, next, expiry())
		require.ErrorIs(t, res.Err, store.ErrConflict)
		require.Equal(t, trigger.StateCancelled, res.Taken.State)
		holds(t, s, r)
	}},
	{"a move from another state changes nothing", func(t *testing.T, s store.Store) {
		r := in(fullRow(0), mine(1))
		insert(t, s, r)
		next := movedTo(r, 60_000)
		res := s.Move(t.Context(), r.Key(), trigger.StateScheduled, next, expiry())
		require.ErrorIs(t, res.Err, store.ErrConflict)
		same(t, r, res.Found)
		require.Nil(t, res.Taken)
		holds(t, s, r)
		holdsNothing(t, s, next.Key())
	}},
	{"a move of a missing row creates nothing", func(t *testing.T, s store.Store) {
		r := fullRow(0)
		next := movedTo(r, 60_000)
		res := s.Move(t.Context(), r.Key(), trigger.StateScheduled, next, expiry())
		require.ErrorIs(t, res.Err, store.ErrConflict)
		require.Nil(t, res.Found)
		require.Nil(t, res.Taken)
		holdsNothing(t, s, r.Key())
		holdsNothing(t, s, next.Key())
	}},
	{"a move to a taken key changes nothing and shows the taker", func(t *testing.T, s store.Store) {
		r := fullRow(0)
		next := movedTo(r, 60_000)
		taker := movedTo(r, 60_000)
		taker.Name = "taker"
		insert(t, s, r, taker)
		res := s.Move(t.Context(), r.Key(), r.State, next, expiry())
		require.ErrorIs(t, res.Err, store.ErrConflict)
		same(t, r, res.Found)
		same(t, taker, res.Taken)
		holds(t, s, r)
		holds(t, s, taker)
	}},
	{"a move repeated after a lost reply can be told", func(t *testing.T, s store.Store) {
		r := fullRow(0)
		insert(t, s, r)
		next := movedTo(r, 60_000)
		require.NoError(t, s.Move(t.Context(), r.Key(), r.State, next, expiry()).Err)
		next.Created = next.Created.Add(time.Second)
		res := s.Move(t.Context(), r.Key(), r.State, next, expiry())
		require.ErrorIs(t, res.Err, store.ErrConflict)
		require.Equal(t, trigger.StateCancelled, res.Found.State)
		require.Equal(t, next.ID, res.Taken.ID)
	}},
	{"a move to its own key is refused", func(t *testing.T, s store.Store) {
		r := fullRow(0)
		insert(t, s, r)
		require.ErrorIs(t, s.Move(t.Context(), r.Key(), r.State, r, expiry()).Err, store.ErrInvalid)
		holds(t, s, r)
	}},
}

// movedTo returns the scheduled row at another time.
func movedTo(r *store.Row, ms int64) *store.Row {
	next := cloneOf(r)
	next.State, next.Due = trigger.StateScheduled, at(ms)
	return next
}

var epochTests = []test{
	{"a new table has the default partitions", func(t *testing.T, s store.Store) {
		got, err := s.Epochs(t.Context())
		require.NoError(t, err)
		require.Equal(t, trigger.Epochs{{N: trigger.DefaultPartitions}}, got)
	}},
	{"epochs are set on what was read", func(t *testing.T, s store.Store) {
		first := trigger.Epochs{{N: 4}}
		require.NoError(t, s.SetEpochs(t.Context(), nil, first))
		require.ErrorIs(t, s.SetEpochs(t.Context(), nil, first), store.ErrConflict)
		next := trigger.Epochs{{N: 4}, {N: 8, From: at(0)}, {N: 16, From: at(1)}}
		require.ErrorIs(t, s.SetEpochs(t.Context(), trigger.Epochs{{N: 5}}, next), store.ErrConflict)
		require.NoError(t, s.SetEpochs(t.Context(), first, next))
		got, err := s.Epochs(t.Context())
		require.NoError(t, err)
		require.Equal(t, next, got)
		require.ErrorIs(t, s.SetEpochs(t.Context(), first, next), store.ErrConflict)
	}},
	{"the default that was read may be grown", func(t *testing.T, s store.Store) {
		old, err := s.Epochs(t.Context())
		require.NoError(t, err)
		next := append(old, trigger.Epoch{N: 128, From: at(0)})
		require.NoError(t, s.SetEpochs(t.Context(), old, next))
		require.ErrorIs(t, s.SetEpochs(t.Context(), old, next), store.ErrConflict)
	}},
	{"epochs that do not grow are refused", func(t *testing.T, s store.Store) {
		require.ErrorIs(t, s.SetEpochs(t.Context(), nil, trigger.Epochs{{N: 8}, {N: 4, From: at(0)}}), store.ErrInvalid)
		require.ErrorIs(t, s.SetEpochs(t.Context(), nil, nil), store.ErrInvalid)
	}},
	{"of two that set epochs one wins", func(t *testing.T, s store.Store) {
		first := trigger.Epochs{{N: 4}}
		require.NoError(t, s.SetEpochs(t.Context(), nil, first))
		var wins atomic.Int32
		race(2, func(i int) {
			err := s.SetEpochs(t.Context(), first, trigger.Epochs{{N: 4}, {N: 8 * (i + 1), From: at(0)}})
			if err == nil {
				wins.Add(1)
			}
		})
		require.EqualValues(t, 1, wins.Load())
	}},
}
