package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

// deadlineMargin is what is kept of an invocation's time to report what failed:
// an invocation that is cut off reports nothing.
const deadlineMargin = time.Second

// Bucket puts objects, over what is there.
type Bucket interface {
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
}

var _ Bucket = (*s3.Client)(nil)

// ArchiverOptions configure [NewArchiver].
type ArchiverOptions struct {
	// Bucket is written to. Required.
	Bucket Bucket
	// Name is the bucket's. Required.
	Name string
	// Decode reads an item of the runs table. nil: as the table's store does.
	Decode func(image map[string]events.DynamoDBAttributeValue) (job.Run, error)
	// AllRemovals archives what anybody removed, not the time to live alone: for
	// engines that have none.
	AllRemovals bool
	// Log; nil: nothing is logged.
	Log *slog.Logger
	// Registerer; nil: no metrics.
	Registerer prometheus.Registerer
}

// Validate reports every option at fault, joined.
func (o *ArchiverOptions) Validate() error {
	var errs []error
	if o.Bucket == nil {
		errs = append(errs, errors.New("bucket: no client"))
	}
	if o.Name == "" {
		errs = append(errs, errors.New("bucket: no name"))
	}
	return errors.Join(errs...)
}

// Archiver puts the expired runs of a batch into the bucket. It keeps nothing
// between batches and may be used concurrently.
type Archiver struct {
	o     ArchiverOptions
	m     metrics
	codec *zstd.Codec
}

type metrics struct {
	runs, undecodable, objects, failures prometheus.Counter
}

// NewArchiver returns an Archiver.
func NewArchiver(o ArchiverOptions) (*Archiver, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("archiver: %w", err)
	}
	if o.Decode == nil {
		o.Decode = decodeRun
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &Archiver{o: o, codec: newCodec()}
	var errs []error
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "myosin", Subsystem: "archiver", Name: name, Help: help})
		if o.Registerer != nil {
			errs = append(errs, o.Registerer.Register(c))
		}
		return c
	}
	a.m = metrics{
		runs:        counter("runs_total", "Expired runs put into the bucket, repeats included."),
		undecodable: counter("undecodable_total", "Records that could not be read and were put aside as they came."),
		objects:     counter("objects_total", "Objects put into the bucket, repeats included."),
		failures:    counter("failed_batches_total", "Batches of which a part has to come again."),
	}
	return a, errors.Join(errs...)
}

// Event is a batch of the stream as Lambda hands it over, its records unread, so
// that one that cannot be read does not take the others with it.
type Event struct {
	Records []json.RawMessage `json:"Records"`
}

// Handle archives a batch. What it reports as failed is the first record that
// has to come again with all behind it; see the package comment. The error is
// always nil: every failure has a record.
func (a *Archiver) Handle(ctx context.Context, e Event) (events.DynamoDBEventResponse, error) {
	if until, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until.Add(-deadlineMargin))
		defer cancel()
	}
	objects, unread := a.plan(a.removals(e))
	for _, err := range unread {
		a.o.Log.ErrorContext(ctx, "record cannot be read; put aside", telemetry.KeyError, err)
	}
	runs := 0
	var buf bytes.Buffer // one object at a time is in memory, besides the batch
	for i, o := range objects {
		buf.Reset()
		if err := a.put(ctx, o, &buf); err != nil {
			from := resume(objects, i)
			a.m.failures.Inc()
			a.o.Log.ErrorContext(ctx, "batch has to come again", telemetry.KeyError, err, "from", from.seq,
				"objects", i, telemetry.KeyCount, len(e.Records))
			return events.DynamoDBEventResponse{
				BatchItemFailures: []events.DynamoDBBatchItemFailure{{ItemIdentifier: from.seq}},
			}, nil
		}
		a.m.objects.Inc()
		a.m.runs.Add(float64(len(o.rows)))
		runs += len(o.rows)
		if o.raw != nil {
			a.m.undecodable.Inc()
		}
	}
	a.o.Log.InfoContext(ctx, "batch archived", telemetry.KeyCount, len(e.Records), "runs", runs,
		"undecodable", len(unread), "objects", len(objects))
	return events.DynamoDBEventResponse{}, nil
}

// removals picks the records to archive. One of which not even the kind can be
// read is among them: it is put aside.
func (a *Archiver) removals(e Event) []record {
	var out []record
	for i, raw := range e.Records {
		var h head
		err := json.Unmarshal(raw, &h)
		if err != nil || (h.EventName == string(events.DynamoDBOperationTypeRemove) && (a.o.AllRemovals || h.expired())) {
			out = append(out, record{raw: raw, index: i, seq: h.Change.SequenceNumber, eventID: h.EventID})
		}
	}
	return out
}

// read returns a record's day and row. The event's types assert what JSON need
// not hold (a set of numbers that are no texts, a value that is null), so that
// reading one may panic: that record is unreadable, the next may be well.
func (a *Archiver) read(rec record) (day string, row Row, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("read: %v", p)
		}
	}()
	var e events.DynamoDBEventRecord
	if err := json.Unmarshal(rec.raw, &e); err != nil {
		return "", Row{}, fmt.Errorf("parse: %w", err)
	}
	run, err := a.o.Decode(e.Change.OldImage)
	if err != nil {
		return "", Row{}, fmt.Errorf("decode: %w", err)
	}
	day, err = dayOf(&run)
	return day, newRow(rec.id(), &run), err
}

func (a *Archiver) put(ctx context.Context, o *object, buf *bytes.Buffer) error {
	contentType := "application/vnd.apache.parquet"
	if o.raw != nil {
		contentType = "application/json"
		buf.Write(o.raw)
	} else if err := writeRows(buf, o.rows, a.codec); err != nil {
		return fmt.Errorf("object %s: %w", o.key, err)
	}
	_, err := a.o.Bucket.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &a.o.Name, Key: &o.key, Body: bytes.NewReader(buf.Bytes()), ContentType: aws.String(contentType),
	})
	if err != nil {
		return fmt.Errorf("put %s: %w", o.key, err)
	}
	return nil
}
