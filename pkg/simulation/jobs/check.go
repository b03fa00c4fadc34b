package jobs

import (
	"fmt"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// pending wants one occurrence waiting in the future for every active cron job.
func (s *sim) pending() (breaches []string) {
	for _, id := range s.made {
		j := s.Job(id)
		if j.Status != job.JobIsActive {
			continue
		}
		plan, err := j.Plan()
		if err != nil {
			return []string{err.Error()}
		}
		want, _ := plan.First(time.Now())
		for j.Schedule.Recurs() && s.known(job.NewRunID(id, j.Generation, want)) {
			want, _ = plan.First(want) // cancelled ahead of its time
		}
		switch {
		case !j.Schedule.Recurs() && !j.Pending.IsZero() && plan.Due(j.Pending).Before(time.Now()):
			breaches = append(breaches, fmt.Sprintf("job %s still waits for its one run of %s", id, j.Pending))
		case j.Schedule.Recurs() && (j.Pending.IsZero() || plan.Due(j.Pending).Before(time.Now().Add(-skew)) || j.Pending.After(want)):
			breaches = append(breaches, fmt.Sprintf("job %s (%s %s, %s) waits for %s at %s", id, j.Schedule.Cron, j.Schedule.Zone, j.CatchUp, j.Pending, time.Now().UTC()))
		}
	}
	return breaches
}

func (s *sim) known(id job.RunID) bool { return len(s.History(id)) > 0 }

// ended wants every run ended, with a call behind each success, no attempt made
// by two, and a run for each job that runs once and was left alone.
func (s *sim) ended() (breaches []string) {
	type attempt struct {
		run job.RunID
		n   int
	}
	by, well := map[attempt]string{}, map[job.RunID]bool{}
	for _, c := range s.Calls(trigger.ID{}) {
		k := attempt{c.Run, c.Attempt}
		if other, ok := by[k]; ok {
			breaches = append(breaches, fmt.Sprintf("attempt %d of run %s was made by %s and by %s", c.Attempt, c.Run, other, c.Proc))
		}
		by[k] = c.Proc
		well[c.Run] = well[c.Run] || (c.Answer.Code >= 200 && c.Answer.Code < 300)
	}
	for _, id := range s.made {
		runs := s.Runs(id)
		occurrences := 0
		for _, r := range runs {
			switch {
			case !r.State.Terminal():
				breaches = append(breaches, fmt.Sprintf("run %s is left %s: %s", r.ID, r.State, strings.Join(s.History(r.ID), " | ")))
			case !r.Wake.IsZero():
				breaches = append(breaches, fmt.Sprintf("run %s has ended and is still to wake", r.ID))
			case r.State == job.Succeeded && !well[r.ID]:
				breaches = append(breaches, fmt.Sprintf("run %s succeeded without a call", r.ID))
			case r.State == job.Dead && r.Crashes < job.MaxCrashes && len(r.Attempts) == 0:
				breaches = append(breaches, fmt.Sprintf("run %s died without an attempt", r.ID))
			}
			if r.Kind == job.Occurrence {
				occurrences++
			}
		}
		if j := s.Job(id); !j.Schedule.Recurs() && !s.touched[id] && occurrences != 1 {
			breaches = append(breaches, fmt.Sprintf("job %s, to run once, has %d runs", id, occurrences))
		}
	}
	return breaches
}

func (s *sim) report(occurrences int) Report {
	r := Report{Jobs: len(s.made), Occurrences: occurrences, Calls: len(s.Calls(trigger.ID{})), Kills: s.kills, States: map[job.State]int{}}
	for _, id := range s.made {
		for _, run := range s.Runs(id) {
			r.Runs++
			r.Crashes += run.Crashes
			r.States[run.State]++
		}
	}
	for _, f := range s.faults {
		r.Faults = append(r.Faults, f.String())
	}
	return r
}
