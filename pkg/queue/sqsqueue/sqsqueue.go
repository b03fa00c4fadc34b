// Package sqsqueue is the queue engine over Amazon SQS and what speaks its
// protocol.
//
// It owns batching, the outcome of each entry, and the classes of errors. It
// refuses, without a call, what SQS would refuse for good. It never repeats a
// send: whether to is the caller's decision. Everything may be called
// concurrently.
//
// Queue URLs are addressed by the client's endpoint, whatever host they name.
package sqsqueue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/awsclient"
	"github.com/myosin-jobs/myosin/pkg/queue"
)

// Gate is asked before every HTTP call that sends (op "send", n messages) or
// receives (op "receive", n messages at most). It may wait, within ctx, and an
// error keeps the call from being made: messages to send fail with ErrNotSent
// (or as the error itself, if it wraps a sentinel of package queue), a receive
// with the error.
//
// This is where a platform team adds its own rate limit or backpressure.
type Gate func(ctx context.Context, op, url string, n int) error

// Options configure a [Queues]. The zero value is usable.
type Options struct {
	// Metrics is where the metrics are registered. A second [Queues] on the same
	// registerer shares them. nil: they are counted but not registered.
	Metrics prometheus.Registerer
	// Gate is asked before sends and receives. nil: always open.
	Gate Gate
	// Parallel is how many calls one SendBatch, Delete or ChangeVisibility makes
	// at once; sends to a FIFO queue go one after another. 0: 4.
	Parallel int
	// MaxPoll bounds the wait of one HTTP call of a receive; a longer wait is
	// made of several. Whole seconds. 0: 20 s.
	MaxPoll time.Duration
	// CancelGrace is how long a receive whose context ended still waits for the
	// answer under way, before it hangs up. See [Queues.Receive]. 0: 500 ms.
	CancelGrace time.Duration
}

// Validate reports every field outside its range, joined.
func (o Options) Validate() error {
	var errs []error
	if o.Parallel < 0 {
		errs = append(errs, fmt.Errorf("parallel %d; want 0 (4) or more", o.Parallel))
	}
	if o.MaxPoll < 0 || o.MaxPoll > queue.MaxWait || o.MaxPoll%time.Second != 0 {
		errs = append(errs, fmt.Errorf("max poll %s; want whole seconds up to %s, 0 means %s", o.MaxPoll, queue.MaxWait, queue.MaxWait))
	}
	if o.CancelGrace < 0 {
		errs = append(errs, fmt.Errorf("cancel grace %s; want 0 (500ms) or more", o.CancelGrace))
	}
	return errors.Join(errs...)
}

// api is what is used of the SDK's client.
type api interface {
	SendMessageBatch(context.Context, *sqs.SendMessageBatchInput, ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
	CreateQueue(context.Context, *sqs.CreateQueueInput, ...func(*sqs.Options)) (*sqs.CreateQueueOutput, error)
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
	DeleteQueue(context.Context, *sqs.DeleteQueueInput, ...func(*sqs.Options)) (*sqs.DeleteQueueOutput, error)
}

// Queues implements queue.Queues.
type Queues struct {
	retrying api // as configured
	once     api // one attempt per call: sends and receives
	opts     Options
	metrics  *metrics
}

var _ queue.Queues = (*Queues)(nil)

// New returns the queues reached with cfg, which should be made by
// [awsclient.Load]: without its hooks every failed send is of unknown outcome.
func New(cfg aws.Config, o Options) (*Queues, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("sqs: %w", err)
	}
	if o.Parallel == 0 {
		o.Parallel = 4
	}
	if o.MaxPoll == 0 {
		o.MaxPoll = queue.MaxWait
	}
	if o.CancelGrace == 0 {
		o.CancelGrace = 500 * time.Millisecond
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, fmt.Errorf("sqs: metrics: %w", err)
	}
	cached := func(so *sqs.Options) {
		so.EndpointResolverV2 = awsclient.NewEndpointCache(so.EndpointResolverV2.ResolveEndpoint, endpointKey)
	}
	return &Queues{
		retrying: sqs.NewFromConfig(cfg, cached),
		once: sqs.NewFromConfig(cfg, cached, func(so *sqs.Options) {
			so.Retryer = aws.NopRetryer{}
			so.Protocol = zeros{so.Protocol}
			// The signature covers a request's body and TLS the rest. A mismatch
			// would only turn a known outcome into an unknown one, and the SDK's
			// check panics on an answer without ids.
			so.DisableMessageChecksumValidation = true
		}),
		opts: o, metrics: m,
	}, nil
}

// endpoint is everything SQS's endpoint rules look at.
type endpoint struct {
	region, url     string
	dualStack, fips bool
}

func endpointKey(p sqs.EndpointParameters) endpoint {
	return endpoint{
		region: aws.ToString(p.Region), url: aws.ToString(p.Endpoint),
		dualStack: aws.ToBool(p.UseDualStack), fips: aws.ToBool(p.UseFIPS),
	}
}

// gate asks the gate, if there is one.
func (q *Queues) gate(ctx context.Context, op, url string, n int) error {
	if q.opts.Gate == nil {
		return nil
	}
	if err := q.opts.Gate(ctx, op, url, n); err != nil {
		return fmt.Errorf("sqs: %s: gate: %w", op, err)
	}
	return nil
}

// callError wraps the error of a whole call with the sentinel of its class.
func callError(op string, err error) error {
	if sentinel := sentinelOf(awsclient.Classify(err)); sentinel != nil {
		return fmt.Errorf("sqs: %s: %w: %w", op, sentinel, err)
	}
	return fmt.Errorf("sqs: %s: %w", op, err)
}

// sentinelOf returns the error of package queue for a class; nil if there is none.
func sentinelOf(c awsclient.Class) error {
	switch c {
	case awsclient.Throttled:
		return queue.ErrThrottled
	case awsclient.Reject:
		return queue.ErrRejected
	case awsclient.Denied:
		return queue.ErrDenied
	case awsclient.Missing:
		return queue.ErrMissing
	default:
		return nil
	}
}

func isFIFO(url string) bool { return strings.HasSuffix(url, ".fifo") }

// seconds rounds up to whole seconds: SQS knows nothing finer, and early is worse
// than late.
func seconds(d time.Duration) int32 {
	return int32((d + time.Second - 1) / time.Second) //nolint:gosec // at most 12 h by the callers.
}

// id is the entry id in a batch: the index, one digit.
func id(e int) *string { return aws.String(strconv.Itoa(e)) }

// index reads an entry id of an answer about n entries.
func index(id *string, n int) (int, bool) {
	if id == nil || len(*id) != 1 {
		return 0, false
	}
	i := int((*id)[0]) - '0'
	return i, i >= 0 && i < n
}
