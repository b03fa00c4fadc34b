package null_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/forecast"
	"github.com/myosin-jobs/myosin/pkg/forecast/dynamoforecast"
	"github.com/myosin-jobs/myosin/pkg/forecast/forecasttest"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/jobstore/dynamojobs"
	"github.com/myosin-jobs/myosin/pkg/runner/protect"
	"github.com/myosin-jobs/myosin/pkg/runner/protect/dynamoshared"
	"github.com/myosin-jobs/myosin/pkg/runner/protect/protecttest"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/dynamostore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null"
)

func TestTheForecastsSuite(t *testing.T) {
	e, cfg := start(t, null.Options{})
	client := dynamodb.NewFromConfig(cfg)
	forecasttest.Store(t, func(t *testing.T) forecast.Store {
		name := "forecast-" + trigger.NewID().String()
		require.NoError(t, dynamoforecast.EnsureTable(t.Context(), client, name))
		f, err := dynamoforecast.New(dynamoforecast.Options{Client: client, Table: name})
		require.NoError(t, err)
		return f
	})
	require.Zero(t, e.Stats().Operations["DynamoDB.UpdateItem"].Failed)
}

// jobs opens the two tables of jobs and their triggers; spent is what was written
// since it was last called, in units.
func jobs(t *testing.T) (s *dynamojobs.Store, spent func() float64) {
	t.Helper()
	e, cfg := start(t, null.Options{})
	client := dynamodb.NewFromConfig(cfg)
	rows, _ := triggers(t, cfg, dynamostore.Options{})
	require.NoError(t, dynamojobs.EnsureTables(t.Context(), client, "jobs", "runs"))
	s, err := dynamojobs.New(dynamojobs.Options{Client: client, Jobs: "jobs", Runs: "runs", Triggers: rows})
	require.NoError(t, err)
	at := 0.0
	return s, func() float64 {
		stats := e.Stats().DynamoDB
		units, byTable := stats.WriteUnits, 0.0
		for _, n := range stats.Written {
			byTable += n
		}
		require.InDelta(t, units, byTable, 0.01)
		defer func() { at = units }()
		return units - at
	}
}

func TestTheSuiteOfWhatRunnersShare(t *testing.T) {
	_, cfg := start(t, null.Options{})
	client := dynamodb.NewFromConfig(cfg)
	protecttest.Shared(t, func(t *testing.T) protect.Shared {
		prefix := trigger.NewID().String()
		require.NoError(t, dynamojobs.EnsureTables(t.Context(), client, prefix+"-jobs", prefix+"-runs"))
		s, err := dynamoshared.New(dynamoshared.Options{Client: client, Table: prefix + "-jobs"})
		require.NoError(t, err)
		return s
	})
}

var created = time.UnixMilli(1_800_000_000_000).UTC()

func aJob() *job.Job {
	j := &job.Job{ID: trigger.NewID(), Status: job.JobIsActive, Generation: 1, Created: created, Updated: created, Version: 1}
	j.Spec = job.Spec{
		Name: "report", Tenant: "acme", Labels: map[string]string{"team": "billing"}, Payload: []byte(`{"a":1}`),
		Schedule: job.Timing{Cron: "0 * * * *"}, Target: job.Target{Type: job.TargetHTTP, URL: "https://example.com/run"},
	}.WithDefaults()
	j.Pending = created.Add(time.Hour)
	j.Wake = j.Pending.Add(time.Minute)
	return j
}

func aRow(j *job.Job, due time.Time) *store.Row {
	id := job.NewRunID(j.ID, j.Generation, due)
	return &store.Row{
		Trigger: trigger.Trigger{ID: id.TriggerID(), Service: "runs", Due: due, N: 4, Payload: []byte(id), Tenant: j.Tenant},
		State:   trigger.StateScheduled, Created: created,
	}
}

// The prices are those that ministack counts, too: see dynamojobs.
func TestACronRunCostsWhatDynamoDBBillsEntriesOfIndexesIncluded(t *testing.T) {
	s, spent := jobs(t)
	costs := func(what string, units float64, tx jobstore.Tx) {
		t.Helper()
		spent()
		require.NoError(t, s.Commit(t.Context(), tx), what)
		require.InDelta(t, units, spent(), 0.01, what)
	}
	j := aJob()
	costs("create", 9, jobstore.Tx{Create: j, Triggers: []*store.Row{aRow(j, j.Pending)}})
	next := j.Pending.Add(time.Hour)
	costs("trigger", 1, jobstore.Tx{Triggers: []*store.Row{aRow(j, next)}})
	costs("progress", 3, jobstore.Tx{Progress: &jobstore.ProgressWrite{
		Job: j.ID, Progress: job.Progress{Pending: next, Previous: j.Pending, Wake: next.Add(time.Minute), Seq: 1},
	}})
	running, err := job.NewRun(j.ID, 1, j.Pending).Lease(j.Pending, job.Claim{Generation: 1, JobGeneration: 1, JobStatus: job.JobIsActive})
	require.NoError(t, err)
	costs("RUNNING", 2, jobstore.Tx{Runs: []job.Run{running}})
	running.Version = 1
	done, err := running.Finish(j.Pending.Add(time.Second), 1, false, job.Ending{Verdict: job.VerdictSuccess, StatusCode: 200}, job.DefaultRetry())
	require.NoError(t, err)
	costs("SUCCEEDED", 2, jobstore.Tx{Runs: []job.Run{done}})
}

func TestATransactionIsAppliedWhollyOrNamesTheConditionThatFailed(t *testing.T) {
	s, spent := jobs(t)
	ctx := t.Context()
	j, other := aJob(), aJob()
	row := aRow(j, j.Pending)
	require.NoError(t, s.Commit(ctx, jobstore.Tx{Create: j, Triggers: []*store.Row{row}}))
	conflict := func(err error, part jobstore.Part, index int) {
		t.Helper()
		require.Equal(t, &jobstore.ConflictError{Part: part, Index: index}, err)
	}
	conflict(s.Commit(ctx, jobstore.Tx{Create: j}), jobstore.PartJob, 0)
	conflict(s.Commit(ctx, jobstore.Tx{Create: other, Triggers: []*store.Row{aRow(j, created), row}}), jobstore.PartTrigger, 1)
	_, err := s.Job(ctx, other.ID)
	require.ErrorIs(t, err, jobstore.ErrNotFound)
	r := job.NewRun(j.ID, 1, created)
	conflict(s.Commit(ctx, jobstore.Tx{Runs: []job.Run{r}, Guard: &jobstore.Guard{Job: j.ID, Generation: 2}}), jobstore.PartGuard, 0)
	spent()
	require.NoError(t, s.Commit(ctx, jobstore.Tx{Runs: []job.Run{r}, Guard: &jobstore.Guard{Job: j.ID, Generation: 1}}))
	require.InDelta(t, 4, spent(), 0.01, "a check costs what a write does")

	// What wakes is found by shard, up to but not including a time.
	found := 0
	for shard := range jobstore.Wakes {
		due, err := s.Due(ctx, shard, j.Wake, 10)
		require.NoError(t, err)
		require.Empty(t, due)
		due, err = s.Due(ctx, shard, j.Wake.Add(time.Millisecond), 10)
		require.NoError(t, err)
		if found += len(due); len(due) == 1 {
			require.Equal(t, jobstore.Wake{Job: j.ID, At: j.Wake}, due[0])
		}
	}
	require.Equal(t, 1, found)
}

func TestListsGoBackwardsInPagesAndByLabels(t *testing.T) {
	s, _ := jobs(t)
	ctx := t.Context()
	j := aJob()
	require.NoError(t, s.Commit(ctx, jobstore.Tx{Create: j}))
	var want []job.RunID
	for i := range 5 {
		r := job.NewRun(j.ID, 1, created.Add(time.Duration(i)*time.Minute))
		r.Tenant, r.State, r.Ended = "acme", job.Dead, created.Add(time.Duration(i)*time.Hour)
		require.NoError(t, s.Commit(ctx, jobstore.Tx{Runs: []job.Run{r}}))
		want = append([]job.RunID{r.ID}, want...)
	}
	pages := func(next func(cursor string) (jobstore.Page[job.Run], error)) (got []job.RunID) {
		for cursor := ""; ; {
			p, err := next(cursor)
			require.NoError(t, err)
			for _, r := range p.Items {
				got = append(got, r.ID)
			}
			if cursor = p.Next; cursor == "" {
				return got
			}
		}
	}
	for _, limit := range []int{1, 2, 5, 100} {
		require.Equal(t, want, pages(func(c string) (jobstore.Page[job.Run], error) {
			return s.Runs(ctx, jobstore.RunQuery{Job: j.ID, Limit: limit, Cursor: c})
		}))
		require.Equal(t, want, pages(func(c string) (jobstore.Page[job.Run], error) {
			return s.Dead(ctx, jobstore.DeadQuery{Tenant: "acme", Limit: limit, Cursor: c})
		}))
		require.Equal(t, want[1:4], pages(func(c string) (jobstore.Page[job.Run], error) {
			return s.Dead(ctx, jobstore.DeadQuery{Tenant: "acme", From: created.Add(time.Hour), Until: created.Add(3 * time.Hour), Limit: limit, Cursor: c})
		}))
	}
	for label, n := range map[string]int{"team=billing": 1, "team": 1, "team=sales": 0, "other": 0} {
		p, err := s.Jobs(ctx, jobstore.JobQuery{Tenant: "acme", Label: label, Limit: 10})
		require.NoError(t, err)
		require.Len(t, p.Items, n, label)
	}
}
