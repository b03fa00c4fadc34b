package dynein

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"golang.org/x/sync/errgroup"

	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/bench/internal/endpoint"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null"
)

const (
	// Table is the table of a run.
	Table = "dynein_schedules"
	// queuePrefix makes the endpoint take a queue for a sink.
	queuePrefix = "dynein-svc-"

	batchSize = 25 // statements DynamoDB takes in a request
	loaders   = 4
	// storing is how many rows a second are surely stored before they are due.
	storing = 10_000
	ahead   = 2 * time.Second
	look    = 100 * time.Millisecond
)

// region is any: the endpoint does not look.
const region = "us-east-1"

// queuesOf is the SDK's client for queues, as the platform has it.
func queuesOf(p *platform.Platform) *sqs.Client {
	return sqs.NewFromConfig(p.Config, func(o *sqs.Options) { o.DisableMessageChecksumValidation = true })
}

// Run stores the jobs, starts the schedulers, waits until every job was
// delivered, and reports. The error is of a run that could not be made; what
// became of the jobs stands in the report.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("dynein: %w", err)
	}
	if o.Endpoint == "" || o.Start == nil {
		return nil, errors.New("dynein: no endpoint, or no way to start a scheduler")
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	first, err := load(ctx, &o)
	if err != nil {
		return nil, fmt.Errorf("dynein: %w", err)
	}
	var processes []Process
	defer func() {
		for _, p := range processes {
			err = errors.Join(err, p.Close())
		}
	}()
	for i := range o.Schedulers {
		p, err := o.Start(i, o.Schedulers)
		if err != nil {
			return nil, fmt.Errorf("dynein: start scheduler: %w", err)
		}
		processes = append(processes, p)
	}
	if wait := time.Until(first); wait < 0 {
		return nil, errors.New("dynein: the machine is too slow: jobs fell due before all were stored")
	} else if err := pause(ctx, wait); err != nil {
		return nil, err
	}
	report, err = measure(ctx, &o, processes, first)
	if err != nil {
		return nil, fmt.Errorf("dynein: %w", err)
	}
	return report, nil
}

// load makes queues and table, and stores the jobs. It returns when the first
// is due.
func load(ctx context.Context, o *Options) (first time.Time, err error) {
	p, err := platform.Open(ctx, platform.Options{Endpoint: o.Endpoint, Region: region})
	if err != nil {
		return first, err
	}
	rows, queues := p.Dynamo(), queuesOf(p)
	key := func(name string, kind types.KeyType) types.KeySchemaElement {
		return types.KeySchemaElement{AttributeName: &name, KeyType: kind}
	}
	define := func(name string) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: types.ScalarAttributeTypeS}
	}
	if _, err := rows.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: aws.String(Table), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{define(colShard), define(colToken)},
		KeySchema:            []types.KeySchemaElement{key(colShard, types.KeyTypeHash), key(colToken, types.KeyTypeRange)},
	}); err != nil {
		return first, fmt.Errorf("make the table: %w", err)
	}
	for i := range o.Services {
		if _, err := queues.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(queuePrefix + strconv.Itoa(i))}); err != nil {
			return first, fmt.Errorf("make a queue: %w", err)
		}
	}
	took := time.Duration(o.Jobs) * time.Second / storing
	first = time.Now().Add(ahead + took + time.Duration(o.Jobs)*o.LatencyDynamoDB/(batchSize*loaders)).Truncate(time.Millisecond)
	fmt.Fprintf(o.Progress, "bench: storing %d jobs, the first due in %s\n", o.Jobs, time.Until(first).Round(time.Millisecond))
	var writing errgroup.Group
	writing.SetLimit(loaders)
	for at := 0; at < o.Jobs && ctx.Err() == nil; at += batchSize {
		writing.Go(func() error { return store(ctx, rows, o, at, first) })
	}
	return first, errors.Join(writing.Wait(), ctx.Err())
}

// store stores a batch of jobs, from number at on.
func store(ctx context.Context, rows *dynamodb.Client, o *Options, at int, first time.Time) error {
	in := &dynamodb.BatchExecuteStatementInput{}
	payload := make([]byte, o.Payload)
	for i := at; i < min(at+batchSize, o.Jobs); i++ {
		due := first.Add(time.Duration(float64(i) / o.Rate * float64(time.Second))).UnixMilli()
		for k := range payload {
			payload[k] = byte('a' + rand.IntN(26)) //nolint:gosec // a load, not a secret.
		}
		id := trigger.NewID().String()
		job, err := json.Marshal(spec{
			JobToken: id, QueueName: queuePrefix + strconv.Itoa(i%o.Services), CreatedAt: time.Now().UnixMilli(), ScheduledAt: due, Payload: payload,
		})
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
		in.Statements = append(in.Statements, types.BatchStatementRequest{
			Statement: aws.String(fmt.Sprintf(`INSERT INTO "%s" VALUE {'%s': ?, '%s': ?, '%s': ?, '%s': ?}`, Table, colShard, colToken, colStatus, colSpec)),
			Parameters: []types.AttributeValue{
				text(strconv.Itoa(rand.IntN(o.Partitions))), //nolint:gosec // as above.
				text(fmt.Sprintf("%d#%s", due, id)), text(scheduled), text(string(job)),
			},
		})
	}
	out, err := rows.BatchExecuteStatement(ctx, in)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, r := range out.Responses {
		if r.Error != nil {
			return fmt.Errorf("store: %s", aws.ToString(r.Error.Message))
		}
	}
	return nil
}

// measure waits until all is delivered and done.
func measure(ctx context.Context, o *Options, processes []Process, first time.Time) (*Report, error) {
	if err := endpoint.Ask(ctx, http.MethodPost, o.Endpoint+"/_reset?keep=data", nil); err != nil {
		return nil, err
	}
	used := func() (sum time.Duration, err error) {
		for _, p := range processes {
			cpu, failed := p.CPU()
			sum, err = sum+cpu, errors.Join(err, failed)
		}
		return sum, err
	}
	var before null.Stats
	if err := endpoint.Ask(ctx, http.MethodGet, o.Endpoint+"/_stats", &before); err != nil {
		return nil, err
	}
	start, untold := used()
	r := &Report{Options: *o}
	last := first.Add(time.Duration(float64(o.Jobs) / o.Rate * float64(time.Second)))
	for {
		if err := endpoint.Ask(ctx, http.MethodGet, o.Endpoint+"/_stats", &r.Stats); err != nil {
			return nil, err
		}
		if r.Stats.DynamoDB.Rows[Table] == 0 || time.Now().After(last.Add(o.Patience)) {
			break
		}
		if err := pause(ctx, look); err != nil {
			return nil, err
		}
	}
	end, err := used()
	if errors.Join(untold, err) == nil { // else the system does not tell
		r.CPU = end - start
	}
	r.EndpointCPU = time.Duration((r.Stats.CPUMs - before.CPUMs) * float64(time.Millisecond))
	r.Took = time.UnixMilli(r.Stats.SQS.Sink.Lanes["standard"].LastMs).Sub(first)
	return r, nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
