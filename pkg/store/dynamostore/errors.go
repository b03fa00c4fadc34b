package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/myosin-jobs/myosin/pkg/store"
)

// outcome is what an answer says about a write.
type outcome uint8

const (
	applied     outcome = iota
	conflicting         // the condition failed
	throttled           // not applied; try again
	unknown             // applied or not; try again
	stopped             // the context ended: applied or not
	invalid             // not applied; this write never will be
	refused             // not applied: no right, no table
	unsupported         // not applied: the engine does not know the operation
)

// classify says what a whole call's error means.
func classify(ctx context.Context, err error) outcome {
	if ctx.Err() != nil {
		return stopped
	}
	if cancelled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		return classifyReasons(cancelled.CancellationReasons)
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return unknown
	}
	switch code := api.ErrorCode(); code {
	case "ConditionalCheckFailedException", "DuplicateItemException":
		return conflicting
	case "ProvisionedThroughputExceededException", "ThrottlingException", "Throttling", "RequestLimitExceeded",
		"TransactionConflictException", "LimitExceededException":
		return throttled
	case "TransactionInProgressException", "InternalServerError", "InternalFailure", "ServiceUnavailable":
		return unknown
	case "ValidationException", "ItemCollectionSizeLimitExceededException", "SerializationException":
		return invalid
	case "UnknownOperationException", "NotImplemented", "NotImplementedException":
		return unsupported
	default:
		if code != "" && strings.Contains(strings.ToLower(api.ErrorMessage()), "not supported") {
			return unsupported
		}
	}
	var response *awshttp.ResponseError
	if errors.As(err, &response) && response.HTTPStatusCode() >= 500 || api.ErrorFault() == smithy.FaultServer {
		return unknown
	}
	return refused
}

// classifyReasons says what the reasons of a cancelled transaction mean: nothing
// of it was applied.
func classifyReasons(reasons []types.CancellationReason) outcome {
	worst := throttled // also TransactionConflict: another write was at it
	for _, r := range reasons {
		if r.Code == nil {
			continue
		}
		switch *r.Code {
		case "ConditionalCheckFailed", "DuplicateItem":
			return conflicting
		case "ValidationError", "ItemCollectionSizeLimitExceeded":
			worst = invalid
		}
	}
	return worst
}

// classifyStatement says what the code of one statement of a batch means.
func classifyStatement(code types.BatchStatementErrorCodeEnum) outcome {
	switch code {
	case types.BatchStatementErrorCodeEnumConditionalCheckFailed, types.BatchStatementErrorCodeEnumDuplicateItem:
		return conflicting
	case types.BatchStatementErrorCodeEnumProvisionedThroughputExceeded, types.BatchStatementErrorCodeEnumThrottlingError,
		types.BatchStatementErrorCodeEnumRequestLimitExceeded, types.BatchStatementErrorCodeEnumTransactionConflict:
		return throttled
	case types.BatchStatementErrorCodeEnumValidationError, types.BatchStatementErrorCodeEnumItemCollectionSizeLimitExceeded:
		return invalid
	case types.BatchStatementErrorCodeEnumAccessDenied, types.BatchStatementErrorCodeEnumResourceNotFound:
		return refused
	default: // InternalServerError, and whatever comes to be
		return unknown
	}
}

// wrap gives an error of the engine the sentinel its outcome calls for.
func (s *Store) wrap(o outcome, err error) error {
	switch o {
	case throttled:
		return fmt.Errorf("%w: %w", store.ErrThrottled, err)
	case invalid:
		return fmt.Errorf("%w: %w", store.ErrInvalid, err)
	case conflicting:
		return store.ErrConflict
	}
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "ResourceNotFoundException" {
		return fmt.Errorf("table %q does not exist: %w", s.opts.Table, err)
	}
	return err
}

// itemOf returns the item that a failed condition of a single call came with.
func itemOf(err error) item {
	if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return failed.Item
	}
	return nil
}
