package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/chaos/internal/storm"
)

// envRun is set where tests are to start real processes.
const envRun = "MYOSIN_E2E"

// TestMain lets the test's program be the children of a run, as chaos itself is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasSuffix(os.Args[1], "-process") {
		os.Exit(run(os.Args[1:]))
	}
	if err := isolate(); err != nil { // two runs at once may not
		panic(err)
	}
	os.Exit(m.Run())
}

func TestChaosBreaksNoPromise(t *testing.T) {
	if os.Getenv(envRun) == "" {
		t.Skip("starts real processes for minutes: set " + envRun + " to run it")
	}
	for _, seed := range []uint64{1, 2} {
		t.Run(fmt.Sprintf("Seed%d", seed), func(t *testing.T) {
			t.Parallel()
			var schedule, account bytes.Buffer
			err := storms(t.Context(), storm.Options{
				Seed: seed, Duration: 3 * time.Minute, Rate: 40, Inbounds: 2, Schedulers: 3, Workers: 2, Runs: runs(t), Runners: 2, APIs: 2, Progress: &schedule,
			}, false, &account)
			require.NoError(t, err, "%s\n%s", schedule.String(), account.String())
			t.Log(account.String())
		})
	}
}

// runs is how many jobs a second the managed layer has. By default it is left out:
// its runs have not been green long enough to stand in the way of everything else.
func runs(t *testing.T) float64 {
	t.Helper()
	s := os.Getenv("MYOSIN_CHAOS_RUNS")
	if s == "" {
		return 0
	}
	n, err := strconv.ParseFloat(s, 64)
	require.NoError(t, err)
	return n
}

func TestWrongFlagsAreToldTogether(t *testing.T) {
	err := (&storm.Options{Duration: time.Minute, Rate: -1, Endpoint: "localhost", Engine: "steam", Runs: 500}).Validate()
	for _, part := range []string{"duration", "rate", "endpoint", "engine", "inbounds", "schedulers", "workers", "runs", "runners", "apis"} {
		require.ErrorContains(t, err, part)
	}
}
