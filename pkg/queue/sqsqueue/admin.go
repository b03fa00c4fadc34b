package sqsqueue

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/myosin-jobs/myosin/pkg/awsclient"
	"github.com/myosin-jobs/myosin/pkg/queue"
)

// retention of created queues, in seconds: 14 days.
const retention = "1209600"

// Create implements queue.Queues. A queue that exists is left as it is. Within a
// minute of the deletion of a queue of that name it fails with ErrMissing.
func (q *Queues) Create(ctx context.Context, s queue.Spec) (string, error) {
	if s.FIFO != isFIFO(s.Name) {
		return "", fmt.Errorf("sqs: create %q: FIFO names end in .fifo, others do not", s.Name)
	}
	attrs := map[string]string{
		"MessageRetentionPeriod": retention,
		"MaximumMessageSize":     strconv.Itoa(queue.MaxMessageBytes),
		"DelaySeconds":           strconv.Itoa(int(seconds(s.Delay))),
	}
	if s.Visibility > 0 {
		attrs["VisibilityTimeout"] = strconv.Itoa(int(seconds(s.Visibility)))
	}
	if s.FIFO {
		attrs["FifoQueue"] = "true"
	}
	if s.DeadLetterURL != "" && s.MaxReceives > 0 {
		got, err := q.attributes(ctx, s.DeadLetterURL, types.QueueAttributeNameQueueArn)
		if err != nil {
			return "", fmt.Errorf("dead-letter queue of %q: %w", s.Name, err)
		}
		policy, err := json.Marshal(map[string]string{
			"deadLetterTargetArn": got["QueueArn"],
			"maxReceiveCount":     strconv.Itoa(s.MaxReceives),
		})
		if err != nil {
			return "", fmt.Errorf("redrive policy of %q: %w", s.Name, err)
		}
		attrs["RedrivePolicy"] = string(policy)
	}
	done := q.metrics.begin("create", 0, 0)
	out, err := q.retrying.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &s.Name, Attributes: attrs})
	done(err)
	switch awsclient.Code(err) {
	case "":
	case "QueueNameExists", "QueueAlreadyExists": // with other attributes
		return q.URL(ctx, s.Name)
	}
	if err != nil {
		return "", callError("create "+s.Name, err)
	}
	return deref(out.QueueUrl), nil
}

// URL implements queue.Queues.
func (q *Queues) URL(ctx context.Context, name string) (string, error) {
	done := q.metrics.begin("url", 0, 0)
	out, err := q.retrying.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	done(err)
	if err != nil {
		return "", callError("url of "+name, err)
	}
	return deref(out.QueueUrl), nil
}

// Depth implements queue.Queues.
func (q *Queues) Depth(ctx context.Context, url string) (queue.Depth, error) {
	got, err := q.attributes(ctx, url, types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible, types.QueueAttributeNameApproximateNumberOfMessagesDelayed)
	if err != nil {
		return queue.Depth{}, err
	}
	number := func(name types.QueueAttributeName) int {
		n, _ := strconv.Atoi(got[string(name)])
		return n
	}
	return queue.Depth{
		Visible:  number(types.QueueAttributeNameApproximateNumberOfMessages),
		InFlight: number(types.QueueAttributeNameApproximateNumberOfMessagesNotVisible),
		Delayed:  number(types.QueueAttributeNameApproximateNumberOfMessagesDelayed),
	}, nil
}

func (q *Queues) attributes(ctx context.Context, url string, names ...types.QueueAttributeName) (map[string]string, error) {
	done := q.metrics.begin("attributes", 0, 0)
	out, err := q.retrying.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: names})
	done(err)
	if err != nil {
		return nil, callError("attributes", err)
	}
	return out.Attributes, nil
}

// DeleteQueue implements queue.Queues.
func (q *Queues) DeleteQueue(ctx context.Context, url string) error {
	done := q.metrics.begin("delete_queue", 0, 0)
	_, err := q.retrying.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &url})
	done(err)
	if err != nil {
		return callError("delete queue", err)
	}
	return nil
}
