package sqsqueue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/myosin-jobs/myosin/pkg/queue"
)

// Receive implements queue.Receiver. Each HTTP call is made once; the caller's
// loop is the retry.
//
// When ctx ends during a call, Receive does not hang up at once: SQS may be
// handing out messages just then, and those that reach a dead connection stay
// invisible until their timeout. It waits for the answer for as long as
// Options.CancelGrace and returns what comes, without an error, for the caller
// to release. What SQS hands out in the very moment of hanging up can still be
// stranded. To exclude that, bound opts.Wait (or Options.MaxPoll) and let
// CancelGrace be as long.
func (q *Queues) Receive(ctx context.Context, url string, opts queue.ReceiveOptions) ([]queue.Received, error) {
	if opts.Max == 0 {
		opts.Max = queue.MaxBatch
	}
	if opts.Max < 0 || opts.Max > queue.MaxBatch || opts.Wait < 0 || opts.Wait > queue.MaxWait ||
		opts.Visibility < 0 || opts.Visibility > queue.MaxVisibility {
		return nil, fmt.Errorf("sqs: receive: options out of range: %+v", opts)
	}
	for left := opts.Wait; ; left -= q.opts.MaxPoll {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("sqs: receive: %w", err)
		}
		if err := q.gate(ctx, "receive", url, opts.Max); err != nil {
			return nil, err
		}
		got, err := q.poll(ctx, &sqs.ReceiveMessageInput{
			QueueUrl:              &url,
			MaxNumberOfMessages:   int32(opts.Max),
			WaitTimeSeconds:       seconds(min(left, q.opts.MaxPoll)),
			VisibilityTimeout:     seconds(opts.Visibility),
			MessageAttributeNames: []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{
				types.MessageSystemAttributeNameSenderId,
				types.MessageSystemAttributeNameSentTimestamp,
				types.MessageSystemAttributeNameApproximateReceiveCount,
				types.MessageSystemAttributeNameMessageGroupId,
			},
		})
		if err != nil || len(got) > 0 || left <= q.opts.MaxPoll {
			return got, err
		}
	}
}

// poll makes one call, which outlives ctx by the grace. It runs in the caller's
// goroutine, whose stack has grown to the SDK's depth in earlier calls.
func (q *Queues) poll(ctx context.Context, in *sqs.ReceiveMessageInput) ([]queue.Received, error) {
	calling, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(q.opts.CancelGrace, hangUp) })
	defer stop()
	done := q.metrics.begin("receive", 0, 0)
	out, err := q.once.ReceiveMessage(calling, in)
	if err != nil && ctx.Err() != nil {
		done(ctx.Err())
		return nil, fmt.Errorf("sqs: receive: %w", ctx.Err())
	}
	done(err)
	if err != nil {
		return nil, callError("receive", err)
	}
	got := make([]queue.Received, len(out.Messages))
	bytes := 0
	for i := range got {
		got[i] = received(&out.Messages[i])
		bytes += len(got[i].Body)
	}
	q.metrics.count("receive", len(got), bytes)
	if len(got) == 0 && ctx.Err() != nil {
		return nil, fmt.Errorf("sqs: receive: %w", ctx.Err())
	}
	return got, nil
}

func received(m *types.Message) queue.Received {
	r := queue.Received{
		ID: deref(m.MessageId), Receipt: deref(m.ReceiptHandle), Body: deref(m.Body),
		Group: m.Attributes["MessageGroupId"], SenderID: m.Attributes["SenderId"],
	}
	if ms, err := strconv.ParseInt(m.Attributes["SentTimestamp"], 10, 64); err == nil {
		r.SentAt = time.UnixMilli(ms).UTC()
	}
	r.ReceiveCount, _ = strconv.Atoi(m.Attributes["ApproximateReceiveCount"])
	if len(m.MessageAttributes) > 0 {
		r.Attributes = make(map[string]string, len(m.MessageAttributes))
		for k, v := range m.MessageAttributes {
			if v.StringValue != nil && (v.DataType == nil || strings.HasPrefix(*v.DataType, "String")) {
				r.Attributes[k] = *v.StringValue
			}
		}
	}
	return r
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
