package dynamoregistry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/registry/dynamoregistry"
	"github.com/myosin-jobs/myosin/pkg/registry/registrytest"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// table is a fresh table on an engine, and its raw HTTP door: the items that
// Terraform writes go through that, untouched by this package's encoder.
type table struct {
	*dynamoregistry.Registry
	client *dynamodb.Client
	url    string
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
	name := dynamoregistry.TableName("dynamoregistry-" + trigger.NewID().String())
	require.NoError(t, dynamoregistry.CreateTable(t.Context(), client, name))
	reg, err := dynamoregistry.New(dynamoregistry.Options{Client: client, Table: name})
	require.NoError(t, err)
	return &table{Registry: reg, client: client, url: url, name: name}
}

// call makes one DynamoDB request with JSON as it stands on the wire.
func (tb *table) call(t *testing.T, op, body string) map[string]json.RawMessage {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tb.url, bytes.NewBufferString(body))
	require.NoError(t, err)
	req.Header.Set("X-Amz-Target", "DynamoDB_20120810."+op)
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", answer)
	var out map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(answer, &out))
	return out
}

func (tb *table) putRaw(t *testing.T, item string) {
	t.Helper()
	tb.call(t, "PutItem", fmt.Sprintf(`{"TableName":%q,"Item":%s}`, tb.name, item))
}

func (tb *table) getRaw(t *testing.T, name string) string {
	t.Helper()
	out := tb.call(t, "GetItem", fmt.Sprintf(`{"TableName":%q,"ConsistentRead":true,"Key":{"name":{"S":%q}}}`, tb.name, name))
	return string(out["Item"])
}

func TestDynamoPassesTheSuite(t *testing.T) {
	registrytest.Source(t, func(t *testing.T) registry.Source { return open(t) })
}

// TestSuiteOnMinistack is part of `make e2e`, which fails if it did not run.
func TestSuiteOnMinistack(t *testing.T) {
	url := os.Getenv("MYOSIN_MINISTACK_URL")
	if url == "" {
		t.Skip("MYOSIN_MINISTACK_URL is not set: `make e2e` runs this on ministack")
	}
	registrytest.Source(t, func(t *testing.T) registry.Source { return openAt(t, url) })
}

func golden(t *testing.T) (item string, svc registry.Service) {
	t.Helper()
	b, err := os.ReadFile("testdata/item.v1.json")
	require.NoError(t, err)
	svc = registrytest.Full("payments")
	svc.Updated = time.Date(2027, 1, 1, 9, 0, 0, 0, time.UTC)
	return string(b), svc
}

// Terraform of one release writes what processes of another read: the item's
// form does not change.
func TestItemIsTheSameInEveryRelease(t *testing.T) {
	item, want := golden(t)
	tb := open(t)
	tb.putRaw(t, item)
	got, err := tb.Get(t.Context(), "payments")
	require.NoError(t, err)
	require.Equal(t, want, got)

	tb = open(t)
	fixed, err := dynamoregistry.New(dynamoregistry.Options{
		Client: tb.client, Table: tb.name, Now: func() time.Time { return want.Updated },
	})
	require.NoError(t, err)
	require.NoError(t, fixed.Put(t.Context(), want))
	require.JSONEq(t, item, tb.getRaw(t, "payments"))
}

func TestTheLeastItemIsAServiceWithoutLimits(t *testing.T) {
	tb := open(t)
	tb.putRaw(t, `{"name":{"S":"email"},"queue_url":{"S":"http://localhost:4566/0/email"},"owner":{"NULL":true},
		"senders":{"SS":["b","a"]},"updated":{"S":"2027-01-01T10:00:00+01:00"}}`)
	got, err := tb.Get(t.Context(), "email")
	require.NoError(t, err)
	require.Equal(t, registry.Service{
		Name: "email", QueueURL: "http://localhost:4566/0/email", Senders: []string{"a", "b"},
		Updated: time.Date(2027, 1, 1, 9, 0, 0, 0, time.UTC),
	}, got)
}

func TestAttributesOfOthersSurviveEveryWrite(t *testing.T) {
	tb := open(t)
	tb.putRaw(t, `{"name":{"S":"email"},"queue_url":{"S":"http://localhost:4566/0/email"},"rate":{"N":"1"},
		"senders":{"L":[{"S":"x"}]},"terraform_module":{"S":"v3"},"Paused":{"S":"by hand"},"future":{"M":{"a":{"N":"1"}}}}`)
	require.NoError(t, tb.SetPaused(t.Context(), "email", true))
	require.NoError(t, tb.SetRate(t.Context(), "email", 1_000_000))
	require.NoError(t, tb.Put(t.Context(), registry.Service{Name: "email", QueueURL: "http://localhost:4566/0/other", Rate: 1_000_000, Senders: []string{}}))
	got, err := tb.Get(t.Context(), "email")
	require.NoError(t, err)
	require.False(t, got.Paused)
	require.Nil(t, got.Senders)
	var item map[string]any
	require.NoError(t, json.Unmarshal([]byte(tb.getRaw(t, "email")), &item))
	delete(item, "updated")
	require.Equal(t, map[string]any{
		"name":             map[string]any{"S": "email"},
		"queue_url":        map[string]any{"S": "http://localhost:4566/0/other"},
		"rate":             map[string]any{"N": "1000000"},
		"fifo":             map[string]any{"BOOL": false},
		"paused":           map[string]any{"BOOL": false},
		"terraform_module": map[string]any{"S": "v3"},
		"Paused":           map[string]any{"S": "by hand"},
		"future":           map[string]any{"M": map[string]any{"a": map[string]any{"N": "1"}}},
	}, item)
}

func TestAnUnreadableItemHidesNoOtherAndIsNotUnknown(t *testing.T) {
	tb := open(t)
	tb.putRaw(t, `{"name":{"S":"broken"},"queue_url":{"N":"1"},"rate":{"S":"fast"},"senders":{"L":[{"N":"1"}]},
		"paused":{"S":"no"},"updated":{"S":"yesterday"}}`)
	tb.putRaw(t, `{"name":{"S":"invalid"},"queue_url":{"S":"http://localhost:4566/0/q"},"rate":{"N":"-1"}}`)
	require.NoError(t, tb.Put(t.Context(), registrytest.Full("payments")))

	all, err := tb.List(t.Context())
	require.Len(t, all, 1)
	require.Equal(t, "payments", all[0].Name)
	var partial *registry.PartialError
	require.ErrorAs(t, err, &partial)
	require.Len(t, partial.Bad, 2)
	for _, attr := range []string{"queue_url", "rate", "senders[0]", "paused", "updated"} {
		require.ErrorContains(t, partial.Bad["broken"], attr)
	}
	require.ErrorContains(t, partial.Bad["invalid"], "rate: -1")

	_, err = tb.Get(t.Context(), "broken")
	require.Error(t, err)
	require.NotErrorIs(t, err, registry.ErrUnknown)
}

// paged answers each Scan with one item a page.
type paged struct {
	dynamoregistry.API
	scans int
}

func (p *paged) Scan(ctx context.Context, in *dynamodb.ScanInput, o ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	p.scans++
	in.Limit = aws.Int32(1)
	return p.API.Scan(ctx, in, o...)
}

func TestListReadsEveryPage(t *testing.T) {
	tb := open(t)
	for _, name := range []string{"c", "a", "b"} {
		require.NoError(t, tb.Put(t.Context(), registrytest.Full(name)))
	}
	client := &paged{API: tb.client}
	one, err := dynamoregistry.New(dynamoregistry.Options{Client: client, Table: tb.name})
	require.NoError(t, err)
	all, err := one.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.Equal(t, []string{"a", "b", "c"}, []string{all[0].Name, all[1].Name, all[2].Name})
	require.GreaterOrEqual(t, client.scans, 3)
}

func TestCacheOverDynamoFindsAServiceAddedLater(t *testing.T) {
	tb := open(t)
	cache, err := registry.NewCache(registry.CacheOptions{Source: tb})
	require.NoError(t, err)
	_, err = cache.Refresh(t.Context())
	require.NoError(t, err)
	require.NoError(t, tb.Put(t.Context(), registrytest.Full("payments")))
	got, err := cache.Lookup(t.Context(), "payments")
	require.NoError(t, err)
	require.Equal(t, "payments", got.Name)
}

func TestCreatingATableTwiceIsFine(t *testing.T) {
	tb := open(t)
	require.NoError(t, dynamoregistry.CreateTable(t.Context(), tb.client, tb.name))
}

func TestOptionsReportEveryFault(t *testing.T) {
	_, err := dynamoregistry.New(dynamoregistry.Options{})
	require.ErrorContains(t, err, "client")
	require.ErrorContains(t, err, "table")
}
