package sqsqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/sqsqueue"
)

const oneMessage = `{"Messages":[{"MessageId":"m","ReceiptHandle":"r","Body":"b",
	"Attributes":{"SenderId":"AROA1:s","SentTimestamp":"1767323045678","ApproximateReceiveCount":"3","MessageGroupId":"g"},
	"MessageAttributes":{"k":{"DataType":"String","StringValue":"v"},"n":{"DataType":"Number","StringValue":"1"},"b":{"DataType":"Binary","BinaryValue":"AA=="}}}]}`

func TestReceivedMessageIsMapped(t *testing.T) {
	f := newFake(t, func(int, call) (int, string) { return 200, oneMessage })
	got, err := open(t, f.URL, sqsqueue.Options{}).Receive(t.Context(), standardURL, queue.ReceiveOptions{})
	require.NoError(t, err)
	require.Equal(t, []queue.Received{{
		ID: "m", Receipt: "r", Body: "b", Attributes: map[string]string{"k": "v"}, Group: "g", SenderID: "AROA1:s",
		SentAt: time.UnixMilli(1767323045678).UTC(), ReceiveCount: 3,
	}}, got)
	for _, name := range []string{`"All"`, "SenderId", "SentTimestamp", "ApproximateReceiveCount", "MessageGroupId"} {
		require.Contains(t, f.seen()[0].Raw, name)
	}
}

func TestAnAnswerUnderWayWhenTheContextEndsIsStillReturned(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := newFake(t, func(int, call) (int, string) {
		cancel()
		<-time.After(100 * time.Millisecond)
		return 200, oneMessage
	})
	got, err := open(t, f.URL, sqsqueue.Options{}).Receive(ctx, standardURL, queue.ReceiveOptions{Wait: queue.MaxWait})
	require.NoError(t, err)
	require.Len(t, got, 1)
}

func TestAReceiveHangsUpAfterTheGrace(t *testing.T) {
	release := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	f := newFake(t, func(int, call) (int, string) { cancel(); <-release; return 200, oneMessage })
	defer close(release)
	start := time.Now()
	_, err := open(t, f.URL, sqsqueue.Options{CancelGrace: 50 * time.Millisecond}).Receive(ctx, standardURL, queue.ReceiveOptions{Wait: queue.MaxWait})
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, time.Since(start), 10*time.Second) // instead of for ever
}

func TestALongWaitIsMadeOfBoundedPolls(t *testing.T) {
	f := newFake(t, func(int, call) (int, string) { return 200, `{}` })
	got, err := open(t, f.URL, sqsqueue.Options{MaxPoll: 2 * time.Second}).Receive(t.Context(), standardURL, queue.ReceiveOptions{Wait: 5 * time.Second})
	require.NoError(t, err)
	require.Empty(t, got)
	var waits []int
	for _, c := range f.seen() {
		waits = append(waits, *c.WaitTimeSeconds)
	}
	require.Equal(t, []int{2, 2, 1}, waits)
}

func TestAReceiveThatFailsIsNotRepeated(t *testing.T) {
	f := newFake(t, func(int, call) (int, string) { return 400, apiError("OverLimit") })
	_, err := open(t, f.URL, sqsqueue.Options{}).Receive(t.Context(), standardURL, queue.ReceiveOptions{})
	require.ErrorIs(t, err, queue.ErrThrottled)
	require.Len(t, f.seen(), 1)
}

func TestDeletesAreRepeatedWhereTheFailureMayPass(t *testing.T) {
	f := newFake(t, func(n int, c call) (int, string) {
		switch n {
		case 1:
			return 500, apiError("InternalError") // the SDK repeats the call
		case 2:
			return 200, `{"Failed":[
				{"Id":"0","SenderFault":false,"Code":"InternalError"},
				{"Id":"1","SenderFault":true,"Code":"ReceiptHandleIsInvalid"},
				{"Id":"2","SenderFault":true,"Code":"InvalidParameterValue","Message":"Value r2 for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."}]}`
		default:
			return 200, `{}`
		}
	})
	errs := open(t, f.URL, sqsqueue.Options{}).Delete(t.Context(), standardURL, []string{"r0", "r1", "r2", "r3", ""})
	require.NoError(t, errors.Join(errs[0], errs[3]))
	for _, i := range []int{1, 2, 4} {
		require.ErrorIs(t, errs[i], queue.ErrReceipt)
	}
	require.Len(t, f.seen(), 3)
	require.Len(t, f.seen()[2].Entries, 1)
}

func TestAVisibilityBeyondTheCeilingIsNoReceiptError(t *testing.T) {
	f := newFake(t, func(int, call) (int, string) {
		return 200, `{"Failed":[{"Id":"0","SenderFault":true,"Code":"InvalidParameterValue",
			"Message":"Value 43200 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds]."}]}`
	})
	err := open(t, f.URL, sqsqueue.Options{}).ChangeVisibility(t.Context(), standardURL, []queue.Visibility{{Receipt: "r", Timeout: time.Hour}})[0]
	require.ErrorContains(t, err, "beyond the limit")
	require.NotErrorIs(t, err, queue.ErrReceipt)
	require.ErrorIs(t, err, queue.ErrRejected)
}

func TestCreateMakesTheQueueOfTheContract(t *testing.T) {
	f := newFake(t, func(_ int, c call) (int, string) {
		if c.Op == "GetQueueAttributes" {
			return 200, `{"Attributes":{"QueueArn":"arn:aws:sqs:us-east-1:1:dlq.fifo"}}`
		}
		return 200, fmt.Sprintf(`{"QueueUrl":%q}`, fifoURL)
	})
	url, err := open(t, f.URL, sqsqueue.Options{}).Create(t.Context(), queue.Spec{
		Name: "q.fifo", FIFO: true, Visibility: time.Minute, DeadLetterURL: "http://x/dlq.fifo", MaxReceives: 5,
	})
	require.NoError(t, err)
	require.Equal(t, fifoURL, url)
	raw := strings.ReplaceAll(f.seen()[1].Raw, `\"`, `'`)
	for _, part := range []string{`"MessageRetentionPeriod":"1209600"`, `"MaximumMessageSize":"1048576"`, `"VisibilityTimeout":"60"`,
		`"FifoQueue":"true"`, `'deadLetterTargetArn':'arn:aws:sqs:us-east-1:1:dlq.fifo'`, `'maxReceiveCount':'5'`} {
		require.Contains(t, raw, part)
	}
}
