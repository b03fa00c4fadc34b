package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/awsclient"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/jobstore/dynamojobs"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func logger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// world is an engine with a bucket and a runs table that has a stream.
type world struct {
	t      *testing.T
	url    string
	cfg    aws.Config
	bucket string
	names  platform.Names
	s3     *s3.Client
	dynamo *dynamodb.Client
	store  *dynamojobs.Store
}

func newWorld(t *testing.T, name string) *world {
	t.Helper()
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	cfg, err := awsclient.Load(t.Context(), awsclient.Options{Endpoint: srv.URL, Region: "us-east-1"})
	require.NoError(t, err)
	w := &world{t: t, url: srv.URL, cfg: cfg, bucket: "archive-" + name, names: platform.Names{Prefix: "arch" + name}}
	w.s3 = s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })
	_, err = w.s3.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &w.bucket})
	require.NoError(t, err)
	w.dynamo = dynamodb.NewFromConfig(cfg)
	table := w.names.Runs()
	attr := func(name string) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: types.ScalarAttributeTypeS}
	}
	_, err = w.dynamo.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{attr("p"), attr("s")},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("p"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("s"), KeyType: types.KeyTypeRange},
		},
		StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeOldImage},
	})
	require.NoError(t, err)
	w.store, err = dynamojobs.New(dynamojobs.Options{Client: w.dynamo, Jobs: w.names.Jobs(), Runs: table})
	require.NoError(t, err)
	return w
}

func (w *world) options() Options {
	return Options{
		Prefix: w.names.Prefix, Endpoint: w.url, Region: "us-east-1", Bucket: w.bucket,
		LogFormat: "text", LogLevel: "info", LogOutput: io.Discard,
	}
}

// remove deletes every run there is.
func (w *world) remove() {
	w.t.Helper()
	table := w.names.Runs()
	out, err := w.dynamo.Scan(w.t.Context(), &dynamodb.ScanInput{TableName: &table})
	require.NoError(w.t, err)
	for _, it := range out.Items {
		_, err := w.dynamo.DeleteItem(w.t.Context(), &dynamodb.DeleteItemInput{
			TableName: &table, Key: map[string]types.AttributeValue{"p": it["p"], "s": it["s"]},
		})
		require.NoError(w.t, err)
	}
}

// objects reads the whole bucket.
func (w *world) objects() map[string][]byte {
	w.t.Helper()
	list, err := w.s3.ListObjectsV2(w.t.Context(), &s3.ListObjectsV2Input{Bucket: &w.bucket})
	require.NoError(w.t, err)
	out := map[string][]byte{}
	for _, o := range list.Contents {
		got, err := w.s3.GetObject(w.t.Context(), &s3.GetObjectInput{Bucket: &w.bucket, Key: o.Key})
		require.NoError(w.t, err)
		body, err := io.ReadAll(got.Body)
		require.NoError(w.t, err)
		require.NoError(w.t, got.Body.Close())
		out[*o.Key] = body
	}
	return out
}

// fullRun has something in every field.
func fullRun(id byte, nominal time.Time) job.Run {
	r := job.NewRun(trigger.ID{id, 2, 3}, 7, nominal)
	start := nominal.Add(1500 * time.Millisecond)
	r.ID = r.ID.Redriven()
	r.OriginalID, r.Tenant, r.Kind, r.State = job.NewRunID(r.Job, 6, nominal), "acme", job.Redriven, job.Dead
	r.Reason, r.Attempt, r.Failures, r.Crashes = "HTTP 503", 2, 1, 1
	r.Attempts = []job.Attempt{
		{Number: 1, Start: start, End: start.Add(time.Second), Error: "crashed"},
		{Number: 2, Start: start.Add(2 * time.Second), End: start.Add(3*time.Second + 123456*time.Nanosecond), Error: "HTTP 503", StatusCode: 503, Excerpt: "secret answer"},
	}
	r.Skipped = job.Range{From: nominal.Add(-time.Hour), Until: nominal.Add(-time.Minute), Count: 60}
	r.Ended, r.Payload = start.Add(4*time.Second), []byte("secret payload")
	r.Call = &job.Call{Target: job.Target{}, Payload: []byte("secret call")}
	return r
}

func TestRunsRemovedFromTheTableAreReadBackFieldByField(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "stream")
	runs := map[string]job.Run{}
	for i := range 5 {
		r := fullRun(byte(i), day1.AddDate(0, 0, i%2))
		if i == 4 { // nothing that can be left out
			r = job.NewRun(trigger.ID{99}, 1, day1)
			r.State, r.Ended = job.Skipped, day1.Add(time.Minute)
		}
		require.NoError(t, w.store.Commit(t.Context(), jobstore.Tx{Runs: []job.Run{r}}))
		runs[string(r.ID)] = r
	}
	w.remove()
	o := w.options()
	o.Stream, o.Once = true, true
	require.NoError(t, Run(t.Context(), o))
	require.Empty(t, w.objects(), "nobody's time to live removed them")

	o.AllRemovals = true
	require.NoError(t, Run(t.Context(), o))
	first := w.objects()
	require.Len(t, first, 2)
	ids := map[string]bool{}
	for key, body := range first {
		require.NotContains(t, string(body), "secret")
		for _, got := range parse(t, body) {
			r, ok := runs[got.RunID]
			require.True(t, ok, got.RunID)
			delete(runs, got.RunID)
			require.NotEmpty(t, got.EventID)
			require.False(t, ids[got.EventID])
			ids[got.EventID] = true
			require.Contains(t, key, "runs/day="+r.Nominal.Format(time.DateOnly)+"/")
			want := Row{
				EventID: got.EventID, RunID: string(r.ID), JobID: r.Job.String(), Tenant: r.Tenant, Kind: string(r.Kind),
				Generation: r.Generation, Nominal: at(r.Nominal), State: string(r.State), Reason: r.Reason,
				Failures: int64(r.Failures), Crashes: int64(r.Crashes), OriginalRunID: string(r.OriginalID),
				SkippedFrom: at(r.Skipped.From), SkippedUntil: at(r.Skipped.Until), SkippedCount: r.Skipped.Count, Ended: at(r.Ended),
				Attempts: []RowAttempt{},
			}
			for _, a := range r.Attempts {
				want.Attempts = append(want.Attempts, RowAttempt{
					Number: int64(a.Number), Start: at(a.Start), End: at(a.End), Error: a.Error, StatusCode: int64(a.StatusCode),
				})
			}
			if len(got.Attempts) == 0 {
				got.Attempts = []RowAttempt{}
			}
			require.Equal(t, want, got)
		}
	}
	require.Empty(t, runs)

	require.NoError(t, Run(t.Context(), o))
	require.Equal(t, first, w.objects(), "the stream read twice")
}

// at is what a column holds of a time: its microseconds.
func at(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return aws.Time(time.UnixMicro(t.UnixMicro()).UTC())
}

func TestReadingTheStreamGoesOnUntilStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "follow")
	o := w.options()
	o.Stream, o.AllRemovals = true, true
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o) }()
	r := fullRun(1, day1)
	require.NoError(t, w.store.Commit(t.Context(), jobstore.Tx{Runs: []job.Run{r}}))
	w.remove()
	require.Eventually(t, func() bool { return len(w.objects()) == 1 }, 10*time.Second, 50*time.Millisecond)
	stop()
	require.NoError(t, <-done)
}

func TestARecordedEventIsArchivedOnceHoweverOften(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "event")
	o := w.options()
	o.Events = "testdata/event.json,testdata/event.json"
	require.NoError(t, Run(t.Context(), o))
	first := w.objects()
	require.Len(t, first, 3)
	var rows []Row
	for key, body := range first {
		if strings.HasPrefix(key, runsPrefix) {
			rows = append(rows, parse(t, body)...)
		} else {
			require.Equal(t, "undecodable/0000000000000000000400000000006789012347-c81e728d9d4c2f636f067f89cc14862c.json", key)
			require.Contains(t, string(body), `"not-a-run"`)
		}
	}
	require.Len(t, rows, 2)
	require.NoError(t, Run(t.Context(), o))
	require.Equal(t, first, w.objects())
}

func TestABucketThatIsNotThereFailsTheBatchFromItsFirstRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "nobucket")
	o := w.options()
	o.Bucket, o.Events = "no-such-bucket", "testdata/event.json"
	require.ErrorContains(t, Run(t.Context(), o), "not archived from record 400000000006789012345 on")
}

func TestEveryKindOfAttributeReachesTheStoreAsItLayInTheTable(t *testing.T) {
	t.Parallel()
	streamed := map[string]streamtypes.AttributeValue{
		"s": &streamtypes.AttributeValueMemberS{Value: "é"}, "n": &streamtypes.AttributeValueMemberN{Value: "1.5"},
		"b": &streamtypes.AttributeValueMemberB{Value: []byte{0, 255}}, "t": &streamtypes.AttributeValueMemberBOOL{Value: true},
		"z": &streamtypes.AttributeValueMemberNULL{Value: true}, "ss": &streamtypes.AttributeValueMemberSS{Value: []string{"a"}},
		"ns": &streamtypes.AttributeValueMemberNS{Value: []string{"1"}}, "bs": &streamtypes.AttributeValueMemberBS{Value: [][]byte{{1}}},
		"m": &streamtypes.AttributeValueMemberM{Value: map[string]streamtypes.AttributeValue{"l": &streamtypes.AttributeValueMemberL{
			Value: []streamtypes.AttributeValue{&streamtypes.AttributeValueMemberS{Value: "x"}, &streamtypes.AttributeValueMemberNULL{Value: true}},
		}}},
	}
	want, err := attributevalue.FromDynamoDBStreamsMap(streamed)
	require.NoError(t, err)
	raw, err := json.Marshal(fromItem(streamed))
	require.NoError(t, err)
	var image map[string]events.DynamoDBAttributeValue
	require.NoError(t, json.Unmarshal(raw, &image))
	got, err := toItem(image)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestOptionsAtFaultAreReportedTogether(t *testing.T) {
	t.Parallel()
	var o Options
	s := settings.New("archiver", "")
	o.Settings(s)
	require.NoError(t, s.Parse([]string{"--once"}, func(string) (string, bool) { return "", false }, io.Discard))
	err := o.Validate()
	require.ErrorContains(t, err, "MYOSIN_ARCHIVE_BUCKET")
	require.ErrorContains(t, err, "one of --event and --stream")
	require.ErrorContains(t, err, "once: only with --stream")
	require.ErrorContains(t, (&Options{Bucket: "b", Lambda: true, AllRemovals: true}).Validate(), "outside Lambda")
	require.NoError(t, (&Options{Bucket: "b", Lambda: true}).Validate())
	_, err = NewArchiver(ArchiverOptions{})
	require.ErrorContains(t, err, "no client")
	require.ErrorContains(t, err, "no name")
}

const childEnv = "ARCHIVER_TEST_BUCKET"

// TestLambdaChild is the process of the next test: the runtime's loop cannot be stopped.
func TestLambdaChild(t *testing.T) {
	bucket := os.Getenv(childEnv)
	if bucket == "" {
		t.Skip("not a child")
	}
	require.NoError(t, Run(t.Context(), Options{Lambda: true, Bucket: bucket, LogFormat: "json", LogLevel: "info"}))
}

func TestTheLambdaRuntimeGetsTheAnswerThatItAsksFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "lambda")
	event, err := os.ReadFile("testdata/event.json")
	require.NoError(t, err)
	served := make(chan struct{}, 1)
	served <- struct{}{}
	answers := make(chan string, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", func(rw http.ResponseWriter, r *http.Request) {
		select {
		case <-served:
		case <-r.Context().Done():
			return
		}
		rw.Header().Set("Lambda-Runtime-Aws-Request-Id", "one")
		rw.Header().Set("Lambda-Runtime-Deadline-Ms", fmt.Sprint(time.Now().Add(30*time.Second).UnixMilli()))
		_, _ = rw.Write(event)
	})
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/one/{what}", func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rw.WriteHeader(http.StatusAccepted)
		answers <- r.PathValue("what") + " " + string(body)
	})
	runtimeAPI := httptest.NewServer(mux)
	t.Cleanup(runtimeAPI.Close)

	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestLambdaChild$")
	var out bytes.Buffer
	child.Stdout, child.Stderr = &out, &out
	child.Env = append(os.Environ(), childEnv+"="+w.bucket, "AWS_ENDPOINT_URL="+w.url,
		"AWS_LAMBDA_RUNTIME_API="+strings.TrimPrefix(runtimeAPI.URL, "http://"))
	require.NoError(t, child.Start())
	select {
	case got := <-answers:
		require.Equal(t, `response {"batchItemFailures":[]}`, strings.Replace(got, "null", "[]", 1))
	case <-ctx.Done():
	}
	require.NoError(t, ctx.Err())
	stop()
	require.Error(t, child.Wait(), "it was stopped")
	require.Len(t, w.objects(), 3, out.String())
}
