// Package null is an AWS endpoint that costs next to nothing: DynamoDB (package
// table) and SQS (package mq) as far as Myosin's adapters use them, with answers
// as AWS gives them, and AWS's latencies and limits where they are asked for. It
// is there so that a benchmark measures what runs over it.
//
// It owns HTTP, latencies, the counts of requests and its own small interface:
//
//	GET  /_stats             what was done since the last reset, as JSON
//	POST /_reset             drop every table, queue and count
//	POST /_reset?keep=data   set counts to zero and sinks to empty
//	POST /_fill?table=…&rows=N&partitions=64&lane=standard&from=…&to=…&services=50&payload=300&seed=0
//
// It checks no signatures and keeps nothing on disk. An [Endpoint] may be used
// concurrently.
package null

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null/mq"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null/table"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// Options configure an [Endpoint]. The zero value answers at once and has no
// limits.
type Options struct {
	// LatencyDynamoDB and LatencySQS are what a request waits on average before
	// it is looked at: four fifths of it always, the rest exponentially distributed.
	LatencyDynamoDB, LatencySQS time.Duration
	// Tables are the limits of each table.
	Tables table.Limits
	// Queues are the options of the queues.
	Queues mq.Options
}

// Validate reports every option out of range, joined.
func (o *Options) Validate() error {
	var errs []error
	if o.LatencyDynamoDB < 0 || o.LatencySQS < 0 {
		errs = append(errs, errors.New("latency: want 0 or more"))
	}
	return errors.Join(append(errs, o.Tables.Validate(), o.Queues.Validate())...)
}

// LimitAsAWS sets the limits of AWS.
func (o *Options) LimitAsAWS() {
	aws, even := mq.AWSOptions(), o.Tables.Even
	o.Tables, o.Queues.InFlight, o.Queues.FIFOCalls = table.AWSLimits(), aws.InFlight, aws.FIFOCalls
	o.Tables.Even = even
}

// Endpoint answers for both services.
type Endpoint struct {
	// Tables and Queues are what it answers from.
	Tables *table.Engine
	Queues *mq.Engine

	opts  Options
	began time.Time
	calls calls
}

// New returns an endpoint without tables and queues.
func New(o Options) (*Endpoint, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("null endpoint: %w", err)
	}
	return &Endpoint{opts: o, Tables: table.New(o.Tables), Queues: mq.New(o.Queues), began: time.Now()}, nil
}

const (
	targetDynamoDB = "DynamoDB_20120810."
	targetSQS      = "AmazonSQS."
)

// Do answers one request to AWS, appending the body of the answer to out: target
// is its X-Amz-Target, host its Host. A long poll ends with ctx. Nothing of in is
// kept.
func (e *Endpoint) Do(ctx context.Context, target, host string, in, out []byte) (status int, answer []byte) {
	var failed *wire.Error
	var namespace string
	var began time.Time
	n := len(out)
	if op, ok := strings.CutPrefix(target, targetDynamoDB); ok {
		namespace = table.Namespace
		pause(e.opts.LatencyDynamoDB)
		began = time.Now()
		out, failed = e.Tables.Do(op, in, out)
	} else if op, ok := strings.CutPrefix(target, targetSQS); ok {
		namespace = mq.Namespace
		pause(e.opts.LatencySQS)
		began = time.Now()
		out, failed = e.Queues.Do(ctx, op, host, in, out)
	} else {
		began = time.Now()
		failed = wire.Fault("UnknownOperationException", "neither DynamoDB nor SQS")
	}
	status = http.StatusOK
	if failed != nil {
		out, status = failed.Append(out[:n], namespace), failed.Status
	}
	e.calls.add(target, len(in), len(out)-n, time.Since(began), failed)
	return status, out
}

// pause waits as long as a request takes.
func pause(mean time.Duration) {
	if mean <= 0 {
		return
	}
	fixed := mean * 4 / 5
	time.Sleep(fixed + time.Duration(min(rand.ExpFloat64(), 20)*float64(mean-fixed))) //nolint:gosec // jitter.
}
