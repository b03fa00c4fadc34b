// Package mq is SQS as far as Myosin's adapters use it, in memory and for as
// little processor time as can be: standard and FIFO queues, delays, visibility,
// long polls that are woken at once, dead-letter queues, and the rules for
// batches. A queue can be a sink, which keeps nothing but how late its messages
// came.
//
// It refuses what SQS refuses. It keeps nothing on disk, expires no messages, and
// lets a queue's name be used again at once. An [Engine] may be used concurrently.
package mq

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// Namespace is that of the types of error answers.
const Namespace = "com.amazonaws.sqs"

// The limits of SQS. Source: "Amazon SQS message quotas" in its developer guide.
const (
	maxEntries    = 10
	maxBytes      = 1 << 20
	maxAttributes = 10
	maxDelay      = 900
	maxWait       = 20
	maxVisibility = 43_200
)

// Options configure an [Engine]. The zero value has no limits and no sinks.
type Options struct {
	// InFlight bounds the messages in flight of a queue: at the limit a short poll
	// answers OverLimit, a long poll stays empty. 0: no limit.
	InFlight int
	// FIFOCalls bounds calls a second of each kind on a FIFO queue without high
	// throughput. 0: no limit.
	FIFOCalls float64
	// Calls bounds calls a second of each kind on any queue. 0: no limit.
	Calls float64
	// Sink makes sinks of the queues of owning services: those whose name contains
	// "-svc-" and does not name a dead-letter queue.
	Sink bool
	// SinkIDs makes sinks tell copies by Myosin-Id, for some 20 bytes a message.
	SinkIDs bool
	// Checksums adds MD5 sums of bodies, for clients that check them.
	Checksums bool
}

// AWSOptions has the limits of SQS. Source: as above.
func AWSOptions() Options { return Options{InFlight: 120_000, FIFOCalls: 300} }

// Validate reports every option out of range, joined.
func (o *Options) Validate() error {
	var errs []error
	if o.InFlight < 0 {
		errs = append(errs, fmt.Errorf("in flight: %d; want 0 (no limit) or more", o.InFlight))
	}
	if !(o.FIFOCalls >= 0) || !(o.Calls >= 0) {
		errs = append(errs, errors.New("calls: want 0 (no limit) or more"))
	}
	return errors.Join(errs...)
}

// Engine holds queues.
type Engine struct {
	opts Options
	seed uint64 // of message ids

	mu     sync.RWMutex
	queues map[string]*queue

	last      atomic.Uint64 // message id
	throttled atomic.Int64
	refused   atomic.Int64 // entries
	lanes     lanes
	scratch   sync.Pool // of *sending
}

// New returns an engine without queues.
func New(o Options) *Engine {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	e := &Engine{opts: o, seed: binary.LittleEndian.Uint64(b[:]), queues: make(map[string]*queue)}
	e.lanes.reset()
	e.scratch.New = func() any { return new(sending) }
	return e
}

// Reset deletes all queues and sets the counts to zero.
func (e *Engine) Reset() {
	e.mu.Lock()
	old := e.queues
	e.queues = make(map[string]*queue)
	e.mu.Unlock()
	for _, q := range old {
		q.end()
	}
	e.ResetStats()
}

// end ends the long polls of a queue that is deleted.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.removed = true
	if q.alarm != nil {
		q.alarm.Stop()
	}
	for _, w := range q.waiters {
		w.ch <- struct{}{}
	}
	q.waiters = nil
	q.purge()
}

// Do answers one request, appending the answer to dst. A long poll ends with
// ctx. host is where the request was sent, for the URLs of queues. Nothing of
// body is kept.
func (e *Engine) Do(ctx context.Context, op, host string, body, dst []byte) ([]byte, *wire.Error) {
	n := len(dst)
	var err *wire.Error
	switch op {
	case "SendMessageBatch":
		dst, err = e.sendBatch(body, dst)
	case "SendMessage":
		dst, err = e.send(body, dst)
	case "ReceiveMessage":
		dst, err = e.receive(ctx, body, dst)
	case "DeleteMessageBatch", "ChangeMessageVisibilityBatch":
		dst, err = e.settleBatch(op, body, dst)
	case "DeleteMessage", "ChangeMessageVisibility":
		dst, err = e.settle(op, body, dst)
	case "CreateQueue", "GetQueueUrl", "GetQueueAttributes", "SetQueueAttributes", "PurgeQueue", "DeleteQueue", "ListQueues":
		dst, err = e.admin(op, host, body, dst)
	default:
		return dst, wire.Fault("InvalidAction", "this endpoint does not know %s", op)
	}
	if err != nil {
		if err.Type == codeThrottled || err.Type == codeOverLimit {
			e.throttled.Add(1)
		}
		return dst[:n], err
	}
	return dst, nil
}

const (
	codeThrottled = "RequestThrottled"
	codeOverLimit = "OverLimit"
	codeInvalid   = "InvalidParameterValue"
)

func invalid(format string, args ...any) *wire.Error { return wire.Fault(codeInvalid, format, args...) }

func missing() *wire.Error {
	return wire.Fault("QueueDoesNotExist", "The specified queue does not exist.")
}

// queueOf finds the queue of a raw URL, and counts the call against its limits.
func (e *Engine) queueOf(raw []byte, op string) (*queue, *wire.Error) {
	url := wire.Plain(raw)
	at := len(url)
	for at > 0 && url[at-1] != '/' {
		at--
	}
	e.mu.RLock()
	q := e.queues[string(url[at:])]
	e.mu.RUnlock()
	if q == nil {
		return nil, missing()
	}
	if e.opts.Calls > 0 || q.fifo && e.opts.FIFOCalls > 0 {
		if !q.mayCall(&e.opts, op, time.Now()) {
			return nil, wire.Fault(codeThrottled, "Rate exceeded")
		}
	}
	return q, nil
}

// callBucket bounds one kind of call; one second's worth may come at once.
type callBucket struct {
	left float64
	at   time.Time
}

func (q *queue) mayCall(o *Options, op string, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	rate := o.Calls
	if q.fifo && q.attrs["FifoThroughputLimit"] != "perMessageGroupId" && o.FIFOCalls > 0 && (rate == 0 || o.FIFOCalls < rate) {
		rate = o.FIFOCalls
	}
	if rate == 0 {
		return true
	}
	op = strings.TrimSuffix(op, "Batch") // a batch counts as one call
	b := q.calls[op]
	if b == nil {
		if q.calls == nil {
			q.calls = make(map[string]*callBucket)
		}
		b = &callBucket{left: rate, at: now}
		q.calls[op] = b
	}
	b.left = min(rate, b.left+rate*max(0, now.Sub(b.at).Seconds()))
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// failure appends one entry of a batch answer's Failed.
func failure(dst, id []byte, code, message string) []byte {
	if dst[len(dst)-1] != '[' {
		dst = append(dst, ',')
	}
	dst = append(dst, `{"Id":"`...)
	dst = append(dst, id...)
	dst = append(dst, `","SenderFault":true,"Code":`...)
	dst = wire.AppendString(dst, code)
	dst = append(dst, `,"Message":`...)
	dst = wire.AppendString(dst, message)
	return append(dst, '}')
}
