package runs_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/journal"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/runs"
)

// records are what the platform says.
type records map[job.RunID]job.Run

func (r records) Job(context.Context, trigger.ID) (job.Job, error) {
	return job.Job{}, jobstore.ErrNotFound
}

func (r records) Run(_ context.Context, id job.RunID) (job.Run, error) {
	run, ok := r[id]
	if !ok {
		return run, jobstore.ErrNotFound
	}
	return run, nil
}

func (r records) Runs(context.Context, jobstore.RunQuery) (jobstore.Page[job.Run], error) {
	var page jobstore.Page[job.Run]
	for _, run := range r {
		page.Items = append(page.Items, run)
	}
	return page, nil
}

// story is one job that is due at once and called once, a second after its time.
type story struct {
	l       *runs.Ledger
	job     runs.Job
	run     job.Run
	calls   []runs.Call
	facts   runs.Facts
	touches []journal.Outcome
	at      time.Time
}

func tell(t *testing.T, change func(s *story)) *runs.Account {
	t.Helper()
	at := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	id := trigger.NewID()
	s := &story{l: runs.NewLedger(), at: at}
	s.run = job.NewRun(id, 1, at)
	s.run.State = job.Succeeded
	s.job = runs.Job{Token: "a", ID: id.String(), Path: "/ok", Created: at.Add(-time.Minute), First: at, RunID: string(s.run.ID), Tries: 3}
	s.calls = []runs.Call{s.call(1)}
	s.facts = runs.Facts{Start: at.Add(-time.Minute), Tolerance: 3 * time.Second, ClockOff: func(time.Time) bool { return false }}
	change(s)
	s.l.Add(s.job)
	s.l.With("a", func(j *runs.Job) { j.Cancelled = s.job.Cancelled })
	for i := range s.calls {
		s.l.Called(&s.calls[i])
	}
	for i := range s.touches {
		s.l.Seen(&journal.Call{Op: "TransactWriteItems"}, []byte("run "+s.job.RunID), &s.touches[i])
	}
	a, err := runs.Verdict(t.Context(), s.l, records{s.run.ID: s.run}, s.facts)
	require.NoError(t, err)
	return a
}

// call is one that begins so many seconds after the nominal time.
func (s *story) call(after int) runs.Call {
	at := s.at.Add(time.Duration(after) * time.Second)
	return runs.Call{Run: string(s.run.ID), Attempt: "1", Path: "/ok", Token: "a", At: at, End: at.Add(10 * time.Millisecond), Worked: true}
}

func TestARunThatWasCalledOnceIsNoBreach(t *testing.T) {
	a := tell(t, func(*story) {})
	require.Empty(t, a.Breaches)
	require.Equal(t, [4]int{1, 1, 1, 1}, [4]int{a.Accepted, a.Runs, a.Worked, a.Succeeded})
	require.InDelta(t, 1000, a.LateP50, 0)
}

func TestEachBrokenPromiseIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *story)
		want   string
	}{
		"NoRun":      {func(s *story) { s.run.ID += "x" }, "there is no run"},
		"NotEnded":   {func(s *story) { s.run.State = job.Retrying }, "still RETRY"},
		"NotCalled":  {func(s *story) { s.calls = nil }, "no call did its work"},
		"NotWorked":  {func(s *story) { s.calls[0].Worked = false }, "no call did its work"},
		"Dead":       {func(s *story) { s.run.State = job.Dead }, "DEAD"},
		"Cancelled":  {func(s *story) { s.run.State = job.Cancelled }, "by nobody"},
		"Early":      {func(s *story) { s.calls[0] = s.call(-1) }, "before its nominal time"},
		"NobodysRun": {func(s *story) { s.calls[0].Token = "b" }, "no run of a job that was made"},
		"OtherJob": {func(s *story) {
			s.calls[0].Run = string(job.NewRunID(trigger.NewID(), 1, s.at))
		}, "no run of a job that was made"},
		"Deleted": {func(s *story) {
			s.job.Gone, s.job.Voids = true, []runs.Void{{At: s.at.Add(-time.Second), Below: 2, Why: "deleted"}}
		}, "no longer its own: deleted"},
		"LeftUnderWay": {func(s *story) {
			s.job.Gone, s.job.Edited, s.run.State = true, true, job.Running
		}, "called off, and still RUNNING"},
		"RunCancelled": {func(s *story) {
			s.job.Gone, s.job.Cancelled = true, map[string]time.Time{s.job.RunID: s.at.Add(-time.Second)}
		}, "called after its cancel"},
		"Twice":       {func(s *story) { s.calls = append(s.calls, s.call(40)) }, "worked twice"},
		"TwiceOnRoll": {func(s *story) { twice(s, runs.Rolled, 1) }, "worked twice"},
		"TwiceAfterALateKill": {func(s *story) {
			twice(s, runs.Killed, 20)
		}, "worked twice"},
		"NoOccurrence": {func(s *story) {
			s.job.Cron, s.job.Voids = "* * * * *", []runs.Void{{At: s.at.Add(80 * time.Second), Below: 2, Why: "deleted"}}
		}, "nothing became of the occurrence of 12:01:00"},
	} {
		t.Run(name, func(t *testing.T) {
			a := tell(t, c.change)
			require.Contains(t, strings.Join(a.Breaches, "\n"), c.want)
		})
	}
}

func twice(s *story, kind string, after int) {
	s.calls = append(s.calls, s.call(40))
	at := s.at.Add(time.Duration(after) * time.Second)
	d := runs.Disturbance{Kind: kind, From: at}
	if kind != runs.Killed {
		d.To = at.Add(time.Second)
	}
	s.facts.Disturbances = append(s.facts.Disturbances, d)
}

func TestAFaultBetweenCallAndRecordExplainsASecondCall(t *testing.T) {
	for why, change := range map[string]func(s *story){
		"killed between call and record": func(s *story) { twice(s, runs.Killed, 2) },
		"frozen between call and record": func(s *story) { twice(s, runs.Frozen, 2) },
		"a write of the run met a fault": func(s *story) {
			s.calls = append(s.calls, s.call(40))
			s.calls[1].At = time.Now().Add(time.Hour) // a touch ends when it is noted
			s.touches = []journal.Outcome{{By: "runner-0.1", Began: s.at.Add(2 * time.Second), Fault: "reset-after"}}
		},
	} {
		a := tell(t, change)
		require.Empty(t, a.Breaches)
		require.Equal(t, map[string]int{why: 1}, a.Why)
		require.Zero(t, a.Unexplained)
	}
	onRoll := tell(t, func(s *story) { twice(s, runs.Rolled, 1) })
	require.Equal(t, [3]int{1, 1, 1}, [3]int{onRoll.Duplicates, onRoll.Unexplained, onRoll.OnRolls})
}

func TestAClockThatIsOffMayBeEarlyByTheTolerance(t *testing.T) {
	off := func(s *story) { s.facts.ClockOff = func(time.Time) bool { return true } }
	a := tell(t, func(s *story) { off(s); s.calls[0] = s.call(-2) })
	require.Empty(t, a.Breaches)
	require.Equal(t, 1, a.WithinClock)
	a = tell(t, func(s *story) { off(s); s.calls[0] = s.call(-4) })
	require.Equal(t, 1, a.Early)
}

func TestACancelBeforeTheCallIsOwedNothing(t *testing.T) {
	a := tell(t, func(s *story) {
		s.calls, s.run.State = nil, job.Cancelled
		s.job.Edited, s.job.Gone = true, true
	})
	require.Empty(t, a.Breaches)
}
