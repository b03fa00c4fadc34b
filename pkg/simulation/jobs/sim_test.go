package jobs_test

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/simulation/jobs"
)

// env reads a whole number from the environment.
func env(t *testing.T, name string, def int) int {
	v := os.Getenv(name)
	if v == "" {
		return def
	}
	n, err := strconv.Atoi(v)
	require.NoError(t, err, name)
	return n
}

// TestSeeds lives through many worlds. MYOSIN_SIM_SEEDS sets how many (default
// 30), MYOSIN_SIM_FIRST the first. To replay one seed: MYOSIN_SIM_FIRST=<seed>
// MYOSIN_SIM_SEEDS=1 MYOSIN_SIM_REPEAT=20.
func TestSeeds(t *testing.T) {
	first, seeds := env(t, "MYOSIN_SIM_FIRST", 1), env(t, "MYOSIN_SIM_SEEDS", 30)
	repeat := env(t, "MYOSIN_SIM_REPEAT", 1)
	var mu sync.Mutex
	var sum jobs.Report
	states := map[job.State]int{}
	t.Run("worlds", func(t *testing.T) {
		for i := range seeds * repeat {
			seed := first + i%seeds
			t.Run(strconv.Itoa(seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					breaches, r, err := jobs.Run(uint64(seed), jobs.Sizes{})
					require.NoError(t, err)
					mu.Lock()
					defer mu.Unlock()
					sum.Jobs += r.Jobs
					sum.Runs += r.Runs
					sum.Occurrences += r.Occurrences
					sum.Calls += r.Calls
					sum.Crashes += r.Crashes
					sum.Kills += r.Kills
					for s, n := range r.States {
						states[s] += n
					}
					if len(breaches) > 0 {
						t.Errorf("seed %d breaks %d promises (replay: MYOSIN_SIM_FIRST=%d MYOSIN_SIM_SEEDS=1 MYOSIN_SIM_REPEAT=20 go test ./pkg/simulation/jobs -run TestSeeds)\n%s\nfaults:\n%s",
							seed, len(breaches), seed, strings.Join(breaches[:min(len(breaches), 12)], "\n"), strings.Join(r.Faults, "\n"))
					}
				})
			})
		}
	})
	t.Logf("%d worlds: %d jobs, %d occurrences, %d runs (%v), %d calls, %d kills, %d crashes",
		seeds*repeat, sum.Jobs, sum.Occurrences, sum.Runs, states, sum.Calls, sum.Kills, sum.Crashes)
	require.Greater(t, sum.Occurrences, 100*seeds)
}

func TestAWorldWithoutFaultsMakesEachAttemptOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaches, r, err := jobs.Run(7, jobs.Sizes{Faults: -1})
		require.NoError(t, err)
		require.Empty(t, breaches)
		require.Zero(t, r.Crashes)
		require.Greater(t, r.Calls, 100)
	})
}
