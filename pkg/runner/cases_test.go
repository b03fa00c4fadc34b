package runner_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/runner"
	"github.com/myosin-jobs/myosin/pkg/simulation/jobs"
)

func catchUp(c job.CatchUp, window time.Duration) func(*job.Spec) {
	return func(s *job.Spec) { s.CatchUp, s.CatchUpWindow = c, window }
}

func TestCase24AfterAnOutageTheCatchUpPolicyDecides(t *testing.T) {
	for _, c := range []struct {
		policy job.CatchUp
		window time.Duration
		ran    int   // of those due in the outage
		missed int64 // of them
	}{
		{job.CatchUpLatest, 0, 1, 179},
		{job.CatchUpSkip, 0, 0, 180},
		{job.CatchUpAll, time.Hour, 60, 120},
		{job.CatchUpAll, 24 * time.Hour, 100, 80},
	} {
		t.Run(fmt.Sprint(c.policy, c.window), func(t *testing.T) {
			inWorld(t, 2, jobs.Options{}, func(t *testing.T, s *scene) {
				j := s.create(catchUp(c.policy, c.window))
				s.until(5*time.Minute + 30*time.Second)
				s.Outage(true) // 6:00 to 3:05:00, 180 of them
				s.until(3*time.Hour + 5*time.Minute + 30*time.Second)
				require.Len(t, s.Calls(j.ID), 5)
				s.Outage(false)
				s.until(3*time.Hour + 5*time.Minute + 50*time.Second)
				require.Len(t, s.Calls(j.ID), 5+c.ran)
				missed, records := int64(0), 0
				for _, r := range s.Runs(j.ID) {
					if r.Kind == job.Missed {
						missed += r.Skipped.Count
						records++
						require.Equal(t, job.Skipped, r.State)
					}
				}
				require.Equal(t, c.missed, missed)
				require.Equal(t, 1, records, "one record with range and count")
				s.until(3*time.Hour + 7*time.Minute + 30*time.Second)
				require.Len(t, s.Calls(j.ID), 5+c.ran+2)
			})
		})
	}
}

func TestCase24AnEditDuringTheOutageDiscardsTheOldOccurrences(t *testing.T) {
	inWorld(t, 1, jobs.Options{}, func(t *testing.T, s *scene) {
		j := s.create(catchUp(job.CatchUpAll, time.Hour))
		s.Outage(true)
		s.until(20 * time.Minute)
		s.edit(j, func(x *job.Job) { x.Schedule.Cron = "*/7 * * * *" })
		s.until(20*time.Minute + 30*time.Second)
		s.Outage(false)
		s.until(29 * time.Minute)
		require.Equal(t, "CANCELLED SUCCEEDED SUCCEEDED", s.states(j)) // 0:01, 0:21, 0:28
	})
}

func TestCase25AJobPausedForDaysGoesOnWithTheNextMinute(t *testing.T) {
	inWorld(t, 1, jobs.Options{}, func(t *testing.T, s *scene) {
		j := s.create()
		s.until(90 * time.Second)
		s.edit(j, pause)
		s.until(72*time.Hour + 90*time.Second)
		require.Len(t, s.Calls(j.ID), 1)
		require.Equal(t, "SUCCEEDED SKIPPED", s.states(j))
		s.edit(j, resume)
		s.until(72*time.Hour + 150*time.Second)
		calls := s.Calls(j.ID)
		require.Len(t, calls, 2)
		require.Equal(t, midnight().Add(72*time.Hour+2*time.Minute), calls[1].At)
	})
}

func TestAQueueThatIsBehindByMoreThanAPeriodStillRunsTheLatest(t *testing.T) {
	inWorld(t, 0, jobs.Options{}, func(t *testing.T, s *scene) {
		s.SetLag(90 * time.Second)
		s.start()
		j := s.create()
		s.until(30 * time.Minute)
		require.GreaterOrEqual(t, len(s.Calls(j.ID)), 10, "a run at least for each message that came")
	})
}

func TestAnOccurrenceIsNotRunWhenItWasCountedAsMissed(t *testing.T) {
	inWorld(t, 0, jobs.Options{}, func(t *testing.T, s *scene) {
		j := s.create()
		// The first dies when it has inserted the next trigger, before it moves the job on.
		s.start(killAt("after commit", s))
		s.until(3*time.Minute + 30*time.Second)
		require.Equal(t, midnight().Add(time.Minute), s.Job(j.ID).Pending)
		// Now messages of two occurrences lie on the queue, and both are missed.
		s.start()
		s.until(4*time.Minute + 30*time.Second)
		calls := s.Calls(j.ID)
		require.Len(t, calls, 2)
		require.Equal(t, midnight().Add(3*time.Minute), s.nominal(calls[0]))
		require.Equal(t, midnight().Add(4*time.Minute), s.nominal(calls[1]))
	})
}

func (s *scene) nominal(c jobs.Call) time.Time {
	_, p, err := job.ParseRunID(string(c.Run))
	require.NoError(s.t, err)
	return p.Nominal
}

// kinds of job that are crashed and edited at every step.
func sorts() map[string]func(*job.Spec) {
	return map[string]func(*job.Spec){
		"allow": func(*job.Spec) {},
		"queue": overlap(job.OverlapQueue),
		"skip":  overlap(job.OverlapSkip),
		"all":   catchUp(job.CatchUpAll, time.Hour),
	}
}

// The runner dies at its n-th step while a run fails, is tried again, and the
// next occurrences come; another takes over after 40 seconds.
func TestCase23And27ACrashAtAnyStepLosesNothing(t *testing.T) {
	for name, sort := range sorts() {
		for n := 1; ; n++ {
			reached := false
			inWorld(t, 0, jobs.Options{Answer: answers(jobs.Answer{Code: 500, Took: time.Second}, jobs.Answer{Code: 200, Took: time.Second})}, func(t *testing.T, s *scene) {
				j := s.create(sort, func(sp *job.Spec) { sp.Retry = job.Retry{MaxAttempts: 3, Base: time.Second, Max: 3 * time.Second} })
				s.until(59 * time.Second)
				steps := 0
				p := s.start()
				s.until(59*time.Second + 500*time.Millisecond)
				p.OnStep(func(_ int, op string) bool {
					if time.Since(midnight()) < 67*time.Second {
						steps++
					}
					reached = reached || steps == n
					return steps >= n
				})
				s.until(80 * time.Second)
				p.Kill()
				s.until(100 * time.Second)
				s.start()
				s.until(12*time.Minute + 30*time.Second)
				s.goesOn(j, fmt.Sprintf("%s, killed at step %d", name, n))
			})
			if !reached || t.Failed() {
				require.Greater(t, n, 10, "steps of a run")
				break
			}
		}
	}
}

// goesOn checks that a job has a pending run, and all runs but the latest ended.
func (s *scene) goesOn(j job.Job, why string) {
	s.t.Helper()
	now := s.Job(j.ID)
	require.Equal(s.t, job.JobIsActive, now.Status)
	require.True(s.t, now.Pending.After(time.Now()) && time.Until(now.Pending) <= time.Minute, "%s: pending %s at %s", why, now.Pending, time.Now())
	for _, r := range s.Runs(j.ID) {
		if !r.State.Terminal() && time.Since(r.Nominal) > time.Minute {
			s.t.Fatalf("%s: run %s is %s: %v", why, r.ID, r.State, s.History(r.ID))
		}
	}
}

// Case 27a: an edit at every step of a run's life.
func TestCase27aAndCase30AnEditAtAnyStepLeavesOnePendingRunAndStartsNothingOld(t *testing.T) {
	edits := map[string]func(s *scene, j job.Job) bool{ // false: the job is gone
		"pause and resume": func(s *scene, j job.Job) bool { s.edit(j, pause); s.edit(j, resume); return true },
		"schedule and back": func(s *scene, j job.Job) bool {
			s.reschedule(j, "*/9 * * * *")
			s.reschedule(j, "* * * * *")
			return true
		},
		"payload": func(s *scene, j job.Job) bool { s.edit(j, func(x *job.Job) { x.Payload = []byte("2") }); return true },
		"cancel and run by hand": func(s *scene, j job.Job) bool {
			_, _ = s.Control.CancelRun(s.t.Context(), me(), job.NewRunID(j.ID, 1, midnight().Add(time.Minute)))
			_, err := s.Control.RunNow(s.t.Context(), me(), j.ID)
			require.NoError(s.t, err)
			return true
		},
		"delete": func(s *scene, j job.Job) bool {
			_, err := s.Control.Delete(s.t.Context(), me(), j.ID, 0)
			require.NoError(s.t, err)
			return false
		},
	}
	for name, sort := range map[string]func(*job.Spec){"allow": sorts()["allow"], "queue": sorts()["queue"]} {
		for what, edit := range edits {
			for n := 1; ; n++ {
				reached := false
				inWorld(t, 1, jobs.Options{Answer: answers(jobs.Answer{Code: 500, Took: time.Second}, jobs.Answer{Code: 200, Took: time.Second})}, func(t *testing.T, s *scene) {
					j := s.create(sort, func(sp *job.Spec) { sp.Retry = job.Retry{MaxAttempts: 3, Base: time.Second, Max: 3 * time.Second} })
					s.until(59*time.Second + 500*time.Millisecond)
					goOn := make(chan bool, 1)
					steps := 0
					s.Live()[0].OnStep(func(_ int, op string) bool {
						if time.Since(midnight()) > 67*time.Second {
							return false
						}
						if steps++; steps == n {
							reached = true
							done := make(chan struct{})
							go func() { defer close(done); goOn <- edit(s, j) }()
							<-done // the runner stands still meanwhile
						}
						return false
					})
					s.until(75 * time.Second)
					lives := true
					if reached {
						lives = <-goOn
					}
					s.until(4*time.Minute + 30*time.Second)
					if lives {
						s.goesOn(j, fmt.Sprintf("%s, %s at step %d", name, what, n))
						return
					}
					for _, r := range s.Runs(j.ID) {
						require.True(t, r.State.Terminal(), "%s, %s at step %d: %s %v", name, what, n, r.State, s.History(r.ID))
					}
				})
				if !reached || t.Failed() {
					require.Greater(t, n, 10, "steps of a run")
					break
				}
			}
		}
	}
}

func (s *scene) reschedule(j job.Job, expr string) {
	s.edit(j, func(x *job.Job) { x.Schedule.Cron = expr })
}

func TestCase28AFailingTargetDoesNotMakeAnotherLate(t *testing.T) {
	late := func(withA bool) (worst time.Duration, callsOfA int) {
		inWorld(t, 2, jobs.Options{Answer: func(a runner.Attempt, _ int) jobs.Answer {
			if a.Target.URL == "https://a.example/" {
				return jobs.Answer{Code: 503, Took: 10 * time.Second}
			}
			return jobs.Answer{Code: 200, Took: 100 * time.Millisecond}
		}}, func(t *testing.T, s *scene) {
			host := func(u string) func(*job.Spec) {
				return func(sp *job.Spec) { sp.Target.URL, sp.Retry.MaxAttempts = u, 1 }
			}
			var bs []job.Job
			for i := range 120 { // one a second of each, for two minutes
				at := midnight().Add(time.Minute + time.Duration(i)*time.Second)
				bs = append(bs, s.create(once(at), host("https://b.example/")))
				if withA {
					for range 5 {
						s.create(once(at), host("https://a.example/"))
					}
				}
			}
			s.until(4 * time.Minute)
			for _, j := range bs {
				calls := s.Calls(j.ID)
				require.Len(t, calls, 1)
				worst = max(worst, calls[0].At.Sub(j.Schedule.At))
			}
			callsOfA = len(s.Calls(job.Job{}.ID)) - len(bs)
		})
		return worst, callsOfA
	}
	alone, _ := late(false)
	beside, callsOfA := late(true)
	// Which of two events of one instant comes first is open, and a poll is a second.
	// Behind A's calls it would be late by ten.
	require.InDelta(t, alone.Seconds(), beside.Seconds(), 1)
	require.Less(t, callsOfA, 500, "the breaker holds most of 600 back")
}
