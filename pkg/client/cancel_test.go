package client_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

type desk struct {
	*client.Table
	s *memstore.Store
}

func newDesk(t *testing.T, o memstore.Options) *desk {
	t.Helper()
	d := &desk{s: memstore.New(o)}
	var err error
	d.Table, err = client.NewTable(client.TableOptions{Store: d.s})
	require.NoError(t, err)
	return d
}

// rowDue returns a row of payments, not stored, that is due in d.
func rowDue(d time.Duration) *store.Row {
	return &store.Row{
		Trigger: trigger.Trigger{
			ID: trigger.NewID(), Service: "payments", Due: time.Now().UTC().Truncate(time.Millisecond).Add(d), N: 16,
			Payload: []byte("x"), Name: "remind", Headers: map[string]string{"k": "v"},
		},
		State: trigger.StateScheduled, Created: time.Now().UTC().Truncate(time.Millisecond),
	}
}

// keyed turns a row into one with an id made of a key, stored by a sender of n.
func keyed(r *store.Row, key string, n int) *store.Row {
	r.ID, r.N = trigger.KeyedID(r.Service, "", key), n
	return r
}

// insert stores a row as inbound does: under no place may one lie.
func insert(s *memstore.Store, r *store.Row) error {
	epochs, _ := s.Epochs(context.Background())
	op := store.Op{Kind: store.Insert, Key: r.Key(), Row: r, Absent: epochs.Places(r.Key())[1:]}
	return s.Write(context.Background(), []store.Op{op})[0].Err
}

func acquire(s *memstore.Store, r *store.Row, from trigger.State) error {
	op := store.Op{Kind: store.Transition, Key: r.Key(), From: from, To: trigger.AcquiredBy("me", time.Now())}
	return s.Write(context.Background(), []store.Op{op})[0].Err
}

// rowAt reads a row past all faults.
func (d *desk) rowAt(k trigger.Key) *store.Row {
	for _, r := range d.s.Rows() {
		if r.Key() == k {
			return &r
		}
	}
	return nil
}

func handle(t *testing.T, s string) trigger.Handle {
	t.Helper()
	h, err := trigger.ParseHandle(s)
	require.NoError(t, err)
	return h
}

// alive returns the rows that are no tombstones.
func alive(s *memstore.Store) []store.Row {
	var rows []store.Row
	for _, r := range s.Rows() {
		if !r.State.Tombstone() {
			rows = append(rows, r)
		}
	}
	return rows
}

func (d *desk) cancels(t *testing.T, r *store.Row, want client.Outcome) {
	t.Helper()
	got, err := d.Cancel(t.Context(), r.Handle())
	require.NoError(t, err)
	require.Equal(t, want, got.Outcome)
}

func TestCancelAnswersByTheStateItFinds(t *testing.T) {
	for _, c := range []struct {
		from, to trigger.State
		want     client.Outcome
	}{
		{trigger.StateScheduled, trigger.StateCancelled, client.OutcomeCancelled},
		{trigger.StateMaybeSent, trigger.StateCancelledLate, client.OutcomeTooLate},
		{"A.me.1", "A.me.1", client.OutcomeBeingDelivered},
		{trigger.StateDead, trigger.StateDead, client.OutcomeDead},
		{trigger.StateCancelled, trigger.StateCancelled, client.OutcomeCancelled},
	} {
		for _, due := range []time.Duration{-time.Hour, time.Hour} {
			t.Run(string(c.from)+due.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := newDesk(t, memstore.Options{})
					r := rowDue(due)
					r.State = c.from
					require.NoError(t, insert(d.s, r))
					for range 2 { // a repeat answers the same
						d.cancels(t, r, c.want)
						got := d.rowAt(r.Key())
						require.Equal(t, c.to, got.State)
						if c.to != c.from {
							require.Empty(t, got.Payload)
							require.Equal(t, max(due, 0)+24*time.Hour, time.Until(got.Expires))
						}
					}
				})
			})
		}
	}
}

func TestCancelBeforeDrainIsNeverDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memstore.Options{})
		r := rowDue(10 * time.Second)
		d.cancels(t, r, client.OutcomeCancelled)
		require.ErrorIs(t, insert(d.s, r), store.ErrConflict, "the tombstone keeps the late insert out")
		got := d.rowAt(r.Key())
		require.Equal(t, trigger.StateCancelled, got.State)
		require.Equal(t, r.Due.Add(15*24*time.Hour), got.Expires, "longer than the buffer keeps a submission")
		time.Sleep(time.Hour)
		d.cancels(t, r, client.OutcomeCancelled)
	})
}

func TestCancelOfAnInsertedTriggerSurvivesRedelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memstore.Options{})
		r := rowDue(10 * time.Second)
		require.NoError(t, insert(d.s, r))
		d.cancels(t, r, client.OutcomeCancelled)
		require.ErrorIs(t, insert(d.s, r), store.ErrConflict)
		require.ErrorIs(t, acquire(d.s, r, trigger.StateScheduled), store.ErrConflict)
	})
}

func TestWithoutARowCancelIsSureOnlyThreeSecondsAhead(t *testing.T) {
	for due, want := range map[time.Duration]client.Outcome{
		-time.Hour: client.OutcomeTooLate, 0: client.OutcomeTooLate, 3 * time.Second: client.OutcomeTooLate,
		4*time.Second + time.Millisecond: client.OutcomeCancelled,
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t, memstore.Options{})
			r := rowDue(due)
			for range 3 {
				d.cancels(t, r, want)
				require.ErrorIs(t, insert(d.s, r), store.ErrConflict, "it stays out either way")
				if want == client.OutcomeTooLate {
					require.Equal(t, trigger.StateCancelledLate, d.rowAt(r.Key()).State)
				}
			}
		})
	}
}

func TestTheTablesOwnClockDecidesNotTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.Options{Now: func() time.Time { return time.Now().Add(time.Minute) }})
		table, err := client.NewTable(client.TableOptions{Store: s})
		require.NoError(t, err)
		got, err := table.Cancel(t.Context(), rowDue(30*time.Second).Handle())
		require.NoError(t, err)
		require.Equal(t, client.OutcomeTooLate, got.Outcome, "by the table it is past already")
	})
}

// undated is a table that does not tell its time.
type undated struct{ *memstore.Store }

func (u undated) PutTombstone(ctx context.Context, h trigger.Handle, state trigger.State, expires time.Time) (time.Time, store.Result) {
	_, res := u.Store.PutTombstone(ctx, h, state, expires)
	return time.Time{}, res
}

func TestWithoutADateTheLocalClockNeedsASecondMore(t *testing.T) {
	for due, want := range map[time.Duration]client.Outcome{
		4 * time.Second: client.OutcomeTooLate, 4*time.Second + time.Millisecond: client.OutcomeCancelled,
	} {
		synctest.Test(t, func(t *testing.T) {
			table, err := client.NewTable(client.TableOptions{Store: undated{memstore.New(memstore.Options{})}})
			require.NoError(t, err)
			got, err := table.Cancel(t.Context(), rowDue(due).Handle())
			require.NoError(t, err)
			require.Equal(t, want, got.Outcome)
		})
	}
}

func TestAnotherServicesTriggerIsNeitherShownNorTouched(t *testing.T) {
	d := newDesk(t, memstore.Options{})
	r := rowDue(time.Hour)
	require.NoError(t, insert(d.s, r))
	forged := r.Handle()
	forged.Service = "email"
	_, err := d.Cancel(t.Context(), forged)
	require.ErrorIs(t, err, client.ErrNotFound)
	_, err = d.Reschedule(t.Context(), forged, time.Now().Add(time.Minute))
	require.ErrorIs(t, err, client.ErrNotFound)
	_, err = d.DigUp(t.Context(), forged)
	require.ErrorIs(t, err, client.ErrNotFound)
	_, err = d.Get(t.Context(), forged)
	require.ErrorIs(t, err, client.ErrNotFound)
	require.Equal(t, r, d.rowAt(r.Key()))
}

func grow(t *testing.T, s *memstore.Store, next ...trigger.Epoch) {
	t.Helper()
	old, err := s.Epochs(t.Context())
	require.NoError(t, err)
	if old[0].N == trigger.DefaultPartitions {
		old = nil
	}
	require.NoError(t, s.SetEpochs(t.Context(), old, next))
}

// spread is a key whose places under 16 and 32 partitions differ.
func spread(t *testing.T) string {
	t.Helper()
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		id := trigger.KeyedID("payments", "", key)
		if trigger.Partition(id, 16) != trigger.Partition(id, 32) {
			return key
		}
	}
	t.Fatal("no such key")
	return ""
}

func TestGrowingEveryCancelFindsTheOneRow(t *testing.T) {
	for _, c := range []struct{ stored, asked int }{{16, 16}, {16, 32}, {32, 16}, {32, 32}, {0, 16}, {0, 32}} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t, memstore.Options{})
			grow(t, d.s, trigger.Epoch{N: 16}, trigger.Epoch{N: 32, From: time.Now().Add(time.Minute)})
			key := spread(t)
			due := 10 * time.Minute
			if c.stored != 0 {
				require.NoError(t, insert(d.s, keyed(rowDue(due), key, c.stored)))
				require.ErrorIs(t, insert(d.s, keyed(rowDue(due), key, 48-c.stored)), store.ErrConflict, "one row per id")
			}
			asked := keyed(rowDue(due), key, c.asked)
			for range 2 {
				d.cancels(t, asked, client.OutcomeCancelled)
			}
			for _, n := range []int{16, 32} {
				require.ErrorIs(t, insert(d.s, keyed(rowDue(due), key, n)), store.ErrConflict)
			}
			if c.stored == 0 {
				require.Equal(t, 2, d.s.Len(), "each place has its tombstone")
			}
		})
	}
}

// Rows inserted in transactions of their own know nothing of each other.
func TestCancelTakesTheRowsOfEveryPlace(t *testing.T) {
	for other, want := range map[trigger.State]client.Outcome{
		trigger.StateScheduled: client.OutcomeCancelled, trigger.StateMaybeSent: client.OutcomeTooLate, "A.me.1": client.OutcomeBeingDelivered,
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t, memstore.Options{})
			grow(t, d.s, trigger.Epoch{N: 16}, trigger.Epoch{N: 32, From: time.Now()})
			one, two := keyed(rowDue(time.Hour), spread(t), 16), keyed(rowDue(time.Hour), spread(t), 32)
			two.State = other
			for _, r := range []*store.Row{one, two} {
				require.NoError(t, d.s.Write(t.Context(), []store.Op{{Kind: store.Insert, Key: r.Key(), Row: r}})[0].Err)
			}
			d.cancels(t, one, want)
			if want != client.OutcomeBeingDelivered {
				require.Empty(t, alive(d.s))
			}
			d.cancels(t, two, want)
		})
	}
}

func TestALostReplyOfAnyStepChangesNoAnswer(t *testing.T) {
	for _, state := range []trigger.State{"", trigger.StateScheduled, trigger.StateMaybeSent} {
		want := map[trigger.State]client.Outcome{
			"": client.OutcomeCancelled, trigger.StateScheduled: client.OutcomeCancelled, trigger.StateMaybeSent: client.OutcomeTooLate,
		}[state]
		for name, fault := range map[string]memstore.Fault{
			"lost": {LostReply: true}, "throttled": {Err: store.ErrThrottled}, "failed": {Err: errors.New("reset")},
		} {
			for lost := range 8 {
				synctest.Test(t, func(t *testing.T) {
					step, armed := 0, false
					d := newDesk(t, memstore.Options{Faults: func(string, trigger.Key) memstore.Fault {
						if !armed {
							return memstore.Fault{}
						}
						if step++; step == lost+1 || step == lost+2 {
							return fault
						}
						return memstore.Fault{}
					}})
					grow(t, d.s, trigger.Epoch{N: 16}, trigger.Epoch{N: 32, From: time.Now()})
					r := keyed(rowDue(time.Hour), spread(t), 16)
					if state != "" {
						r.State = state
						require.NoError(t, insert(d.s, r))
					}
					armed = true
					got, err := d.Cancel(t.Context(), r.Handle())
					require.NoError(t, err, "%q %s at step %d", state, name, lost)
					require.Equal(t, want, got.Outcome, "%q %s at step %d", state, name, lost)
				})
			}
		}
	}
}

// errCrash ends a client at a step: every later call of it fails as well.
var errCrash = errors.New("crashed")

// TestACancelThatDiesAtAnyStepLeavesNothingToMisread kills a cancel before and
// after each of its steps, lets time pass or not, and cancels again.
func TestACancelThatDiesAtAnyStepLeavesNothingToMisread(t *testing.T) {
	for step := range 10 {
		for _, applied := range []bool{false, true} {
			for _, wait := range []time.Duration{0, time.Hour} {
				for _, due := range []time.Duration{2 * time.Second, time.Minute} {
					synctest.Test(t, func(t *testing.T) {
						var faults memstore.Faults
						d := newDesk(t, memstore.Options{Faults: func(op string, k trigger.Key) memstore.Fault {
							if faults == nil {
								return memstore.Fault{}
							}
							return faults(op, k)
						}})
						grow(t, d.s, trigger.Epoch{N: 16}, trigger.Epoch{N: 32, From: time.Now()})
						r := keyed(rowDue(due), spread(t), 16)
						ctx, die := context.WithCancel(t.Context())
						n := 0
						faults = func(string, trigger.Key) memstore.Fault {
							switch n++; {
							case n == step+1 && applied:
								die()
								return memstore.Fault{LostReply: true}
							case n > step:
								die()
								return memstore.Fault{Err: errCrash}
							}
							return memstore.Fault{}
						}
						first, err := d.Cancel(ctx, r.Handle())
						die()
						faults = nil
						stored := insert(d.s, r) == nil
						time.Sleep(wait)
						late := wait > due
						if stored && late { // it was delivered meanwhile
							require.Error(t, err, "a cancel that was answered keeps the insert out")
							require.NoError(t, acquire(d.s, r, trigger.StateScheduled))
							done := d.rowAt(r.Key())
							require.NoError(t, d.s.Write(t.Context(), []store.Op{{Kind: store.Delete, Key: r.Key(), From: done.State}})[0].Err)
						}
						again, err2 := d.Cancel(t.Context(), r.Handle())
						require.NoError(t, err2)
						switch {
						case stored && late:
							require.Equal(t, client.OutcomeTooLate, again.Outcome)
						case stored || due > time.Second*5 && !late:
							require.Equal(t, client.OutcomeCancelled, again.Outcome)
						case due < 5*time.Second:
							require.Equal(t, client.OutcomeTooLate, again.Outcome)
						}
						if err == nil {
							require.Equal(t, due > 5*time.Second, first.Outcome == client.OutcomeCancelled)
						}
						require.ErrorIs(t, insert(d.s, r), store.ErrConflict)
					})
				}
			}
		}
	}
}
