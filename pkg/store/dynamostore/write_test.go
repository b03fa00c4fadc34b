package dynamostore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

var me = trigger.AcquiredBy("me", time.UnixMilli(1_900_000_000_000))

func newRow(state trigger.State) *store.Row {
	return &store.Row{
		Trigger: trigger.Trigger{ID: trigger.NewID(), Service: "svc", Due: time.UnixMilli(1_900_000_000_000).UTC(), N: 1, Payload: []byte("x")},
		State:   state,
	}
}

func insertOf(r *store.Row) store.Op { return store.Op{Kind: store.Insert, Key: r.Key(), Row: r} }

func acquireOf(r *store.Row) store.Op {
	return store.Op{Kind: store.Transition, Key: r.Key(), From: trigger.StateScheduled, To: me}
}

func deleteOf(r *store.Row) store.Op { return store.Op{Kind: store.Delete, Key: r.Key(), From: me} }

func TestOnlyThrottledStatementsGoOutAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(t, Options{})
		var ops []store.Op
		for range 25 {
			ops = append(ops, insertOf(newRow(trigger.StateScheduled)))
		}
		slow := ops[7].Key.String()
		e.code = func(call int, key string) (types.BatchStatementErrorCodeEnum, bool) {
			if key == slow && call <= 3 {
				return []types.BatchStatementErrorCodeEnum{"ThrottlingError", "ProvisionedThroughputExceeded", "TransactionConflict"}[call-1], false
			}
			return "", false
		}
		for i, res := range s.Write(t.Context(), ops) {
			require.NoError(t, res.Err, i)
		}
		require.Equal(t, []int{25, 1, 1, 1}, e.sent)
		require.Len(t, e.items, 25)
	})
}

func TestThrottlingEndsWithTheBudget(t *testing.T) {
	for _, whole := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e, s := newEngine(t, Options{MaxTries: 4})
			if whole {
				e.fail = func(int, *dynamodb.BatchExecuteStatementInput) (error, bool) {
					return apiError("ProvisionedThroughputExceededException"), false
				}
			} else {
				e.code = func(int, string) (types.BatchStatementErrorCodeEnum, bool) { return "RequestLimitExceeded", false }
			}
			start := time.Now()
			res := s.Write(t.Context(), []store.Op{insertOf(newRow(trigger.StateScheduled))})
			require.ErrorIs(t, res[0].Err, store.ErrThrottled)
			require.Equal(t, 4, e.calls)
			require.Less(t, time.Since(start), DefaultRetryFor)
		})
	}
}

func TestRetryTimeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(t, Options{MaxTries: 1000, RetryFor: 2 * time.Second})
		e.code = func(int, string) (types.BatchStatementErrorCodeEnum, bool) { return "ThrottlingError", false }
		start := time.Now()
		res := s.Write(t.Context(), []store.Op{insertOf(newRow(trigger.StateScheduled))})
		require.ErrorIs(t, res[0].Err, store.ErrThrottled)
		require.LessOrEqual(t, time.Since(start), 2*time.Second)
	})
}

// lossy runs ops whose first reply is lost, by the statement or by the call.
func lossy(t *testing.T, setup func(*engine, *Store), op store.Op, check func(*engine, store.Result)) {
	t.Helper()
	for _, whole := range []bool{false, true} {
		for _, noItems := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				e, s := newEngine(t, Options{})
				e.noItems = noItems
				setup(e, s)
				if whole {
					e.fail = func(call int, _ *dynamodb.BatchExecuteStatementInput) (error, bool) {
						if call == 1 {
							return errors.New("connection reset by peer"), true
						}
						return nil, false
					}
				} else {
					e.code = func(call int, _ string) (types.BatchStatementErrorCodeEnum, bool) {
						if call == 1 {
							return types.BatchStatementErrorCodeEnumInternalServerError, true
						}
						return "", false
					}
				}
				check(e, s.Write(t.Context(), []store.Op{op})[0])
				require.Equal(t, 2, e.calls)
			})
		}
	}
}

func TestOwnClaimAfterALostReplyIsApplied(t *testing.T) {
	r := newRow(trigger.StateScheduled)
	lossy(t, func(e *engine, s *Store) { e.hold(s, r) }, acquireOf(r), func(e *engine, res store.Result) {
		require.Equal(t, store.Result{}, res)
		require.Equal(t, me, e.state(r))
	})
}

func TestOwnInsertAfterALostReplyIsApplied(t *testing.T) {
	for _, state := range []trigger.State{me, trigger.StateScheduled} {
		r := newRow(state)
		r.Created = time.UnixMilli(1_800_000_000_000)
		lossy(t, func(*engine, *Store) {}, insertOf(r), func(e *engine, res store.Result) {
			require.Equal(t, store.Result{}, res)
			require.Equal(t, state, e.state(r))
		})
	}
}

func TestAnInsertOfTheSameIdAtAnotherTimeIsNotOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(t, Options{})
		first := newRow(trigger.StateScheduled)
		first.Created = time.UnixMilli(1_800_000_000_000).UTC()
		e.hold(s, first)
		e.code = func(call int, _ string) (types.BatchStatementErrorCodeEnum, bool) {
			if call == 1 {
				return types.BatchStatementErrorCodeEnumInternalServerError, false
			}
			return "", false
		}
		second := *first
		second.Created = first.Created.Add(time.Millisecond)
		res := s.Write(t.Context(), []store.Op{insertOf(&second)})[0]
		require.ErrorIs(t, res.Err, store.ErrConflict)
		require.Equal(t, first, res.Found)
	})
}

func TestOwnDeleteAfterALostReplyIsApplied(t *testing.T) {
	r := newRow(me)
	lossy(t, func(e *engine, s *Store) { e.hold(s, r) }, deleteOf(r), func(e *engine, res store.Result) {
		require.Equal(t, store.Result{}, res)
		require.Empty(t, e.items)
	})
}

func TestAnothersRowIsAConflictEvenAfterALostReply(t *testing.T) {
	theirs := newRow(trigger.AcquiredBy("them", time.UnixMilli(1)))
	mine := newRow(me)
	mine.ID, mine.Payload = theirs.ID, []byte("another payload")
	for _, op := range []store.Op{acquireOf(theirs), insertOf(mine)} {
		synctest.Test(t, func(t *testing.T) {
			e, s := newEngine(t, Options{})
			e.hold(s, theirs)
			e.code = func(call int, _ string) (types.BatchStatementErrorCodeEnum, bool) {
				if call == 1 {
					return types.BatchStatementErrorCodeEnumInternalServerError, false
				}
				return "", false
			}
			res := s.Write(t.Context(), []store.Op{op})[0]
			require.ErrorIs(t, res.Err, store.ErrConflict)
			require.Equal(t, theirs, res.Found)
		})
	}
}

func TestAConflictOnTheFirstTryIsNeverTakenForOurs(t *testing.T) {
	e, s := newEngine(t, Options{})
	r := newRow(me)
	e.hold(s, r)
	res := s.Write(t.Context(), []store.Op{insertOf(r)})[0]
	require.ErrorIs(t, res.Err, store.ErrConflict)
	require.Equal(t, r, res.Found)
}

func TestUnknownThenThrottledStaysUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(t, Options{MaxTries: 3})
		e.code = func(call int, _ string) (types.BatchStatementErrorCodeEnum, bool) {
			if call == 1 {
				return types.BatchStatementErrorCodeEnumInternalServerError, true
			}
			return types.BatchStatementErrorCodeEnumThrottlingError, false
		}
		res := s.Write(t.Context(), []store.Op{insertOf(newRow(trigger.StateScheduled))})[0]
		require.Error(t, res.Err)
		require.NotErrorIs(t, res.Err, store.ErrThrottled, "ErrThrottled promises that nothing was applied")
		require.Len(t, e.items, 1)
	})
}

func TestRowsInTheWayAreReadTogetherWhereNoItemCame(t *testing.T) {
	e, s := newEngine(t, Options{})
	e.noItems = true
	var ops []store.Op
	var rows []*store.Row
	for range 25 {
		r := newRow(trigger.StateMaybeSent)
		e.hold(s, r)
		rows = append(rows, r)
		ops = append(ops, acquireOf(r))
	}
	for i, res := range s.Write(t.Context(), ops) {
		require.ErrorIs(t, res.Err, store.ErrConflict)
		require.Equal(t, rows[i], res.Found)
	}
	require.Equal(t, 1, e.reads)
	require.Equal(t, 1, e.calls, "conflicts are not tried again")
}

func TestAConflictWhoseRowCannotBeReadIsUnknown(t *testing.T) {
	e, s := newEngine(t, Options{})
	r := newRow(trigger.StateMaybeSent)
	e.hold(s, r)
	e.noItems, e.readErr = true, errors.New("boom")
	res := s.Write(t.Context(), []store.Op{acquireOf(r)})[0]
	require.ErrorIs(t, res.Err, e.readErr)
	require.NotErrorIs(t, res.Err, store.ErrConflict, "the caller would take the row for gone")
}

func TestOneInvalidStatementDoesNotSpoilItsBatch(t *testing.T) {
	e, s := newEngine(t, Options{})
	var ops []store.Op
	for range 25 {
		ops = append(ops, insertOf(newRow(trigger.StateScheduled)))
	}
	poison := ops[11].Key.S()
	e.fail = func(_ int, in *dynamodb.BatchExecuteStatementInput) (error, bool) {
		if slices.ContainsFunc(in.Statements, func(st types.BatchStatementRequest) bool { return text(st.Parameters[1]) == poison }) {
			return apiError("ValidationException"), false
		}
		return nil, false
	}
	for i, res := range s.Write(t.Context(), ops) {
		if i == 11 {
			require.ErrorIs(t, res.Err, store.ErrInvalid)
			continue
		}
		require.NoError(t, res.Err)
	}
	require.Len(t, e.items, 24)
}

func TestRefusalsAreNotRetried(t *testing.T) {
	for _, code := range []string{"AccessDeniedException", "ResourceNotFoundException", "UnrecognizedClientException"} {
		e, s := newEngine(t, Options{})
		e.fail = func(int, *dynamodb.BatchExecuteStatementInput) (error, bool) { return apiError(code), false }
		res := s.Write(t.Context(), []store.Op{insertOf(newRow(trigger.StateScheduled))})[0]
		require.ErrorContains(t, res.Err, code)
		require.Equal(t, 1, e.calls)
		if strings.HasPrefix(code, "Resource") {
			require.ErrorContains(t, res.Err, `table "t" does not exist`)
		}
	}
}

func TestAnEndedContextLeavesTheOutcomeUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := newEngine(t, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		e.fail = func(int, *dynamodb.BatchExecuteStatementInput) (error, bool) {
			cancel()
			return errors.New("broken pipe"), true
		}
		res := s.Write(ctx, []store.Op{insertOf(newRow(trigger.StateScheduled))})[0]
		require.Error(t, res.Err)
		for _, known := range []error{store.ErrConflict, store.ErrThrottled, store.ErrInvalid} {
			require.NotErrorIs(t, res.Err, known)
		}
		require.Equal(t, 1, e.calls)
	})
}

func TestMeterIsToldOfEveryRequest(t *testing.T) {
	requests, writes := 0, 0.0
	_, s := newEngine(t, Options{Parallel: 1, Meter: func(_ string, n int, _, w float64) { requests, writes = requests+n, writes+w }})
	var ops []store.Op
	for range 60 {
		ops = append(ops, insertOf(newRow(trigger.StateScheduled)))
	}
	for _, res := range s.Write(t.Context(), ops) {
		require.NoError(t, res.Err)
	}
	require.Equal(t, 3, requests)
	require.InDelta(t, 60, writes, 0)
}

func TestOptionsAreCheckedTogether(t *testing.T) {
	_, err := New(Options{MaxTries: -1})
	for _, part := range []string{"API is missing", "Table is missing", "MaxTries is negative"} {
		require.ErrorContains(t, err, part)
	}
}
