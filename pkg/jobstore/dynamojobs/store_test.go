package dynamojobs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/jobstore/dynamojobs"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/dynamostore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// wholeBody hands net/http bodies it knows to be in memory: the SDK's own type is
// sent apart from the headers, and an answer that overtakes it costs the
// connection.
type wholeBody struct{ http.RoundTripper }

func (w wholeBody) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err := errors.Join(err, r.Body.Close()); err != nil {
			return nil, err
		}
		whole := *r
		whole.Body, whole.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
		r = &whole
	}
	return w.RoundTripper.RoundTrip(r) //nolint:wrapcheck // it stands for the transport.
}

// cost sums what a store's requests cost.
type cost struct {
	mu          sync.Mutex
	requests    int
	read, write float64
}

func (c *cost) add(_ string, n int, read, write float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests, c.read, c.write = c.requests+n, c.read+read, c.write+write
}

func (c *cost) reset() { c.requests, c.read, c.write = 0, 0, 0 }

// world is a store in fresh tables, and what it cost.
type world struct {
	*dynamojobs.Store
	client   *dynamodb.Client
	triggers *dynamostore.Store
	opts     dynamojobs.Options
	cost     cost
}

func open(t *testing.T) *world {
	t.Helper()
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	return openAt(t, srv.URL)
}

func openAt(t *testing.T, url string) *world {
	t.Helper()
	w := &world{client: dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &url,
		HTTPClient:  &http.Client{Transport: wholeBody{http.DefaultTransport}},
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	})}
	prefix := "j" + trigger.NewID().String()
	jobs, runs, triggers := prefix+"-jobs", prefix+"-runs", prefix+"-triggers"
	require.NoError(t, dynamojobs.EnsureTables(t.Context(), w.client, jobs, runs))
	require.NoError(t, dynamostore.CreateTable(t.Context(), w.client, triggers))
	t.Cleanup(func() {
		for _, table := range []string{jobs, runs, triggers} {
			_, err := w.client.DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: &table})
			require.NoError(t, err)
		}
	})
	var err error
	w.triggers, err = dynamostore.New(dynamostore.Options{API: w.client, Table: triggers})
	require.NoError(t, err)
	w.opts = dynamojobs.Options{Client: w.client, Jobs: jobs, Runs: runs, Triggers: w.triggers, Meter: w.cost.add}
	w.Store, err = dynamojobs.New(w.opts)
	require.NoError(t, err)
	return w
}

// ministack is the endpoint of `make e2e`, which fails if what uses it did not run.
func ministack(t *testing.T) string {
	t.Helper()
	url := os.Getenv("MYOSIN_MINISTACK_URL")
	if url == "" {
		t.Skip("MYOSIN_MINISTACK_URL is not set: `make e2e` runs this on ministack")
	}
	return url
}

var created = time.UnixMilli(1_800_000_000_000).UTC()

func aJob() *job.Job {
	j := &job.Job{
		ID: trigger.NewID(), Status: job.JobIsActive, Generation: 1, Created: created, Updated: created, Version: 1,
		Spec: job.Spec{
			Name: "report", Tenant: "acme", Labels: map[string]string{"team": "billing"}, Payload: []byte(`{"a":1}`),
			Schedule: job.Timing{Cron: "0 * * * *"},
			Target:   job.Target{Type: job.TargetHTTP, URL: "https://example.com/run"},
		}.WithDefaults(),
	}
	j.Pending = created.Add(time.Hour)
	j.Wake = j.Pending.Add(time.Minute)
	return j
}

func aRow(j *job.Job, due time.Time) *store.Row {
	id := job.NewRunID(j.ID, j.Generation, due)
	return &store.Row{
		Trigger: trigger.Trigger{ID: id.TriggerID(), Service: "myosin-runner", Due: due, N: 4, Payload: []byte(id), Tenant: j.Tenant},
		State:   trigger.StateScheduled, Created: created,
	}
}

func conflictOn(t *testing.T, err error, part jobstore.Part, index int) {
	t.Helper()
	var c *jobstore.ConflictError
	require.ErrorAs(t, err, &c)
	require.Equal(t, jobstore.ConflictError{Part: part, Index: index}, *c)
}

func TestAConflictNamesItsPartAndNothingIsApplied(t *testing.T) {
	testConflicts(t, open(t))
}

func TestConflictsOnMinistack(t *testing.T) { testConflicts(t, openAt(t, ministack(t))) }

func testConflicts(t *testing.T, w *world) {
	ctx := t.Context()
	j := aJob()
	kept := &jobstore.Idempotency{Tenant: "acme", Key: "k", Status: 201, Answer: []byte("{}"), Expires: time.Now().Add(time.Hour).UTC()}
	row := aRow(j, j.Pending)
	require.NoError(t, w.Commit(ctx, jobstore.Tx{Create: j, Triggers: []*store.Row{row}, Idempotency: kept}))
	got, err := w.Job(ctx, j.ID)
	require.NoError(t, err)
	want := *j
	want.Seq = 1
	require.Equal(t, want, got)

	conflictOn(t, w.Commit(ctx, jobstore.Tx{Create: j}), jobstore.PartJob, 0)
	other := aJob()
	conflictOn(t, w.Commit(ctx, jobstore.Tx{Create: other, Idempotency: kept}), jobstore.PartIdempotency, 0)
	_, err = w.Job(ctx, other.ID)
	require.ErrorIs(t, err, jobstore.ErrNotFound)

	conflictOn(t, w.Commit(ctx, jobstore.Tx{Triggers: []*store.Row{row}}), jobstore.PartTrigger, 0)
	conflictOn(t, w.Commit(ctx, jobstore.Tx{Triggers: []*store.Row{aRow(j, created), row}}), jobstore.PartTrigger, 1)

	conflictOn(t, w.Commit(ctx, jobstore.Tx{Progress: &jobstore.ProgressWrite{Job: j.ID, Progress: job.Progress{Seq: 2}}}), jobstore.PartJob, 0)
	conflictOn(t, w.Commit(ctx, jobstore.Tx{Progress: &jobstore.ProgressWrite{Job: other.ID}}), jobstore.PartJob, 0)

	a, b := job.NewRun(j.ID, 1, created), job.NewRun(j.ID, 1, created.Add(time.Hour))
	require.NoError(t, w.Commit(ctx, jobstore.Tx{Runs: []job.Run{a}, Guard: &jobstore.Guard{Job: j.ID, Generation: 1}}))
	conflictOn(t, w.Commit(ctx, jobstore.Tx{Runs: []job.Run{b, a}}), jobstore.PartRun, 1)
	conflictOn(t, w.Commit(ctx, jobstore.Tx{Runs: []job.Run{b}, Guard: &jobstore.Guard{Job: j.ID, Generation: 2}}), jobstore.PartGuard, 0)
	conflictOn(t, w.Commit(ctx, jobstore.Tx{Guard: &jobstore.Guard{Job: other.ID, Generation: 1}}), jobstore.PartGuard, 0)
	require.NoError(t, w.Commit(ctx, jobstore.Tx{Guard: &jobstore.Guard{Job: j.ID, Generation: 1}}))
	_, err = w.Run(ctx, b.ID)
	require.ErrorIs(t, err, jobstore.ErrNotFound)

	edited := got
	edited.Status, edited.Generation, edited.Version, edited.Pending, edited.Wake = job.JobIsPaused, 2, 2, time.Time{}, time.Time{}
	require.NoError(t, w.Commit(ctx, jobstore.Tx{Edit: &edited}))
	conflictOn(t, w.Commit(ctx, jobstore.Tx{Edit: &edited}), jobstore.PartJob, 0)
	conflictOn(t, w.Commit(ctx, jobstore.Tx{Guard: &jobstore.Guard{Job: j.ID, Generation: 2}}), jobstore.PartGuard, 0)
}

func TestProgressLeavesTheRestOfTheJobAlone(t *testing.T) {
	w := open(t)
	j := aJob()
	require.NoError(t, w.Commit(t.Context(), jobstore.Tx{Create: j}))
	full := job.Progress{Previous: created, Active: "a", Waiting: "b", Wake: created.Add(time.Second), Pending: created.Add(2 * time.Second), Seq: 1}
	for seq, p := range []job.Progress{full, {Seq: 2}, {Active: "c", Seq: 3}} {
		require.NoError(t, w.Commit(t.Context(), jobstore.Tx{Progress: &jobstore.ProgressWrite{Job: j.ID, Progress: p}}))
		got, err := w.Job(t.Context(), j.ID)
		require.NoError(t, err)
		want := *j
		want.Progress = p
		want.Seq = int64(seq) + 2
		require.Equal(t, want, got)
		due, err := all(t, w)
		require.NoError(t, err)
		require.Len(t, due, map[bool]int{true: 0, false: 1}[p.Wake.IsZero()])
	}
}

// all returns what is due of all shards, far ahead.
func all(t *testing.T, w *world) (list []jobstore.Wake, err error) {
	t.Helper()
	for shard := range jobstore.Wakes {
		due, err := w.Due(t.Context(), shard, created.Add(1e6*time.Hour), 100)
		if err != nil {
			return nil, err
		}
		list = append(list, due...)
	}
	return list, nil
}

func TestPagesFollowEachOtherAndCursorsAreTheirQuerysOwn(t *testing.T) {
	testPages(t, open(t))
}

func TestPagesOnMinistack(t *testing.T) { testPages(t, openAt(t, ministack(t))) }

func testPages(t *testing.T, w *world) {
	ctx := t.Context()
	j := aJob()
	var ids []job.RunID
	for i := range 7 {
		r := job.NewRun(j.ID, 1, created.Add(time.Duration(i)*time.Minute))
		r.Tenant, r.State, r.Ended, r.Payload = "acme", job.Dead, created.Add(time.Duration(i)*time.Hour), []byte("sent")
		require.NoError(t, w.Commit(ctx, jobstore.Tx{Runs: []job.Run{r}}))
		ids = append([]job.RunID{r.ID}, ids...)
	}
	pages := func(next func(cursor string) (jobstore.Page[job.Run], error)) (got []job.RunID, cursors []string) {
		for cursor := ""; ; {
			p, err := next(cursor)
			require.NoError(t, err)
			for _, r := range p.Items {
				got = append(got, r.ID)
			}
			if p.Next == "" {
				return got, cursors
			}
			cursor = p.Next
			cursors = append(cursors, cursor)
		}
	}
	runs := jobstore.RunQuery{Job: j.ID, Limit: 3}
	got, cursors := pages(func(c string) (jobstore.Page[job.Run], error) {
		q := runs
		q.Cursor = c
		return w.Runs(ctx, q)
	})
	require.Equal(t, ids, got)
	for _, limit := range []int{1, 3, 7, 100} {
		got, _ = pages(func(c string) (jobstore.Page[job.Run], error) {
			return w.Runs(ctx, jobstore.RunQuery{Job: j.ID, State: job.Dead, Limit: limit, Cursor: c})
		})
		require.Equal(t, ids, got, limit)
		got, _ = pages(func(c string) (jobstore.Page[job.Run], error) {
			return w.Dead(ctx, jobstore.DeadQuery{Tenant: "acme", Job: j.ID, Limit: limit, Cursor: c})
		})
		require.Equal(t, ids, got, limit)
	}
	none, err := w.Runs(ctx, jobstore.RunQuery{Job: j.ID, State: job.Running, Limit: 3})
	require.NoError(t, err)
	require.Empty(t, none.Items)
	require.Empty(t, none.Next)

	dead, err := w.Dead(ctx, jobstore.DeadQuery{Tenant: "acme", From: created.Add(time.Hour), Until: created.Add(3 * time.Hour), Limit: 9})
	require.NoError(t, err)
	require.Len(t, dead.Items, 3, "from one to the other, both included")
	require.Equal(t, []byte("sent"), dead.Items[0].Payload)

	for name, q := range map[string]jobstore.RunQuery{
		"another state": {Job: j.ID, State: job.Dead, Cursor: cursors[0], Limit: 3},
		"another job":   {Job: trigger.NewID(), Cursor: cursors[0], Limit: 3},
		"no cursor":     {Job: j.ID, Cursor: "!", Limit: 3},
		"a part of one": {Job: j.ID, Cursor: cursors[0][:20], Limit: 3},
		"mangled":       {Job: j.ID, Cursor: cursors[0][:30] + "A" + cursors[0][31:] + "A", Limit: 3},
	} {
		_, err := w.Runs(ctx, q)
		require.ErrorIs(t, err, jobstore.ErrCursor, name)
	}
	_, err = w.Dead(ctx, jobstore.DeadQuery{Tenant: "acme", Cursor: cursors[0], Limit: 3})
	require.ErrorIs(t, err, jobstore.ErrCursor)

	// A redriven one is no dead letter any more.
	r, err := w.Run(ctx, ids[0])
	require.NoError(t, err)
	r.Redriven = r.ID.Redriven()
	require.NoError(t, w.Commit(ctx, jobstore.Tx{Runs: []job.Run{r}}))
	dead, err = w.Dead(ctx, jobstore.DeadQuery{Tenant: "acme", Limit: 100})
	require.NoError(t, err)
	require.Len(t, dead.Items, 6)
}

func TestJobsAreListedByStatusAndLabel(t *testing.T) {
	testJobs(t, open(t))
}

func TestJobListsOnMinistack(t *testing.T) { testJobs(t, openAt(t, ministack(t))) }

func testJobs(t *testing.T, w *world) {
	var want []job.Job
	for i, status := range []job.JobStatus{job.JobIsActive, job.JobIsPaused, job.JobIsDeleted} {
		j := aJob()
		j.Created = created.Add(time.Duration(i) * time.Second)
		j.Status, j.Labels = status, map[string]string{"n": fmt.Sprint(i), "odd": fmt.Sprint(i % 2)}
		require.NoError(t, w.Commit(t.Context(), jobstore.Tx{Create: j}))
		listed := *j
		listed.Payload, listed.Seq = nil, 1
		want = append(want, listed)
	}
	for name, c := range map[string]struct {
		q    jobstore.JobQuery
		want []job.Job
	}{
		"all but deleted": {jobstore.JobQuery{}, []job.Job{want[1], want[0]}},
		"deleted":         {jobstore.JobQuery{Status: job.JobIsDeleted}, []job.Job{want[2]}},
		"by label":        {jobstore.JobQuery{Label: "odd=0"}, []job.Job{want[0]}},
		"by its name":     {jobstore.JobQuery{Label: "odd"}, []job.Job{want[1], want[0]}},
		"by none":         {jobstore.JobQuery{Label: "even"}, []job.Job{}},
	} {
		c.q.Tenant, c.q.Limit = "acme", 10
		p, err := w.Jobs(t.Context(), c.q)
		require.NoError(t, err, name)
		require.Equal(t, c.want, p.Items, name)
		require.Empty(t, p.Next)
	}
	p, err := w.Jobs(t.Context(), jobstore.JobQuery{Tenant: "acme", Limit: 1})
	require.NoError(t, err)
	require.Equal(t, want[1:2], p.Items)
	p, err = w.Jobs(t.Context(), jobstore.JobQuery{Tenant: "acme", Limit: 1, Cursor: p.Next})
	require.NoError(t, err)
	require.Equal(t, want[:1], p.Items)
	for _, limit := range []int{0, 101} {
		_, err = w.Jobs(t.Context(), jobstore.JobQuery{Tenant: "acme", Limit: limit})
		require.ErrorContains(t, err, "limit")
	}
}

func TestTablesExpireByXAndEnsuringTwiceChangesNothing(t *testing.T) {
	w := open(t)
	require.NoError(t, w.Commit(t.Context(), jobstore.Tx{Create: aJob()}))
	require.NoError(t, dynamojobs.EnsureTables(t.Context(), w.client, w.opts.Jobs, w.opts.Runs))
	p, err := w.Jobs(t.Context(), jobstore.JobQuery{Tenant: "acme", Limit: 1})
	require.NoError(t, err)
	require.Len(t, p.Items, 1)
	for _, table := range []string{w.opts.Jobs, w.opts.Runs} {
		out, err := w.client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &table})
		require.NoError(t, err)
		require.Equal(t, types.TimeToLiveStatusEnabled, out.TimeToLiveDescription.TimeToLiveStatus)
		require.Equal(t, "x", *out.TimeToLiveDescription.AttributeName)
	}
}

// The prices that the layout was made for: units as ministack counts them.
func TestCostsOnMinistack(t *testing.T) {
	w := openAt(t, ministack(t))
	j := aJob()
	spent := func(what string, requests int, writes float64, txs ...jobstore.Tx) {
		t.Helper()
		w.cost.reset()
		for _, tx := range txs {
			require.NoError(t, w.Commit(t.Context(), tx))
		}
		t.Logf("%s: %d requests, %.1f write units", what, w.cost.requests, w.cost.write)
		require.Equal(t, requests, w.cost.requests, what)
		require.InDelta(t, writes, w.cost.write, 0.01, what)
	}
	spent("create", 1, 9, jobstore.Tx{Create: j, Triggers: []*store.Row{aRow(j, j.Pending)}})
	next := j.Pending.Add(time.Hour)
	progress := job.Progress{Pending: next, Previous: j.Pending, Wake: next.Add(time.Minute), Seq: 1}
	running, err := job.NewRun(j.ID, 1, j.Pending).Lease(j.Pending, job.Claim{Generation: 1, JobGeneration: 1, JobStatus: job.JobIsActive})
	require.NoError(t, err)
	begun := running
	begun.Version = 1
	done, err := begun.Finish(j.Pending.Add(time.Second), 1, false, job.Ending{Verdict: job.VerdictSuccess, StatusCode: 200}, job.DefaultRetry())
	require.NoError(t, err)
	spent("trigger insert", 1, 1, jobstore.Tx{Triggers: []*store.Row{aRow(j, next)}})
	spent("progress", 1, 3, jobstore.Tx{Progress: &jobstore.ProgressWrite{Job: j.ID, Progress: progress}})
	spent("RUNNING", 1, 2, jobstore.Tx{Runs: []job.Run{running}})
	spent("SUCCEEDED", 1, 2, jobstore.Tx{Runs: []job.Run{done}})
	w.cost.reset()
	_, err = w.Job(t.Context(), j.ID)
	require.NoError(t, err)
	t.Logf("read job: %d requests, %.1f read units", w.cost.requests, w.cost.read)
}
