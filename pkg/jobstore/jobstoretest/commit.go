package jobstoretest

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func commitTests() []test {
	return []test{
		{"a job is created once", createdOnce},
		{"an edit is on condition of seq and keeps the caller's version", edits},
		{"progress is on condition of seq and leaves the rest alone", progress},
		{"a guard holds for an active job of its generation", guards},
		{"a run is put on condition of its version", runVersions},
		{"a trigger is inserted once", triggersOnce},
		{"a refused commit applies none of its parts", nothingApplied},
		{"a commit spans a job, runs, triggers, an answer and audit", spans},
		{"a commit that no store can apply is refused", invalid},
		{"what is not there is not found", notFound},
		{"one of several writers of a version wins", race},
	}
}

func createdOnce(t *testing.T, h Harness) {
	want := newJob(tenantOf())
	want.Version, want.Seq = 9, 9 // the store's to set
	kept := create(t, h, want)
	holdsJob(t, h, kept)
	again := want
	again.Name = "another"
	conflictOn(t, h.Store.Commit(t.Context(), jobstore.Tx{Create: &again}), jobstore.PartJob, 0)
	holdsJob(t, h, kept)
}

func edits(t *testing.T, h Harness) {
	ctx := t.Context()
	j := create(t, h, fullJob(tenantOf()))
	next := j
	next.Name, next.Status, next.Generation, next.Version = "renamed", job.JobIsPaused, 2, 7
	next.Payload, next.Labels, next.Progress = nil, nil, job.Progress{Seq: 1}
	commit(t, h, jobstore.Tx{Edit: &next})
	want := next
	want.Seq = 2
	holdsJob(t, h, want)
	conflictOn(t, h.Store.Commit(ctx, jobstore.Tx{Edit: &next}), jobstore.PartJob, 0)
	ahead := want
	ahead.Seq = 3
	conflictOn(t, h.Store.Commit(ctx, jobstore.Tx{Edit: &ahead}), jobstore.PartJob, 0)
	holdsJob(t, h, want)
	missing := newJob(j.Tenant)
	missing.Seq = 1
	conflictOn(t, h.Store.Commit(ctx, jobstore.Tx{Edit: &missing}), jobstore.PartJob, 0)
	_, err := h.Store.Job(ctx, missing.ID)
	require.ErrorIs(t, err, jobstore.ErrNotFound)

	deleted := want
	deleted.Status, deleted.Version = job.JobIsDeleted, 8
	commit(t, h, jobstore.Tx{Edit: &deleted})
	deleted.Seq = 3
	holdsJob(t, h, deleted) // deleted ones too
}

func progress(t *testing.T, h Harness) {
	ctx := t.Context()
	j := create(t, h, fullJob(tenantOf()))
	full := j.Progress
	for _, p := range []job.Progress{{}, full, {Active: "a"}, {Wake: after(3)}, {Pending: after(4), Previous: after(2), Waiting: "b"}} {
		p.Seq = j.Seq
		w := jobstore.ProgressWrite{Job: j.ID, Progress: p}
		commit(t, h, jobstore.Tx{Progress: &w})
		conflictOn(t, h.Store.Commit(ctx, jobstore.Tx{Progress: &w}), jobstore.PartJob, 0)
		j.Progress = p
		j.Seq++
		holdsJob(t, h, j)
	}
	// An edit and a progress exclude each other.
	edit := j
	edit.Seq--
	conflictOn(t, h.Store.Commit(ctx, jobstore.Tx{Edit: &edit}), jobstore.PartJob, 0)
	missing := jobstore.ProgressWrite{Job: trigger.NewID()}
	conflictOn(t, h.Store.Commit(ctx, jobstore.Tx{Progress: &missing}), jobstore.PartJob, 0)
	_, err := h.Store.Job(ctx, missing.Job)
	require.ErrorIs(t, err, jobstore.ErrNotFound)
}

func guards(t *testing.T, h Harness) {
	ctx := t.Context()
	j := create(t, h, newJob(tenantOf()))
	guard := func(id trigger.ID, generation int64) error {
		return h.Store.Commit(ctx, jobstore.Tx{Guard: &jobstore.Guard{Job: id, Generation: generation}})
	}
	require.NoError(t, guard(j.ID, 1))
	holdsJob(t, h, j) // without writing
	conflictOn(t, guard(j.ID, 2), jobstore.PartGuard, 0)
	conflictOn(t, guard(trigger.NewID(), 1), jobstore.PartGuard, 0)
	for _, status := range []job.JobStatus{job.JobIsPaused, job.JobIsDeleted} {
		j.Status = status
		commit(t, h, jobstore.Tx{Edit: &j})
		j.Seq++
		conflictOn(t, guard(j.ID, 1), jobstore.PartGuard, 0)
	}
	j.Status, j.Generation = job.JobIsActive, 2
	commit(t, h, jobstore.Tx{Edit: &j})
	conflictOn(t, guard(j.ID, 1), jobstore.PartGuard, 0)
	require.NoError(t, guard(j.ID, 2))
}

func runVersions(t *testing.T, h Harness) {
	ctx := t.Context()
	j := newJob(tenantOf())
	a := put(t, h, newRun(&j, 0))
	require.EqualValues(t, 1, a.Version)
	holdsRun(t, h, a)
	for _, version := range []int64{0, 2} {
		other := a
		other.Version, other.Reason = version, "lost"
		conflictOn(t, h.Store.Commit(ctx, jobstore.Tx{Runs: []job.Run{other}}), jobstore.PartRun, 0)
	}
	holdsRun(t, h, a)
	a.State = job.Running
	a = put(t, h, a)
	require.EqualValues(t, 2, a.Version)
	holdsRun(t, h, a)

	b, c := newRun(&j, 1), newRun(&j, 2)
	stale := a
	stale.Version = 1
	conflictOn(t, h.Store.Commit(ctx, jobstore.Tx{Runs: []job.Run{b, c, stale}}), jobstore.PartRun, 2)
	holdsNoRun(t, h, b.ID)
	holdsNoRun(t, h, c.ID)
	c.Version = 1 // there is none
	conflictOn(t, h.Store.Commit(ctx, jobstore.Tx{Runs: []job.Run{b, c}}), jobstore.PartRun, 1)
	conflictOn(t, h.Store.Commit(ctx, jobstore.Tx{Runs: []job.Run{c}}), jobstore.PartRun, 0)
	holdsNoRun(t, h, b.ID)
	holdsNoRun(t, h, c.ID)

	unnamed := b
	unnamed.ID = "nonsense"
	require.Error(t, h.Store.Commit(ctx, jobstore.Tx{Runs: []job.Run{unnamed}}))
	holdsNoRun(t, h, unnamed.ID)
}

func triggersOnce(t *testing.T, h Harness) {
	ctx := t.Context()
	j := newJob(tenantOf())
	a, b := newRow(&j, 0), newRow(&j, 1)
	commit(t, h, jobstore.Tx{Triggers: []*store.Row{a}})
	holdsRow(t, h, a, true)
	conflictOn(t, h.Store.Commit(ctx, jobstore.Tx{Triggers: []*store.Row{a}}), jobstore.PartTrigger, 0)
	conflictOn(t, h.Store.Commit(ctx, jobstore.Tx{Triggers: []*store.Row{b, a}}), jobstore.PartTrigger, 1)
	holdsRow(t, h, b, false)
	commit(t, h, jobstore.Tx{Triggers: []*store.Row{b}})
	holdsRow(t, h, b, true)
}

// nothingApplied lets each part in turn be the one that is refused, with every
// other part in the transaction.
func nothingApplied(t *testing.T, h Harness) {
	ctx := t.Context()
	tenant := tenantOf()
	guarded, moved := create(t, h, newJob(tenant)), create(t, h, newJob(tenant))
	had, row, kept := put(t, h, newRun(&guarded, 0)), newRow(&guarded, 0), newAnswer(tenant, "had", after(60))
	commit(t, h, jobstore.Tx{Triggers: []*store.Row{row}, Idempotency: kept})
	for name, c := range map[string]struct {
		spoil func(tx *jobstore.Tx)
		part  jobstore.Part
		index int
	}{
		"create":      {func(tx *jobstore.Tx) { tx.Create.ID = had.Job; tx.Guard = nil }, jobstore.PartJob, 0},
		"progress":    {func(tx *jobstore.Tx) { tx.Progress.Seq++ }, jobstore.PartJob, 0},
		"guard":       {func(tx *jobstore.Tx) { tx.Guard.Generation++ }, jobstore.PartGuard, 0},
		"run":         {func(tx *jobstore.Tx) { tx.Runs = append(tx.Runs, newRun(&guarded, 0)) }, jobstore.PartRun, 1},
		"trigger":     {func(tx *jobstore.Tx) { tx.Triggers = append(tx.Triggers, row) }, jobstore.PartTrigger, 1},
		"idempotency": {func(tx *jobstore.Tx) { tx.Idempotency.Key = "had" }, jobstore.PartIdempotency, 0},
	} {
		made := newJob(tenant)
		run, first := newRun(&guarded, 1), newRow(&guarded, 1)
		tx := jobstore.Tx{
			Create: &made, Progress: &jobstore.ProgressWrite{Job: moved.ID, Progress: job.Progress{Active: "x", Seq: 1}},
			Guard: &jobstore.Guard{Job: guarded.ID, Generation: 1}, Runs: []job.Run{run}, Triggers: []*store.Row{first},
			Idempotency: newAnswer(tenant, "new", after(60)), Audit: []jobstore.AuditRecord{newAudit(tenant, 0)},
		}
		id := made.ID
		c.spoil(&tx)
		t.Log(name)
		conflictOn(t, h.Store.Commit(ctx, tx), c.part, c.index)
		_, err := h.Store.Job(ctx, id)
		require.ErrorIs(t, err, jobstore.ErrNotFound, name)
		holdsJob(t, h, guarded)
		holdsJob(t, h, moved)
		holdsRun(t, h, had)
		holdsNoRun(t, h, run.ID)
		holdsRow(t, h, first, false)
		_, err = h.Store.Idempotency(ctx, tenant, "new")
		require.ErrorIs(t, err, jobstore.ErrNotFound, name)
		page, err := h.Store.Audit(ctx, tenant, "", 10)
		require.NoError(t, err)
		require.Empty(t, page.Items, name)
	}
}

func spans(t *testing.T, h Harness) {
	ctx := t.Context()
	tenant := tenantOf()
	edited, moved, guarded := create(t, h, newJob(tenant)), create(t, h, newJob(tenant)), create(t, h, newJob(tenant))
	made := newJob(tenant)
	edited.Name = "edited"
	a, b := newRun(&made, 0), newRun(&moved, 0)
	rows := []*store.Row{newRow(&made, 0), newRow(&moved, 1)}
	kept, audit := newAnswer(tenant, "k", after(60)), newAudit(tenant, 0)
	w := jobstore.ProgressWrite{Job: moved.ID, Progress: job.Progress{Pending: after(1), Seq: 1}}
	commit(t, h, jobstore.Tx{
		Create: &made, Edit: &edited, Progress: &w, Guard: &jobstore.Guard{Job: guarded.ID, Generation: 1},
		Runs: []job.Run{a, b}, Triggers: rows, Idempotency: kept, Audit: []jobstore.AuditRecord{audit},
	})
	made.Version, made.Seq, edited.Seq = 1, 1, 2
	moved.Progress = job.Progress{Pending: after(1), Seq: 2}
	for _, j := range []job.Job{made, edited, moved, guarded} {
		holdsJob(t, h, j)
	}
	for _, r := range []job.Run{a, b} {
		r.Version = 1
		holdsRun(t, h, r)
	}
	for _, row := range rows {
		holdsRow(t, h, row, true)
	}
	got, err := h.Store.Idempotency(ctx, tenant, "k")
	require.NoError(t, err)
	require.Equal(t, *kept, got)
	eventually(t, []jobstore.AuditRecord{audit}, func() []jobstore.AuditRecord {
		page, err := h.Store.Audit(ctx, tenant, "", 10)
		require.NoError(t, err)
		return page.Items
	})
}

func invalid(t *testing.T, h Harness) {
	j := newJob(tenantOf())
	r := newRun(&j, 0)
	many := make([]job.Run, jobstore.MaxParts+1)
	for i := range many {
		many[i] = newRun(&j, i)
	}
	guard := &jobstore.Guard{Job: j.ID, Generation: 1}
	for words, tx := range map[string]jobstore.Tx{
		"nothing to write": {},
		"the limit is 100": {Runs: many},
		"101 items":        {Create: &j, Runs: many[:jobstore.MaxParts-2]}, // a job is three
		"twice":            {Create: &j, Guard: guard},
		"job " + j.ID.String() + " twice": {
			Edit: &j, Progress: &jobstore.ProgressWrite{Job: j.ID},
		},
		"run " + string(r.ID) + " twice": {Runs: []job.Run{r, r}},
	} {
		err := h.Store.Commit(t.Context(), tx)
		require.ErrorContains(t, err, words)
		var c *jobstore.ConflictError
		require.NotErrorAs(t, err, &c)
	}
	holdsNoRun(t, h, r.ID)
	commit(t, h, jobstore.Tx{Runs: many[:jobstore.MaxParts]}) // the limit itself
	for _, i := range []int{0, jobstore.MaxParts - 1} {
		many[i].Version = 1
		holdsRun(t, h, many[i])
	}
}

func notFound(t *testing.T, h Harness) {
	ctx, tenant := t.Context(), tenantOf()
	j := newJob(tenant)
	reads := map[string]func() error{
		"job":         func() error { _, err := h.Store.Job(ctx, j.ID); return err },
		"run":         func() error { _, err := h.Store.Run(ctx, job.NewRunID(j.ID, 1, after(0))); return err },
		"no run id":   func() error { _, err := h.Store.Run(ctx, "nonsense"); return err },
		"idempotency": func() error { _, err := h.Store.Idempotency(ctx, tenant, "k"); return err },
		"tenant":      func() error { _, err := h.Store.Tenant(ctx, tenant); return err },
		"key":         func() error { _, err := h.Store.Key(ctx, "k"+tenant); return err },
		"secret":      func() error { return h.Store.DeleteSecret(ctx, tenant, "s") },
	}
	for name, read := range reads {
		require.ErrorIs(t, read(), jobstore.ErrNotFound, name)
	}
}

func race(t *testing.T, h Harness) {
	const writers, versions = 6, 3
	j := create(t, h, newJob(tenantOf()))
	for range versions {
		errs := make([]error, writers)
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				next := j
				next.Name = strings.Repeat("x", i+1)
				tx := jobstore.Tx{Edit: &next}
				if i%2 == 0 {
					tx = jobstore.Tx{Progress: &jobstore.ProgressWrite{Job: j.ID, Progress: job.Progress{Seq: j.Seq, Wake: after(i + 1)}}}
				}
				errs[i] = h.Store.Commit(t.Context(), tx)
			})
		}
		wg.Wait()
		winner := -1
		for i, err := range errs {
			if err == nil {
				require.Equal(t, -1, winner, "two writers won")
				winner = i
				continue
			}
			conflictOn(t, err, jobstore.PartJob, 0)
		}
		require.NotEqual(t, -1, winner)
		want := j
		if winner%2 == 0 {
			want.Progress = job.Progress{Wake: after(winner + 1)}
		} else {
			want.Name = strings.Repeat("x", winner+1)
		}
		want.Seq = j.Seq + 1
		holdsJob(t, h, want)
		j = want
	}
}
