package fleet_test

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
	"github.com/myosin-jobs/myosin/tools/bench/internal/fleet"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null"
)

// TestMain is the test, and the processes that the test starts.
func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == fleet.Command:
		err = fleet.Serve(ctx, os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == "endpoint":
		var c null.Command
		set := settings.New("endpoint", "")
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

func options(t *testing.T) fleet.Options {
	o := fleet.Defaults()
	o.Partitions, o.Services, o.Schedulers, o.Progress = 4, 3, 2, t.Output()
	o.Patience = time.Minute
	return o
}

// small is a command with a load that suits a test.
func small(t *testing.T, command string, change func(*fleet.Options)) map[string]any {
	t.Helper()
	for _, p := range fleet.Presets() {
		if p.Options.Command != command {
			continue
		}
		o := p.Options
		o.Partitions, o.Progress, o.Patience = 4, t.Output(), time.Minute
		change(&o)
		r, err := p.Measure(t.Context(), host.Facts{}, o)
		require.NoError(t, err)
		require.NoError(t, r.Failure())
		require.NoError(t, r.WriteText(t.Output()))
		var out bytes.Buffer
		require.NoError(t, r.WriteJSON(&out))
		var m map[string]any
		require.NoError(t, json.Unmarshal(out.Bytes(), &m))
		require.Equal(t, command, m["command"])
		return m
	}
	require.Fail(t, "no such command", command)
	return nil
}

func TestAWaveIsHeldToTheTablesLimitAndUrgentJobsPassIt(t *testing.T) {
	t.Parallel()
	m := small(t, "wave", func(o *fleet.Options) { o.Jobs, o.Urgent, o.TableWrites, o.StandardWrites = 2000, 50, 1000, 800 })
	require.InDelta(t, 2050, m["jobs_delivered"], 0)
	require.Greater(t, m["standard_lateness_max_ms"], 3000.0, "4000 writes at 800 a second, less what the bucket held")
	require.Less(t, m["urgent_lateness_p99_ms"], m["standard_lateness_p99_ms"])
	require.Positive(t, m["scheduler_0_peak_mib"])
	require.Positive(t, m["endpoint_peak_mib"])
	require.Contains(t, m, "throttled_statements")
}

func TestOverdueJobsAreDeliveredWithoutWaiting(t *testing.T) {
	t.Parallel()
	m := small(t, "overdue", func(o *fleet.Options) { o.Jobs = 2000 })
	require.InDelta(t, 2000, m["jobs_delivered"], 0)
	require.Positive(t, m["scheduler_peak_mib"])
	require.NotContains(t, m, "standard_lateness_p99_ms", "an hour before the start is nobody's lateness")
}

func TestATicksCostIsToldForEachSizeAndTheRowsStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	m := small(t, "table", func(o *fleet.Options) { o.Jobs, o.Rows, o.Rounds, o.Overdue = 200, 200_000, 1, time.Hour })
	for _, rows := range []string{"rows_200_", "rows_20000_", "rows_200000_"} {
		require.Positive(t, m[rows+"cpu_us_per_tick"])
		require.Positive(t, m[rows+"endpoint_us_per_query"])
	}
	// All of them once are some 15,000 units, in the few ticks that this takes.
	require.Less(t, m["rows_200000_read_units_per_tick"], 300.0, "rows of next year are not read")
	require.Contains(t, m, "rows_200000_read_units_ratio")
	require.Positive(t, m["tick_cost_ratio_max"])
}

func TestFurtherSchedulersShareTheBacklog(t *testing.T) {
	t.Parallel()
	m := small(t, "scale", func(o *fleet.Options) { o.Jobs, o.Schedulers, o.Partitions = 600, 2, 8 })
	require.Positive(t, m["schedulers_1_jobs_per_s"])
	require.Positive(t, m["ratio_1_to_2"])
	require.NotContains(t, m, "schedulers_4_jobs_per_s")
}

func TestJobsLaidIntoTheTableAreDeliveredOnceByRealProcesses(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Jobs, o.Rate, o.Urgent = 400, 400, 20
	r, err := fleet.Run(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, r.Failure())
	var out bytes.Buffer
	require.NoError(t, r.WriteJSON(&out))
	var m map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &m))
	require.InDelta(t, 420, m["jobs_delivered"], 0)
	require.InDelta(t, 2, m["write_units_per_job"], 0.01, "acquire and complete")
	require.Positive(t, m["scheduler_cpu_us_per_job"])
	require.Contains(t, m, "urgent_lateness_p99_ms")
}

func TestOptionsReportEveryProblem(t *testing.T) {
	o := fleet.Options{Jobs: -1, Rate: -1, Services: 1000, Linger: time.Hour}
	err := o.Validate()
	for _, flag := range []string{"--jobs", "--rate", "--services", "--partitions", "--payload", "--schedulers", "--linger"} {
		require.ErrorContains(t, err, flag)
	}
}
