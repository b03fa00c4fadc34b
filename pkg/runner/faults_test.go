package runner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/runner"
	"github.com/myosin-jobs/myosin/pkg/simulation/jobs"
	"github.com/myosin-jobs/myosin/pkg/store"
)

func overlap(o job.Overlap) func(*job.Spec) { return func(s *job.Spec) { s.Overlap = o } }

func long(s *job.Spec) { s.Target.Timeout = 5 * time.Minute }

func TestOverlapSkipSkipsWhatIsDueWhileARunRuns(t *testing.T) {
	inWorld(t, 2, jobs.Options{Answer: answers(jobs.Answer{Code: 200, Took: 90 * time.Second})}, func(t *testing.T, s *scene) {
		j := s.create(overlap(job.OverlapSkip), long)
		s.until(6*time.Minute + 50*time.Second)
		require.Equal(t, "SUCCEEDED SKIPPED SUCCEEDED SKIPPED SUCCEEDED SKIPPED", s.states(j))
		require.Contains(t, s.Runs(j.ID)[1].Reason, "overlap with "+string(s.Runs(j.ID)[0].ID))
		require.Empty(t, s.Job(j.ID).Active, "released by the run that ended")
	})
}

func TestOverlapQueueLetsOneWaitAndSkipsTheRest(t *testing.T) {
	inWorld(t, 2, jobs.Options{Answer: answers(jobs.Answer{Code: 200, Took: 145 * time.Second})}, func(t *testing.T, s *scene) {
		j := s.create(overlap(job.OverlapQueue), long)
		s.until(3*time.Minute + 10*time.Second)
		// 1 runs from 1:00 to 3:25; 2 waits; 3 is skipped.
		require.Equal(t, "RUNNING SCHEDULED SKIPPED", s.states(j))
		s.until(3*time.Minute + 40*time.Second)
		require.Equal(t, "SUCCEEDED RUNNING SKIPPED", s.states(j))
		require.Equal(t, midnight().Add(3*time.Minute+25*time.Second), s.Calls(j.ID)[1].At, "woken by the end of the first")
		// 2 runs to 5:50; 4 waits; 5 is skipped; 4 runs from 5:50; 6 waits.
		s.until(6*time.Minute + 10*time.Second)
		require.Equal(t, "SUCCEEDED SUCCEEDED SKIPPED RUNNING SKIPPED SCHEDULED", s.states(j))
	})
}

func TestTheOverlapClaimIsHeldThroughRetries(t *testing.T) {
	inWorld(t, 1, jobs.Options{Answer: answers(jobs.Answer{Code: 503, RetryAfter: 90 * time.Second}, jobs.Answer{Code: 200})}, func(t *testing.T, s *scene) {
		j := s.create(overlap(job.OverlapQueue))
		s.until(2*time.Minute + 10*time.Second)
		require.Equal(t, "RETRY SCHEDULED", s.states(j))
		s.until(2*time.Minute + 40*time.Second)
		require.True(t, strings.HasPrefix(s.states(j), "SUCCEEDED RETRY"), s.states(j))
	})
}

func TestARunThatWaitsIsEndedByAnEditAndDoesNotBlockTheNextOnes(t *testing.T) {
	inWorld(t, 1, jobs.Options{Answer: answers(jobs.Answer{Code: 200, Took: 100 * time.Second})}, func(t *testing.T, s *scene) {
		j := s.create(overlap(job.OverlapQueue), long)
		s.until(2*time.Minute + 10*time.Second)
		require.Equal(t, "RUNNING SCHEDULED", s.states(j))
		s.edit(j, func(x *job.Job) { x.Schedule.Cron = "*/2 * * * *" })
		require.Equal(t, "RUNNING CANCELLED CANCELLED", s.states(j))
		s.until(12*time.Minute + 10*time.Second)
		require.Equal(t, "SUCCEEDED CANCELLED CANCELLED SUCCEEDED SUCCEEDED SUCCEEDED SUCCEEDED RUNNING", s.states(j))
	})
}

func TestAWaitingRunIsEndedByAnEditAlsoWhenTheListDoesNotShowItYet(t *testing.T) {
	stale := func(op string) jobs.Fault { return jobs.Fault{Stale: time.Hour} }
	inWorld(t, 1, jobs.Options{StoreFault: stale, Answer: answers(jobs.Answer{Code: 200, Took: 100 * time.Second})}, func(t *testing.T, s *scene) {
		j := s.create(overlap(job.OverlapQueue), long)
		s.until(2*time.Minute + 10*time.Second)
		require.Equal(t, "RUNNING SCHEDULED", s.states(j))
		control, err := s.Behind()
		require.NoError(t, err)
		_, err = control.Edit(t.Context(), me(), j.ID, 0, func(x *job.Job) error { x.Schedule.Cron = "30 3 * * *"; return nil })
		require.NoError(t, err)
		require.Equal(t, "RUNNING CANCELLED CANCELLED", s.states(j))
		s.until(5 * time.Minute)
		require.Equal(t, "SUCCEEDED CANCELLED CANCELLED", s.states(j))
	})
}

// killAt kills the process at its first call of the name given.
func killAt(op string, w *scene) func(*jobs.Proc, *runner.Options) {
	return func(p *jobs.Proc, _ *runner.Options) {
		hit := false
		p.OnStep(func(_ int, what string) bool {
			hit = hit || what == op
			return hit
		})
	}
}

func TestCase27ACrashInTheMiddleOfACallIsACrashAndNoFailure(t *testing.T) {
	inWorld(t, 0, jobs.Options{Answer: answers(jobs.Answer{Code: 200, Took: 5 * time.Second})}, func(t *testing.T, s *scene) {
		p := s.start()
		j := s.create(once(midnight().Add(time.Minute)), func(sp *job.Spec) { sp.Retry = job.Retry{MaxAttempts: 1, Base: time.Second, Max: time.Second} })
		s.until(time.Minute + 3*time.Second)
		p.Kill()
		s.start()
		s.until(3 * time.Minute)
		r := s.only(j, job.Occurrence)
		require.Equal(t, job.Succeeded, r.State)
		require.Equal(t, 1, r.Crashes)
		require.Zero(t, r.Failures)
		require.Equal(t, 2, r.Attempt)
		require.Equal(t, "crashed", r.Attempts[0].Error)
		calls := s.Calls(j.ID)
		require.Len(t, calls, 2)
		require.Less(t, calls[1].At.Sub(calls[0].At), 35*time.Second)
	})
}

func TestCase27FiveCrashesEndARun(t *testing.T) {
	inWorld(t, 0, jobs.Options{Answer: answers(jobs.Answer{Code: 200, Took: 5 * time.Second})}, func(t *testing.T, s *scene) {
		j := s.create(once(midnight().Add(time.Minute)))
		for range 5 {
			p := s.start(killAt("before call", s))
			s.until(time.Since(midnight()) + 90*time.Second)
			p.Kill()
		}
		s.start()
		s.until(time.Since(midnight()) + 5*time.Minute)
		r := s.only(j, job.Occurrence)
		require.Equal(t, job.Dead, r.State)
		require.Equal(t, 5, r.Crashes)
		require.Zero(t, r.Failures)
		require.Equal(t, job.Succeeded, s.only(j, job.Notice).State, "its owner is told")
	})
}

func TestACrashedRunOfADeletedJobIsCancelled(t *testing.T) {
	inWorld(t, 0, jobs.Options{Answer: answers(jobs.Answer{Code: 200, Took: 5 * time.Second})}, func(t *testing.T, s *scene) {
		p := s.start()
		j := s.create(once(midnight().Add(time.Minute)))
		s.until(time.Minute + 3*time.Second)
		p.Kill()
		_, err := s.Control.Delete(t.Context(), me(), j.ID, 0)
		require.NoError(t, err)
		s.start()
		s.until(5 * time.Minute)
		r := s.only(j, job.Occurrence)
		require.Equal(t, job.Cancelled, r.State)
		require.Zero(t, r.Wake)
		require.Len(t, s.Calls(j.ID), 1)
	})
}

func TestARunAcceptedBeforeItsJobWasDeletedEndsWhenNobodyIsHeardOf(t *testing.T) {
	inWorld(t, 1, jobs.Options{Answer: answers(jobs.Answer{Code: 202})}, func(t *testing.T, s *scene) {
		j := s.create(once(midnight().Add(time.Minute)))
		s.until(time.Minute + 3*time.Second)
		_, err := s.Control.Delete(t.Context(), me(), j.ID, 0)
		require.NoError(t, err)
		s.until(5 * time.Minute)
		require.Equal(t, job.Cancelled, s.only(j, job.Occurrence).State)
	})
}

func TestARunThatAnotherHoldsIsLeftAloneAndAFinishedOnesMessageIsDone(t *testing.T) {
	twice := func(e memqueue.Entry) memqueue.Fault {
		return memqueue.Fault{Duplicate: e.Op == memqueue.OpSend, DuplicateAfter: time.Second}
	}
	inWorld(t, 2, jobs.Options{QueueFault: twice, Answer: answers(jobs.Answer{Code: 200, Took: 45 * time.Second})}, func(t *testing.T, s *scene) {
		j := s.create(once(midnight().Add(time.Minute)), long)
		s.until(5 * time.Minute)
		require.Equal(t, job.Succeeded, s.only(j, job.Occurrence).State)
		require.Len(t, s.Calls(j.ID), 1)
		d, err := s.Queues.Depth(t.Context(), s.URL)
		require.NoError(t, err)
		require.Zero(t, d.Visible+d.InFlight+d.Delayed, "nothing is left on the queue")
	})
}

func TestAMessageOfAnEarlierFailureDoesNotBeginARetryEarly(t *testing.T) {
	twice := func(e memqueue.Entry) memqueue.Fault {
		return memqueue.Fault{Duplicate: e.Op == memqueue.OpSend, DuplicateAfter: 5 * time.Second}
	}
	inWorld(t, 2, jobs.Options{QueueFault: twice, Answer: answers(jobs.Answer{Code: 503, RetryAfter: time.Minute}, jobs.Answer{Code: 200})}, func(t *testing.T, s *scene) {
		j := s.create(once(midnight().Add(time.Minute)))
		s.until(5 * time.Minute)
		calls := s.Calls(j.ID)
		require.Len(t, calls, 2)
		require.Equal(t, time.Minute, calls[1].At.Sub(calls[0].At))
		require.Equal(t, 1, s.only(j, job.Occurrence).Failures)
	})
}

func TestCase27bALostMessageOfThePendingRunDoesNotEndTheJob(t *testing.T) {
	lost := 0
	inWorld(t, 2, jobs.Options{Lost: func(row *store.Row) bool {
		lost++
		return lost == 3
	}}, func(t *testing.T, s *scene) {
		j := s.create()
		s.until(2*time.Minute + 30*time.Second)
		require.Len(t, s.Calls(j.ID), 2)
		s.until(6 * time.Minute)
		require.GreaterOrEqual(t, len(s.Runs(j.ID)), 4)
		require.Equal(t, midnight().Add(5*time.Minute), s.Runs(j.ID)[3].Nominal, "later ones were due: the last of them runs")
		require.Less(t, s.Calls(j.ID)[2].At, midnight().Add(3*time.Minute+3*time.Minute))
		s.until(8*time.Minute + 30*time.Second)
		require.Len(t, s.Calls(j.ID), 6)
	})
}

func TestTheLostMessageOfAnyRunThatWaitsIsSentAgain(t *testing.T) {
	for n := 1; n <= 3; n++ {
		lost := 0
		inWorld(t, 2, jobs.Options{
			Lost:   func(row *store.Row) bool { lost++; return lost == n },
			Answer: answers(jobs.Answer{Code: 500}, jobs.Answer{Code: 202}, jobs.Answer{Code: 200}),
		}, func(t *testing.T, s *scene) {
			j := s.create(once(midnight().Add(time.Minute))) // messages: first, retry, watchdog, retry
			s.until(10 * time.Minute)
			require.Equal(t, job.Succeeded, s.only(j, job.Occurrence).State, "message %d lost", n)
		})
	}
}
