package storetest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

var writeTests = []test{
	{"an inserted row comes back whole", func(t *testing.T, s store.Store) {
		r := fullRow(0)
		r.Lane, r.N = trigger.Urgent, trigger.MaxPartitions
		kept := cloneOf(r)
		insert(t, s, r)
		clear(r.Payload) // the store keeps its own copy
		holds(t, s, kept)
	}},
	{"optional fields may all be missing", func(t *testing.T, s store.Store) {
		r := newRow(0)
		r.Payload, r.Created = nil, time.Time{}
		insert(t, s, r)
		holds(t, s, r)
	}},
	{"expiry and creation time round trip", func(t *testing.T, s store.Store) {
		r := newRow(0)
		r.Expires, r.Created = expiry(), at(-123)
		insert(t, s, r)
		holds(t, s, r)
	}},
	{"payloads round trip byte for byte", func(t *testing.T, s store.Store) {
		random := make([]byte, trigger.MaxPayload)
		_, _ = rand.Read(random)
		for name, payload := range map[string][]byte{
			"one zero byte":         {0},
			"not UTF-8":             {0xff, 0xfe, 0x00, 0x80, '\n'},
			"short text":            []byte(`{"hello":"world"}`),
			"compressible":          bytes.Repeat([]byte(`{"field":"value"},`), 200),
			"256 KiB, compressible": bytes.Repeat([]byte("a"), trigger.MaxPayload),
			"256 KiB, random":       random,
		} {
			r := newRow(int64(len(name)))
			r.Payload = payload
			insert(t, s, r)
			got, err := s.Get(t.Context(), r.Key())
			require.NoError(t, err, name)
			require.NotNil(t, got, name)
			require.True(t, bytes.Equal(payload, got.Payload), name)
		}
	}},
	{"insert over a row conflicts and finds all of it", func(t *testing.T, s store.Store) {
		for i, state := range []trigger.State{trigger.StateScheduled, trigger.StateMaybeSent, mine(1)} {
			r := in(fullRow(int64(i)), state)
			insert(t, s, r)
			other := cloneOf(r)
			other.Payload, other.Name, other.State = []byte("other"), "other", trigger.StateScheduled
			conflict(t, write(t, s, insertOp(other)), r)
			holds(t, s, r)
		}
	}},
	{"a row already due is inserted acquired", func(t *testing.T, s store.Store) {
		r := in(fullRow(-5000), mine(1))
		insert(t, s, r)
		holds(t, s, r)
		require.NoError(t, write(t, s, deletion(r, mine(1))).Err)
	}},
	{"insert with absent keys applies where all are free", func(t *testing.T, s store.Store) {
		r := fullRow(0)
		op := insertOp(r)
		op.Absent = []trigger.Key{other(r, 1), other(r, 2)}
		require.NoError(t, write(t, s, op).Err)
		holds(t, s, r)
		holdsNothing(t, s, op.Absent[0])
		conflict(t, write(t, s, op), r)
	}},
	{"insert with absent keys conflicts with a row at any of them", func(t *testing.T, s store.Store) {
		id := trigger.KeyedID("payments", "", "order-42")
		var rows []*store.Row
		for _, n := range []int{1, 2, 4, 8} {
			r := fullRow(0)
			r.ID, r.N = id, n
			rows = append(rows, r)
		}
		places := trigger.Epochs{{N: 1}, {N: 2, From: at(1)}, {N: 4, From: at(2)}, {N: 8, From: at(3)}}.Places(rows[0].Key())
		require.Greater(t, len(places), 1, "an id whose place depends on the count")
		var taken *store.Row
		for _, r := range rows {
			if r.Key() == places[len(places)-1] {
				taken = r
			}
		}
		insert(t, s, taken)
		op := insertOp(rows[0])
		op.Absent = places[1:]
		conflict(t, write(t, s, op), taken)
		holdsNothing(t, s, rows[0].Key())
	}},
	{"a transition changes the state and nothing else", func(t *testing.T, s store.Store) {
		r := fullRow(0)
		insert(t, s, r)
		for _, step := range [][2]trigger.State{
			{trigger.StateScheduled, mine(1)}, {mine(1), trigger.StateMaybeSent},
			{trigger.StateMaybeSent, mine(2)}, {mine(2), trigger.StateScheduled},
		} {
			require.NoError(t, write(t, s, transition(r, step[0], step[1])).Err)
			holds(t, s, in(r, step[1]))
		}
	}},
	{"a transition from another state conflicts and finds the row", func(t *testing.T, s store.Store) {
		r := in(fullRow(0), mine(1))
		insert(t, s, r)
		conflict(t, write(t, s, transition(r, trigger.StateScheduled, mine(2))), r)
		conflict(t, write(t, s, transition(r, mine(2), trigger.StateMaybeSent)), r)
		holds(t, s, r)
	}},
	{"a transition of a missing row conflicts and creates nothing", func(t *testing.T, s store.Store) {
		r := newRow(0)
		conflict(t, write(t, s, transition(r, trigger.StateScheduled, mine(1))), nil)
		holdsNothing(t, s, r.Key())
	}},
	{"a delete needs the state", func(t *testing.T, s store.Store) {
		r := in(fullRow(0), mine(1))
		insert(t, s, r)
		conflict(t, write(t, s, deletion(r, mine(2))), r)
		holds(t, s, r)
		require.NoError(t, write(t, s, deletion(r, mine(1))).Err)
		holdsNothing(t, s, r.Key())
	}},
	{"deleting a missing row does nothing and finds nothing", func(t *testing.T, s store.Store) {
		r := newRow(0)
		deletedNothing(t, write(t, s, deletion(r, mine(1))))
		holdsNothing(t, s, r.Key())
	}},
	{"a batch of sixty answers each op in its place", mixedBatch},
	{"an empty batch is nothing", func(t *testing.T, s store.Store) {
		require.Empty(t, s.Write(t.Context(), nil))
	}},
	{"ops that break the contract are refused and the others apply", func(t *testing.T, s store.Store) {
		a, b, c := newRow(0), newRow(1), newRow(2)
		wrong := insertOp(a)
		wrong.Key = c.Key()
		big := newRow(3)
		big.Payload = make([]byte, trigger.MaxPayload+1)
		wide := insertOp(newRow(4))
		wide.Absent = make([]trigger.Key, store.MaxAbsent+1)
		res := s.Write(t.Context(), []store.Op{
			insertOp(b), wrong, insertOp(b), transition(a, "", mine(1)), transition(newRow(5), trigger.StateScheduled, trigger.StateDead),
			{Kind: 99, Key: a.Key()}, insertOp(big), wide,
		})
		require.NoError(t, res[0].Err)
		for _, r := range res[1:] {
			require.ErrorIs(t, r.Err, store.ErrInvalid)
		}
		holds(t, s, b)
		holdsNothing(t, s, c.Key())
	}},
}

// other is a key of the same id in another partition.
func other(r *store.Row, partition int) trigger.Key {
	k := r.Key()
	k.Partition = partition
	return k
}

// deletedNothing is the answer to a delete of a missing row: PartiQL engines
// cannot tell it from success.
func deletedNothing(t *testing.T, res store.Result) {
	t.Helper()
	require.Nil(t, res.Found)
	if res.Err != nil {
		conflict(t, res, nil)
	}
}

func mixedBatch(t *testing.T, s store.Store) {
	var ops []store.Op
	var rows, setup []*store.Row
	for i := range 60 {
		r := fullRow(int64(i))
		r.Name = fmt.Sprintf("job-%d", i)
		rows = append(rows, r)
		switch i % 6 {
		case 0: // inserted
			ops = append(ops, insertOp(r))
		case 1: // insert in the way
			setup = append(setup, r)
			ops = append(ops, insertOp(r))
		case 2: // acquired
			setup = append(setup, r)
			ops = append(ops, transition(r, r.State, mine(i)))
		case 3: // lost to another
			setup = append(setup, in(r, mine(1)))
			ops = append(ops, transition(r, r.State, mine(i)))
		case 4: // deleted
			setup = append(setup, in(r, mine(i)))
			ops = append(ops, deletion(r, mine(i)))
		case 5: // deleted before
			ops = append(ops, deletion(r, mine(i)))
		}
	}
	insert(t, s, setup...)
	res := s.Write(t.Context(), ops)
	require.Len(t, res, len(ops))
	for i, r := range rows {
		switch i % 6 {
		case 0:
			require.NoError(t, res[i].Err)
			holds(t, s, r)
		case 1:
			conflict(t, res[i], r)
		case 2:
			require.NoError(t, res[i].Err)
			holds(t, s, in(r, mine(i)))
		case 3:
			conflict(t, res[i], in(r, mine(1)))
		case 4:
			require.NoError(t, res[i].Err)
			holdsNothing(t, s, r.Key())
		case 5:
			deletedNothing(t, res[i])
		}
	}
}

var raceTests = []test{
	{"of eight that acquire a row exactly one wins", func(t *testing.T, s store.Store) {
		r := fullRow(0)
		insert(t, s, r)
		var wins atomic.Int32
		race(8, func(i int) {
			res := s.Write(t.Context(), []store.Op{transition(r, trigger.StateScheduled, mine(i))})
			if res[0].Err == nil {
				wins.Add(1)
			} else if res[0].Found == nil || res[0].Found.State.Kind() != trigger.Acquired {
				t.Errorf("owner %d: %v, found %v", i, res[0].Err, res[0].Found)
			}
		})
		require.EqualValues(t, 1, wins.Load())
	}},
	{"of eight inserts of one id exactly one wins", func(t *testing.T, s store.Store) {
		r := fullRow(0)
		var wins atomic.Int32
		race(8, func(int) {
			res := s.Write(t.Context(), []store.Op{insertOp(r)})
			if res[0].Err == nil {
				wins.Add(1)
			} else if res[0].Found == nil || res[0].Found.ID != r.ID {
				t.Errorf("%v, found %v", res[0].Err, res[0].Found)
			}
		})
		require.EqualValues(t, 1, wins.Load())
		holds(t, s, r)
	}},
	{"a cancel and an acquire never both win", func(t *testing.T, s store.Store) {
		for i := range 10 {
			r := fullRow(int64(i))
			insert(t, s, r)
			var wins atomic.Int32
			race(2, func(who int) {
				var err error
				if who == 0 {
					err = s.Cancel(t.Context(), r.Key(), trigger.StateScheduled, trigger.StateCancelled, expiry()).Err
				} else {
					err = s.Write(t.Context(), []store.Op{transition(r, trigger.StateScheduled, mine(1))})[0].Err
				}
				if err == nil {
					wins.Add(1)
				}
			})
			require.EqualValues(t, 1, wins.Load())
		}
	}},
}

func race(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}
