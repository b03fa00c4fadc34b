package runner_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/runner"
	"github.com/myosin-jobs/myosin/pkg/simulation/jobs"
)

func TestTheResultOfARunnerThatLostItsLeaseIsNotWritten(t *testing.T) {
	inWorld(t, 0, jobs.Options{Answer: answers(jobs.Answer{Code: 404, Took: 20 * time.Second}, jobs.Answer{Code: 200, Took: 20 * time.Second})}, func(t *testing.T, s *scene) {
		first := s.start()
		j := s.create(once(midnight().Add(time.Minute)))
		s.until(time.Minute + 5*time.Second)
		first.Freeze(40 * time.Second)
		s.start()
		s.until(5 * time.Minute)
		r := s.only(j, job.Occurrence)
		require.Equal(t, job.Succeeded, r.State, "the second's result, though the first's came earlier: %v", s.History(r.ID))
		require.Equal(t, 2, r.Attempt)
		require.Equal(t, 1, r.Crashes)
		require.Len(t, s.Calls(j.ID), 2)
	})
}

func TestAnOccurrenceArmedOverWhoseMessageIsLostStillRuns(t *testing.T) {
	inWorld(t, 0, jobs.Options{}, func(t *testing.T, s *scene) {
		j := s.create()
		// The first dies when the job has moved on, before the run begins, and its
		// message is deleted by hand.
		commits := 0
		s.start(func(p *jobs.Proc, _ *runner.Options) {
			p.OnStep(func(_ int, op string) bool {
				if op == "after commit" {
					commits++
				}
				return commits >= 2
			})
		})
		s.until(100 * time.Second)
		require.Equal(t, midnight().Add(2*time.Minute), s.Job(j.ID).Pending)
		got, err := s.Queues.Receive(t.Context(), s.URL, queue.ReceiveOptions{Max: 10})
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.NoError(t, s.Queues.Delete(t.Context(), s.URL, []string{got[0].Receipt})[0])
		s.start()
		s.until(10*time.Minute + 30*time.Second)
		runs := s.Runs(j.ID)
		require.Len(t, runs, 10)
		require.Equal(t, midnight().Add(time.Minute), runs[0].Nominal)
		require.Equal(t, job.Succeeded, runs[0].State)
	})
}

func TestARunOnRecordThatTheListDidNotShowDoesNotBeginAfterAnEdit(t *testing.T) {
	ready := midnight().Add(2 * time.Minute)
	stale := func(string) jobs.Fault { return jobs.Fault{Stale: time.Hour} }
	inWorld(t, 1, jobs.Options{StoreFault: stale, Ready: func(job.Target) (time.Time, bool) {
		return ready, !time.Now().Before(ready)
	}}, func(t *testing.T, s *scene) {
		j := s.create(func(sp *job.Spec) { sp.Schedule.Cron = "1 * * * *" })
		s.until(90 * time.Second)
		require.Equal(t, job.Scheduled, s.only(j, job.Occurrence).State, "put off")
		control, err := s.Behind()
		require.NoError(t, err)
		edited := false
		s.Live()[0].OnStep(func(_ int, op string) bool {
			if op == "before commit" && !edited && !time.Now().Before(ready) {
				edited = true
				done := make(chan error)
				go func() {
					_, err := control.Edit(t.Context(), me(), j.ID, 0, func(x *job.Job) error { x.Schedule.Cron = "30 4 * * *"; return nil })
					done <- err
				}()
				require.NoError(t, <-done)
			}
			return false
		})
		s.until(10 * time.Minute)
		require.True(t, edited)
		require.Empty(t, s.Calls(j.ID))
		require.Equal(t, "CANCELLED CANCELLED", s.states(j)) // of 0:01, and 1:01
	})
}
