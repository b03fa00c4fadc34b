package sqsqueue

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/schemas"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// zeros is the client's protocol, made to send zeros that the SDK leaves out
// and SQS then takes for the queue's own default: the delay of a message and
// the wait of a receive. It describes the input to the SDK's own serializer, at
// no cost beside it.
type zeros struct{ smithyhttp.ClientProtocol }

// SerializeRequest implements smithyhttp.ClientProtocol.
func (z zeros) SerializeRequest(ctx context.Context, op *smithy.OperationSchema, in smithy.Serializable, req *smithyhttp.Request) error {
	switch v := in.(type) {
	case *sqs.SendMessageBatchInput:
		if v.QueueUrl != nil && !isFIFO(*v.QueueUrl) { // FIFO queues refuse a delay of a message
			in = (*delayedBatch)(v)
		}
	case *sqs.ReceiveMessageInput:
		in = (*explicitReceive)(v)
	}
	return z.ClientProtocol.SerializeRequest(ctx, op, in, req)
}

// delayedBatch serializes DelaySeconds in every entry.
type delayedBatch sqs.SendMessageBatchInput

// Serialize implements smithy.Serializable.
func (b *delayedBatch) Serialize(s smithy.ShapeSerializer) {
	s.WriteStruct(schemas.SendMessageBatchRequest)
	s.WriteList(schemas.SendMessageBatchRequest_Entries)
	for i := range b.Entries {
		s.WriteStruct(schemas.SendMessageBatchRequestEntry)
		if b.Entries[i].DelaySeconds == 0 {
			s.WriteInt32(schemas.SendMessageBatchRequestEntry_DelaySeconds, 0)
		}
		b.Entries[i].SerializeMembers(s)
		s.CloseStruct()
	}
	s.CloseList()
	s.WriteString(schemas.SendMessageBatchRequest_QueueUrl, *b.QueueUrl)
	s.CloseStruct()
}

// explicitReceive serializes WaitTimeSeconds, be it zero.
type explicitReceive sqs.ReceiveMessageInput

// Serialize implements smithy.Serializable.
func (r *explicitReceive) Serialize(s smithy.ShapeSerializer) {
	s.WriteStruct(schemas.ReceiveMessageRequest)
	if r.WaitTimeSeconds == 0 {
		s.WriteInt32(schemas.ReceiveMessageRequest_WaitTimeSeconds, 0)
	}
	(*sqs.ReceiveMessageInput)(r).SerializeMembers(s)
	s.CloseStruct()
}
