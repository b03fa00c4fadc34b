package memstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func row(due time.Time) *store.Row {
	return &store.Row{
		Trigger: trigger.Trigger{ID: trigger.NewID(), Service: "svc", Due: due.UTC().Truncate(time.Millisecond), N: 1, Payload: make([]byte, 300)},
		State:   trigger.StateScheduled,
	}
}

func insert(t *testing.T, s *Store, rows ...*store.Row) {
	t.Helper()
	for _, r := range rows {
		require.NoError(t, s.Write(t.Context(), []store.Op{{Kind: store.Insert, Key: r.Key(), Row: r}})[0].Err)
	}
}

func ids(p store.Page) []trigger.ID {
	var out []trigger.ID
	for i := range p.Rows {
		out = append(out, p.Rows[i].ID)
	}
	return out
}

const forever = 9_999_999_999_999

func TestListKeepsOrderLikeASortedMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l list
		model := map[trigger.Key]*record{}
		// The seed stands for the steps: thousands are needed to split and join blocks.
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		keys, puts := rapid.IntRange(1, 2000).Draw(t, "keys"), rapid.IntRange(1, 9).Draw(t, "puts of ten")
		for range rapid.IntRange(1, 4000).Draw(t, "steps") {
			k := trigger.Key{Due: int64(random.IntN(keys))}
			if random.IntN(10) < puts {
				r := &record{due: k.Due}
				l.put(r)
				model[k] = r
			} else {
				l.remove(k)
				delete(model, k)
			}
		}
		require.Equal(t, len(model), l.n)
		seen, last := 0, int64(-1)
		c, _ := l.seek(trigger.Key{})
		for r := c.at(); r != nil; r = c.at() {
			require.Greater(t, r.due, last)
			require.Same(t, model[r.key()], r)
			require.Same(t, r, l.get(r.key()))
			last, seen = r.due, seen+1
			c.next()
		}
		require.Equal(t, len(model), seen)
	})
}

func TestStaleReadSeesThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{StaleWindow: time.Second, Faults: func(op string, _ trigger.Key) Fault {
			if op == OpRange {
				return Fault{Stale: 500 * time.Millisecond}
			}
			return Fault{}
		}})
		a, b, c := row(time.Now()), row(time.Now().Add(time.Second)), row(time.Now().Add(2*time.Second))
		insert(t, s, a, b)
		time.Sleep(time.Second)
		insert(t, s, c)
		mine := trigger.AcquiredBy("me", time.Now())
		for i, res := range s.Write(t.Context(), []store.Op{
			{Kind: store.Delete, Key: a.Key(), From: trigger.StateScheduled},
			{Kind: store.Transition, Key: b.Key(), From: trigger.StateScheduled, To: mine},
		}) {
			require.NoError(t, res.Err, i)
		}
		q := store.Range{To: forever}
		page, err := s.Range(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, []trigger.ID{a.ID, b.ID}, ids(page), "the deleted row lingers, the new one is not there")
		require.Equal(t, trigger.StateScheduled, page.Rows[1].State)

		q.Consistent = true
		page, err = s.Range(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, []trigger.ID{b.ID, c.ID}, ids(page))
		require.Equal(t, mine, page.Rows[0].State)

		q.Consistent = false
		time.Sleep(501 * time.Millisecond)
		page, err = s.Range(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, []trigger.ID{b.ID, c.ID}, ids(page), "it has caught up")
	})
}

func TestEveryStaleReadIsATableOfThePast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMilli(1_000_000)
		s := New(Options{Now: func() time.Time { return now }, StaleWindow: 20 * time.Millisecond, Faults: func(op string, _ trigger.Key) Fault {
			if op == OpRange {
				return Fault{Stale: 10 * time.Millisecond}
			}
			return Fault{}
		}})
		pool := make([]*store.Row, 8)
		for i := range pool {
			pool[i] = row(time.UnixMilli(int64(i)))
		}
		read := func(consistent bool) []trigger.ID {
			page, err := s.Range(context.Background(), store.Range{To: forever, Consistent: consistent})
			require.NoError(t, err)
			return ids(page)
		}
		past := map[int64][]trigger.ID{}
		for range 60 {
			r := pool[rapid.IntRange(0, len(pool)-1).Draw(t, "row")]
			op := store.Op{Kind: store.Insert, Key: r.Key(), Row: r}
			if rapid.Bool().Draw(t, "delete") {
				op = store.Op{Kind: store.Delete, Key: r.Key(), From: r.State}
			}
			s.Write(context.Background(), []store.Op{op})
			past[now.UnixMilli()] = read(true)
			if then, ok := past[now.UnixMilli()-10]; ok {
				require.Equal(t, then, read(false))
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "step")) * time.Millisecond)
			past[now.UnixMilli()] = read(true)
		}
	})
}

func TestLostReplyIsApplied(t *testing.T) {
	s := New(Options{Faults: func(string, trigger.Key) Fault { return Fault{LostReply: true} }})
	r := row(time.Now())
	res := s.Write(t.Context(), []store.Op{{Kind: store.Insert, Key: r.Key(), Row: r}})
	require.ErrorIs(t, res[0].Err, ErrReplyLost)
	require.NotErrorIs(t, res[0].Err, store.ErrConflict)
	require.Equal(t, 1, s.Len())
}

func TestFaultsHitSingleStatements(t *testing.T) {
	boom := errors.New("boom")
	a, b, c := row(time.Now()), row(time.Now()), row(time.Now())
	s := New(Options{Faults: func(_ string, k trigger.Key) Fault {
		switch k {
		case a.Key():
			return Fault{Err: boom}
		case b.Key():
			return Fault{Err: store.ErrThrottled}
		}
		return Fault{}
	}})
	var ops []store.Op
	for _, r := range []*store.Row{a, b, c} {
		ops = append(ops, store.Op{Kind: store.Insert, Key: r.Key(), Row: r})
	}
	res := s.Write(t.Context(), ops)
	require.ErrorIs(t, res[0].Err, boom)
	require.ErrorIs(t, res[1].Err, store.ErrThrottled)
	require.NoError(t, res[2].Err)
	require.Equal(t, 1, s.Len())
}

func TestDelaysTakeVirtualTimeAndRespectTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := Fault{Delay: time.Minute}
		s := New(Options{Faults: func(string, trigger.Key) Fault { return fault }})
		r, start := row(time.Now()), time.Now()
		insert(t, s, r)
		require.Equal(t, time.Minute, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		op := []store.Op{{Kind: store.Delete, Key: r.Key(), From: trigger.StateScheduled}}
		require.ErrorIs(t, s.Write(ctx, op)[0].Err, context.DeadlineExceeded)
		require.Equal(t, 1, s.Len(), "it never got there")

		fault = Fault{ReplyDelay: time.Minute}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, s.Write(ctx, op)[0].Err, context.DeadlineExceeded)
		require.Zero(t, s.Len(), "it was applied, only the answer is missing")
	})
}

func TestAJobCostsThreeWriteUnits(t *testing.T) {
	s := New(Options{})
	r := row(time.Now())
	insert(t, s, r)
	mine := trigger.AcquiredBy("scheduler-0123456789abcdef", time.Now())
	for _, op := range []store.Op{
		{Kind: store.Transition, Key: r.Key(), From: r.State, To: mine},
		{Kind: store.Delete, Key: r.Key(), From: mine},
	} {
		require.NoError(t, s.Write(t.Context(), []store.Op{op})[0].Err)
	}
	total := s.Counts().Total()
	require.InDelta(t, 3, total.WriteUnits, 0)
	require.Equal(t, 3, total.Requests)
	_, err := s.Range(t.Context(), store.Range{To: forever})
	require.NoError(t, err)
	require.InDelta(t, 0.5, s.Counts()[OpRange].ReadUnits, 0)
	s.ResetCounts()
	require.Zero(t, s.Counts().Total())
}

func TestEveryChangeIsSeenByTheAuditor(t *testing.T) {
	var seen []string
	state := func(r *store.Row) string {
		if r == nil {
			return "-"
		}
		return string(r.State)
	}
	s := New(Options{OnChange: func(before, after *store.Row) { seen = append(seen, state(before)+">"+state(after)) }})
	r := row(time.Now())
	insert(t, s, r)
	next := row(time.Now().Add(time.Hour))
	require.NoError(t, s.Move(t.Context(), r.Key(), r.State, next, time.Now()).Err)
	require.NoError(t, s.Write(t.Context(), []store.Op{{Kind: store.Delete, Key: next.Key(), From: next.State}})[0].Err)
	require.Equal(t, 1, s.Expire(time.Now().Add(time.Minute)))
	require.Equal(t, []string{"->S", "S>C", "->S", "S>-", "C>-"}, seen)
}

func TestAReadCostsItsPageNotTheTable(t *testing.T) {
	s := New(Options{})
	const n, step = 100_000, 10 // ten bunches over one partition
	base := time.UnixMilli(1_700_000_000_000)
	ops := make([]store.Op, 0, n/step)
	for i := range n {
		r := row(base.Add(time.Duration(i*7919%n) * time.Millisecond))
		r.Payload = nil
		if ops = append(ops, store.Op{Kind: store.Insert, Key: r.Key(), Row: r}); len(ops) == cap(ops) {
			for _, res := range s.Write(t.Context(), ops) {
				require.NoError(t, res.Err)
			}
			ops = ops[:0]
		}
	}
	require.Equal(t, n, s.Len())
	allocs := testing.AllocsPerRun(10, func() {
		page, err := s.Range(t.Context(), store.Range{From: base.UnixMilli() + n/2, To: forever, Limit: 10})
		require.NoError(t, err)
		require.Len(t, page.Rows, 10)
	})
	require.Less(t, allocs, 40.0)
}
