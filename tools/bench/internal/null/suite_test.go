package null_test

import (
	"context"
	"net"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/awsclient"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/queuetest"
	"github.com/myosin-jobs/myosin/pkg/queue/sqsqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/registry/dynamoregistry"
	"github.com/myosin-jobs/myosin/pkg/registry/registrytest"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/dynamostore"
	"github.com/myosin-jobs/myosin/pkg/store/storetest"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null"
)

// start serves an endpoint over HTTP and returns a configuration that reaches it.
func start(t testing.TB, o null.Options) (*null.Endpoint, aws.Config) {
	t.Helper()
	e, err := null.New(o)
	require.NoError(t, err)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-served)
	})
	cfg, err := awsclient.Load(t.Context(), awsclient.Options{Endpoint: "http://" + l.Addr().String(), Region: "us-east-1"})
	require.NoError(t, err)
	return e, cfg
}

// triggers opens the trigger table of a random name.
func triggers(t testing.TB, cfg aws.Config, o dynamostore.Options) (*dynamostore.Store, string) {
	t.Helper()
	api := dynamodb.NewFromConfig(cfg)
	o.API, o.Table = api, "triggers-"+trigger.NewID().String()
	require.NoError(t, dynamostore.CreateTable(t.Context(), api, o.Table))
	s, err := dynamostore.New(o)
	require.NoError(t, err)
	return s, o.Table
}

func TestTheTriggerTablesSuiteInPartiQLBatches(t *testing.T) {
	e, cfg := start(t, null.Options{})
	storetest.Run(t, func(t *testing.T) store.Store {
		s, _ := triggers(t, cfg, dynamostore.Options{})
		return s
	})
	stats := e.Stats()
	require.Positive(t, stats.Operations["DynamoDB.BatchExecuteStatement"].Requests)
	require.Zero(t, stats.Operations["DynamoDB.BatchExecuteStatement"].Failed)
	require.Zero(t, stats.Operations["DynamoDB.BatchGetItem"].Failed)
}

func TestTheTriggerTablesSuiteInSingleCalls(t *testing.T) {
	e, cfg := start(t, null.Options{})
	storetest.Run(t, func(t *testing.T) store.Store {
		s, _ := triggers(t, cfg, dynamostore.Options{SingleItems: true})
		return s
	})
	require.Zero(t, e.Stats().Operations["DynamoDB.BatchExecuteStatement"].Requests)
}

func TestTheQueuesSuite(t *testing.T) {
	_, cfg := start(t, null.Options{})
	queuetest.Run(t, func(t *testing.T) queue.Queues {
		q, err := sqsqueue.New(cfg, sqsqueue.Options{})
		require.NoError(t, err)
		return q
	}, queuetest.Caps{}) // what SQS does, without an exception
}

func TestTheRegistrysSuite(t *testing.T) {
	_, cfg := start(t, null.Options{})
	client := dynamodb.NewFromConfig(cfg)
	registrytest.Source(t, func(t *testing.T) registry.Source {
		name := "services-" + trigger.NewID().String()
		require.NoError(t, dynamoregistry.CreateTable(t.Context(), client, name))
		r, err := dynamoregistry.New(dynamoregistry.Options{Client: client, Table: name})
		require.NoError(t, err)
		t.Cleanup(func() {
			_, err := client.DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: &name})
			require.NoError(t, err)
		})
		return r
	})
}
