package simulation_test

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/simulation"
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
// 60), MYOSIN_SIM_FIRST the first. To replay one seed: MYOSIN_SIM_FIRST=<seed>
// MYOSIN_SIM_SEEDS=1 MYOSIN_SIM_REPEAT=20.
func TestSeeds(t *testing.T) {
	first, seeds := env(t, "MYOSIN_SIM_FIRST", 1), env(t, "MYOSIN_SIM_SEEDS", 60)
	repeat := env(t, "MYOSIN_SIM_REPEAT", 1)
	var mu sync.Mutex
	var sum simulation.Report
	t.Run("worlds", func(t *testing.T) {
		for i := range seeds * repeat {
			seed := first + i%seeds
			t.Run(strconv.Itoa(seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					breaches, r, err := simulation.Run(uint64(seed), simulation.Options{})
					require.NoError(t, err)
					mu.Lock()
					defer mu.Unlock()
					sum.Triggers += r.Triggers
					sum.Delivered += r.Delivered
					sum.Cancelled += r.Cancelled
					sum.Duplicates += r.Duplicates
					sum.Timed += r.Timed
					if len(breaches) > 0 {
						t.Errorf("seed %d breaks %d promises (replay: MYOSIN_SIM_FIRST=%d MYOSIN_SIM_SEEDS=1 MYOSIN_SIM_REPEAT=20 go test ./pkg/simulation -run TestSeeds)\n%s\nfaults:\n%s",
							seed, len(breaches), seed, strings.Join(cut(breaches, 12), "\n"), strings.Join(r.Faults, "\n"))
					}
				})
			})
		}
	})
	t.Logf("%d worlds: %d triggers, %d delivered, %d cancelled, %d duplicates, each explained, %d held to their time", seeds*repeat, sum.Triggers, sum.Delivered, sum.Cancelled, sum.Duplicates, sum.Timed)
}

func cut(s []string, n int) []string {
	if len(s) > n {
		return append(s[:n:n], "…")
	}
	return s
}

func TestAWorldWithoutFaultsHasNoDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaches, r, err := simulation.Run(7, simulation.Options{Faults: -1})
		require.NoError(t, err)
		require.Empty(t, breaches)
		require.Zero(t, r.Duplicates)
		require.Greater(t, r.Delivered, 200)
		require.Greater(t, r.Timed, 200)
	})
}
