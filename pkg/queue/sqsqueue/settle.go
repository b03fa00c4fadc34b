package sqsqueue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/myosin-jobs/myosin/pkg/awsclient"
	"github.com/myosin-jobs/myosin/pkg/queue"
)

// settleRounds is how often entries that failed in passing are tried in all;
// whole calls are repeated by the SDK.
const settleRounds = 3

// Delete implements queue.Receiver. Deleting twice succeeds on SQS.
func (q *Queues) Delete(ctx context.Context, url string, receipts []string) []error {
	return q.settle(ctx, "delete", len(receipts), func(i int) string { return receipts[i] },
		func(ctx context.Context, chunk []int) ([]types.BatchResultErrorEntry, error) {
			in := &sqs.DeleteMessageBatchInput{QueueUrl: &url, Entries: make([]types.DeleteMessageBatchRequestEntry, len(chunk))}
			for e, i := range chunk {
				in.Entries[e] = types.DeleteMessageBatchRequestEntry{Id: id(e), ReceiptHandle: &receipts[i]}
			}
			out, err := q.retrying.DeleteMessageBatch(ctx, in)
			if err != nil {
				return nil, err
			}
			return out.Failed, nil
		})
}

// ChangeVisibility implements queue.Receiver.
func (q *Queues) ChangeVisibility(ctx context.Context, url string, entries []queue.Visibility) []error {
	return q.settle(ctx, "visibility", len(entries), func(i int) string { return entries[i].Receipt },
		func(ctx context.Context, chunk []int) ([]types.BatchResultErrorEntry, error) {
			in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &url, Entries: make([]types.ChangeMessageVisibilityBatchRequestEntry, len(chunk))}
			for e, i := range chunk {
				in.Entries[e] = types.ChangeMessageVisibilityBatchRequestEntry{
					Id: id(e), ReceiptHandle: &entries[i].Receipt,
					VisibilityTimeout: seconds(min(entries[i].Timeout, queue.MaxVisibility)),
				}
			}
			out, err := q.retrying.ChangeMessageVisibilityBatch(ctx, in)
			if err != nil {
				return nil, err
			}
			return out.Failed, nil
		})
}

// settle makes calls of ten and maps their outcomes.
func (q *Queues) settle(ctx context.Context, op string, n int, receipt func(int) string,
	call func(ctx context.Context, chunk []int) ([]types.BatchResultErrorEntry, error),
) []error {
	errs := make([]error, n)
	todo := make([]int, 0, n)
	for i := range n {
		if receipt(i) == "" {
			errs[i] = fmt.Errorf("sqs: %s: %w: empty", op, queue.ErrReceipt)
		} else {
			todo = append(todo, i)
		}
	}
	chunks := (len(todo) + queue.MaxBatch - 1) / queue.MaxBatch
	parallel(q.opts.Parallel, chunks, func(c int) {
		chunk := todo[c*queue.MaxBatch : min((c+1)*queue.MaxBatch, len(todo))]
		for round := 1; ; round++ {
			chunk = q.settleChunk(ctx, op, chunk, errs, call)
			if len(chunk) == 0 || round == settleRounds || !backoff(ctx, round) {
				return
			}
		}
	})
	for _, i := range todo {
		q.metrics.entry(op, errs[i])
	}
	return errs
}

// settleChunk makes one call and returns the entries worth another.
func (q *Queues) settleChunk(ctx context.Context, op string, chunk []int, errs []error,
	call func(ctx context.Context, chunk []int) ([]types.BatchResultErrorEntry, error),
) (again []int) {
	done := q.metrics.begin(op, len(chunk), 0)
	failed, err := call(ctx, chunk)
	done(err)
	for _, i := range chunk {
		errs[i] = nil
		if err != nil {
			errs[i] = callError(op, err)
		}
	}
	for _, f := range failed {
		e, found := index(f.Id, len(chunk))
		if !found {
			continue
		}
		i := chunk[e]
		errs[i] = receiptError(op, &f)
		if c := awsclient.ClassOf(aws.ToString(f.Code)); c == awsclient.Throttled || c == awsclient.Retry && !f.SenderFault {
			again = append(again, i)
		}
	}
	return again
}

// receiptError is the error of one entry of a delete or visibility change.
func receiptError(op string, f *types.BatchResultErrorEntry) error {
	code, msg := aws.ToString(f.Code), aws.ToString(f.Message)
	about := strings.Contains(strings.ToLower(strings.ReplaceAll(msg, " ", "")), "receipthandle")
	switch {
	case strings.HasSuffix(code, "ReceiptHandleIsInvalid"), strings.HasSuffix(code, "MessageNotInflight"),
		code == "InvalidParameterValue" && about:
		return fmt.Errorf("sqs: %s: %w: %s: %s", op, queue.ErrReceipt, code, msg)
	}
	if sentinel := sentinelOf(awsclient.ClassOf(code)); sentinel != nil {
		return fmt.Errorf("sqs: %s: %w: %s: %s", op, sentinel, code, msg)
	}
	return fmt.Errorf("sqs: %s: %s: %s", op, code, msg)
}

// backoff waits before another round, unless ctx ends first.
func backoff(ctx context.Context, round int) bool {
	t := time.NewTimer(time.Duration(round) * (25*time.Millisecond + rand.N(50*time.Millisecond))) //nolint:gosec // jitter.
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
