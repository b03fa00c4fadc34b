// Package storetest is the suite that every implementation of store.Store
// passes: one test for each sentence of the contract.
//
// It owns no state; Run may be called from any number of tests.
package storetest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

type test struct {
	name string
	run  func(t *testing.T, s store.Store)
}

// Run runs the suite. open returns a store over an empty table of its own; it is
// called once for each subtest, with the subtest's t.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	t.Helper()
	for _, group := range [][]test{writeTests, raceTests, rangeTests, cancelTests, deadTests, epochTests} {
		for _, tt := range group {
			t.Run(tt.name, func(t *testing.T) { tt.run(t, open(t)) })
		}
	}
}

const (
	base    = int64(1_900_000_000_000) // 2030: far from any expiry
	forever = int64(9_999_999_999_999)
)

// at returns the time some milliseconds behind base.
func at(ms int64) time.Time { return time.UnixMilli(base + ms).UTC() }

// expiry is a time in the far future, whole seconds.
func expiry() time.Time { return time.Unix(4_000_000_000, 0).UTC() }

// newRow returns a scheduled row of partition 0 of 1, with every field a
// trigger may leave out left out.
func newRow(ms int64) *store.Row {
	return &store.Row{
		Trigger: trigger.Trigger{ID: trigger.NewID(), Service: "payments", Due: at(ms), N: 1, Payload: []byte(`{"n":1}`)},
		State:   trigger.StateScheduled,
		Created: at(-1000),
	}
}

// fullRow returns a row with every optional field set.
func fullRow(ms int64) *store.Row {
	r := newRow(ms)
	r.Name, r.Tenant, r.Group = "send-reminder", "t-1", "g/1"
	r.Headers = map[string]string{"x-kind": "a", "X.Kind": "ü\t\n", "c": "3", "d": "4"}
	r.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	return r
}

func in(r *store.Row, state trigger.State) *store.Row {
	c := *r
	c.State = state
	return &c
}

func insertOp(r *store.Row) store.Op { return store.Op{Kind: store.Insert, Key: r.Key(), Row: r} }

func transition(r *store.Row, from, to trigger.State) store.Op {
	return store.Op{Kind: store.Transition, Key: r.Key(), From: from, To: to}
}

func deletion(r *store.Row, from trigger.State) store.Op {
	return store.Op{Kind: store.Delete, Key: r.Key(), From: from}
}

func write(t *testing.T, s store.Store, op store.Op) store.Result {
	t.Helper()
	res := s.Write(t.Context(), []store.Op{op})
	require.Len(t, res, 1)
	return res[0]
}

func insert(t *testing.T, s store.Store, rows ...*store.Row) {
	t.Helper()
	ops := make([]store.Op, len(rows))
	for i, r := range rows {
		ops[i] = insertOp(r)
	}
	for i, res := range s.Write(t.Context(), ops) {
		require.NoError(t, res.Err, "row %d", i)
	}
}

// holds requires that exactly this row lies under its key.
func holds(t *testing.T, s store.Store, want *store.Row) {
	t.Helper()
	got, err := s.Get(t.Context(), want.Key())
	require.NoError(t, err)
	same(t, want, got)
}

func holdsNothing(t *testing.T, s store.Store, key trigger.Key) {
	t.Helper()
	got, err := s.Get(t.Context(), key)
	require.NoError(t, err)
	require.Nil(t, got)
}

// same compares rows; an empty payload and none are one.
func same(t *testing.T, want, got *store.Row) {
	t.Helper()
	require.NotNil(t, got)
	w, g := *want, *got
	require.Equal(t, string(w.Payload), string(g.Payload))
	w.Payload, g.Payload = nil, nil
	require.Equal(t, w, g)
}

func conflict(t *testing.T, res store.Result, found *store.Row) {
	t.Helper()
	require.ErrorIs(t, res.Err, store.ErrConflict)
	if found == nil {
		require.Nil(t, res.Found)
		return
	}
	same(t, found, res.Found)
}

// tombstoneOf is what a cancelled row keeps.
func tombstoneOf(r *store.Row, state trigger.State) *store.Row {
	return &store.Row{
		Trigger: trigger.Trigger{ID: r.ID, Service: r.Service, Due: r.Due, Lane: r.Lane, N: r.N},
		State:   state, Created: r.Created, Expires: expiry(),
	}
}

// readAll pages through a range, checking what every page must keep to.
func readAll(t *testing.T, s store.Store, q store.Range) []store.Row {
	t.Helper()
	var rows []store.Row
	for pages := 0; ; pages++ {
		require.Less(t, pages, 200, "the range does not end")
		page, err := s.Range(t.Context(), q)
		require.NoError(t, err)
		if q.Limit > 0 {
			require.LessOrEqual(t, len(page.Rows), q.Limit)
		}
		rows = append(rows, page.Rows...)
		if page.Next == nil {
			break
		}
		if q.After != nil {
			require.Positive(t, page.Next.Compare(*q.After), "a page makes progress")
		}
		q.After = page.Next
	}
	require.True(t, slices.IsSortedFunc(rows, func(a, b store.Row) int { return a.Key().Compare(b.Key()) }))
	return rows
}

func keysOf[R store.Row | *store.Row](rows []R) []trigger.Key {
	keys := make([]trigger.Key, len(rows))
	for i, r := range rows {
		switch r := any(r).(type) {
		case store.Row:
			keys[i] = r.Key()
		case *store.Row:
			keys[i] = r.Key()
		}
	}
	return keys
}

func sorted(rows []*store.Row) []*store.Row {
	return slices.SortedFunc(slices.Values(rows), func(a, b *store.Row) int { return a.Key().Compare(b.Key()) })
}

// cloneOf returns a copy that shares nothing.
func cloneOf(r *store.Row) *store.Row {
	c := *r
	c.Payload, c.Headers = slices.Clone(r.Payload), maps.Clone(r.Headers)
	return &c
}

func mine(i int) trigger.State { return trigger.AcquiredBy(fmt.Sprintf("owner-%d", i), at(int64(i))) }
