package core_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/myosin-jobs/myosin/tools/bench/internal/core"
	"github.com/myosin-jobs/myosin/tools/bench/internal/engine"
	"github.com/myosin-jobs/myosin/tools/bench/internal/fleet"
	"github.com/myosin-jobs/myosin/tools/bench/internal/meter"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null"
)

// TestMain is the test, and the processes that the test starts.
func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) > 2 && os.Args[1] == core.Command:
		err = core.Serve(os.Args[2], os.Stdin, os.Stdout)
	case len(os.Args) > 2 && os.Args[1] == fleet.Command:
		err = fleet.Serve(context.Background(), os.Args[2:])
	default:
		if err = engine.Isolate(); err == nil {
			os.Exit(m.Run())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// small is a run of a few seconds.
func small(t *testing.T) core.Options {
	t.Helper()
	return core.Options{
		Rate: 20, Jobs: 60, Services: 2, Partitions: 4, Schedulers: 2, Urgent: 0.2, Short: true,
		LookAhead: 1500 * time.Millisecond, Lead: core.Span{Min: 3800 * time.Millisecond, Max: 4200 * time.Millisecond},
		Progress: t.Output(),
	}
}

// emulator is an engine in this process.
func emulator(t *testing.T) string {
	t.Helper()
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	return srv.URL
}

// endpoint is the null endpoint in this process.
func endpoint(t *testing.T, o null.Options) string {
	t.Helper()
	e, err := null.New(o)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-served)
	})
	return "http://" + l.Addr().String()
}

func flatOf(t *testing.T, r *core.Report) map[string]any {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, r.WriteJSON(&out))
	var flat map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &flat))
	return flat
}

func TestEveryJobOfASmallRunArrivesOnceThroughRealProcessesAndIsAccountedFor(t *testing.T) {
	old := goleak.IgnoreCurrent()
	o := small(t)
	o.Endpoint, o.Emulator = emulator(t), true
	r, err := core.Run(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, r.Failure())
	require.Equal(t, 60, r.Submitted)
	require.Equal(t, 60, r.Delivered)
	require.GreaterOrEqual(t, r.Received[core.Short].Count, int64(12), "every fifth is short, and what a slow machine stored late")
	require.Equal(t, int64(60), r.Received[core.All].Count+r.Received[core.Short].Count)
	require.Equal(t, r.Received[core.All].Count, r.Received[core.Standard].Count+r.Received[core.Urgent].Count)
	require.LessOrEqual(t, r.Visible[core.All].Max, r.Received[core.All].Max+time.Millisecond, "a job is on its queue before it is received")

	// Each process has counted its own part.
	inbound, scheduler, client, consumer := r.Used["inbound"], r.Used["scheduler"], r.Used["client"], r.Used["consumer"]
	require.GreaterOrEqual(t, inbound.Writes[meter.Insert].Statements, 60)
	require.Zero(t, scheduler.Writes[meter.Insert].Statements)
	require.Positive(t, scheduler.Writes[meter.Acquire].Statements)
	// A job that is due when it is drained is inserted as acquired, and completed by
	// inbound; a slow machine may repeat a write.
	require.GreaterOrEqual(t, inbound.Writes[meter.Complete].Statements+scheduler.Writes[meter.Complete].Statements, 60)
	require.Equal(t, 60, client.Requests["SQS.SendMessageBatch"])
	require.Empty(t, client.Writes)
	require.NotZero(t, scheduler.Requests["DynamoDB.Query"])
	require.NotZero(t, consumer.Requests["SQS.ReceiveMessage"])
	for name, used := range r.Used {
		require.Positive(t, used.CPU, name)
	}

	flat := flatOf(t, r)
	for _, key := range []string{
		"lateness_p50_ms", "lateness_p90_ms", "lateness_p99_ms", "lateness_max_ms", "standard_lateness_p99_ms",
		"visible_p50_ms", "visible_p99_ms", "short_lateness_p99_ms", "submit_p50_ms", "jobs_per_s",
		"requests_per_job", "sqs_requests_per_job", "dynamodb_requests_per_job", "consumer_requests_per_job",
		"inbound_requests_per_job", "scheduler_requests_per_job", "client_requests_per_job",
		"requests_client_sqs_send_message_batch", "requests_scheduler_dynamodb_delete_item",
		"write_statements_per_job", "write_units_per_job", "read_units_per_job", "insert_write_units_per_job", "acquire_write_statements_per_job",
		"inbound_write_units_per_job", "scheduler_write_units_per_job", "scheduler_read_units_per_job",
		"jobs_submitted", "jobs_delivered", "jobs_lost", "jobs_duplicated", "jobs_early",
		"client_cpu_us_per_job", "inbound_cpu_us_per_job", "scheduler_cpu_us_per_job", "consumer_cpu_us_per_job",
		"cores", "go_version", "kumo_version", "git_revision", "engine", "rate", "jobs", "schedulers", "wave",
	} {
		require.Contains(t, flat, key)
	}
	for key, value := range flat {
		require.Regexp(t, `^[a-z][a-z0-9_]*$`, key)
		require.NotContains(t, []string{"map[string]interface {}", "[]interface {}"}, fmt.Sprintf("%T", value), "%s is not flat", key)
	}
	require.Zero(t, flat["jobs_lost"])

	var out bytes.Buffer
	require.NoError(t, r.WriteText(&out))
	require.Contains(t, out.String(), "60 delivered")
	goleak.VerifyNone(t, old,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("net/http.(*conn).serve"), goleak.IgnoreAnyFunction("net/http/httptest.(*Server).goServe.func1"))
}

func TestAWaveOverAnyEndpointCostsThreeWritesAJob(t *testing.T) {
	t.Parallel()
	o := small(t)
	o.Endpoint = endpoint(t, null.Options{})
	o.Short, o.Rate, o.Urgent, o.Lead = false, float64(o.Jobs), 0, core.Span{Min: 6 * time.Second, Max: 6 * time.Second}
	r, err := core.Run(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, r.Failure())
	require.Equal(t, 60, r.Delivered)
	require.LessOrEqual(t, r.Dispatching, 2*time.Second, "all are due in one second")
	flat := flatOf(t, r)
	require.Equal(t, true, flat["wave"])
	for _, part := range []string{"write_statements_per_job", "write_units_per_job"} {
		forecast, _ := flat["other_"+part].(float64)
		require.Positive(t, forecast, "it is counted")
		require.LessOrEqual(t, forecast, 10.0/60, "at most a write for each service, minute and second, not for each job")
		require.InDelta(t, 1+forecast, flat["inbound_"+part], 0.002, "insert")
		require.InDelta(t, 2, flat["scheduler_"+part], 0, "acquire and complete")
		require.InDelta(t, 3+forecast, flat[part], 0.002)
	}
	for _, op := range []string{"insert", "acquire", "complete"} {
		require.InDelta(t, 1, flat[op+"_write_statements_per_job"], 0, op)
	}
	require.NotZero(t, r.Used["scheduler"].Requests["DynamoDB.BatchExecuteStatement"])
	require.Zero(t, r.Used["scheduler"].Requests["DynamoDB.UpdateItem"])
}

func TestJobsThatNoConsumerGetsAreLost(t *testing.T) {
	t.Parallel()
	n := null.Options{}
	n.Queues.Sink = true // takes messages and hands out none
	o := small(t)
	o.Endpoint, o.Short, o.Jobs, o.Rate, o.Patience = endpoint(t, n), false, 10, 5, 500*time.Millisecond
	r, err := core.Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, 10, r.Submitted)
	require.ErrorContains(t, r.Failure(), "10 jobs lost")
}

func TestAReportWithAJobAmissIsAFailure(t *testing.T) {
	require.NoError(t, (&core.Report{Submitted: 1, Delivered: 1}).Failure())
	require.Error(t, (&core.Report{}).Failure(), "a run of nothing proves nothing")
	for name, r := range map[string]core.Report{
		"lost": {Lost: 1}, "duplicates": {Repeated: 1}, "early": {Early: 1}, "refused": {Refused: 1},
		"rows left": {RowsLeft: 1}, "nobody submitted": {Unaccounted: 1}, "no job": {Strange: 1},
	} {
		r.Submitted = 1
		require.ErrorContains(t, r.Failure(), name)
	}
	cause := errors.New("the wire is cut")
	require.ErrorIs(t, (&core.Report{Submitted: 1, Refused: 1, Trouble: cause}).Failure(), cause)
	require.NoError(t, (&core.Report{Submitted: 1, Trouble: cause}).Failure(), "trouble that harmed no job")
}

func TestOptionsOutsideTheirRangeAreReportedTogether(t *testing.T) {
	o := core.Options{Rate: -1, Jobs: -1, Schedulers: 99, Urgent: 2, Lead: core.Span{Min: time.Second}, LookAhead: time.Millisecond}
	err := o.Validate()
	for _, flag := range []string{"--rate", "--jobs", "--schedulers", "--urgent", "--lead-time", "--look-ahead"} {
		require.ErrorContains(t, err, flag)
	}
	require.NoError(t, new(core.Options).Validate())
	_, err = core.Run(t.Context(), core.Options{})
	require.ErrorContains(t, err, "endpoint")
}

func TestALeadTimeIsARangeOrOneDuration(t *testing.T) {
	for text, want := range map[string]core.Span{
		"10s..20s": {Min: 10 * time.Second, Max: 20 * time.Second},
		"1m":       {Min: time.Minute, Max: time.Minute},
	} {
		got, err := core.ParseSpan(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
		again, err := core.ParseSpan(got.String())
		require.NoError(t, err)
		require.Equal(t, want, again)
	}
	for _, text := range []string{"", "..", "10", "1s..x", "1s..2s..3s"} {
		_, err := core.ParseSpan(text)
		require.Error(t, err, text)
	}
}
