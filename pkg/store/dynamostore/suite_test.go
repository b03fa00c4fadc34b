package dynamostore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/dynamostore"
	"github.com/myosin-jobs/myosin/pkg/store/storetest"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// wholeBody hands net/http bodies it knows to be in memory. The SDK's own body is
// of a type net/http does not know: it is sent apart from the headers, and where
// the answer overtakes the end of that write, the SDK closes the body, the write
// fails and the connection goes, its reply unread.
type wholeBody struct{ http.RoundTripper }

func (w wholeBody) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err := errors.Join(err, r.Body.Close()); err != nil {
			return nil, err
		}
		whole := *r
		whole.Body, whole.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
		r = &whole
	}
	return w.RoundTripper.RoundTrip(r) //nolint:wrapcheck // it stands for the transport.
}

func client(url string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &url,
		HTTPClient:  &http.Client{Transport: wholeBody{http.DefaultTransport}},
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

// counting counts the calls that tell which protocol is in use.
type counting struct {
	*dynamodb.Client
	batches, updates atomic.Int64
}

func (c *counting) BatchExecuteStatement(ctx context.Context, in *dynamodb.BatchExecuteStatementInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchExecuteStatementOutput, error) {
	out, err := c.Client.BatchExecuteStatement(ctx, in, o...)
	if err == nil {
		c.batches.Add(1)
	}
	return out, err
}

func (c *counting) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	c.updates.Add(1)
	return c.Client.UpdateItem(ctx, in, o...)
}

func open(t *testing.T, api *counting, opts dynamostore.Options) *dynamostore.Store {
	t.Helper()
	opts.API, opts.Table = api, "triggers-"+trigger.NewID().String()
	require.NoError(t, dynamostore.CreateTable(t.Context(), api, opts.Table))
	t.Cleanup(func() {
		_, err := api.DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: &opts.Table})
		require.NoError(t, err)
	})
	s, err := dynamostore.New(opts)
	require.NoError(t, err)
	return s
}

func newKumo(t *testing.T) *counting {
	t.Helper()
	server := kumo.NewServer()
	t.Cleanup(server.Close)
	return &counting{Client: client(server.URL)}
}

func TestSuiteOnKumo(t *testing.T) {
	api := newKumo(t)
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, api, dynamostore.Options{}) })
	require.Zero(t, api.batches.Load(), "kumo knows no PartiQL")
	require.Positive(t, api.updates.Load())
}

func TestCreateTableIsIdempotent(t *testing.T) {
	api := newKumo(t)
	s := open(t, api, dynamostore.Options{})
	require.NoError(t, s.SetEpochs(t.Context(), nil, trigger.Epochs{{N: 4}}))
	tables, err := api.ListTables(t.Context(), &dynamodb.ListTablesInput{Limit: aws.Int32(100)})
	require.NoError(t, err)
	for _, name := range tables.TableNames {
		require.NoError(t, dynamostore.CreateTable(t.Context(), api, name))
	}
	e, err := s.Epochs(t.Context())
	require.NoError(t, err)
	require.Equal(t, trigger.Epochs{{N: 4}}, e)
}

// TestSuiteOnMinistack is part of `make e2e`, which fails if it did not run.
func TestSuiteOnMinistack(t *testing.T) {
	url := os.Getenv("MYOSIN_MINISTACK_URL")
	if url == "" {
		t.Skip("MYOSIN_MINISTACK_URL is not set: `make e2e` runs this on ministack")
	}
	api := &counting{Client: client(url)}
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, api, dynamostore.Options{}) })
	require.Positive(t, api.batches.Load(), "batches go out as PartiQL")
	t.Run("single items", func(t *testing.T) {
		api := &counting{Client: client(url)}
		storetest.Run(t, func(t *testing.T) store.Store { return open(t, api, dynamostore.Options{SingleItems: true}) })
		require.Zero(t, api.batches.Load())
	})
}
