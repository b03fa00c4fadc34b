package job

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func start() time.Time { return time.UnixMilli(1_800_000_000_000).UTC() }

func kind(err error) ConflictKind {
	if c, ok := errors.AsType[*ConflictError](err); ok {
		return c.Kind
	}
	return ""
}

// in returns a run in a state, leased once where that was needed.
func in(t *testing.T, s State) Run {
	t.Helper()
	r := NewRun(trigger.NewID(), 1, start())
	if s == Scheduled {
		return r
	}
	r, err := r.Lease(start(), Claim{Generation: 1, JobGeneration: 1, JobStatus: JobIsActive})
	require.NoError(t, err)
	if s != Running {
		r = r.end(start(), s, Ending{Reason: "x"})
	}
	return r
}

func TestEveryEdgeOfTheStateMachine(t *testing.T) {
	late := start().Add(LeaseFor)
	claim := Claim{Generation: 1, JobGeneration: 1, JobStatus: JobIsActive}
	finish := func(v Verdict) func(Run) (Run, error) {
		return func(r Run) (Run, error) {
			return r.Finish(start(), r.Attempt, false, Ending{Verdict: v, Reason: "x"}, policy())
		}
	}
	ops := map[string]func(Run) (Run, error){
		"lease":   func(r Run) (Run, error) { return r.Lease(late, claim) },
		"renew":   func(r Run) (Run, error) { return r.Renew(start(), r.Attempt) },
		"accept":  func(r Run) (Run, error) { return r.Accept(start(), r.Attempt) },
		"beat":    func(r Run) (Run, error) { return r.Heartbeat(start(), r.Attempt) },
		"succeed": finish(VerdictSuccess), "retry": finish(VerdictRetry), "dead": finish(VerdictDead),
		"gone": finish(VerdictDeadPause), "none": finish(VerdictNone),
		"expire": func(r Run) (Run, error) { return r.Expire(late, policy(), 0) },
		"early":  func(r Run) (Run, error) { return r.Expire(start(), policy(), 0) },
		"defer":  func(r Run) (Run, error) { return r.Defer(late) },
		"cancel": func(r Run) (Run, error) { return r.Cancel(start(), "x") }, "skip": func(r Run) (Run, error) { return r.Skip(start(), "x") },
		"redrive": func(r Run) (Run, error) { return r.Redrive(2) },
	}
	allowed := map[State]map[string]State{
		Scheduled: {"lease": Running, "defer": Scheduled, "cancel": Cancelled, "skip": Skipped},
		Retrying:  {"lease": Running, "defer": Retrying, "cancel": Cancelled},
		Running: {"renew": Running, "accept": Running, "succeed": Succeeded, "retry": Retrying, "dead": Dead,
			"gone": Dead, "expire": Retrying, "cancel": Running},
		Dead: {"redrive": Scheduled}, Succeeded: {}, Cancelled: {}, Skipped: {},
	}
	for state, edges := range allowed {
		for name, op := range ops {
			before := in(t, state)
			after, err := op(before)
			if want, ok := edges[name]; ok {
				require.NoError(t, err, "%s %s", state, name)
				require.Equal(t, want, after.State, "%s %s", state, name)
				continue
			}
			require.NotEmpty(t, kind(err), "%s %s", state, name)
			require.NotEmpty(t, err.Error())
			require.Equal(t, before, after, "%s %s", state, name)
		}
	}
}

func TestLeaseRefusesWithItsReason(t *testing.T) {
	ok := Claim{Generation: 1, JobGeneration: 1, JobStatus: JobIsActive}
	edited, paused, deleted, old, failed := ok, ok, ok, ok, ok
	edited.JobGeneration, paused.JobStatus, deleted.JobStatus, old.Generation, failed.Failures = 2, JobIsPaused, JobIsDeleted, 0, 1
	for _, c := range []struct {
		state State
		claim Claim
		want  ConflictKind
	}{
		{Scheduled, edited, StaleGeneration}, {Scheduled, paused, JobPaused}, {Scheduled, deleted, JobDeleted},
		{Scheduled, old, StaleGeneration}, {Scheduled, failed, StaleMessage}, {Running, ok, LeaseHeld},
		{Retrying, edited, ""}, {Retrying, paused, ""}, {Retrying, deleted, JobDeleted}, {Dead, ok, IsTerminal},
	} {
		_, err := in(t, c.state).Lease(start(), c.claim)
		require.Equal(t, c.want, kind(err), "%s %+v", c.state, c.claim)
	}
	r, err := in(t, Scheduled).Defer(start().Add(time.Second))
	require.NoError(t, err)
	_, err = r.Lease(start(), ok)
	require.Equal(t, TooEarly, kind(err))
}

func TestRandomEventsByTwoWorkersKeepTheInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, now, p := NewRun(trigger.NewID(), 1, start()), start(), policy()
		p.MaxAttempts = rapid.IntRange(1, 4).Draw(t, "max")
		var holds [2]int // the attempt each worker believes it has
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "s")) * time.Second)
			w := rapid.IntRange(0, 1).Draw(t, "worker")
			before, next, err, writes := r, r, error(nil), false
			switch rapid.IntRange(0, 8).Draw(t, "op") {
			case 0, 1:
				next, err = r.Lease(now, Claim{Generation: 1, JobGeneration: 1, JobStatus: JobIsActive, Failures: r.Failures})
				if err == nil {
					require.Equal(t, before.Attempt+1, next.Attempt)
					require.NotEqual(t, Running, before.State)
					holds[w] = next.Attempt
				}
			case 2:
				next, err = r.Expire(now, p, 0.5)
				require.False(t, err == nil && now.Before(before.LeaseUntil))
			case 3:
				next, err, writes = orErr(r.Renew(now, holds[w]))
			case 4:
				next, err, writes = orErr(r.Accept(now, holds[w]))
			case 5:
				next, err, writes = orErr(r.Heartbeat(now, holds[w]))
			case 6:
				v := rapid.SampledFrom([]Verdict{VerdictRetry, VerdictRetry, VerdictSuccess, VerdictDead}).Draw(t, "v")
				next, err, writes = orErr(r.Finish(now, holds[w], rapid.Bool().Draw(t, "acc"), Ending{Verdict: v, Reason: "x", Jitter: 0.5}, p))
			case 7:
				next, err = r.Defer(now)
			case 8:
				if rapid.IntRange(0, 9).Draw(t, "rare") == 0 {
					next, err = r.Cancel(start(), "x")
				}
			}
			require.False(t, writes && holds[w] != before.Attempt, "a worker that lost its lease wrote")
			require.GreaterOrEqual(t, next.Attempt, before.Attempt)
			require.LessOrEqual(t, next.Failures, p.MaxAttempts)
			require.LessOrEqual(t, next.Crashes, MaxCrashes)
			require.Len(t, next.Attempts, next.Attempt)
			if before.State.Terminal() || err != nil {
				require.Equal(t, before, next)
			}
			r = next
		}
	})
}

func orErr(r Run, err error) (Run, error, bool) { return r, err, err == nil } //nolint:revive // a test's shorthand.

func TestFiveCrashesEndARunThatMayTryOnce(t *testing.T) {
	r, now, p := in(t, Scheduled), start(), policy()
	p.MaxAttempts = 1
	for n := 1; n <= MaxCrashes; n++ {
		var err error
		r, err = r.Lease(now, Claim{Generation: 1, JobGeneration: 1, JobStatus: JobIsActive})
		require.NoError(t, err)
		now = now.Add(LeaseFor)
		r, err = r.Expire(now, p, 0)
		require.NoError(t, err)
	}
	require.Equal(t, Dead, r.State)
	require.Zero(t, r.Failures)
	again, err := r.Redrive(3)
	require.NoError(t, err)
	require.Equal(t, r.ID, again.OriginalID)
}
