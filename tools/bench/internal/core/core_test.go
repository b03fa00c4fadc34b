package core_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/myosin-jobs/myosin/tools/bench/internal/core"
	"github.com/myosin-jobs/myosin/tools/bench/internal/meter"
)

// small is a run of a few seconds over an engine in this process.
func small(t *testing.T) core.Options {
	t.Helper()
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	return core.Options{
		Endpoint: srv.URL, Rate: 20, Duration: 3 * time.Second, Services: 2, Urgent: 0.2, Short: true,
		LookAhead: 1500 * time.Millisecond, Lead: core.Span{Min: 3800 * time.Millisecond, Max: 4200 * time.Millisecond},
		Progress: t.Output(),
	}
}

func TestEveryJobOfASmallRunArrivesOnceAndIsAccountedFor(t *testing.T) {
	old := goleak.IgnoreCurrent()
	r, err := core.Run(t.Context(), small(t))
	require.NoError(t, err)
	require.NoError(t, r.Failure())
	require.Equal(t, 60, r.Submitted)
	require.Equal(t, 60, r.Delivered)
	require.Equal(t, int64(12), r.Received[core.Short].Count, "every fifth is short")
	require.Equal(t, int64(48), r.Received[core.All].Count)
	require.Equal(t, int64(48), r.Received[core.Standard].Count+r.Received[core.Urgent].Count)
	require.LessOrEqual(t, r.Visible[core.All].Max, r.Received[core.All].Max+time.Millisecond, "a job is on its queue before it is received")

	for _, k := range []meter.Kind{meter.Insert, meter.Acquire, meter.Complete} {
		// Not exactly: a slow machine may recover or repeat a write, and a job that
		// is due when it is drained is inserted as acquired.
		least := 60
		if k == meter.Acquire {
			least = 1
		}
		require.GreaterOrEqual(t, r.Writes[k].Statements, least, k)
		require.InDelta(t, float64(r.Writes[k].Statements), r.Writes[k].Units, 0.01, "rows of 300 bytes lie in 1 KB")
	}
	require.Equal(t, 60, r.Requests[meter.Call{Component: "client", Service: "SQS", Operation: "SendMessageBatch"}])
	require.NotZero(t, r.Requests[meter.Call{Component: "scheduler", Service: "DynamoDB", Operation: "Query"}])
	require.NotZero(t, r.Requests[meter.Call{Component: "consumer", Service: "SQS", Operation: "ReceiveMessage"}])

	var out bytes.Buffer
	require.NoError(t, r.WriteJSON(&out))
	var flat map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &flat))
	for _, key := range []string{
		"lateness_p50_ms", "lateness_p90_ms", "lateness_p99_ms", "lateness_max_ms", "standard_lateness_p99_ms",
		"visible_p50_ms", "visible_p99_ms", "short_lateness_p99_ms", "submit_p50_ms",
		"requests_per_job", "sqs_requests_per_job", "dynamodb_requests_per_job", "consumer_requests_per_job",
		"requests_client_sqs_send_message_batch", "requests_scheduler_dynamodb_delete_item",
		"write_statements_per_job", "write_units_per_job", "insert_write_units_per_job", "acquire_write_statements_per_job",
		"jobs_submitted", "jobs_delivered", "jobs_lost", "jobs_duplicated", "jobs_early", "bench_cpu_us_per_job",
		"cores", "go_version", "kumo_version", "git_revision", "engine", "rate", "duration_s",
	} {
		require.Contains(t, flat, key)
	}
	for key, value := range flat {
		require.Regexp(t, `^[a-z][a-z0-9_]*$`, key)
		require.NotContains(t, []string{"map[string]interface {}", "[]interface {}"}, fmt.Sprintf("%T", value), "%s is not flat", key)
	}
	require.Zero(t, flat["jobs_lost"])
	require.GreaterOrEqual(t, flat["write_statements_per_job"], 2.0)
	require.LessOrEqual(t, flat["write_statements_per_job"], 3.2)

	out.Reset()
	require.NoError(t, r.WriteText(&out))
	require.Contains(t, out.String(), "60 delivered, 0 lost, 0 duplicated")
	goleak.VerifyNone(t, old,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("net/http.(*conn).serve"), goleak.IgnoreAnyFunction("net/http/httptest.(*Server).goServe.func1"))
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
	o := core.Options{Rate: -1, Urgent: 2, Lead: core.Span{Min: time.Second}, LookAhead: time.Millisecond}
	err := o.Validate()
	for _, flag := range []string{"--rate", "--urgent", "--lead-time", "--look-ahead"} {
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
