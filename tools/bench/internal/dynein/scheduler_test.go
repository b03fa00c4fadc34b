package dynein_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/bench/internal/dynein"
)

// tables is a table and a queue in memory, which note what they are asked.
type tables struct {
	mu    sync.Mutex
	began time.Time
	rows  map[string]int // of a partition, all overdue
	calls []string
	fails int // how many sends fail
}

func (f *tables) note(format string, args ...any) {
	f.calls = append(f.calls, fmt.Sprintf("%s ", time.Since(f.began))+fmt.Sprintf(format, args...))
}

func (f *tables) Query(_ context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := in.ExpressionAttributeValues[":shardId"].(*types.AttributeValueMemberS).Value
	n := min(f.rows[p], int(*in.Limit))
	if in.ExclusiveStartKey != nil || in.ConsistentRead != nil {
		n = 0 // never asked for by the original
	}
	f.note("query %s: %d", p, n)
	out := &dynamodb.QueryOutput{Count: int32(n)}
	for i := range n {
		out.Items = append(out.Items, map[string]types.AttributeValue{
			"shard_id": &types.AttributeValueMemberS{Value: p}, "date_token": &types.AttributeValueMemberS{Value: fmt.Sprintf("1#%d", i)},
			"job_spec": &types.AttributeValueMemberS{Value: `{"jobToken":"t","queueName":"q"}`},
		})
	}
	return out, nil
}

func (f *tables) UpdateItem(_ context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.note("to %s", in.ExpressionAttributeValues[":newStatus"].(*types.AttributeValueMemberS).Value)
	return &dynamodb.UpdateItemOutput{}, nil
}

func (f *tables) DeleteItem(_ context.Context, in *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows[in.Key["shard_id"].(*types.AttributeValueMemberS).Value]--
	f.note("delete")
	return &dynamodb.DeleteItemOutput{}, nil
}

//nolint:revive,staticcheck // the SDK names it so.
func (f *tables) GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error) {
	return &sqs.GetQueueUrlOutput{QueueUrl: aws.String("http://q")}, nil
}

func (f *tables) SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.note("send")
	if f.fails > 0 {
		f.fails--
		return nil, errors.New("no luck")
	}
	return &sqs.SendMessageOutput{}, nil
}

// run scans partitions 0 and 1 with one worker for a time.
func (f *tables) run(t *testing.T, d time.Duration) {
	t.Helper()
	f.began = time.Now()
	s, err := dynein.NewScheduler(dynein.SchedulerOptions{
		Rows: f, Queues: f, Table: "t", Partitions: []int{0, 1}, Workers: 1, Limit: 10, Report: func(error) {},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	s.Run(ctx)
}

func TestAFullPartitionIsReadAgainAtOnceAndOthersRestASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &tables{rows: map[string]int{"0": 25}}
		f.run(t, 2500*time.Millisecond)
		var queries []string
		for _, call := range f.calls {
			if strings.Contains(call, "query") {
				queries = append(queries, call)
			}
		}
		require.Equal(t, []string{
			"0s query 0: 10", "0s query 1: 0", "0s query 0: 10", "0s query 0: 5",
			"1s query 0: 0", "1s query 1: 0", "2s query 0: 0", "2s query 1: 0",
		}, queries)
		require.Len(t, f.calls, len(queries)+3*25, "an update, a send and a delete of each row")
	})
}

func TestAFailedSendSetsItsRowBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &tables{rows: map[string]int{"0": 1}, fails: 1}
		f.run(t, 1500*time.Millisecond)
		require.Equal(t, []string{
			"0s query 0: 1", "0s to ACQUIRED", "0s send", "0s to SCHEDULED", "0s query 1: 0",
			"1s query 0: 1", "1s to ACQUIRED", "1s send", "1s delete", "1s query 1: 0",
		}, f.calls)
	})
}
