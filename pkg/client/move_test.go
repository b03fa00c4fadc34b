package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func TestARescheduledTriggerIsFoundByEveryHandleItHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memstore.Options{})
		r := rowDue(time.Hour)
		require.NoError(t, insert(d.s, r))
		handles := []trigger.Handle{r.Handle()}
		for i, in := range []time.Duration{2 * time.Hour, 10 * time.Minute, time.Hour, 3 * time.Hour, 10 * time.Minute} {
			due := time.Now().Add(in)
			moved, err := d.Reschedule(t.Context(), handles[i/2], due)
			require.NoError(t, err)
			require.True(t, due.Equal(moved.Due))
			require.Equal(t, r.ID, moved.ID)
			handles = append(handles, handle(t, moved.Handle))
			require.Len(t, alive(d.s), 1)
			for _, h := range handles {
				view, err := d.Get(t.Context(), h)
				require.NoError(t, err)
				require.Equal(t, "scheduled", view.State)
				require.Equal(t, moved.Handle, view.Handle)
				require.Equal(t, r.Payload, view.Payload)
				require.Equal(t, r.Headers, view.Headers)
			}
			require.ErrorIs(t, insert(d.s, r), store.ErrConflict, "a redelivery of the old submission stays out")
		}
		got, err := d.Cancel(t.Context(), handles[0])
		require.NoError(t, err)
		require.Equal(t, client.OutcomeCancelled, got.Outcome)
		require.True(t, got.Due.Equal(time.Now().Add(10*time.Minute)))
		require.Empty(t, alive(d.s))
		for _, h := range handles {
			view, err := d.Get(t.Context(), h)
			require.NoError(t, err)
			require.Equal(t, "cancelled", view.State)
		}
	})
}

func TestTheTraceOfAMoveOutlivesBothItsTimes(t *testing.T) {
	for _, due := range []time.Duration{time.Minute, 5 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t, memstore.Options{})
			r := rowDue(time.Hour)
			require.NoError(t, insert(d.s, r))
			_, err := d.Reschedule(t.Context(), r.Handle(), time.Now().Add(due))
			require.NoError(t, err)
			require.Equal(t, max(due, time.Hour)+24*time.Hour, time.Until(d.rowAt(r.Key()).Expires))
		})
	}
}

func TestRescheduleToTheSameTimeIsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memstore.Options{})
		r := rowDue(time.Hour)
		require.NoError(t, insert(d.s, r))
		moved, err := d.Reschedule(t.Context(), r.Handle(), r.Due)
		require.NoError(t, err)
		require.Equal(t, r.Handle().String(), moved.Handle)
		require.Equal(t, r, d.rowAt(r.Key()))
	})
}

func TestOnlyAScheduledTriggerMoves(t *testing.T) {
	for state, want := range map[trigger.State]string{
		trigger.StateMaybeSent: "scheduled_maybe_sent", "A.me.1": "acquired", trigger.StateDead: "dead",
		trigger.StateCancelled: "cancelled", trigger.StateCancelledLate: "cancelled_late",
	} {
		d := newDesk(t, memstore.Options{})
		r := rowDue(time.Hour)
		r.State = state
		require.NoError(t, insert(d.s, r))
		for _, due := range []time.Time{r.Due, r.Due.Add(time.Hour)} {
			_, err := d.Reschedule(t.Context(), r.Handle(), due)
			var conflict *client.ConflictError
			require.ErrorAs(t, err, &conflict)
			require.Equal(t, want, conflict.State)
		}
		require.Equal(t, 1, d.s.Len())
		require.Equal(t, state, d.rowAt(r.Key()).State)
	}
}

func TestRescheduleOfWhatIsNotStoredSaysSo(t *testing.T) {
	d := newDesk(t, memstore.Options{})
	r := rowDue(time.Hour)
	_, err := d.Reschedule(t.Context(), r.Handle(), r.Due.Add(time.Hour))
	require.ErrorIs(t, err, client.ErrNotStored)
	_, err = d.Get(t.Context(), r.Handle())
	require.ErrorIs(t, err, client.ErrNotFound)
	_, err = d.DigUp(t.Context(), r.Handle())
	require.ErrorIs(t, err, client.ErrNotFound)
}

func TestRescheduleRefusesTimesOutOfRange(t *testing.T) {
	d := newDesk(t, memstore.Options{})
	r := rowDue(time.Hour)
	require.NoError(t, insert(d.s, r))
	for _, due := range []time.Time{{}, time.Now().AddDate(11, 0, 0), time.Now().AddDate(0, 0, -2)} {
		_, err := d.Reschedule(t.Context(), r.Handle(), due)
		requireField(t, err, "due")
	}
}

func TestRescheduleOntoAnotherTriggerOfTheSameKeyIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memstore.Options{})
		one, two := keyed(rowDue(time.Hour), "k", 64), keyed(rowDue(2*time.Hour), "k", 64)
		require.NoError(t, insert(d.s, one))
		require.NoError(t, insert(d.s, two))
		_, err := d.Reschedule(t.Context(), one.Handle(), two.Due)
		var conflict *client.ConflictError
		require.ErrorAs(t, err, &conflict)
		require.True(t, conflict.Taken)
		require.Len(t, alive(d.s), 2)
	})
}

func TestAMoveOfAKeyedTriggerStaysWhereTheRowIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memstore.Options{})
		grow(t, d.s, trigger.Epoch{N: 16}, trigger.Epoch{N: 32, From: time.Now()})
		r := keyed(rowDue(time.Hour), spread(t), 16)
		require.NoError(t, insert(d.s, r))
		asked := r.Handle()
		asked.N = 32
		moved, err := d.Reschedule(t.Context(), asked, r.Due.Add(time.Hour))
		require.NoError(t, err)
		require.Equal(t, 16, handle(t, moved.Handle).N)
		got, err := d.Cancel(t.Context(), asked)
		require.NoError(t, err)
		require.Equal(t, client.OutcomeCancelled, got.Outcome)
		require.Empty(t, alive(d.s))
	})
}

// TestAMoveThatDiesAtAnyStepLeavesTheOldRowOrTheNew is case 12.
func TestAMoveThatDiesAtAnyStepLeavesTheOldRowOrTheNew(t *testing.T) {
	for step := range 6 {
		for _, applied := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				ctx, die := context.WithCancel(t.Context())
				defer die()
				n, armed := 0, false
				var d *desk
				d = newDesk(t, memstore.Options{Faults: func(string, trigger.Key) memstore.Fault {
					if !armed {
						return memstore.Fault{}
					}
					require.Len(t, alive(d.s), 1, "never none, never both")
					switch n++; {
					case n == step+1 && applied:
						die()
						return memstore.Fault{LostReply: true}
					case n > step:
						die()
						return memstore.Fault{Err: errCrash}
					}
					return memstore.Fault{}
				}})
				r := rowDue(time.Hour)
				require.NoError(t, insert(d.s, r))
				due := r.Due.Add(time.Hour)
				armed = true
				_, err := d.Reschedule(ctx, r.Handle(), due)
				armed = false
				left := alive(d.s)
				require.Len(t, left, 1)
				require.Contains(t, []time.Time{r.Due, due}, left[0].Due)
				if err == nil {
					require.Equal(t, due, left[0].Due)
				}
				require.ErrorIs(t, insert(d.s, r), store.ErrConflict)
				moved, err := d.Reschedule(t.Context(), r.Handle(), due)
				require.NoError(t, err, "a repeat completes it")
				require.Equal(t, due, moved.Due)
				require.Equal(t, due, alive(d.s)[0].Due)
			})
		}
	}
}

func TestALostReplyOfAMoveIsFoundOut(t *testing.T) {
	for _, state := range []trigger.State{trigger.StateScheduled, trigger.StateDead} {
		for step := range 5 {
			for name, fault := range map[string]memstore.Fault{
				"lost": {LostReply: true}, "throttled": {Err: store.ErrThrottled}, "failed": {Err: errors.New("reset")},
			} {
				t.Run(fmt.Sprint(state, step, name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						n, armed := 0, false
						d := newDesk(t, memstore.Options{Faults: func(string, trigger.Key) memstore.Fault {
							if armed {
								if n++; n == step+1 {
									return fault
								}
							}
							return memstore.Fault{}
						}})
						r := rowDue(time.Hour)
						r.State = state
						require.NoError(t, insert(d.s, r))
						armed = true
						var moved client.Scheduled
						var err error
						if state == trigger.StateDead {
							time.Sleep(2 * time.Hour)
							moved, err = d.DigUp(t.Context(), r.Handle())
						} else {
							moved, err = d.Reschedule(t.Context(), r.Handle(), r.Due.Add(time.Hour))
						}
						require.NoError(t, err)
						left := alive(d.s)
						require.Len(t, left, 1)
						require.Equal(t, moved.Handle, left[0].Handle().String())
					})
				})
			}
		}
	}
}

// TestAMoveWhoseReplyIsLostSucceedsEvenIfTheRowWasDelivered: the answer must be
// found in what the move left at the old key, not at the new one.
func TestAMoveWhoseReplyIsLostSucceedsEvenIfTheRowWasDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d *desk
		var due time.Time
		r := rowDue(time.Hour)
		lost := false
		d = newDesk(t, memstore.Options{Faults: func(op string, _ trigger.Key) memstore.Fault {
			switch {
			case op == memstore.OpMove:
				lost = true
				return memstore.Fault{LostReply: true}
			case op == memstore.OpGet && lost:
				lost = false
				next := *r
				next.Due = due
				require.NoError(t, acquire(d.s, &next, trigger.StateScheduled))
			}
			return memstore.Fault{}
		}})
		require.NoError(t, insert(d.s, r))
		due = time.Now().UTC().Add(time.Millisecond)
		moved, err := d.Reschedule(t.Context(), r.Handle(), due)
		require.NoError(t, err)
		require.Equal(t, due, moved.Due)
	})
}

func TestADeadTriggerIsListedAndDugUpUnderItsID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memstore.Options{})
		r := rowDue(time.Second)
		require.NoError(t, insert(d.s, r))
		time.Sleep(time.Minute)
		require.NoError(t, acquire(d.s, r, trigger.StateScheduled))
		state := d.rowAt(r.Key()).State
		require.NoError(t, d.s.Bury(t.Context(), r.Key(), state, "too large", time.Now().Add(time.Hour)).Err)

		list, next, err := d.Dead(t.Context(), "payments", nil, 0)
		require.NoError(t, err)
		require.Nil(t, next)
		require.Len(t, list, 1)
		require.Equal(t, "too large", list[0].Reason)
		require.Equal(t, "dead", list[0].State)

		risen, err := d.DigUp(t.Context(), handle(t, list[0].Handle))
		require.NoError(t, err)
		require.Equal(t, r.ID, risen.ID)
		require.True(t, risen.Due.Equal(time.Now()))
		view, err := d.Get(t.Context(), r.Handle())
		require.NoError(t, err)
		require.Equal(t, risen.Handle, view.Handle)
		require.Equal(t, "scheduled_maybe_sent", view.State)
		require.Empty(t, view.Reason)
		require.Equal(t, r.Payload, view.Payload)
		list, _, err = d.Dead(t.Context(), "payments", nil, 0)
		require.NoError(t, err)
		require.Empty(t, list)

		_, err = d.DigUp(t.Context(), r.Handle())
		var conflict *client.ConflictError
		require.ErrorAs(t, err, &conflict)
	})
}

func TestWhatACancelClaimsHoldsWhileTheTriggerMoves(t *testing.T) { races(t, true) }
