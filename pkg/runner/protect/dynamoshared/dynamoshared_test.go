package dynamoshared_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/runner/protect"
	"github.com/myosin-jobs/myosin/pkg/runner/protect/dynamoshared"
	"github.com/myosin-jobs/myosin/pkg/runner/protect/protecttest"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// counting counts what is asked of DynamoDB.
type counting struct {
	*dynamodb.Client
	updates, gets atomic.Int64
}

func (c *counting) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	c.updates.Add(1)
	return c.Client.UpdateItem(ctx, in, o...)
}

func (c *counting) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	c.gets.Add(1)
	return c.Client.GetItem(ctx, in, o...)
}

func open(t *testing.T) (*dynamoshared.Shared, *counting, string) {
	t.Helper()
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	return openAt(t, srv.URL)
}

func openAt(t *testing.T, url string) (*dynamoshared.Shared, *counting, string) {
	t.Helper()
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(url),
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	})
	name := "protect-" + trigger.NewID().String()
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("p"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("s"), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("p"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("s"), KeyType: types.KeyTypeRange},
		},
	})
	require.NoError(t, err)
	c := &counting{Client: client}
	s, err := dynamoshared.New(dynamoshared.Options{Client: c, Table: name})
	require.NoError(t, err)
	return s, c, name
}

func TestDynamoPassesTheSuite(t *testing.T) {
	protecttest.Shared(t, func(t *testing.T) protect.Shared { s, _, _ := open(t); return s })
}

// TestSuiteOnMinistack is part of `make e2e`, which fails if it did not run.
func TestSuiteOnMinistack(t *testing.T) {
	url := os.Getenv("MYOSIN_MINISTACK_URL")
	if url == "" {
		t.Skip("MYOSIN_MINISTACK_URL is not set: `make e2e` runs this on ministack")
	}
	protecttest.Shared(t, func(t *testing.T) protect.Shared { s, _, _ := openAt(t, url); return s })
}

func TestOptionsReportEveryProblemTogether(t *testing.T) {
	_, err := dynamoshared.New(dynamoshared.Options{Parallel: -1, Keep: -1})
	for _, want := range []string{"client:", "table:", "parallel:", "keep:"} {
		require.ErrorContains(t, err, want)
	}
}

func TestATargetOfTenRunnersCostsOneUnitAnExchange(t *testing.T) {
	s, c, table := open(t)
	now := time.Date(2027, 3, 1, 12, 0, 2, 0, time.UTC)
	var full []protect.Bucket
	for i := range int64(protect.WindowBuckets) {
		full = append(full, protect.Bucket{Index: protect.BucketAt(now) - protect.WindowBuckets + 1 + i, Calls: 5000, Failures: 100})
	}
	next := protect.State{Gen: 1, Until: now.Add(time.Minute), Pause: time.Minute, Holder: "myosin-runner-6d5f8c9b7-abcde", Lease: now}
	for i := range 10 {
		r := protect.Report{Target: "payments.internal.example.com", At: now, Counts: protect.Counts{Buckets: full}}
		if i == 0 {
			r.Next = &next
		}
		_, err := s.Exchange(t.Context(), fmt.Sprintf("myosin-runner-6d5f8c9b7-%d", i), []protect.Report{r})
		require.NoError(t, err)
	}
	require.EqualValues(t, 10, c.updates.Load())
	require.Zero(t, c.gets.Load())

	out, err := c.Client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &table})
	require.NoError(t, err)
	require.Len(t, out.Items, 1)
	size := 0
	for name, v := range out.Items[0] {
		size += len(name)
		switch v := v.(type) {
		case *types.AttributeValueMemberB:
			size += len(v.Value)
		case *types.AttributeValueMemberS:
			size += len(v.Value)
		case *types.AttributeValueMemberN:
			size += len(v.Value)/2 + 2
		}
	}
	t.Logf("%d bytes", size)
	require.Less(t, size, 1024)
	require.Equal(t, fmt.Sprint(now.Add(10*time.Minute).Unix()), out.Items[0]["x"].(*types.AttributeValueMemberN).Value)

	_, err = s.Exchange(t.Context(), "reader", []protect.Report{{Target: "payments.internal.example.com", At: now}})
	require.NoError(t, err)
	require.EqualValues(t, 1, c.gets.Load(), "who has nothing to tell does not write")
	require.EqualValues(t, 10, c.updates.Load())
}

func TestGatesOpenTogetherThroughATable(t *testing.T) {
	s, _, _ := open(t)
	now := time.Date(2027, 3, 1, 12, 0, 2, 0, time.UTC)
	var gates []*protect.Gate
	for i := range 3 {
		g, err := protect.New(protect.Options{Runner: fmt.Sprint("runner-", i), Shared: s, Now: func() time.Time { return now }})
		require.NoError(t, err)
		gates = append(gates, g)
		for range 4 {
			p, denied := g.Admit(now, protect.Call{Target: "x"})
			require.Nil(t, denied)
			p.Done(protect.Failure)
		}
	}
	for range 2 {
		for _, g := range gates {
			_, err := g.Exchange(t.Context())
			require.NoError(t, err)
		}
		now = now.Add(time.Second)
	}
	for _, g := range gates {
		_, denied := g.Admit(now, protect.Call{Target: "x"})
		require.NotNil(t, denied)
		require.Equal(t, protect.ReasonOpen, denied.Reason)
	}
}
