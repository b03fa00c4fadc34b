package jobstoretest

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func keptTests() []test {
	return []test{
		{"every field of a job is kept", keepsJobs},
		{"every field of a run is kept", keepsRuns},
		{"no tolerance is told from none at all", keepsTolerance},
		{"payloads of 256 KiB are kept", keepsPayloads},
		{"what is handed out is the caller's own", handsOutCopies},
		{"what is handed in is copied", takesCopies},
	}
}

func keepsJobs(t *testing.T, h Harness) {
	full := fullJob(tenantOf())
	isFull(t, full)
	holdsJob(t, h, create(t, h, full))
	holdsJob(t, h, create(t, h, newJob(full.Tenant))) // zero times and nothing else
	edited := fullJob(full.Tenant)
	edited.ID, edited.Seq, edited.Version = full.ID, 1, 2
	edited.Created = full.Created
	commit(t, h, jobstore.Tx{Edit: &edited})
	edited.Seq = 2
	holdsJob(t, h, edited)
}

func keepsRuns(t *testing.T, h Harness) {
	j := newJob(tenantOf())
	full := fullRun(&j, 0)
	full.Version = 1
	isFull(t, full)
	full.Version = 0
	full = put(t, h, full)
	holdsRun(t, h, full)
	holdsRun(t, h, put(t, h, newRun(&j, 9)))
	// What is emptied does not stay.
	bare := newRun(&j, 0)
	bare.ID, bare.Version = full.ID, full.Version
	holdsRun(t, h, put(t, h, bare))
	for _, id := range []job.RunID{bare.ID.Notice(), newRun(&j, 3).ID.Manual("Ab9"), newRun(&j, 3).ID.Gap()} {
		r := newRun(&j, 3)
		r.ID = id
		holdsRun(t, h, put(t, h, r))
	}
}

func keepsTolerance(t *testing.T, h Harness) {
	zero, some := time.Duration(0), time.Minute
	for _, tolerance := range []*time.Duration{nil, &zero, &some} {
		j := newJob(tenantOf())
		j.Tolerance = tolerance
		j = create(t, h, j)
		holdsJob(t, h, j)
		got, err := h.Store.Job(t.Context(), j.ID)
		require.NoError(t, err)
		require.Equal(t, tolerance == &zero, got.Urgent())
	}
}

func keepsPayloads(t *testing.T, h Harness) {
	large := bytes.Repeat([]byte{0, 0xff, 'a', '\n'}, trigger.MaxPayload/4)
	require.Len(t, large, 256<<10)
	j := newJob(tenantOf())
	j.Payload = large
	holdsJob(t, h, create(t, h, j))
	r := newRun(&j, 0)
	r.State, r.Ended, r.Payload = job.Dead, after(1), large
	r = put(t, h, r)
	holdsRun(t, h, r)
	eventually(t, []job.Run{r}, func() []job.Run { return deadOf(t, h, jobstore.DeadQuery{Tenant: j.Tenant, Limit: 5}) })

	r = newRun(&j, 1)
	r.Payload = bytes.Repeat(large, 2) // over what an item takes
	require.ErrorIs(t, h.Store.Commit(t.Context(), jobstore.Tx{Runs: []job.Run{r}}), jobstore.ErrTooLarge)
	holdsNoRun(t, h, r.ID)
}

func scribbleJob(j *job.Job) {
	j.Payload[0], j.Labels["team"], j.Target.Headers["X-A"], j.Retry.Also[0], *j.Tolerance = 'X', "X", "X", 499, 1
}

func scribbleRun(r *job.Run) {
	r.Attempts[0].Error, r.Payload[0], r.Call.Payload[0], r.Call.Target.Headers["X-A"], r.Call.Target.URL = "X", 'X', 'X', "X", "X"
}

func handsOutCopies(t *testing.T, h Harness) {
	ctx, tenant := t.Context(), tenantOf()
	j := fullJob(tenant)
	create(t, h, j)
	r := put(t, h, fullRun(&j, 0))
	wantJob := fullJob(tenant)
	wantJob.ID, wantJob.Active, wantJob.Waiting = j.ID, j.Active, j.Waiting
	gotJob, err := h.Store.Job(ctx, j.ID)
	require.NoError(t, err)
	scribbleJob(&gotJob)
	holdsJob(t, h, wantJob)
	gotRun, err := h.Store.Run(ctx, r.ID)
	require.NoError(t, err)
	scribbleRun(&gotRun)
	want := fullRun(&j, 0)
	want.Version = 1
	holdsRun(t, h, want)
	for _, run := range runsOf(t, h, jobstore.RunQuery{Job: j.ID, Limit: 1}) {
		run.Attempts[0].Error, run.Call.Target.Headers["X-A"] = "X", "X"
	}
	holdsRun(t, h, want)
}

func takesCopies(t *testing.T, h Harness) {
	tenant := tenantOf()
	j := fullJob(tenant)
	r := fullRun(&j, 0)
	wantJob, wantRun := fullJob(tenant), fullRun(&j, 0)
	wantJob.ID, wantJob.Active, wantJob.Waiting = j.ID, j.Active, j.Waiting
	answer := newAnswer(tenant, "k", after(60))
	commit(t, h, jobstore.Tx{Create: &j, Runs: []job.Run{r}, Idempotency: answer})
	scribbleJob(&j)
	scribbleRun(&r)
	answer.Answer[0] = 'X'
	wantRun.Version = 1
	holdsJob(t, h, wantJob)
	holdsRun(t, h, wantRun)
	got, err := h.Store.Idempotency(t.Context(), tenant, "k")
	require.NoError(t, err)
	require.Equal(t, *newAnswer(tenant, "k", after(60)), got)
}
