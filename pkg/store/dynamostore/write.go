package dynamostore

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// maxStatements is what one BatchExecuteStatement takes.
const maxStatements = 25

// Write implements store.Store. After an unknown outcome it tries again itself:
// a claim (a state A, unique to its owner and time) found in the row's place is
// then its own, and so are the row it was to insert and the absence of a row it
// was to delete.
func (s *Store) Write(ctx context.Context, ops []store.Op) []store.Result {
	results := make([]store.Result, len(ops))
	store.CheckOps(ops, results)
	tasks := make([]*task, 0, len(ops))
	var alone []*task
	for i := range ops {
		switch {
		case results[i].Err != nil:
		case len(ops[i].Absent) > 0:
			alone = append(alone, s.insertAbsent(&ops[i], &results[i]))
		default:
			tasks = append(tasks, s.task(&ops[i], &results[i]))
		}
	}
	if len(alone) == 0 && len(tasks) <= maxStatements {
		if len(tasks) > 0 {
			s.settle(ctx, tasks, s.tryBatch)
		}
		return results
	}
	var g errgroup.Group // tasks carry their own errors
	g.SetLimit(s.opts.Parallel)
	for chunk := range slices.Chunk(tasks, maxStatements) {
		g.Go(func() error {
			s.settle(ctx, chunk, s.tryBatch)
			return nil
		})
	}
	for _, t := range alone {
		g.Go(func() error {
			s.one(ctx, t)
			return nil
		})
	}
	_ = g.Wait()
	return results
}

func (s *Store) task(op *store.Op, res *store.Result) *task {
	t := &task{op: op, res: res, keys: []trigger.Key{op.Key}}
	switch op.Kind {
	case store.Insert:
		t.name, t.item = "insert", s.codec.item(op.Row, op.Key)
		t.call = func(ctx context.Context) error {
			_, err := s.put(ctx, "insert", t.item)
			return err
		}
		t.ours = func(found *store.Row) bool { return ownInsert(op, found) }
	case store.Transition:
		t.name = "transition"
		t.call = func(ctx context.Context) error {
			return s.update(ctx, "transition", op.Key, op.From, "SET "+attrState+" = :to", item{":to": str(string(op.To))})
		}
		t.ours = func(found *store.Row) bool {
			return found != nil && found.State == op.To && op.To.Kind() == trigger.Acquired
		}
	case store.Delete:
		t.name = "delete"
		t.call = func(ctx context.Context) error { return s.remove(ctx, op.Key, op.From) }
		t.ours = func(found *store.Row) bool { return found == nil }
	}
	return t
}

// ownInsert reports whether found is the row an insert left: in the claim it was
// inserted with, which is unique, or scheduled and made in the same millisecond of
// the same payload.
func ownInsert(op *store.Op, found *store.Row) bool {
	if found == nil || found.Key() != op.Key || found.State != op.Row.State ||
		found.Service != op.Row.Service || !bytes.Equal(found.Payload, op.Row.Payload) {
		return false
	}
	return found.State.Kind() == trigger.Acquired ||
		!found.Created.IsZero() && found.Created.UnixMilli() == op.Row.Created.UnixMilli()
}

// tryBatch makes one try of up to maxStatements tasks.
func (s *Store) tryBatch(ctx context.Context, tasks []*task) (again []*task) {
	if s.single.Load() {
		return s.trySingles(ctx, tasks)
	}
	in := &dynamodb.BatchExecuteStatementInput{
		Statements:             make([]types.BatchStatementRequest, len(tasks)),
		ReturnConsumedCapacity: s.capacity(),
	}
	for i, t := range tasks {
		in.Statements[i] = s.stmts.of(t)
	}
	out, err := s.opts.API.BatchExecuteStatement(ctx, in, once)
	if err != nil {
		return s.batchFailed(ctx, tasks, err)
	}
	s.meterWrite("write", out.ConsumedCapacity...)
	for i, t := range tasks {
		o, err, old := applied, error(nil), item(nil)
		switch {
		case i >= len(out.Responses):
			o, err = unknown, errors.New("the engine answered fewer statements than it was given")
		case out.Responses[i].Error != nil:
			e := out.Responses[i].Error
			o, old = classifyStatement(e.Code), e.Item
			err = errors.New(string(e.Code) + ": " + aws.ToString(e.Message))
		}
		if s.take(t, o, err, old) {
			again = append(again, t)
		}
	}
	return again
}

// batchFailed deals with the error of a whole batch. One that the engine calls
// invalid is cut in halves until the statement at fault stands alone.
func (s *Store) batchFailed(ctx context.Context, tasks []*task, err error) (again []*task) {
	s.meterWrite("write")
	o := classify(ctx, err)
	switch {
	case o == unsupported:
		if s.single.CompareAndSwap(false, true) {
			s.opts.Logger.InfoContext(ctx, "the engine knows no PartiQL: single conditional calls from now on",
				"table", s.opts.Table, "error", err)
		}
		return s.trySingles(ctx, tasks)
	case o == invalid && len(tasks) > 1:
		half := len(tasks) / 2
		return append(s.tryBatch(ctx, tasks[:half:half]), s.tryBatch(ctx, tasks[half:])...)
	}
	for _, t := range tasks {
		if s.take(t, o, err, nil) {
			again = append(again, t)
		}
	}
	return again
}

// trySingles makes one call for each task, bounded over all Writes.
func (s *Store) trySingles(ctx context.Context, tasks []*task) (again []*task) {
	retry := make([]bool, len(tasks))
	var wg sync.WaitGroup
	for i, t := range tasks {
		select {
		case s.singles <- struct{}{}:
		case <-ctx.Done():
			s.take(t, stopped, ctx.Err(), nil)
			continue
		}
		wg.Go(func() {
			defer func() { <-s.singles }()
			retry[i] = s.trySingleCall(ctx, t)
		})
	}
	wg.Wait()
	for i, t := range tasks {
		if retry[i] {
			again = append(again, t)
		}
	}
	return again
}

// put creates an item. Condition: no item of its key. The time is the Date of
// the answer, zero if it had none.
func (s *Store) put(ctx context.Context, op string, it item) (time.Time, error) {
	out, err := s.opts.API.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &s.opts.Table, Item: it,
		ConditionExpression:                 aws.String("attribute_not_exists(" + attrP + ")"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		ReturnConsumedCapacity:              s.capacity(),
	}, once)
	if err != nil {
		s.meterWrite(op)
		var response *awshttp.ResponseError
		if errors.As(err, &response) && response.Response != nil {
			return dateOf(response.Response), err //nolint:wrapcheck // classified and wrapped by its task.
		}
		return time.Time{}, err //nolint:wrapcheck // as above.
	}
	s.meterWrite(op, listOf(out.ConsumedCapacity)...)
	return dateIn(out.ResultMetadata), nil
}

// ifState is the condition of every write on a row that must be there. The
// classic calls create what is missing, so existence is asked for by name.
const ifState = "attribute_exists(" + attrP + ") AND " + attrState + " = :from"

// update changes an item. Condition: it exists and its state is from.
func (s *Store) update(ctx context.Context, op string, key trigger.Key, from trigger.State, expr string, values item) error {
	values[":from"] = str(string(from))
	out, err := s.opts.API.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &s.opts.Table, Key: keyItem(key),
		UpdateExpression: &expr, ConditionExpression: aws.String(ifState), ExpressionAttributeValues: values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		ReturnConsumedCapacity:              s.capacity(),
	}, once)
	if err != nil {
		s.meterWrite(op)
		return err //nolint:wrapcheck // classified and wrapped by its task.
	}
	s.meterWrite(op, listOf(out.ConsumedCapacity)...)
	return nil
}

// remove deletes an item. Condition: it exists and its state is from.
func (s *Store) remove(ctx context.Context, key trigger.Key, from trigger.State) error {
	out, err := s.opts.API.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &s.opts.Table, Key: keyItem(key),
		ConditionExpression: aws.String(ifState), ExpressionAttributeValues: item{":from": str(string(from))},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		ReturnConsumedCapacity:              s.capacity(),
	}, once)
	if err != nil {
		s.meterWrite("delete")
		return err //nolint:wrapcheck // classified and wrapped by its task.
	}
	s.meterWrite("delete", listOf(out.ConsumedCapacity)...)
	return nil
}
