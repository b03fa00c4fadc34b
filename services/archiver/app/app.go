// Package app is the archiver: it puts the runs that the runs table's time to
// live removed into a bucket, as Parquet, before their stream forgets them.
//
// # Objects
//
//	runs/day=2026-12-01/<sequence number>-<event id>.parquet   runs whose nominal time is of the day (UTC), as [Row]
//	undecodable/<sequence number>-<event id>.json              a record that cannot be read, as it came
//
// # Twice
//
// Lambda hands a batch over again when a part failed, and the part may then come
// in another batch: shorter, longer, or halved. An object is named by its first
// record, the first of its day in the batch. What failed is reported as the
// earliest record such that no object written holds records from both sides of
// it. So whatever comes again begins anew for every day, the first record of a
// day that comes again is one that named an object before, and that object is
// written over with what the new batch has of the day. Once all is reported as
// done, every run is in exactly one object. A batch that comes again as it was
// gives the same objects with the same bytes.
//
// Two cases remain, and for them a reader keeps one row of each event_id: a
// stream read again from another place than a batch's first record, and a PUT of
// a cut-off invocation that the bucket applies after the next one's. To make the
// second unlikely, the archiver stops a second before Lambda would.
//
// It refuses to judge runs and to remove objects. An [Archiver] may be used
// concurrently.
package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/myosin-jobs/myosin/pkg/awsclient"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

// Options configure [Run].
type Options struct {
	// Prefix is the first part of every resource's name. Default: platform's.
	Prefix string
	// Endpoint is the base URL of all AWS services; empty: as the SDK finds it.
	Endpoint string
	// Region; empty: as the SDK finds it.
	Region string
	// Bucket is written to. Required.
	Bucket string
	// Lambda takes batches from the Lambda runtime. Not with Events or Stream.
	Lambda bool
	// Events are files of recorded events, with commas between, archived in order.
	Events string
	// Stream reads the runs table's own stream.
	Stream bool
	// Once ends Stream when nothing is left to read, and not with ctx.
	Once bool
	// AllRemovals is [ArchiverOptions.AllRemovals]. Not with Lambda.
	AllRemovals bool
	// LogFormat (json or text) and LogLevel are the logger's.
	LogFormat, LogLevel string
	// LogOutput; nil: standard error.
	LogOutput io.Writer
}

// Settings sets the defaults and adds every option to s.
func (o *Options) Settings(s *settings.Set) {
	o.Prefix, o.LogFormat, o.LogLevel = platform.DefaultPrefix, "json", "info"
	s.StringVar(&o.Prefix, "prefix", "MYOSIN_PREFIX", "first part of every resource's name")
	s.StringVar(&o.Endpoint, "endpoint", "AWS_ENDPOINT_URL", "base URL of all AWS services; empty for AWS itself")
	s.StringVar(&o.Region, "region", "AWS_REGION", "AWS region; empty for what the SDK finds, else us-east-1")
	s.StringVar(&o.Bucket, "bucket", "MYOSIN_ARCHIVE_BUCKET", "bucket that expired runs are put into")
	s.StringVar(&o.Events, "event", "", "outside Lambda: files of recorded events, with commas between")
	s.BoolVar(&o.Stream, "stream", "", "outside Lambda: read the runs table's stream from its oldest record")
	s.BoolVar(&o.Once, "once", "", "with --stream: end when all that is there has been read")
	s.BoolVar(&o.AllRemovals, "all-removals", "", "outside Lambda: archive what anybody removed, for engines without a time to live")
	s.StringVar(&o.LogFormat, "log-format", "MYOSIN_LOG_FORMAT", "json or text")
	s.StringVar(&o.LogLevel, "log-level", "MYOSIN_LOG_LEVEL", "debug, info, warn or error")
}

// Validate reports every option at fault, joined.
func (o *Options) Validate() error {
	var errs []error
	if o.Bucket == "" {
		errs = append(errs, errors.New("bucket (MYOSIN_ARCHIVE_BUCKET) is required"))
	}
	switch local := o.Events != "" || o.Stream; {
	case o.Lambda && (local || o.AllRemovals || o.Once):
		errs = append(errs, errors.New("event, stream, once and all-removals are for use outside Lambda"))
	case !o.Lambda && (o.Events != "") == o.Stream:
		errs = append(errs, errors.New("outside Lambda it takes one of --event and --stream"))
	}
	if o.Once && !o.Stream {
		errs = append(errs, errors.New("once: only with --stream"))
	}
	return errors.Join(errs...)
}

// Run archives until its source or ctx ends. Under Lambda it does not return.
func Run(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	log, err := telemetry.NewLogger(telemetry.LogOptions{Output: o.LogOutput, Format: o.LogFormat, Level: o.LogLevel, Process: "archiver"})
	if err != nil {
		return err
	}
	cfg, err := awsclient.Load(ctx, awsclient.Options{Endpoint: o.Endpoint, Region: o.Region})
	if err != nil {
		return err
	}
	bucket := s3.NewFromConfig(cfg, func(so *s3.Options) {
		// Emulators have no host of the bucket's name.
		so.UsePathStyle = cfg.BaseEndpoint != nil
	})
	a, err := NewArchiver(ArchiverOptions{Bucket: bucket, Name: o.Bucket, AllRemovals: o.AllRemovals, Log: log})
	if err != nil {
		return err
	}
	switch {
	case o.Lambda:
		lambda.StartWithOptions(a.Handle, lambda.WithContext(ctx))
		return nil
	case o.Stream:
		return readStream(ctx, o, cfg, a, log)
	default:
		return readFiles(ctx, strings.Split(o.Events, ","), a)
	}
}

func readFiles(ctx context.Context, names []string, a *Archiver) error {
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read event: %w", err)
		}
		var e Event
		if err := json.Unmarshal(b, &e); err != nil {
			return fmt.Errorf("event %s: %w", name, err)
		}
		if err := handle(ctx, a, e); err != nil {
			return fmt.Errorf("event %s: %w", name, err)
		}
	}
	return nil
}

func readStream(ctx context.Context, o Options, cfg aws.Config, a *Archiver, log *slog.Logger) error {
	table := platform.Names{Prefix: o.Prefix}.Runs()
	out, err := dynamodb.NewFromConfig(cfg).DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	if err != nil {
		return fmt.Errorf("describe table %s: %w", table, err)
	}
	if out.Table.LatestStreamArn == nil {
		return fmt.Errorf("table %s has no stream", table)
	}
	s := &stream{
		client: dynamodbstreams.NewFromConfig(cfg), arn: *out.Table.LatestStreamArn, archiver: a, shards: map[string]*string{},
	}
	if !o.Once {
		return s.run(ctx)
	}
	n, err := s.runOnce(ctx)
	log.InfoContext(ctx, "stream read", telemetry.KeyTable, table, telemetry.KeyCount, n)
	return err
}
