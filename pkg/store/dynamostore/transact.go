package dynamostore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// InsertItem returns the action that inserts a row as part of a caller's own
// TransactWriteItems. Condition: no row under its key; else the transaction is
// cancelled with ConditionalCheckFailed as this action's reason. The error wraps
// store.ErrInvalid.
func (s *Store) InsertItem(row *store.Row) (types.TransactWriteItem, error) {
	op := store.Op{Kind: store.Insert, Row: row}
	if row != nil && row.N > 0 {
		op.Key = row.Key()
	}
	res := make([]store.Result, 1)
	store.CheckOps([]store.Op{op}, res)
	if res[0].Err != nil {
		return types.TransactWriteItem{}, fmt.Errorf("insert item: %w", res[0].Err)
	}
	return s.putAction(row, op.Key), nil
}

func (s *Store) putAction(row *store.Row, key trigger.Key) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{
		TableName: &s.opts.Table, Item: s.codec.item(row, key),
		ConditionExpression:                 aws.String("attribute_not_exists(" + attrP + ")"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
}

// insertAbsent is an insert that must find several places empty.
func (s *Store) insertAbsent(op *store.Op, res *store.Result) *task {
	actions := []types.TransactWriteItem{s.putAction(op.Row, op.Key)}
	keys := []trigger.Key{op.Key}
	for _, k := range op.Absent {
		if k == op.Key {
			continue // DynamoDB takes no key twice
		}
		keys = append(keys, k)
		actions = append(actions, types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: &s.opts.Table, Key: keyItem(k),
			ConditionExpression: aws.String("attribute_not_exists(" + attrP + ")"),
		}})
	}
	token := trigger.NewID().String()
	return &task{
		name: "insert", res: res, op: op, keys: keys,
		call: func(ctx context.Context) error { return s.transact(ctx, "insert", token, actions) },
		ours: func(found *store.Row) bool { return ownInsert(op, found) },
	}
}

func (s *Store) transact(ctx context.Context, op, token string, actions []types.TransactWriteItem) error {
	out, err := s.opts.API.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
		TransactItems: actions, ClientRequestToken: &token, ReturnConsumedCapacity: s.capacity(),
	}, once)
	if err != nil {
		s.meterWrite(op)
		return err //nolint:wrapcheck // classified and wrapped by its task.
	}
	s.meterWrite(op, out.ConsumedCapacity...)
	return nil
}

// Move implements store.Store. The token makes a repeat after a lost reply
// harmless on DynamoDB; elsewhere the two rows tell.
func (s *Store) Move(ctx context.Context, old trigger.Key, from trigger.State, next *store.Row, expires time.Time) store.MoveResult {
	put, err := s.InsertItem(next)
	if err != nil {
		return store.MoveResult{Err: fmt.Errorf("move: %w", err)}
	}
	// A tombstone that a move left gives way: the trigger is moved back.
	put.Put.ConditionExpression = aws.String("attribute_not_exists(" + attrP + ") OR attribute_exists(" + attrMoved + ")")
	key := next.Key()
	if key == old {
		return store.MoveResult{Err: fmt.Errorf("move: %w: to its own key", store.ErrInvalid)}
	}
	values := stateAndExpiry(trigger.StateCancelled, expires)
	values[":from"], values[":moved"] = str(string(from)), num(next.Due.UnixMilli())
	actions := []types.TransactWriteItem{{Update: &types.Update{
		TableName: &s.opts.Table, Key: keyItem(old),
		UpdateExpression:    aws.String(setStateAndExpiry + ", " + attrMoved + " = :moved REMOVE " + bodyAttrs),
		ConditionExpression: aws.String(ifState), ExpressionAttributeValues: values,
	}}, put}
	token := trigger.NewID().String()
	var res store.Result
	t := &task{
		name: "move", res: &res,
		call: func(ctx context.Context) error { return s.transact(ctx, "move", token, actions) },
	}
	s.one(ctx, t)
	if !errors.Is(res.Err, store.ErrConflict) {
		return store.MoveResult{Err: res.Err}
	}
	return s.moveConflict(ctx, t, old, next, expires)
}

// moveConflict finds out what was in a move's way: the reasons of a cancelled
// transaction show one of the two rows at best.
func (s *Store) moveConflict(ctx context.Context, t *task, old trigger.Key, next *store.Row, expires time.Time) store.MoveResult {
	key := next.Key()
	items, err := s.getAll(ctx, []trigger.Key{old, key})
	res := store.MoveResult{Err: t.res.Err}
	for k, at := range map[trigger.Key]**store.Row{old: &res.Found, key: &res.Taken} {
		if it := items[k]; it != nil && err == nil {
			*at, err = s.codec.row(it)
		}
	}
	if err != nil {
		return store.MoveResult{Err: fmt.Errorf("move: the condition failed, and the rows cannot be read: %w", err)}
	}
	if t.unsure && res.Found != nil && left(trigger.StateCancelled, expires)(res.Found) &&
		res.Taken != nil && res.Taken.State == next.State && res.Taken.Service == next.Service &&
		res.Taken.Created.Equal(next.Created) && bytes.Equal(res.Taken.Payload, next.Payload) {
		return store.MoveResult{}
	}
	return res
}
