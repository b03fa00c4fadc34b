package sqsqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/myosin-jobs/myosin/pkg/awsclient"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// errNoOutcome is the unknown outcome of an entry the answer does not mention.
var errNoOutcome = errors.New("the answer names no outcome for the message")

// errGroupStopped is why a FIFO message was held back.
var errGroupStopped = fmt.Errorf("sqs: send: %w: an earlier message of its group failed", queue.ErrNotSent)

// SendBatch implements queue.Sender. Every HTTP call is made once. A batch that
// SQS refuses as a whole, for good, is sent again one by one, so that one bad
// message does not condemn nine others.
//
// On a FIFO queue the calls go in order, and messages behind a failed one of
// their group are not sent (ErrNotSent); within the one call in which it failed
// SQS may have taken them.
func (q *Queues) SendBatch(ctx context.Context, url string, msgs []queue.Message) []error {
	errs := make([]error, len(msgs))
	defer func() {
		for _, err := range errs {
			q.metrics.entry("send", err)
		}
	}()
	if isFIFO(url) {
		q.sendFIFO(ctx, url, msgs, errs)
		return errs
	}
	var chunks [][]int
	var cur []int
	bytes := 0
	for i := range msgs {
		if reason := refuse(&msgs[i], false); reason != "" {
			errs[i] = fmt.Errorf("sqs: send: %w: %s", queue.ErrRejected, reason)
			continue
		}
		size := msgs[i].Size()
		if len(cur) == queue.MaxBatch || len(cur) > 0 && bytes+size > queue.MaxBatchBytes {
			chunks, cur, bytes = append(chunks, cur), nil, 0
		}
		cur, bytes = append(cur, i), bytes+size
	}
	if len(cur) > 0 {
		chunks = append(chunks, cur)
	}
	parallel(q.opts.Parallel, len(chunks), func(c int) { q.sendChunk(ctx, url, msgs, chunks[c], errs) })
	return errs
}

func (q *Queues) sendFIFO(ctx context.Context, url string, msgs []queue.Message, errs []error) {
	stopped := map[string]bool{}
	for next := 0; next < len(msgs); {
		var chunk []int
		bytes := 0
		for ; next < len(msgs) && len(chunk) < queue.MaxBatch; next++ {
			m := &msgs[next]
			if stopped[m.Group] {
				errs[next] = errGroupStopped
				continue
			}
			if reason := refuse(m, true); reason != "" {
				errs[next] = fmt.Errorf("sqs: send: %w: %s", queue.ErrRejected, reason)
				stopped[m.Group] = true
				continue
			}
			if len(chunk) > 0 && bytes+m.Size() > queue.MaxBatchBytes {
				break
			}
			chunk, bytes = append(chunk, next), bytes+m.Size()
		}
		if len(chunk) == 0 {
			continue
		}
		q.sendChunk(ctx, url, msgs, chunk, errs)
		for _, i := range chunk {
			if errs[i] != nil {
				stopped[msgs[i].Group] = true
			}
		}
	}
}

// sendChunk makes one call for the messages of the given indexes.
func (q *Queues) sendChunk(ctx context.Context, url string, msgs []queue.Message, chunk []int, errs []error) {
	err := ctx.Err()
	if err == nil {
		err = q.gate(ctx, "send", url, len(chunk))
	}
	if err != nil {
		if !queue.SurelyUnsent(err) {
			err = fmt.Errorf("sqs: send: %w: %w", queue.ErrNotSent, err)
		}
		for _, i := range chunk {
			errs[i] = err
		}
		return
	}
	in := &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: make([]types.SendMessageBatchRequestEntry, len(chunk))}
	fifo, bytes := isFIFO(url), 0
	for e, i := range chunk {
		in.Entries[e] = entry(&msgs[i], e, fifo)
		bytes += msgs[i].Size()
	}
	done := q.metrics.begin("send", len(chunk), bytes)
	tracked, flight := awsclient.Track(ctx)
	out, err := q.once.SendMessageBatch(tracked, in)
	done(err)
	if err != nil {
		q.sendFailed(ctx, url, msgs, chunk, errs, err, flight.Unsent())
		return
	}
	for _, i := range chunk {
		errs[i] = errNoOutcome
	}
	for _, ok := range out.Successful {
		if e, found := index(ok.Id, len(chunk)); found {
			errs[chunk[e]] = nil
		}
	}
	for _, f := range out.Failed {
		if e, found := index(f.Id, len(chunk)); found {
			errs[chunk[e]] = entryError(&f)
		}
	}
}

// sendFailed gives each message of a failed call its outcome.
func (q *Queues) sendFailed(ctx context.Context, url string, msgs []queue.Message, chunk []int, errs []error, err error, unsent bool) {
	wrapped := callError("send", err)
	if unsent && !queue.SurelyUnsent(wrapped) {
		wrapped = fmt.Errorf("sqs: send: %w: %w", queue.ErrNotSent, err)
	}
	if errors.Is(wrapped, queue.ErrRejected) && len(chunk) > 1 {
		stopped := map[string]bool{}
		for _, i := range chunk {
			if stopped[msgs[i].Group] {
				errs[i] = errGroupStopped
				continue
			}
			q.sendChunk(ctx, url, msgs, []int{i}, errs)
			stopped[msgs[i].Group] = errs[i] != nil && isFIFO(url)
		}
		return
	}
	for _, i := range chunk {
		errs[i] = wrapped
	}
}

// entryError is the error of one entry in an answer.
func entryError(f *types.BatchResultErrorEntry) error {
	code, class := aws.ToString(f.Code), awsclient.ClassOf(aws.ToString(f.Code))
	sentinel := sentinelOf(class)
	if sentinel == nil && f.SenderFault {
		sentinel = queue.ErrRejected // an unknown code, but the fault of the message
	}
	if sentinel == nil {
		return fmt.Errorf("sqs: send: %s: %s", code, aws.ToString(f.Message))
	}
	return fmt.Errorf("sqs: send: %w: %s: %s", sentinel, code, aws.ToString(f.Message))
}

func entry(m *queue.Message, e int, fifo bool) types.SendMessageBatchRequestEntry {
	out := types.SendMessageBatchRequestEntry{Id: id(e), MessageBody: &m.Body}
	if len(m.Attributes) > 0 {
		dataType := "String"
		out.MessageAttributes = make(map[string]types.MessageAttributeValue, len(m.Attributes))
		for k, v := range m.Attributes {
			out.MessageAttributes[k] = types.MessageAttributeValue{DataType: &dataType, StringValue: &v}
		}
	}
	if m.Group != "" {
		out.MessageGroupId = &m.Group
	}
	if fifo {
		out.MessageDeduplicationId = &m.Dedup
	} else {
		out.DelaySeconds = seconds(m.Delay)
	}
	return out
}

// refuse returns why SQS would refuse the message for good; empty if it would
// not, as far as can be told from here. Some engines do not check, and SQS fails
// whole batches for some of it.
func refuse(m *queue.Message, fifo bool) string {
	switch {
	case m.Body == "":
		return "the body is empty"
	case m.Size() > queue.MaxMessageBytes:
		return fmt.Sprintf("%d bytes, at most %d", m.Size(), queue.MaxMessageBytes)
	case !trigger.SQSText(m.Body):
		return "the body has characters SQS does not take"
	case len(m.Attributes) > 10:
		return fmt.Sprintf("%d attributes, at most 10", len(m.Attributes))
	case fifo && (m.Group == "" || m.Dedup == ""):
		return "a FIFO queue needs a group and a deduplication id"
	case !fifo && (m.Delay < 0 || m.Delay > queue.MaxDelay):
		return fmt.Sprintf("delay %s, want 0 to %s", m.Delay, queue.MaxDelay)
	}
	for k, v := range m.Attributes {
		if k == "" || v == "" || !trigger.SQSText(v) {
			return fmt.Sprintf("attribute %.40q is empty or has characters SQS does not take", k)
		}
	}
	return ""
}

// parallel calls f(0) to f(n-1), at most limit at once, and waits for them.
func parallel(limit, n int, f func(i int)) {
	if n <= 1 || limit == 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, limit)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	wg.Wait()
}
