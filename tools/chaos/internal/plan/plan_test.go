package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/chaos/internal/plan"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/proxy"
)

func options(seed uint64, length time.Duration) plan.Options {
	return plan.Options{
		Seed: seed, Length: length, Queue: "parcels", Caller: "caller", Engine: "engine",
		Places: []string{"inbound-0", "inbound-1", "scheduler-0", "scheduler-1", "scheduler-2", "worker-0", "worker-1"},
	}
}

func TestASeedFixesTheSchedule(t *testing.T) {
	first, again := plan.Make(options(7, 2*time.Minute)), plan.Make(options(7, 2*time.Minute))
	require.Equal(t, first, again)
	require.NotEqual(t, plan.Make(options(7, 2*time.Minute)), plan.Make(options(8, 2*time.Minute)))
}

func TestADiskThatCannotBeFilledIsLeftOutAndNothingElseChanges(t *testing.T) {
	o := options(7, 9*time.Minute)
	with := plan.Make(o)
	o.Engine = ""
	without := slices.DeleteFunc(with, func(e plan.Event) bool { return e.Kind == plan.Disk })
	require.Equal(t, without, plan.Make(o))
}

func TestTheManagedLayerHasFaultsOfItsOwnAndNothingElseChanges(t *testing.T) {
	for seed := range uint64(50) {
		o := options(seed, 2*time.Minute)
		without := plan.Make(o)
		o.Managed = []string{"runner-0", "runner-1", "api-0", "api-1"}
		all := plan.Make(o)
		seen := make(map[string]bool)
		rest := slices.DeleteFunc(slices.Clone(all), func(e plan.Event) bool {
			if !slices.Contains(o.Managed, e.Place) {
				return false
			}
			seen[e.Place[:3]+string(e.Kind)] = true
			require.LessOrEqual(t, e.At+e.Length+e.Window.Hold*14/10, o.Length)
			return true
		})
		require.Equal(t, without, rest)
		for _, kind := range []string{"runkill", "runfreeze", "runcalls", "apikill", "apiroll", "apicalls"} {
			require.True(t, seen[kind], "seed %d: %s", seed, kind)
		}
	}
}

func TestEveryFaultComesWithinTheTimeAndOneAtATimeToAProcess(t *testing.T) {
	for seed := range uint64(50) {
		for _, length := range []time.Duration{plan.MinLength, 2 * time.Minute, 29 * time.Minute} {
			kinds := make(map[plan.Kind]int)
			windows := make(map[proxy.Kind]int)
			events := plan.Make(options(seed, length))
			for i, e := range events {
				require.GreaterOrEqual(t, e.At, time.Duration(0))
				require.LessOrEqual(t, e.At+e.Length, length, e.String())
				kinds[e.Kind]++
				if e.Kind == plan.Calls {
					windows[e.Window.Kind]++
					// Ahead of the truth the endpoint may not be by more than a cancel bears.
					require.LessOrEqual(t, e.Window.Shift, 2*time.Second)
					// What is held must have arrived before the run's end.
					require.LessOrEqual(t, e.At+e.Length+e.Window.Hold*14/10, length)
					continue
				}
				for _, o := range events[:i] {
					if o.Kind != plan.Calls && o.Place == e.Place {
						require.Less(t, o.At+o.Length, e.At, "%s\n%s", o.String(), e.String())
					}
				}
			}
			for _, k := range []plan.Kind{plan.Kill, plan.Freeze, plan.Clock, plan.Queue, plan.Disk, plan.Calls} {
				require.NotZero(t, kinds[k], "seed %d, %s: %s", seed, length, k)
			}
			require.Len(t, windows, 12, "every fault of calls")
		}
	}
}
