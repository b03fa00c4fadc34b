// Package dynein is a baseline: the scheduling loop that Airbnb published with
// Dynein, as we read it, measured on the null endpoint like our own scheduler.
//
// It is our reading of github.com/airbnb/dynein at 9982aea, written anew in Go
// over the same SDK, with the clients, collector settings and clock of our own
// processes, so that the difference is the algorithm's and not the language's:
//
//   - PartitionWorker.scanGroup: a worker scans its partitions one after the
//     other; the next begins when the page of the one before is done. A partition
//     whose page was full is read again in the next round, any other a second
//     later; a round of which none was full is followed by a second's rest.
//   - DynamoDBScheduleManager.getOverdueJobs: of a partition it queries ten rows
//     (queryLimit, 10 by default) from the head, filtered by status, without a
//     cursor and not consistently: what is acquired and not deleted is read over
//     again, and counts against the ten.
//   - updateStatus, AsyncSqsClientImpl.add, deleteDispatchedJob: each row is a
//     conditional UpdateItem (UPDATED_NEW), a SendMessage and a conditional
//     DeleteItem of its own, the ten of a page at the same time. A failed send
//     sets the row back.
//   - example.yml: one worker in a process. Queue URLs are looked up once.
//
// Where the reading leaves a choice it is the cheaper one for the baseline: the
// worker sleeps where the original spins on partitions that are not due for a
// scan, jobs that got stuck are not looked for (recoverStuckJobs: all overdue
// rows, once a minute), a row's job is parsed once and nothing is logged (the
// original parses it four times, for its log), and the drain that stores
// submissions is left out. One choice is dearer: a message carries two
// attributes more than the original's, by which the endpoint knows when it was
// due, as our own messages do.
//
// A [Scheduler] is run once; [Run] may run several times at once.
package dynein

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// The columns and states of the published table.
const (
	colShard, colToken, colStatus, colSpec = "shard_id", "date_token", "job_status", "job_spec"

	scheduled, acquired = "SCHEDULED", "ACQUIRED"
)

// scanPause is how long a partition rests whose page was not full.
const scanPause = time.Second

// Rows is what a [Scheduler] uses of the table.
type Rows interface {
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
}

// Queues is what a [Scheduler] uses of the queues.
type Queues interface {
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
}

// SchedulerOptions configure a [Scheduler]. All are required.
type SchedulerOptions struct {
	Rows   Rows
	Queues Queues
	Table  string
	// Partitions are those this process scans.
	Partitions []int
	// Workers share the partitions between them; each scans its own in turn.
	Workers int
	// Limit is how many rows a query reads.
	Limit int32
	// Report is told of every error that is not a lost race.
	Report func(error)
}

// Scheduler dispatches what is due.
type Scheduler struct {
	o    SchedulerOptions
	urls sync.Map // queue name to URL
}

// NewScheduler returns a scheduler that does nothing yet.
func NewScheduler(o SchedulerOptions) (*Scheduler, error) {
	if o.Rows == nil || o.Queues == nil || o.Table == "" || o.Workers < 1 || o.Limit < 1 || o.Report == nil {
		return nil, errors.New("dynein: an option is missing")
	}
	return &Scheduler{o: o}, nil
}

// Run scans until ctx ends. Rows in hand are finished.
func (s *Scheduler) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for i := range s.o.Workers {
		var mine []int
		for at := i; at < len(s.o.Partitions); at += s.o.Workers {
			mine = append(mine, s.o.Partitions[at])
		}
		if len(mine) > 0 {
			workers.Go(func() { s.work(ctx, mine) })
		}
	}
	workers.Wait()
}

// work scans rounds: PartitionWorker.scanGroup.
func (s *Scheduler) work(ctx context.Context, partitions []int) {
	scan := make([]time.Time, len(partitions))
	for ctx.Err() == nil {
		soon := s.round(ctx, partitions, scan)
		next := time.Now().Add(scanPause)
		if soon {
			next = slices.MinFunc(scan, time.Time.Compare)
		}
		wait := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
	}
}

// round scans each partition that is due for it, one after the other, and sets
// when it is to be scanned next. It answers whether the next round is to begin
// at once: if a page was full or a partition was not due. The original spins
// then until one is; see the package's comment.
func (s *Scheduler) round(ctx context.Context, partitions []int, scan []time.Time) (soon bool) {
	for i, p := range partitions {
		now := time.Now()
		if scan[i].After(now) || ctx.Err() != nil {
			soon = true
			continue
		}
		again := s.dispatch(context.WithoutCancel(ctx), p, now)
		if scan[i] = time.Now(); !again {
			scan[i] = scan[i].Add(scanPause)
		}
		soon = soon || again
	}
	return soon
}

// dispatch handles one page from the head of a partition, and says whether more
// may be due.
func (s *Scheduler) dispatch(ctx context.Context, partition int, now time.Time) (again bool) {
	page, err := s.o.Rows.Query(ctx, &dynamodb.QueryInput{
		TableName: &s.o.Table,
		// The original's "<", which the endpoint does not speak: no token equals a
		// bare time, since a # follows it.
		KeyConditionExpression: aws.String("#shardId = :shardId AND #dateToken <= :dateToken"),
		FilterExpression:       aws.String("#jobStatus = :jobStatus"),
		ExpressionAttributeNames: map[string]string{
			"#shardId": colShard, "#dateToken": colToken, "#jobStatus": colStatus,
		},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":shardId": text(strconv.Itoa(partition)), ":dateToken": text(strconv.FormatInt(now.UnixMilli(), 10)), ":jobStatus": text(scheduled),
		},
		Limit: &s.o.Limit,
	})
	if err != nil {
		s.o.Report(fmt.Errorf("query partition %d: %w", partition, err))
		return true
	}
	var rows sync.WaitGroup
	for _, row := range page.Items {
		rows.Go(func() { s.row(ctx, row) })
	}
	rows.Wait()
	return page.Count == s.o.Limit || len(page.LastEvaluatedKey) > 0
}

// row acquires, sends and deletes one job.
func (s *Scheduler) row(ctx context.Context, row map[string]types.AttributeValue) {
	key := map[string]types.AttributeValue{colShard: row[colShard], colToken: row[colToken]}
	won, err := s.move(ctx, key, scheduled, acquired)
	if err != nil {
		s.o.Report(fmt.Errorf("acquire: %w", err))
	}
	if !won {
		return
	}
	if err := s.send(ctx, row); err != nil {
		_, back := s.move(ctx, key, acquired, scheduled)
		s.o.Report(errors.Join(fmt.Errorf("send: %w", err), back))
		return
	}
	_, err = s.o.Rows.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &s.o.Table, Key: key,
		ConditionExpression:       aws.String("#jobStatus = :acquired"),
		ExpressionAttributeNames:  map[string]string{"#jobStatus": colStatus},
		ExpressionAttributeValues: map[string]types.AttributeValue{":acquired": text(acquired)},
	})
	if err != nil {
		s.o.Report(fmt.Errorf("delete: %w", err))
	}
}

// move changes a job's status if it is from; false, without an error, if not.
func (s *Scheduler) move(ctx context.Context, key map[string]types.AttributeValue, from, to string) (bool, error) {
	_, err := s.o.Rows.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &s.o.Table, Key: key,
		UpdateExpression:          aws.String("SET #jobStatus = :newStatus"),
		ConditionExpression:       aws.String("#jobStatus = :oldStatus"),
		ExpressionAttributeNames:  map[string]string{"#jobStatus": colStatus},
		ExpressionAttributeValues: map[string]types.AttributeValue{":oldStatus": text(from), ":newStatus": text(to)},
		ReturnValues:              types.ReturnValueUpdatedNew,
	})
	if _, lost := errors.AsType[*types.ConditionalCheckFailedException](err); lost {
		return false, nil
	}
	return err == nil, err
}

// spec is a job as its row holds it, and as it is sent.
type spec struct {
	JobToken    string `json:"jobToken"`
	QueueName   string `json:"queueName"`
	CreatedAt   int64  `json:"createAtInMillis"`
	ScheduledAt int64  `json:"scheduledAtInMillis"`
	Payload     []byte `json:"serializedJob"`
}

func (s *Scheduler) send(ctx context.Context, row map[string]types.AttributeValue) error {
	body := textOf(row[colSpec])
	var job spec
	if err := json.Unmarshal([]byte(body), &job); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	url, err := s.url(ctx, job.QueueName)
	if err != nil {
		return err
	}
	due, _, _ := strings.Cut(textOf(row[colToken]), "#")
	attribute := func(v string) sqstypes.MessageAttributeValue {
		return sqstypes.MessageAttributeValue{DataType: aws.String("String"), StringValue: &v}
	}
	_, err = s.o.Queues.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: &url, MessageBody: &body,
		MessageAttributes: map[string]sqstypes.MessageAttributeValue{
			trigger.AttrID: attribute(job.JobToken), trigger.AttrDue: attribute(due),
		},
	})
	return err //nolint:wrapcheck // the caller says what it was.
}

// url looks a queue up once.
func (s *Scheduler) url(ctx context.Context, name string) (string, error) {
	if known, ok := s.urls.Load(name); ok {
		url, _ := known.(string)
		return url, nil
	}
	out, err := s.o.Queues.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return "", fmt.Errorf("find queue %s: %w", name, err)
	}
	s.urls.Store(name, *out.QueueUrl)
	return *out.QueueUrl, nil
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func textOf(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}
