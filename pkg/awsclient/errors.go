package awsclient

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Class is what an error asks of the caller. Its String is a bounded metric label.
type Class uint8

// The classes of errors.
const (
	// OK: no error.
	OK Class = iota
	// Retry: may pass, and may have been applied: server faults, resets,
	// timeouts, and every code not known here.
	Retry
	// Throttled: refused for lack of capacity, not applied.
	Throttled
	// Reject: this request is refused for good, not applied.
	Reject
	// Denied: the caller has no right, or no valid credentials, or the key of
	// the resource refuses. Not applied; somebody must act.
	Denied
	// Missing: the queue, topic or table does not exist. Not applied.
	Missing
	// Conflict: a condition did not hold. Not applied.
	Conflict
	// Canceled: the caller's context ended. May have been applied.
	Canceled
)

// String returns the class in lower case.
func (c Class) String() string {
	switch c {
	case OK:
		return "ok"
	case Throttled:
		return "throttled"
	case Reject:
		return "rejected"
	case Denied:
		return "denied"
	case Missing:
		return "missing"
	case Conflict:
		return "conflict"
	case Canceled:
		return "canceled"
	default:
		return "retry"
	}
}

// Code returns the service's error code without namespace, such as
// "AccessDeniedException"; empty if err holds no answer of a service.
func Code(err error) string {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return ""
	}
	return trim(api.ErrorCode())
}

// trim cuts "com.amazonaws.sqs#Code:http://…" down to Code.
func trim(code string) string {
	if i := strings.LastIndexByte(code, '#'); i >= 0 {
		code = code[i+1:]
	}
	code, _, _ = strings.Cut(code, ":")
	return code
}

// Classify says what an error of an SDK call asks for.
func Classify(err error) Class {
	if err == nil {
		return OK
	}
	if code := Code(err); code != "" {
		if c := ClassOf(code); c != Retry {
			return c
		}
	}
	if resp, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		switch resp.HTTPStatusCode() {
		case 429:
			return Throttled
		case 401, 403:
			return Denied
		case 413:
			return Reject
		}
		return Retry
	}
	// The SDK's own refusal of the input, before any request.
	if _, ok := errors.AsType[smithy.InvalidParamsError](err); ok {
		return Reject
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Canceled
	}
	return Retry
}

// ClassOf says what an error code asks for, be it of a call, of an entry of an
// SQS batch, or of a statement of a PartiQL batch.
func ClassOf(code string) Class {
	switch trim(code) {
	case "":
		return OK
	case "Throttling", "ThrottlingException", "ThrottledException", "ThrottlingError", "Throttled",
		"RequestThrottled", "RequestThrottledException", "TooManyRequestsException",
		"RequestLimitExceeded", "BandwidthLimitExceeded", "LimitExceededException", "SlowDown",
		"ProvisionedThroughputExceeded", "ProvisionedThroughputExceededException",
		"KmsThrottled", "KMS.ThrottlingException", "KMSThrottling", "OverLimit", "AWS.SimpleQueueService.OverLimit":
		return Throttled
	case "AccessDenied", "AccessDeniedException", "AuthorizationError", "NotAuthorized", "UnauthorizedOperation",
		"AuthFailure", "OptInRequired", "InvalidSecurity", "InvalidClientTokenId", "InvalidAccessKeyId",
		"UnrecognizedClientException", "SignatureDoesNotMatch", "IncompleteSignature", "MissingAuthenticationToken",
		"MissingAuthenticationTokenException", "ExpiredToken", "ExpiredTokenException", "InvalidSignatureException",
		"KmsAccessDenied", "KmsDisabled", "KmsInvalidState", "KmsInvalidKeyUsage", "KmsNotFound", "KmsOptInRequired",
		"KMS.AccessDeniedException", "KMS.DisabledException", "KMS.InvalidStateException",
		"KMS.NotFoundException", "KMS.OptInRequired",
		"KMSAccessDenied", "KMSDisabled", "KMSInvalidState", "KMSNotFound", "KMSOptInRequired": // as SNS spells them
		return Denied
	case "QueueDoesNotExist", "NonExistentQueue", "AWS.SimpleQueueService.NonExistentQueue",
		"AWS.SimpleQueueService.QueueDeletedRecently", "QueueDeletedRecently", "InvalidAddress",
		"ResourceNotFound", "ResourceNotFoundException", "TableNotFoundException",
		"NotFound", "NotFoundException": // SNS's for a topic
		return Missing
	case "InvalidMessageContents", "InvalidParameterValue", "InvalidParameterValueException",
		"InvalidParameterCombination", "InvalidParameter", "InvalidParameterException", "ParameterValueInvalid", "MissingParameter", "MissingRequiredParameter",
		"MessageTooLong", "InvalidAttributeValue", "InvalidAttributeName", "UnsupportedOperation",
		"AWS.SimpleQueueService.UnsupportedOperation",
		"BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong",
		"InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId",
		"BatchEntryIdsNotDistinct", "AWS.SimpleQueueService.BatchEntryIdsNotDistinct",
		"ReceiptHandleIsInvalid", "MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight",
		"ValidationError", "ValidationException", "SerializationException",
		"ItemCollectionSizeLimitExceeded", "ItemCollectionSizeLimitExceededException":
		return Reject
	case "ConditionalCheckFailed", "ConditionalCheckFailedException", "DuplicateItem", "DuplicateItemException":
		return Conflict
	default:
		return Retry
	}
}

// IsThrottle reports whether the service refused for lack of capacity.
func IsThrottle(err error) bool { return Classify(err) == Throttled }

// IsAccessDenied reports whether the caller has no right or no valid credentials.
func IsAccessDenied(err error) bool { return Classify(err) == Denied }

// IsMissing reports whether the queue or table does not exist.
func IsMissing(err error) bool { return Classify(err) == Missing }

// IsRejected reports whether the request is refused for good.
func IsRejected(err error) bool { return Classify(err) == Reject }
