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
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
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

// Endpoint answers for both services. It is an http.Handler.
type Endpoint struct {
	opts    Options
	Tables  *table.Engine
	Queues  *mq.Engine
	began   time.Time
	buffers sync.Pool // of *buffers
	calls   calls
}

// New returns an endpoint without tables and queues.
func New(o Options) (*Endpoint, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("null endpoint: %w", err)
	}
	e := &Endpoint{opts: o, Tables: table.New(o.Tables), Queues: mq.New(o.Queues), began: time.Now()}
	e.calls.contentType = []string{"application/x-amz-json-1.0"}
	e.buffers.New = func() any { return new(buffers) }
	return e, nil
}

// buffers hold a request and its answer.
type buffers struct{ in, out []byte }

// maxRequest is far above what AWS takes: 16 MiB for a BatchWriteItem.
const maxRequest = 32 << 20

// keepBuffer is the largest buffer that is used again.
const keepBuffer = 256 << 10

const (
	targetDynamoDB = "DynamoDB_20120810."
	targetSQS      = "AmazonSQS."
)

// ServeHTTP implements http.Handler.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target := r.Header.Get("X-Amz-Target")
	if target == "" {
		e.serveOwn(w, r)
		return
	}
	b, _ := e.buffers.Get().(*buffers)
	defer func() {
		if cap(b.in) <= keepBuffer && cap(b.out) <= keepBuffer {
			e.buffers.Put(b)
		}
	}()
	if err := b.read(r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var failed *wire.Error
	namespace := ""
	out := b.out[:0]
	if op, ok := strings.CutPrefix(target, targetDynamoDB); ok {
		namespace = table.Namespace
		if e.pause(r, e.opts.LatencyDynamoDB) {
			out, failed = e.Tables.Do(op, b.in, out)
		}
	} else if op, ok := strings.CutPrefix(target, targetSQS); ok {
		namespace = mq.Namespace
		if e.pause(r, e.opts.LatencySQS) {
			out, failed = e.Queues.Do(r.Context(), op, r.Host, b.in, out)
		}
	} else {
		failed = wire.Fault("UnknownOperationException", "neither DynamoDB nor SQS")
	}
	status := http.StatusOK
	if failed != nil {
		out, status = failed.Append(out[:0], namespace), failed.Status
	}
	b.out = out
	e.calls.add(target, len(b.in), len(out), failed)
	h := w.Header()
	h["Content-Type"] = e.calls.contentType
	h["Content-Length"] = []string{strconv.Itoa(len(out))}
	if namespace == table.Namespace {
		h["X-Amz-Crc32"] = []string{strconv.FormatUint(uint64(crc32.ChecksumIEEE(out)), 10)}
	}
	w.WriteHeader(status)
	_, _ = w.Write(out) //nolint:gosec // JSON for programs; who hung up gets no answer.
}

// read reads the whole request.
func (b *buffers) read(r *http.Request) error {
	n := r.ContentLength
	if n < 0 || n > maxRequest {
		return errors.New("a request needs a length, and one that AWS would take")
	}
	if int64(cap(b.in)) < n {
		b.in = make([]byte, n, n+n/4)
	}
	b.in = b.in[:n]
	_, err := io.ReadFull(r.Body, b.in)
	return err //nolint:wrapcheck // becomes the answer.
}

// pause waits as long as a request takes; false if the client hung up.
func (e *Endpoint) pause(r *http.Request, mean time.Duration) bool {
	if mean <= 0 {
		return true
	}
	fixed := mean * 4 / 5
	d := fixed + time.Duration(min(rand.ExpFloat64(), 20)*float64(mean-fixed)) //nolint:gosec // jitter.
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}
