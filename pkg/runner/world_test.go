package runner_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/runner"
	"github.com/myosin-jobs/myosin/pkg/simulation/jobs"
)

// scene is a world in virtual time, and what tests ask of it.
type scene struct {
	*jobs.World
	t *testing.T
}

// inWorld runs f in a world with so many runners, and checks at the end that
// nothing broke a rule on the way. Time begins at midnight UTC.
func inWorld(t *testing.T, runners int, o jobs.Options, f func(t *testing.T, s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, err := jobs.New(o)
		require.NoError(t, err)
		defer w.Close()
		s := &scene{w, t}
		for range runners {
			s.start()
		}
		f(t, s)
		s.sound()
	})
}

func (s *scene) start(change ...func(*jobs.Proc, *runner.Options)) *jobs.Proc {
	s.t.Helper()
	p, err := s.Start(change...)
	require.NoError(s.t, err)
	return p
}

// sound checks the rules that always hold.
func (s *scene) sound() {
	s.t.Helper()
	require.Empty(s.t, s.Breaches())
	breaches, _ := s.Account()
	require.Empty(s.t, breaches)
}

// until sleeps to an instant counted from the world's midnight.
func (s *scene) until(d time.Duration) {
	time.Sleep(time.Until(midnight().Add(d)))
	synctest.Wait()
}

func midnight() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

func spec(change ...func(*job.Spec)) job.Spec {
	sp := job.Spec{
		Tenant: "acme", Schedule: job.Timing{Cron: "* * * * *"}, Payload: []byte(`{"n":1}`),
		Target: job.Target{Type: job.TargetHTTP, URL: "https://target.example/run"},
	}
	for _, f := range change {
		f(&sp)
	}
	return sp.WithDefaults()
}

func once(at time.Time) func(*job.Spec) {
	return func(s *job.Spec) { s.Schedule = job.Timing{At: at} }
}

func (s *scene) create(change ...func(*job.Spec)) job.Job {
	s.t.Helper()
	sp := spec(change...)
	require.NoError(s.t, sp.Validate(time.Now()))
	j, err := s.Control.Create(s.t.Context(), me(), sp, nil)
	require.NoError(s.t, err)
	return j
}

func (s *scene) edit(j job.Job, change func(*job.Job)) job.Job {
	s.t.Helper()
	out, err := s.Control.Edit(s.t.Context(), me(), j.ID, 0, func(x *job.Job) error { change(x); return nil })
	require.NoError(s.t, err)
	return out
}

func pause(j *job.Job)  { j.Status = job.JobIsPaused }
func resume(j *job.Job) { j.Status = job.JobIsActive }

func me() jobcontrol.Actor { return jobcontrol.Actor{Tenant: "acme", Subject: "tester"} }

// states returns the states of a job's runs by nominal time.
func (s *scene) states(j job.Job) string {
	var out []string
	for _, r := range s.Runs(j.ID) {
		out = append(out, string(r.State))
	}
	return strings.Join(out, " ")
}

// only returns a job's one run of a kind.
func (s *scene) only(j job.Job, kind job.Kind) job.Run {
	s.t.Helper()
	var found []job.Run
	for _, r := range s.Runs(j.ID) {
		if r.Kind == kind {
			found = append(found, r)
		}
	}
	require.Len(s.t, found, 1, "runs of kind %q", kind)
	return found[0]
}

// answers gives a fixed answer by number of the run's call, the last one from then on.
func answers(list ...jobs.Answer) func(runner.Attempt, int) jobs.Answer {
	return func(a runner.Attempt, n int) jobs.Answer {
		if a.Run.Kind == job.Notice {
			return jobs.Answer{Code: 200}
		}
		return list[min(n, len(list)-1)]
	}
}
