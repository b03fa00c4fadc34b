package meter_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/dynamostore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/bench/internal/meter"
)

// taker takes every write, or answers err.
type taker struct {
	dynamostore.API
	err error
}

func (t *taker) PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return &dynamodb.PutItemOutput{}, t.err
}

func (t *taker) UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return &dynamodb.UpdateItemOutput{}, t.err
}

func (t *taker) DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	return &dynamodb.DeleteItemOutput{}, t.err
}

func (t *taker) BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return &dynamodb.BatchGetItemOutput{}, nil
}

func (t *taker) BatchExecuteStatement(_ context.Context, in *dynamodb.BatchExecuteStatementInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchExecuteStatementOutput, error) {
	return &dynamodb.BatchExecuteStatementOutput{Responses: make([]types.BatchStatementResponse, len(in.Statements))}, t.err
}

// life writes a row's three steps through the store that ships.
func life(t *testing.T, api dynamostore.API, single bool, payload int) {
	t.Helper()
	s, err := dynamostore.New(dynamostore.Options{API: api, Table: "t", SingleItems: single, MaxTries: 1})
	require.NoError(t, err)
	row := store.Row{
		Trigger: trigger.Trigger{
			ID: trigger.NewID(), Service: "payments", Due: time.UnixMilli(1_800_000_000_000), N: 4,
			Payload: noise(payload), Headers: map[string]string{"a": "b"},
		},
		State: trigger.StateScheduled, Created: time.UnixMilli(1_700_000_000_000),
	}
	claim := trigger.AcquiredBy("me", row.Due)
	for _, op := range []store.Op{
		{Kind: store.Insert, Key: row.Key(), Row: &row},
		{Kind: store.Transition, Key: row.Key(), From: trigger.StateScheduled, To: claim},
		{Kind: store.Delete, Key: row.Key(), From: claim},
	} {
		s.Write(t.Context(), []store.Op{op})
	}
}

// noise does not compress.
func noise(n int) []byte {
	var b []byte
	for len(b) < n {
		id := trigger.NewID()
		b = append(b, id[:]...)
	}
	return b[:n]
}

func TestThreeStepsOfARowCostThreeStatementsAndItsKilobytesEach(t *testing.T) {
	for _, single := range []bool{true, false} { // single calls, and PartiQL
		for payload, kilobytes := range map[int]float64{1: 1, 300: 1, 850: 1, 1000: 2, 5000: 5} {
			w := meter.NewWrites()
			life(t, w.Over(&taker{}), single, payload)
			for _, k := range []meter.Kind{meter.Insert, meter.Acquire, meter.Complete} {
				require.Equal(t, meter.Cost{Statements: 1, Units: kilobytes}, w.Costs()[k], "%s of %d bytes, single %t", k, payload, single)
			}
			require.Len(t, w.Costs(), 3)
		}
	}
}

func TestOnlyWritesThatReachedTheTableAreCounted(t *testing.T) {
	w := meter.NewWrites()
	life(t, w.Over(&taker{err: errors.New("no route")}), true, 10)
	require.Empty(t, w.Costs())
	life(t, w.Over(&taker{err: &types.ConditionalCheckFailedException{}}), true, 10)
	require.Equal(t, meter.Cost{Statements: 1, Conflicts: 1, Units: 1}, w.Costs()[meter.Insert], "a failed condition is billed")
}

func TestAttemptsAreCountedByWhoMadeThem(t *testing.T) {
	r := meter.NewRequests()
	hook := r.Of("inbound")
	hook("SQS", "ReceiveMessage", true, nil, 0)
	hook("SQS", "ReceiveMessage", true, errors.New(strings.Repeat("x", 3)), 0)
	hook("SQS", "ReceiveMessage", false, nil, 0) // the call itself
	require.Equal(t, map[meter.Call]int{{Component: "inbound", Service: "SQS", Operation: "ReceiveMessage"}: 2}, r.Counts())
	r.Reset()
	require.Empty(t, r.Counts())
}
