package runner_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/runner"
	"github.com/myosin-jobs/myosin/pkg/simulation/jobs"
)

// rated is a store of one tenant, whose host c takes two calls a second.
type rated struct{ jobstore.Records }

func (rated) Tenant(_ context.Context, id string) (jobstore.Tenant, error) {
	return jobstore.Tenant{ID: id, Rates: map[string]float64{"host:c.example": 2}}, nil
}

// seen is what a fleet did to its targets.
type seen struct {
	failing, limited int           // calls
	found            int           // of the failing ones: in the first 15 s
	burst            int           // the most calls of the limited host in a second
	healthyLate      time.Duration // the worst
}

// fleetOf runs two minutes of load on three hosts: one fails every call, one has
// a rate far below what is due, one is healthy.
func fleetOf(t *testing.T, runners int) (out seen) {
	const minutes = 2
	host := func(name string) func(*job.Spec) {
		return func(sp *job.Spec) { sp.Target.URL, sp.Retry.MaxAttempts = "https://"+name+".example/", 1 }
	}
	inWorld(t, 0, jobs.Options{Answer: func(a runner.Attempt, _ int) jobs.Answer {
		if a.Target.Key() == "host:a.example" {
			return jobs.Answer{Code: 503, Took: 200 * time.Millisecond}
		}
		return jobs.Answer{Code: 200, Took: 100 * time.Millisecond}
	}}, func(t *testing.T, s *scene) {
		known, err := runner.NewTenants(runner.TenantsOptions{Store: rated{}})
		require.NoError(t, err)
		for range runners {
			s.start(func(_ *jobs.Proc, o *runner.Options) { o.Tenants = known })
		}
		kind := map[job.RunID]string{}
		due := map[job.RunID]time.Time{}
		for i := range minutes * 60 {
			at := midnight().Add(time.Minute + time.Duration(i)*time.Second)
			for _, name := range []string{"a", "a", "a", "a", "b", "c", "c", "c", "c"} {
				j := s.create(once(at), host(name))
				id := job.NewRunID(j.ID, 1, at)
				kind[id], due[id] = name, at
			}
		}
		s.until((1 + minutes) * time.Minute)
		perSecond := map[int64]int{}
		healthy := 0
		for _, c := range s.Calls(job.Job{}.ID) {
			switch kind[c.Run] {
			case "a":
				out.failing++
				if c.At.Sub(midnight()) < 75*time.Second {
					out.found++
				}
			case "b":
				healthy++
				out.healthyLate = max(out.healthyLate, c.At.Sub(due[c.Run]))
			case "c":
				out.limited++
				perSecond[c.At.Unix()]++
				out.burst = max(out.burst, perSecond[c.At.Unix()])
			}
		}
		require.Equal(t, minutes*60, healthy, "every run of the healthy host")
	})
	return out
}

func TestTwoRunnersAndTenProtectATargetAsOneWould(t *testing.T) {
	one := fleetOf(t, 1)
	t.Logf("one: %+v", one)
	require.Less(t, one.failing, 30, "of 480")
	require.InDelta(t, 240, one.limited, 24, "two a second, of 480")
	for _, n := range []int{2, 10} {
		many := fleetOf(t, n)
		t.Logf("%d: %+v", n, many)
		// Of a target's first calls each runner sees its own, and those of others a
		// second later; afterwards there are the probes alone, as many as one makes.
		require.InDelta(t, 1, float64(480-many.failing)/float64(480-one.failing), 0.12, "calls of %d runners held back, over those of one", n)
		require.LessOrEqual(t, many.found, 46, "some 56 where ten share no counts")
		require.InDelta(t, one.failing-one.found, many.failing-many.found, 15)
		require.InDelta(t, 1, float64(many.limited)/float64(one.limited), 0.25)
		require.LessOrEqual(t, many.burst, one.burst+6)
		require.LessOrEqual(t, many.healthyLate, one.healthyLate+100*time.Millisecond)
	}
}
