package runs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/tools/bench/internal/endpoint"
	"github.com/myosin-jobs/myosin/tools/bench/internal/engine"
	"github.com/myosin-jobs/myosin/tools/bench/internal/fleet"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null"
	"github.com/myosin-jobs/myosin/tools/bench/internal/runs"
)

// TestMain is the test, and the processes that the test starts.
func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command := ""
	if len(os.Args) > 1 {
		command = os.Args[1]
	}
	var err error
	switch command {
	case fleet.Command:
		err = fleet.Serve(ctx, os.Args[2:])
	case runs.Command:
		err = runs.Serve(os.Args[2:], os.Stdin, os.Stdout)
	case engine.Command:
		err = engine.Serve(os.Stdin, os.Stdout)
	case endpoint.Command:
		var c null.Command
		set := settings.New(endpoint.Command, "")
		c.Bind(set)
		if err = set.Parse(os.Args[2:], func(string) (string, bool) { return "", false }, os.Stderr); err == nil {
			err = c.Resolve()
		}
		if err == nil {
			err = c.Serve(ctx, os.Stdin, os.Stdout)
		}
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// small is a shape with a load that suits a test.
func small(t *testing.T, shape string, change func(*runs.Options)) map[string]any {
	t.Helper()
	for _, s := range runs.Shapes() {
		if s.Options.Shape != shape {
			continue
		}
		o := s.Options
		o.Partitions, o.Progress, o.Patience, o.Settle = 4, t.Output(), time.Minute, 3*time.Second
		change(&o)
		r, err := runs.Run(t.Context(), o)
		require.NoError(t, err)
		require.NoError(t, r.Failure())
		require.NoError(t, r.WriteText(t.Output()))
		var out bytes.Buffer
		require.NoError(t, r.WriteJSON(&out))
		var m map[string]any
		require.NoError(t, json.Unmarshal(out.Bytes(), &m))
		require.Equal(t, shape, m["shape"])
		return m
	}
	require.Fail(t, "no such shape", shape)
	return nil
}

func TestJobsCreatedAtARateReachTheTargetOnceAndTheirRequestsAreCounted(t *testing.T) {
	t.Parallel()
	m := small(t, "load", func(o *runs.Options) { o.Jobs, o.Rate, o.Lead = 60, 30, 3*time.Second })
	require.InDelta(t, 60, m["runs"], 0)
	require.Positive(t, m["standard_lateness_p99_ms"])
	require.InDelta(t, 1, m["creator_dynamodb_transact_write_items_per_run"], 0, "creation is one transaction")
	require.InDelta(t, 2, m["runner_dynamodb_put_item_per_run"], 0, "RUNNING and its end")
	require.Greater(t, m["requests_per_run"], 5.0)
	require.NotContains(t, m, "write_units_per_run", "kumo tells none")
}

func TestAWaveIsSpreadOverItsToleranceAndUrgentRunsAreNot(t *testing.T) {
	t.Parallel()
	m := small(t, "wave", func(o *runs.Options) { o.Jobs, o.Urgent, o.Cron, o.Tolerance = 300, 10, false, 12*time.Second })
	require.InDelta(t, 310, m["runs"], 0)
	require.Greater(t, m["standard_lateness_p50_ms"], 3000.0, "half of them in the half of the tolerance")
	require.Less(t, m["urgent_lateness_p99_ms"], m["standard_lateness_p50_ms"])
	require.Less(t, m["lateness_after_due_p50_ms"], 1000.0)
	require.InDelta(t, 25, m["runs_per_s_mean"], 3)
	require.Greater(t, m["max_over_mean"], 1.0)
	require.InDelta(t, 6, m["write_units_beyond_trigger_per_run"], 0.5, "of jobs that run once: progress and its index, two of the run and its index")
	require.InDelta(t, 2, m["write_units_triggers_per_run"], 0.1, "acquired and completed; what inserted them came before")
}

func TestABacklogIsCalledAsManyAtATimeAsThereAreSlots(t *testing.T) {
	t.Parallel()
	m := small(t, "calls", func(o *runs.Options) { o.Jobs, o.Concurrency = 400, 41 })
	require.InDelta(t, 400, m["runs"], 0)
	require.InDelta(t, 40, m["calls_in_flight_max"], 1)
	require.Positive(t, m["calls_per_s_steady"])
	require.Less(t, m["calls_per_s_steady"], 201.0, "40 slots of 200 ms")
	require.Positive(t, m["connections_per_run"])
	require.NotContains(t, m, "standard_lateness_p99_ms", "a backlog is late by what it is")
}

func TestOptionsReportEveryProblem(t *testing.T) {
	o := runs.Options{Engine: "aws", Rate: -1, Delay: time.Hour, Minutes: 3}
	err := o.Validate()
	for _, flag := range []string{"--jobs", "--engine", "--rate", "--delay", "--minutes", "--runners", "--schedulers", "--concurrency", "--urgent-slots", "--partitions", "--payload", "--settle"} {
		require.ErrorContains(t, err, flag)
	}
	for _, s := range runs.Shapes() {
		require.NoError(t, s.Options.Validate(), s.Options.Shape)
	}
}
