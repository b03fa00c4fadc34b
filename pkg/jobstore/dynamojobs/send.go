package dynamojobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Waits between tries: 0 to 25 ms after the first, twice that after each.
const (
	firstWait = 25 * time.Millisecond
	maxWait   = 800 * time.Millisecond
)

// once switches the SDK's retries off.
func once(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// outcome is what an answer says about a write.
type outcome uint8

const (
	failed   outcome = iota // not applied, and never will be
	conflict                // a condition failed
	busy                    // not applied; try again
	tooLarge                // not applied: too large
	unknown                 // applied or not
)

// write sends actions, and tries again while the tables are busy. Under the
// token of a transaction it tries again after an unknown outcome too.
func (s *Store) write(ctx context.Context, op string, actions []action) error {
	if len(actions) > 1 {
		n := 0
		for _, a := range actions {
			if a.item.Put != nil {
				n += size(a.item.Put.Item)
			}
		}
		if n > maxTransaction {
			return fmt.Errorf("%s: %w: %d bytes together of at most %d", op, jobstore.ErrTooLarge, n, maxTransaction)
		}
	}
	token, unsure := trigger.NewID().String(), false
	for try := 1; ; try++ {
		transaction, err := s.send(ctx, op, token, actions)
		if err == nil {
			return nil
		}
		o, at := classify(err)
		switch {
		case o == conflict:
			return &jobstore.ConflictError{Part: actions[at].part, Index: actions[at].index}
		case o == tooLarge:
			return fmt.Errorf("%s: %w: %w", op, jobstore.ErrTooLarge, err)
		case o == failed, o == unknown && !transaction:
			return fmt.Errorf("%s: %w", op, err)
		}
		unsure = unsure || o == unknown
		if try >= s.o.MaxTries || !wait(ctx, try) {
			if unsure {
				return fmt.Errorf("%s: applied or not, after %d tries: %w", op, try, err)
			}
			return fmt.Errorf("%s: %w after %d tries: %w", op, jobstore.ErrBusy, try, err)
		}
	}
}

// wait waits before the next try; false: the context ended.
func wait(ctx context.Context, try int) bool {
	most := min(firstWait<<(try-1), maxWait)
	t := time.NewTimer(time.Duration(rand.Int64N(int64(most)) + 1)) //nolint:gosec // jitter.
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// send makes one request and reports whether it was a transaction.
func (s *Store) send(ctx context.Context, op, token string, actions []action) (transaction bool, err error) {
	if len(actions) == 1 {
		switch it := actions[0].item; {
		case it.Put != nil:
			out, err := s.o.Client.PutItem(ctx, &dynamodb.PutItemInput{
				TableName: it.Put.TableName, Item: it.Put.Item, ConditionExpression: it.Put.ConditionExpression,
				ExpressionAttributeNames: it.Put.ExpressionAttributeNames, ExpressionAttributeValues: it.Put.ExpressionAttributeValues,
				ReturnConsumedCapacity: s.capacity(),
			}, once)
			if err != nil {
				s.meterWrite(op)
				return false, err //nolint:wrapcheck // classified and wrapped by write.
			}
			s.meterWrite(op, listOf(out.ConsumedCapacity)...)
			return false, nil
		case it.Update != nil:
			out, err := s.o.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: it.Update.TableName, Key: it.Update.Key, UpdateExpression: it.Update.UpdateExpression,
				ConditionExpression:       it.Update.ConditionExpression,
				ExpressionAttributeValues: it.Update.ExpressionAttributeValues,
				ReturnConsumedCapacity:    s.capacity(),
			}, once)
			if err != nil {
				s.meterWrite(op)
				return false, err //nolint:wrapcheck // as above.
			}
			s.meterWrite(op, listOf(out.ConsumedCapacity)...)
			return false, nil
		}
	}
	items := make([]types.TransactWriteItem, len(actions))
	for i := range actions {
		items[i] = actions[i].item
	}
	out, err := s.o.Client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
		TransactItems: items, ClientRequestToken: &token, ReturnConsumedCapacity: s.capacity(),
	}, once)
	if err != nil {
		s.meterWrite(op)
		return true, err //nolint:wrapcheck // as above.
	}
	s.meterWrite(op, out.ConsumedCapacity...)
	return true, nil
}

// classify says what an error of a write means, and which action's condition
// failed.
func classify(err error) (o outcome, at int) {
	if cancelled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		return classifyReasons(cancelled.CancellationReasons)
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return unknown, 0 // no answer
	}
	switch api.ErrorCode() {
	case "ConditionalCheckFailedException":
		return conflict, 0
	case "ProvisionedThroughputExceededException", "ThrottlingException", "Throttling", "RequestLimitExceeded",
		"TransactionConflictException", "LimitExceededException":
		return busy, 0
	case "TransactionInProgressException", "InternalServerError", "InternalFailure", "ServiceUnavailable":
		return unknown, 0
	case "ValidationException":
		if oversize(api.ErrorMessage()) {
			return tooLarge, 0
		}
	}
	if api.ErrorFault() == smithy.FaultServer {
		return unknown, 0
	}
	return failed, 0
}

// classifyReasons says why a transaction was cancelled: nothing of it was applied.
// A failed condition goes before everything else.
func classifyReasons(reasons []types.CancellationReason) (o outcome, at int) {
	o = busy // also TransactionConflict: another write was at it
	for i, r := range reasons {
		switch aws.ToString(r.Code) {
		case "ConditionalCheckFailed":
			return conflict, i
		case "ValidationError", "ItemCollectionSizeLimitExceeded":
			o = failed
			if oversize(aws.ToString(r.Message)) {
				o = tooLarge
			}
		}
	}
	return o, 0
}

// oversize recognises DynamoDB's words for an item that is too large.
func oversize(message string) bool {
	m := strings.ToLower(message)
	return strings.Contains(m, "item size") && strings.Contains(m, "exceeded") || strings.Contains(m, "collection size")
}
