package embedded_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/awsclient"
	"github.com/myosin-jobs/myosin/services/standalone/embedded"
)

// start runs an engine and returns its client and a function that stops it.
func start(t testing.TB) (*embedded.Engine, *sqs.Client, func() error) {
	t.Helper()
	e, err := embedded.Listen(t.Context(), embedded.Options{Addr: "127.0.0.1:0"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() { _ = stop() })
	return e, sqsAt(t, e.URL()), stop
}

func sqsAt(t testing.TB, url string) *sqs.Client {
	t.Helper()
	for _, kv := range embedded.Environ(nil, "") {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	cfg, err := awsclient.Load(t.Context(), awsclient.Options{Endpoint: url, MaxAttempts: 1})
	require.NoError(t, err)
	return sqs.NewFromConfig(cfg)
}

func name() *string { return aws.String(fmt.Sprintf("q%x", time.Now().UnixNano())) }

func TestQueueURLsLeadToTheAddressThatWasAsked(t *testing.T) {
	e, c, _ := start(t)
	n := name()
	made, err := c.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: n})
	require.NoError(t, err)
	require.Equal(t, e.URL()+"/000000000000/"+*n, *made.QueueUrl)
	found, err := c.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: n})
	require.NoError(t, err)
	require.Equal(t, made.QueueUrl, found.QueueUrl)
	list, err := c.ListQueues(t.Context(), &sqs.ListQueuesInput{QueueNamePrefix: n})
	require.NoError(t, err)
	require.Equal(t, []string{*made.QueueUrl}, list.QueueUrls)

	_, port, err := net.SplitHostPort(e.Addr())
	require.NoError(t, err)
	other, err := sqsAt(t, "http://localhost:"+port).GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: n})
	require.NoError(t, err)
	require.Equal(t, "http://localhost:"+port+"/000000000000/"+*n, *other.QueueUrl)
}

func code(t *testing.T, err error) string {
	t.Helper()
	var api smithy.APIError
	require.ErrorAs(t, err, &api)
	return api.ErrorCode()
}

func TestWhatSQSRefusesIsRefused(t *testing.T) {
	_, c, _ := start(t)
	made, err := c.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: name()})
	require.NoError(t, err)
	url := made.QueueUrl
	send := func(body string, attrs map[string]types.MessageAttributeValue) error {
		_, err := c.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: &body, MessageAttributes: attrs})
		return err
	}
	require.NoError(t, send("tab\t and 😀", nil))
	require.NoError(t, send(strings.Repeat("x", 1<<20), nil))
	require.Equal(t, "InvalidParameterValue", code(t, send(strings.Repeat("x", 1<<20+1), nil)))
	require.Equal(t, "InvalidMessageContents", code(t, send("bell\a", nil)))
	many := make(map[string]types.MessageAttributeValue)
	for i := range 11 {
		many[fmt.Sprint("a", i)] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String("v")}
	}
	require.Equal(t, "InvalidParameterValue", code(t, send("x", many)))

	batch := func(bodies ...string) (*sqs.SendMessageBatchOutput, error) {
		in := &sqs.SendMessageBatchInput{QueueUrl: url}
		for i := range bodies {
			in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), MessageBody: &bodies[i]})
		}
		return c.SendMessageBatch(t.Context(), in)
	}
	out, err := batch("a", "b\x01", "c")
	require.NoError(t, err)
	require.Len(t, out.Successful, 2)
	require.Len(t, out.Failed, 1)
	require.Equal(t, "1", *out.Failed[0].Id)
	require.Equal(t, "InvalidMessageContents", *out.Failed[0].Code)
	require.True(t, out.Failed[0].SenderFault)
	out, err = batch("\x01")
	require.NoError(t, err)
	require.Len(t, out.Failed, 1)
	_, err = batch(strings.Repeat("x", 700<<10), strings.Repeat("y", 700<<10))
	require.Contains(t, code(t, err), "BatchRequestTooLong")
}

func TestAStopCutsTheLongPollsOfOthers(t *testing.T) {
	_, c, stop := start(t)
	made, err := c.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: name()})
	require.NoError(t, err)
	polled := make(chan error, 1)
	go func() {
		_, err := c.ReceiveMessage(context.WithoutCancel(t.Context()), &sqs.ReceiveMessageInput{QueueUrl: made.QueueUrl, WaitTimeSeconds: 20})
		polled <- err
	}()
	began := time.Now()
	require.NoError(t, stop())
	require.Less(t, time.Since(began), 5*time.Second)
	<-polled
}

func TestATakenAddressIsAnErrorAtOnce(t *testing.T) {
	e, _, _ := start(t)
	_, err := embedded.Listen(t.Context(), embedded.Options{Addr: e.Addr()})
	require.ErrorContains(t, err, "address already in use")
}

func TestADataDirectoryNeedsTheEnvironmentOfTheProcess(t *testing.T) {
	_, err := embedded.Listen(t.Context(), embedded.Options{Addr: "127.0.0.1:0", DataDir: t.TempDir()})
	require.ErrorContains(t, err, "KUMO_DATA_DIR")
}

func TestTheEnvironmentLeadsToNoRealAccount(t *testing.T) {
	have := []string{"HOME=/home/x", "AWS_PROFILE=prod", "AWS_ENDPOINT_URL_SQS=https://sqs.us-east-1.amazonaws.com", "KUMO_DATA_DIR=/old", "MYOSIN_PREFIX=p"}
	got := embedded.Environ(have, "/data")
	require.Contains(t, got, "HOME=/home/x")
	require.Contains(t, got, "MYOSIN_PREFIX=p")
	require.Contains(t, got, "KUMO_DATA_DIR=/data")
	require.Contains(t, got, "AWS_ACCESS_KEY_ID=any")
	for _, kv := range got {
		require.NotContains(t, kv, "prod")
		require.NotContains(t, kv, "ENDPOINT")
		require.NotContains(t, kv, "/old")
	}
	require.False(t, embedded.Same(have, got))
	require.True(t, embedded.Same(got, embedded.Environ(got, "/data")), "a second start would follow the first for ever")
	for _, kv := range embedded.Environ(got, "") {
		require.False(t, strings.HasPrefix(kv, "KUMO_"), kv)
	}
}

func BenchmarkThroughTheProxy(b *testing.B) {
	direct := kumo.NewServer()
	defer direct.Close()
	e, _, _ := start(b)
	for what, url := range map[string]string{"direct": direct.URL, "proxy": e.URL()} {
		b.Run(what, func(b *testing.B) {
			c := sqsAt(b, url)
			made, err := c.CreateQueue(b.Context(), &sqs.CreateQueueInput{QueueName: name()})
			require.NoError(b, err)
			for b.Loop() {
				_, err := c.GetQueueAttributes(b.Context(), &sqs.GetQueueAttributesInput{QueueUrl: made.QueueUrl})
				require.NoError(b, err)
			}
		})
	}
}
