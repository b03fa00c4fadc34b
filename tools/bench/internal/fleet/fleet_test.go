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

func TestJobsLaidIntoTheTableAreDeliveredOnceByRealProcesses(t *testing.T) {
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
