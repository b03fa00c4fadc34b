package runner_test

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/runner"
	"github.com/myosin-jobs/myosin/pkg/simulation/jobs"
	"github.com/myosin-jobs/myosin/pkg/target"
)

func TestACronJobRunsEachMinuteAndItsNextRunIsArmedBeforeTheCall(t *testing.T) {
	var w *scene
	inWorld(t, 1, jobs.Options{Answer: func(a runner.Attempt, _ int) jobs.Answer {
		if got := w.Job(a.Run.Job).Pending; !got.Equal(a.Run.Nominal.Add(time.Minute)) {
			w.t.Errorf("during the run of %s the pending one is that of %s", a.Run.Nominal, got)
		}
		return jobs.Answer{Code: 200, Took: 3 * time.Second}
	}}, func(t *testing.T, s *scene) {
		w = s
		j := s.create()
		before, reads := s.Cost()
		s.until(10*time.Minute + 30*time.Second)
		after, reads2 := s.Cost()
		calls := s.Calls(j.ID)
		require.Len(t, calls, 10)
		for i, c := range calls {
			require.Equal(t, midnight().Add(time.Duration(i+1)*time.Minute), c.At, "called at once")
			require.Equal(t, 1, c.Attempt)
			require.Equal(t, `{"n":1}`, string(c.Payload))
		}
		for _, r := range s.Runs(j.ID) {
			require.Equal(t, job.Succeeded, r.State)
			require.Zero(t, r.Wake)
			require.Zero(t, r.Crashes)
			require.Len(t, r.Attempts, 1)
			require.Equal(t, 3*time.Second, r.Attempts[0].End.Sub(r.Attempts[0].Start))
		}
		perRun := (after.Units - before.Units) / 10
		t.Logf("per cron run: %.1f write units beyond the trigger's three (with %.1f of its insert), %.1f commits, %.1f reads",
			perRun, (after.Triggers-before.Triggers)/10, float64(after.Commits-before.Commits)/10, float64(reads2-reads)/10)
		require.LessOrEqual(t, perRun, 8.0)
	})
}

func TestAFailedRunIsTriedAgainAndItsFailuresCount(t *testing.T) {
	inWorld(t, 1, jobs.Options{Answer: answers(jobs.Answer{Code: 503}, jobs.Answer{Kind: target.KindConnect}, jobs.Answer{Code: 200})}, func(t *testing.T, s *scene) {
		j := s.create(once(midnight().Add(time.Minute)), func(sp *job.Spec) { sp.Retry = job.Retry{MaxAttempts: 3, Base: 4 * time.Second, Max: time.Minute} })
		s.until(5 * time.Minute)
		r := s.only(j, job.Occurrence)
		require.Equal(t, job.Succeeded, r.State)
		require.Equal(t, 2, r.Failures)
		require.Equal(t, 3, r.Attempt)
		require.Zero(t, r.Crashes)
		require.Len(t, s.Calls(j.ID), 3)
		require.Equal(t, 503, r.Attempts[0].StatusCode)
		require.Equal(t, "connect", r.Attempts[1].Error)
		require.LessOrEqual(t, s.Calls(j.ID)[1].At.Sub(s.Calls(j.ID)[0].At), 4*time.Second+time.Millisecond)
		require.LessOrEqual(t, s.Calls(j.ID)[2].At.Sub(s.Calls(j.ID)[1].At), 8*time.Second+time.Millisecond)
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	inWorld(t, 1, jobs.Options{Answer: answers(jobs.Answer{Code: 429, RetryAfter: 40 * time.Second}, jobs.Answer{Code: 200})}, func(t *testing.T, s *scene) {
		j := s.create(once(midnight().Add(time.Minute)))
		s.until(5 * time.Minute)
		calls := s.Calls(j.ID)
		require.Len(t, calls, 2)
		require.Equal(t, 40*time.Second, calls[1].At.Sub(calls[0].At))
	})
}

func TestADeadRunKeepsItsPayloadAndItsOwnerIsToldByARun(t *testing.T) {
	inWorld(t, 2, jobs.Options{Answer: answers(jobs.Answer{Code: 500})}, func(t *testing.T, s *scene) {
		j := s.create(once(midnight().Add(time.Minute)), func(sp *job.Spec) { sp.Retry = job.Retry{MaxAttempts: 3, Base: time.Second, Max: time.Minute} })
		s.until(5 * time.Minute)
		r := s.only(j, job.Occurrence)
		require.Equal(t, job.Dead, r.State)
		require.Equal(t, 3, r.Failures)
		require.Equal(t, `{"n":1}`, string(r.Payload))
		n := s.only(j, job.Notice)
		require.Equal(t, job.Succeeded, n.State)
		calls := s.Calls(j.ID)
		told := calls[len(calls)-1]
		require.Equal(t, job.Notice, told.Kind)
		require.Equal(t, "https://owner.example/hook", told.Target.URL)
		require.Contains(t, string(told.Payload), string(r.ID))
		require.Len(t, calls, 4)
	})
}

func TestARunWhoseTargetIsGoneIsDeadAndPausesItsJob(t *testing.T) {
	inWorld(t, 1, jobs.Options{Answer: answers(jobs.Answer{Code: 410})}, func(t *testing.T, s *scene) {
		j := s.create()
		s.until(5 * time.Minute)
		require.Len(t, slices.DeleteFunc(s.Calls(j.ID), func(c jobs.Call) bool { return c.Kind == job.Notice }), 1)
		require.Equal(t, job.JobIsPaused, s.Job(j.ID).Status)
		require.Zero(t, s.Job(j.ID).Pending)
		require.Equal(t, job.Dead, s.Runs(j.ID)[0].State)
		require.Equal(t, "paused", s.Runs(j.ID)[2].Reason)
	})
}

func TestARefusedRunIsDeadAtOnce(t *testing.T) {
	for _, ans := range []jobs.Answer{{Code: 404}, {Code: 302}, {Kind: target.KindRefused}, {Kind: target.KindInvalid}} {
		inWorld(t, 1, jobs.Options{Answer: answers(ans)}, func(t *testing.T, s *scene) {
			j := s.create(once(midnight().Add(time.Minute)))
			s.until(5 * time.Minute)
			r := s.only(j, job.Occurrence)
			require.Equal(t, job.Dead, r.State)
			require.Equal(t, 1, r.Attempt)
		})
	}
}

func TestAnAcceptedRunLivesByHeartbeatsAndEndsByComplete(t *testing.T) {
	inWorld(t, 1, jobs.Options{Answer: answers(jobs.Answer{Code: 202})}, func(t *testing.T, s *scene) {
		j := s.create(once(midnight().Add(time.Minute)))
		s.until(time.Minute + time.Second)
		id := s.only(j, job.Occurrence).ID
		for range 12 { // four minutes, well past every watchdog
			<-time.After(20 * time.Second) // virtual
			r, err := s.Control.Heartbeat(t.Context(), id, 1)
			require.NoError(t, err)
			require.Equal(t, job.Running, r.State)
		}
		_, err := s.Control.Heartbeat(t.Context(), id, 2)
		require.Error(t, err, "a stale attempt")
		done, err := s.Control.Complete(t.Context(), id, 1, true, "made 12 reports")
		require.NoError(t, err)
		require.Equal(t, job.Succeeded, done.State)
		_, err = s.Control.Complete(t.Context(), id, 1, true, "")
		require.Error(t, err)
		s.until(20 * time.Minute)
		require.Equal(t, job.Succeeded, s.only(j, job.Occurrence).State)
		require.Len(t, s.Calls(j.ID), 1)
	})
}

func TestAnAcceptedRunWithoutHeartbeatIsAFailedAttempt(t *testing.T) {
	inWorld(t, 1, jobs.Options{Answer: answers(jobs.Answer{Code: 202}, jobs.Answer{Code: 200})}, func(t *testing.T, s *scene) {
		j := s.create(once(midnight().Add(time.Minute)), func(sp *job.Spec) { sp.Retry = job.Retry{MaxAttempts: 2, Base: time.Second, Max: time.Minute} })
		s.until(3 * time.Minute)
		r := s.only(j, job.Occurrence)
		require.Equal(t, job.Succeeded, r.State)
		require.Equal(t, 1, r.Failures)
		require.Zero(t, r.Crashes)
		require.Equal(t, "no heartbeat", r.Attempts[0].Error)
		wait := s.Calls(j.ID)[1].At.Sub(s.Calls(j.ID)[0].At)
		require.GreaterOrEqual(t, wait, job.LeaseFor)
		require.Less(t, wait, job.LeaseFor+3*time.Second)
	})
}

func TestACompletedFailureIsTriedAgain(t *testing.T) {
	inWorld(t, 1, jobs.Options{Answer: answers(jobs.Answer{Code: 202}, jobs.Answer{Code: 200})}, func(t *testing.T, s *scene) {
		j := s.create(once(midnight().Add(time.Minute)))
		s.until(time.Minute + time.Second)
		_, err := s.Control.Complete(t.Context(), s.only(j, job.Occurrence).ID, 1, false, "disk full")
		require.NoError(t, err)
		s.until(5 * time.Minute)
		r := s.only(j, job.Occurrence)
		require.Equal(t, job.Succeeded, r.State)
		require.Equal(t, "target: disk full", r.Attempts[0].Error)
		require.Equal(t, 1, r.Failures)
	})
}

func TestACallThatTakesLongKeepsItsLease(t *testing.T) {
	inWorld(t, 2, jobs.Options{Answer: answers(jobs.Answer{Code: 200, Took: 4 * time.Minute})}, func(t *testing.T, s *scene) {
		j := s.create(once(midnight().Add(time.Minute)), func(sp *job.Spec) { sp.Target.Timeout = 5 * time.Minute })
		s.until(20 * time.Minute)
		r := s.only(j, job.Occurrence)
		require.Equal(t, job.Succeeded, r.State)
		require.Equal(t, 1, r.Attempt)
		require.Len(t, s.Calls(j.ID), 1)
	})
}

func TestCase26ATargetThatNeverAnswersDoesNotStopTheNextRun(t *testing.T) {
	inWorld(t, 1, jobs.Options{Answer: answers(jobs.Answer{Took: time.Hour})}, func(t *testing.T, s *scene) {
		j := s.create(func(sp *job.Spec) {
			sp.Target.Timeout = 5 * time.Minute
			sp.Retry = job.Retry{MaxAttempts: 1, Base: time.Second, Max: time.Second}
		})
		s.until(10*time.Minute + 30*time.Second)
		calls := slices.DeleteFunc(s.Calls(j.ID), func(c jobs.Call) bool { return c.Kind == job.Notice })
		for i := range 10 {
			require.Equal(t, midnight().Add(time.Duration(i+1)*time.Minute), calls[i].At)
		}
		require.Equal(t, job.Dead, s.Runs(j.ID)[0].State)
		require.Equal(t, string(target.KindTimeout), s.Runs(j.ID)[0].Attempts[0].Error)
	})
}

func TestACancelledPendingRunLeavesTheJobWithTheNextOne(t *testing.T) {
	inWorld(t, 1, jobs.Options{}, func(t *testing.T, s *scene) {
		j := s.create()
		id := job.NewRunID(j.ID, 1, midnight().Add(time.Minute))
		r, err := s.Control.CancelRun(t.Context(), me(), id)
		require.NoError(t, err)
		require.Equal(t, job.Cancelled, r.State)
		again, err := s.Control.CancelRun(t.Context(), me(), id)
		require.NoError(t, err)
		require.Equal(t, r.ID, again.ID)
		s.until(3*time.Minute + time.Second)
		require.Equal(t, "CANCELLED SUCCEEDED SUCCEEDED", s.states(j))
		_, err = s.Control.CancelRun(t.Context(), me(), job.NewRunID(j.ID, 1, midnight().Add(2*time.Minute)))
		require.Error(t, err, "it has ended")
	})
}

func TestARunningRunThatIsCancelledIsNotTriedAgain(t *testing.T) {
	inWorld(t, 1, jobs.Options{Answer: answers(jobs.Answer{Code: 500, Took: 20 * time.Second})}, func(t *testing.T, s *scene) {
		j := s.create(once(midnight().Add(time.Minute)))
		s.until(time.Minute + time.Second)
		r, err := s.Control.CancelRun(t.Context(), me(), s.only(j, job.Occurrence).ID)
		require.NoError(t, err)
		require.True(t, r.CancelRequested)
		s.until(10 * time.Minute)
		require.Equal(t, job.Cancelled, s.only(j, job.Occurrence).State)
		require.Len(t, s.Calls(j.ID), 1)
	})
}

func TestARunByHandGoesBesideTheScheduleAlsoOfAPausedJob(t *testing.T) {
	inWorld(t, 1, jobs.Options{}, func(t *testing.T, s *scene) {
		j := s.create()
		s.edit(j, pause)
		r, err := s.Control.RunNow(t.Context(), me(), j.ID)
		require.NoError(t, err)
		s.until(5 * time.Second)
		require.Equal(t, job.Succeeded, s.only(j, job.Manual).State)
		require.Equal(t, r.ID, s.Calls(j.ID)[0].Run)
		s.edit(j, resume)
		_, err = s.Control.RunNow(t.Context(), me(), j.ID)
		require.NoError(t, err)
		s.until(70 * time.Second)
		require.Len(t, s.Calls(j.ID), 3)
	})
}

func TestRedrivingKeepsTheFirstRunsId(t *testing.T) {
	fail := true
	inWorld(t, 1, jobs.Options{Answer: func(a runner.Attempt, _ int) jobs.Answer {
		if fail && a.Run.Kind != job.Notice {
			return jobs.Answer{Code: 400}
		}
		return jobs.Answer{Code: 200}
	}}, func(t *testing.T, s *scene) {
		j := s.create(once(midnight().Add(time.Minute)))
		s.until(2 * time.Minute)
		dead := s.only(j, job.Occurrence)
		first, err := s.Control.Redrive(t.Context(), me(), dead.ID)
		require.NoError(t, err)
		require.Equal(t, dead.ID, first.OriginalID)
		same, err := s.Control.Redrive(t.Context(), me(), dead.ID)
		require.NoError(t, err)
		require.Equal(t, first.ID, same.ID, "redriving twice makes one run")
		s.until(3 * time.Minute)
		fail = false
		second, err := s.Control.Redrive(t.Context(), me(), first.ID)
		require.NoError(t, err)
		require.Equal(t, dead.ID, second.OriginalID)
		s.until(4 * time.Minute)
		for _, r := range s.Runs(j.ID) {
			if r.ID == second.ID {
				require.Equal(t, job.Succeeded, r.State)
			}
		}
		_, err = s.Control.Redrive(t.Context(), me(), second.ID)
		require.Error(t, err, "it is not dead")
	})
}

func TestARedrivenNoticeTellsTheOwnerAndDoesNotRunTheJob(t *testing.T) {
	deaf := true
	inWorld(t, 1, jobs.Options{Answer: func(a runner.Attempt, _ int) jobs.Answer {
		if a.Target.URL == "https://owner.example/hook" && !deaf {
			return jobs.Answer{Code: 200}
		}
		return jobs.Answer{Code: 400}
	}}, func(t *testing.T, s *scene) {
		j := s.create(once(midnight().Add(time.Minute)))
		s.until(2 * time.Minute)
		n := s.only(j, job.Notice)
		require.Equal(t, job.Dead, n.State)
		deaf = false
		again, err := s.Control.Redrive(t.Context(), me(), n.ID)
		require.NoError(t, err)
		s.until(3 * time.Minute)
		calls := s.Calls(j.ID)
		last := calls[len(calls)-1]
		require.Equal(t, again.ID, last.Run)
		require.Equal(t, "https://owner.example/hook", last.Target.URL)
		require.Equal(t, calls[1].Payload, last.Payload)
		require.Equal(t, job.Notice, last.Kind)
	})
}

func TestAPausedServicesRunsArePutOffWithoutAnAttempt(t *testing.T) {
	open := midnight().Add(4 * time.Minute)
	inWorld(t, 1, jobs.Options{Ready: func(tg job.Target) (time.Time, bool) {
		return time.Now().Add(30 * time.Second), tg.Type != job.TargetQueue || !time.Now().Before(open)
	}}, func(t *testing.T, s *scene) {
		j := s.create(once(midnight().Add(time.Minute)), func(sp *job.Spec) { sp.Target = job.Target{Type: job.TargetQueue, Service: "payments"} })
		s.until(3 * time.Minute)
		r := s.only(j, job.Occurrence)
		require.Equal(t, job.Scheduled, r.State)
		require.Positive(t, r.Deferrals)
		s.until(5 * time.Minute)
		r = s.only(j, job.Occurrence)
		require.Equal(t, job.Succeeded, r.State)
		require.Equal(t, 1, r.Attempt)
		require.Zero(t, r.Failures)
	})
}

func TestATargetPausedAfterItWasAskedUsesNoAttemptUp(t *testing.T) {
	inWorld(t, 1, jobs.Options{Answer: answers(jobs.Answer{Kind: target.KindPaused}, jobs.Answer{Code: 200})}, func(t *testing.T, s *scene) {
		j := s.create(once(midnight().Add(time.Minute)), func(sp *job.Spec) { sp.Retry = job.Retry{MaxAttempts: 1, Base: time.Second, Max: time.Second} })
		s.until(3 * time.Minute)
		r := s.only(j, job.Occurrence)
		require.Equal(t, job.Succeeded, r.State)
		require.Zero(t, r.Failures)
		require.Zero(t, r.Crashes)
	})
}

func TestAnEditOfAJobThatHasRunOnceDoesNotRunItAgain(t *testing.T) {
	inWorld(t, 1, jobs.Options{}, func(t *testing.T, s *scene) {
		j := s.create(once(midnight().Add(time.Minute)))
		s.until(2 * time.Minute)
		tolerance := 10 * time.Minute
		s.edit(j, func(x *job.Job) { x.Tolerance = &tolerance })
		s.edit(j, pause)
		s.edit(j, resume)
		s.until(20 * time.Minute)
		require.Len(t, s.Calls(j.ID), 1)
		s.edit(j, func(x *job.Job) { x.Schedule.At = midnight().Add(30 * time.Minute) })
		s.until(50 * time.Minute)
		require.Len(t, s.Calls(j.ID), 2, "a new time is a new run")
	})
}

// A run put off past its tolerance is told of; one put off within it is not.
func TestARunPutOffPastItsToleranceIsToldOf(t *testing.T) {
	for _, c := range []struct {
		tolerance *time.Duration
		wait      time.Duration
		told      bool
	}{{nil, 9 * time.Minute, false}, {nil, 12 * time.Minute, true}, {new(2 * time.Minute), 5 * time.Minute, true}, {new(20 * time.Minute), 12 * time.Minute, false}} {
		var log strings.Builder
		var mu sync.Mutex
		ready := midnight().Add(time.Minute + c.wait)
		inWorld(t, 1, jobs.Options{
			Log:   slog.New(slog.NewTextHandler(writer(func(b []byte) { mu.Lock(); defer mu.Unlock(); log.Write(b) }), nil)),
			Ready: func(job.Target) (time.Time, bool) { return time.Now().Add(20 * time.Second), !time.Now().Before(ready) },
		}, func(t *testing.T, s *scene) {
			j := s.create(once(midnight().Add(time.Minute)), func(sp *job.Spec) { sp.Tolerance = c.tolerance })
			s.until(45 * time.Minute)
			require.Equal(t, job.Succeeded, s.only(j, job.Occurrence).State)
			require.Equal(t, 1, s.only(j, job.Occurrence).Attempt)
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, c.told, strings.Contains(log.String(), "put off past its tolerance"), "%v %s", c.tolerance, c.wait)
		})
	}
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }

func TestUrgentRunsHaveAQueueOfTheirOwn(t *testing.T) {
	inWorld(t, 0, jobs.Options{}, func(t *testing.T, s *scene) {
		urgent := s.create(once(midnight().Add(time.Minute)), func(sp *job.Spec) { sp.Tolerance = new(time.Duration) })
		plain := s.create(once(midnight().Add(time.Minute)))
		s.until(time.Minute + time.Second)
		for url, want := range map[string]int{s.Urgent: 1, s.URL: 1} {
			d, err := s.Queues.Depth(t.Context(), url)
			require.NoError(t, err)
			require.Equal(t, want, d.Visible)
		}
		s.start()
		s.until(2 * time.Minute)
		require.Equal(t, job.Succeeded, s.only(urgent, job.Occurrence).State)
		require.Equal(t, job.Succeeded, s.only(plain, job.Occurrence).State)
	})
}

func TestAToleranceSpreadsRunsAndKeepsTheirNominalTimes(t *testing.T) {
	inWorld(t, 1, jobs.Options{}, func(t *testing.T, s *scene) {
		offsets := map[time.Duration]bool{}
		for range 20 {
			j := s.create(func(sp *job.Spec) { sp.Tolerance = new(10 * time.Minute) })
			s.until(time.Since(midnight()).Truncate(time.Minute) + 3*time.Minute)
			calls := s.Calls(j.ID)
			require.GreaterOrEqual(t, len(calls), 2)
			for _, c := range calls {
				off := c.At.Sub(s.nominal(c))
				require.Less(t, off, 30*time.Second, "half the period")
				require.GreaterOrEqual(t, off, time.Duration(0))
				offsets[off.Truncate(time.Second)] = true
			}
			s.edit(j, pause)
		}
		require.Greater(t, len(offsets), 8)
	})
}
