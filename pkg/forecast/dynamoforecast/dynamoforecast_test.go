package dynamoforecast_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/forecast"
	"github.com/myosin-jobs/myosin/pkg/forecast/dynamoforecast"
	"github.com/myosin-jobs/myosin/pkg/forecast/forecasttest"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

type table struct {
	*dynamoforecast.Table
	client *dynamodb.Client
	name   string
}

func open(t *testing.T) *table {
	t.Helper()
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	return openAt(t, srv.URL)
}

func openAt(t *testing.T, url string) *table {
	t.Helper()
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(url),
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	})
	name := "f" + trigger.NewID().String() + "-forecast"
	require.NoError(t, dynamoforecast.EnsureTable(t.Context(), client, name))
	tb, err := dynamoforecast.New(dynamoforecast.Options{Client: client, Table: name})
	require.NoError(t, err)
	return &table{Table: tb, client: client, name: name}
}

// item reads an item as DynamoDB's JSON has it.
func (tb *table) item(t *testing.T, service, minute string) string {
	t.Helper()
	out, err := tb.client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: &tb.name, Key: map[string]types.AttributeValue{
			"s": &types.AttributeValueMemberS{Value: service}, "m": &types.AttributeValueMemberN{Value: minute},
		},
	})
	require.NoError(t, err)
	m := map[string]map[string]string{}
	for k, v := range out.Item {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			m[k] = map[string]string{"S": v.Value}
		case *types.AttributeValueMemberN:
			m[k] = map[string]string{"N": v.Value}
		default:
			t.Fatalf("attribute %s is a %T", k, v)
		}
	}
	b, err := json.Marshal(m)
	require.NoError(t, err)
	return string(b)
}

func TestDynamoPassesTheSuite(t *testing.T) {
	forecasttest.Store(t, func(t *testing.T) forecast.Store { return open(t) })
}

// TestSuiteOnMinistack is part of `make e2e`, which fails if it did not run.
func TestSuiteOnMinistack(t *testing.T) {
	url := os.Getenv("MYOSIN_MINISTACK_URL")
	if url == "" {
		t.Skip("MYOSIN_MINISTACK_URL is not set: `make e2e` runs this on ministack")
	}
	forecasttest.Store(t, func(t *testing.T) forecast.Store { return openAt(t, url) })
}

// Processes of several releases count in one item: its form does not change.
func TestItemIsTheSameInEveryRelease(t *testing.T) {
	want, err := os.ReadFile("testdata/item.v1.json")
	require.NoError(t, err)
	tb := open(t)
	minute := time.Date(2027, 1, 1, 9, 0, 0, 0, time.UTC)
	require.NoError(t, tb.Add(t.Context(), "payments", minute, 40))
	require.NoError(t, tb.Add(t.Context(), "payments", minute, 2))
	require.JSONEq(t, string(want), tb.item(t, "payments", fmt.Sprint(minute.Unix()/60)))
	require.Contains(t, string(want), fmt.Sprint(minute.Add(24*time.Hour).Unix()), "it expires a day after its minute")
}

func TestEnsuringTwiceChangesNothingAndItemsExpireByX(t *testing.T) {
	tb := open(t)
	require.NoError(t, tb.Add(t.Context(), "payments", time.Now(), 1))
	require.NoError(t, dynamoforecast.EnsureTable(t.Context(), tb.client, tb.name))
	points, err := tb.Range(t.Context(), "payments", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Len(t, points, 1)
	out, err := tb.client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &tb.name})
	require.NoError(t, err)
	require.Equal(t, types.TimeToLiveStatusEnabled, out.TimeToLiveDescription.TimeToLiveStatus)
	require.Equal(t, "x", *out.TimeToLiveDescription.AttributeName)
}

// paged answers each Query with two items a page.
type paged struct {
	dynamoforecast.API
	queries int
}

func (p *paged) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	p.queries++
	in.Limit = aws.Int32(2)
	return p.API.Query(ctx, in, o...)
}

func TestARangeReadsEveryPage(t *testing.T) {
	tb := open(t)
	start := time.Now().Truncate(time.Minute)
	for i := range 5 {
		require.NoError(t, tb.Add(t.Context(), "payments", start.Add(time.Duration(i)*time.Minute), int64(i+1)))
	}
	client := &paged{API: tb.client}
	two, err := dynamoforecast.New(dynamoforecast.Options{Client: client, Table: tb.name})
	require.NoError(t, err)
	points, err := two.Range(t.Context(), "payments", start, start.Add(time.Hour))
	require.NoError(t, err)
	require.Len(t, points, 5)
	require.EqualValues(t, 5, points[4].Due)
	require.GreaterOrEqual(t, client.queries, 3)
}

func TestAnItemThatCannotBeReadFailsTheRange(t *testing.T) {
	tb := open(t)
	minute := time.Now().Truncate(time.Minute)
	_, err := tb.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &tb.name, Item: map[string]types.AttributeValue{
		"s": &types.AttributeValueMemberS{Value: "payments"}, "m": &types.AttributeValueMemberN{Value: fmt.Sprint(minute.Unix() / 60)},
		"c": &types.AttributeValueMemberS{Value: "many"},
	}})
	require.NoError(t, err)
	_, err = tb.Range(t.Context(), "payments", minute, minute.Add(time.Minute))
	require.ErrorContains(t, err, "attribute c")
}

func TestOptionsReportEveryFault(t *testing.T) {
	_, err := dynamoforecast.New(dynamoforecast.Options{})
	require.ErrorContains(t, err, "client")
	require.ErrorContains(t, err, "table")
}
