package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

var rangeTests = []test{
	{"a range reads one partition to the end, in order", func(t *testing.T, s store.Store) {
		var rows []*store.Row
		for i := range 37 {
			rows = append(rows, fullRow(int64(i*7%37/2))) // pairs of equal due times
		}
		urgent := newRow(3)
		urgent.Lane = trigger.Urgent
		insert(t, s, append(rows, urgent)...)
		rows = sorted(rows)
		for _, limit := range []int{0, 1, 5, 37, 100} {
			got := readAll(t, s, store.Range{To: forever, Limit: limit, Consistent: true})
			require.Equal(t, keysOf(rows), keysOf(got), "limit %d", limit)
			for i := range got {
				same(t, rows[i], &got[i])
			}
		}
		require.Len(t, readAll(t, s, store.Range{Lane: trigger.Urgent, To: forever, Consistent: true}), 1)
		require.Empty(t, readAll(t, s, store.Range{Partition: 1, To: forever, Consistent: true}))
	}},
	{"both bounds of a range are included", func(t *testing.T, s store.Store) {
		var rows []*store.Row
		for i := range 10 {
			rows = append(rows, newRow(int64(i)))
		}
		insert(t, s, rows...)
		read := func(from, to int64) []trigger.Key {
			return keysOf(readAll(t, s, store.Range{From: from, To: to, Consistent: true}))
		}
		require.Equal(t, keysOf(rows[3:7]), read(base+3, base+6))
		require.Equal(t, keysOf(rows[4:5]), read(base+4, base+4))
		require.Equal(t, keysOf(rows), read(0, forever))
		require.Equal(t, keysOf(rows), read(-5, forever+5))
		require.Empty(t, read(base+6, base+3))
		require.Empty(t, read(base+10, forever))
		require.Empty(t, read(0, base-1))
		require.Empty(t, read(-5, -1))
	}},
	{"after excludes its key, whether or not a row is there", func(t *testing.T, s store.Store) {
		a, b, c := newRow(0), newRow(1), newRow(2)
		insert(t, s, a, b, c)
		key := b.Key()
		q := store.Range{To: forever, After: &key, Consistent: true}
		require.Equal(t, []trigger.Key{c.Key()}, keysOf(readAll(t, s, q)))
		require.NoError(t, write(t, s, deletion(b, b.State)).Err)
		require.Equal(t, []trigger.Key{c.Key()}, keysOf(readAll(t, s, q)))
		q.From = base + 2 // behind After
		require.Equal(t, []trigger.Key{c.Key()}, keysOf(readAll(t, s, q)))
		q.From, q.To = 0, base // before After
		require.Empty(t, readAll(t, s, q))
	}},
	{"a service's rows are found behind pages of others", func(t *testing.T, s store.Store) {
		var want []*store.Row
		var all []*store.Row
		for i := range 30 {
			r := newRow(int64(i))
			if i%10 == 9 {
				r.Service = "email"
				want = append(want, r)
			}
			all = append(all, r)
		}
		insert(t, s, all...)
		q := store.Range{To: forever, Service: "email", Limit: 4, Consistent: true}
		page, err := s.Range(t.Context(), q)
		require.NoError(t, err)
		require.Empty(t, page.Rows)
		require.NotNil(t, page.Next, "the read goes on although nothing passed the filter")
		require.Equal(t, keysOf(want), keysOf(readAll(t, s, q)))
		q.Service, q.Limit = "nobody", 0
		require.Empty(t, readAll(t, s, q))
	}},
	{"heads have key, state and service alone", func(t *testing.T, s store.Store) {
		r := in(fullRow(0), mine(1))
		insert(t, s, r)
		got := readAll(t, s, store.Range{To: forever, Heads: true, Consistent: true})
		require.Len(t, got, 1)
		require.Equal(t, store.Row{
			Trigger: trigger.Trigger{ID: r.ID, Service: r.Service, Due: r.Due, Lane: r.Lane, N: r.N},
			State:   mine(1),
		}, got[0])
		require.Equal(t, r.Key(), got[0].Key())
	}},
	{"rows may be deleted while their range is read", func(t *testing.T, s store.Store) {
		var rows []*store.Row
		for i := range 12 {
			rows = append(rows, newRow(int64(i)))
		}
		insert(t, s, rows...)
		q := store.Range{To: forever, Limit: 5, Consistent: true}
		var seen []trigger.Key
		for {
			page, err := s.Range(t.Context(), q)
			require.NoError(t, err)
			for i := range page.Rows {
				seen = append(seen, page.Rows[i].Key())
				require.NoError(t, write(t, s, deletion(&page.Rows[i], page.Rows[i].State)).Err)
			}
			if q.After = page.Next; q.After == nil {
				break
			}
		}
		require.Equal(t, keysOf(rows), seen)
	}},
	{"a missing row is nil without an error", func(t *testing.T, s store.Store) {
		holdsNothing(t, s, newRow(0).Key())
	}},
}

var deadTests = []test{
	{"a buried row keeps everything and says why", func(t *testing.T, s store.Store) {
		r := fullRow(0)
		insert(t, s, r)
		conflict(t, s.Bury(t.Context(), r.Key(), mine(1), "no", expiry()), r)
		require.NoError(t, write(t, s, transition(r, r.State, mine(1))).Err)
		require.NoError(t, s.Bury(t.Context(), r.Key(), mine(1), "queue is gone", expiry()).Err)
		r.State, r.Reason, r.Expires = trigger.StateDead, "queue is gone", expiry()
		holds(t, s, r)
		conflict(t, s.Bury(t.Context(), r.Key(), mine(1), "again", expiry()), r)
		missing := newRow(1)
		conflict(t, s.Bury(t.Context(), missing.Key(), mine(1), "no", expiry()), nil)
		holdsNothing(t, s, missing.Key())
	}},
	{"a long reason is cut at a character", func(t *testing.T, s store.Store) {
		r := in(newRow(0), mine(1))
		insert(t, s, r)
		long := "x"
		for len(long) < 3000 {
			long += "ü"
		}
		require.NoError(t, s.Bury(t.Context(), r.Key(), mine(1), long, expiry()).Err)
		got, err := s.Get(t.Context(), r.Key())
		require.NoError(t, err)
		require.Equal(t, long[:1023], got.Reason)
	}},
	{"dead rows are listed by service, oldest due first, in pages", func(t *testing.T, s store.Store) {
		var want []*store.Row
		for i := range 11 {
			r := in(fullRow(int64(100-i)), mine(1))
			r.N = i%3 + 1
			switch i {
			case 4:
				r.Service = "email"
			case 5: // stays alive
			default:
				want = append(want, r)
			}
			insert(t, s, r)
			if i != 5 {
				require.NoError(t, s.Bury(t.Context(), r.Key(), mine(1), "gone", expiry()).Err)
				r.State, r.Reason, r.Expires = trigger.StateDead, "gone", expiry()
			}
		}
		want = sorted(want)
		for _, limit := range []int{0, 1, 4, 9} {
			var got []store.Row
			var after *trigger.Key
			for pages := 0; ; pages++ {
				require.Less(t, pages, 20)
				page, err := s.Dead(t.Context(), "payments", after, limit)
				require.NoError(t, err)
				got = append(got, page.Rows...)
				if after = page.Next; after == nil {
					break
				}
			}
			require.Len(t, got, len(want), "limit %d", limit)
			for i := range want {
				same(t, want[i], &got[i])
			}
		}
		page, err := s.Dead(t.Context(), "nobody", nil, 0)
		require.NoError(t, err)
		require.Empty(t, page.Rows)
	}},
	{"a dead row dug up leaves the list", func(t *testing.T, s store.Store) {
		r := in(fullRow(0), mine(1))
		insert(t, s, r)
		require.NoError(t, s.Bury(t.Context(), r.Key(), mine(1), "gone", expiry()).Err)
		next := cloneOf(r)
		next.State, next.Due = trigger.StateScheduled, at(5000)
		require.NoError(t, s.Move(t.Context(), r.Key(), trigger.StateDead, next, expiry()).Err)
		left := tombstoneOf(r, trigger.StateCancelled)
		left.MovedTo = next.Due
		holds(t, s, left)
		holds(t, s, next)
		page, err := s.Dead(t.Context(), r.Service, nil, 0)
		require.NoError(t, err)
		require.Empty(t, page.Rows)
	}},
}
