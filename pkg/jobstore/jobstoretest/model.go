package jobstoretest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func modelTests() []test {
	return []test{{"random transactions do what a plain model does", func(t *testing.T, h Harness) {
		rapid.Check(t, func(rt *rapid.T) { follow(t.Context(), rt, h) })
	}}}
}

// model is what a store should hold: the slow, obvious way.
type model struct {
	tenant string
	// ids are the jobs a sequence is about, there or not; so are all below.
	ids     []trigger.ID
	runs    []job.Run
	rows    []*store.Row
	answers []string

	hasJob    map[trigger.ID]job.Job
	hasRun    map[job.RunID]job.Run
	hasRow    map[trigger.ID]bool
	hasAnswer map[string]jobstore.Idempotency
}

func newModel() *model {
	m := &model{
		tenant: tenantOf(), answers: []string{"k1", "k2"},
		hasJob: map[trigger.ID]job.Job{}, hasRun: map[job.RunID]job.Run{},
		hasRow: map[trigger.ID]bool{}, hasAnswer: map[string]jobstore.Idempotency{},
	}
	for range 3 {
		j := newJob(m.tenant)
		m.ids = append(m.ids, j.ID)
		m.runs = append(m.runs, newRun(&j, 0), newRun(&j, 1))
		m.rows = append(m.rows, newRow(&j, 0))
	}
	return m
}

// some picks up to most different ones of n things.
func some(t *rapid.T, n, most int, what string) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	picked := rapid.Permutation(order).Draw(t, what)
	return picked[:rapid.IntRange(0, most).Draw(t, what+" count")]
}

// near is a version, mostly the right one.
func near(t *rapid.T, version int64, what string) int64 {
	return max(0, version+rapid.SampledFrom([]int64{0, 0, 0, 0, 0, -1, 1}).Draw(t, what))
}

func aTime(t *rapid.T, what string) time.Time {
	if n := rapid.IntRange(0, 9).Draw(t, what); n > 0 {
		return after(n)
	}
	return time.Time{}
}

// draw makes a transaction of any parts, each on a job of its own.
func (m *model) draw(t *rapid.T) jobstore.Tx {
	var tx jobstore.Tx
	progress := func(seq int64) job.Progress {
		return job.Progress{
			Pending: aTime(t, "pending"), Previous: aTime(t, "previous"), Wake: aTime(t, "wake"),
			Active: rapid.SampledFrom([]job.RunID{"", "a"}).Draw(t, "active"), Seq: near(t, seq, "seq"),
		}
	}
	parts := rapid.Permutation([]string{"create", "edit", "progress", "guard"}).Draw(t, "parts of jobs")
	for i, at := range some(t, len(m.ids), 2, "jobs") {
		id := m.ids[at]
		is := m.hasJob[id]
		j := newJob(m.tenant)
		j.ID, j.Name = id, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
		j.Status = rapid.SampledFrom([]job.JobStatus{job.JobIsActive, job.JobIsActive, job.JobIsPaused}).Draw(t, "status")
		switch parts[i] {
		case "create":
			j.Progress = progress(1)
			tx.Create = &j
		case "edit":
			j.Version, j.Generation = is.Version+1, is.Generation+int64(rapid.IntRange(0, 1).Draw(t, "raise"))
			j.Progress = progress(is.Seq)
			tx.Edit = &j
		case "progress":
			tx.Progress = &jobstore.ProgressWrite{Job: id, Progress: progress(is.Seq)}
		case "guard":
			tx.Guard = &jobstore.Guard{Job: id, Generation: near(t, is.Generation, "generation")}
		}
	}
	for _, at := range some(t, len(m.runs), 3, "runs") {
		r := m.runs[at]
		r.Version = near(t, m.hasRun[r.ID].Version, "version")
		r.State = rapid.SampledFrom([]job.State{job.Scheduled, job.Running, job.Dead}).Draw(t, "state")
		r.Wake, r.Ended = aTime(t, "run wake"), aTime(t, "ended")
		tx.Runs = append(tx.Runs, r)
	}
	if rapid.Bool().Draw(t, "with triggers") {
		for _, at := range some(t, len(m.rows), 2, "triggers") {
			tx.Triggers = append(tx.Triggers, m.rows[at])
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "with an answer") == 0 {
		key := rapid.SampledFrom(m.answers).Draw(t, "key")
		// Before the start is expired from the first.
		tx.Idempotency = newAnswer(m.tenant, key, after(rapid.SampledFrom([]int{-1, 60}).Draw(t, "expires")))
	}
	return tx
}

// refusal is the first part whose condition does not hold; nil: all do.
func (m *model) refusal(tx *jobstore.Tx) *jobstore.ConflictError {
	var refused []jobstore.ConflictError
	refuse := func(bad bool, part jobstore.Part, index int) {
		if bad {
			refused = append(refused, jobstore.ConflictError{Part: part, Index: index})
		}
	}
	if tx.Create != nil {
		_, has := m.hasJob[tx.Create.ID]
		refuse(has, jobstore.PartJob, 0)
	}
	if tx.Edit != nil {
		j, has := m.hasJob[tx.Edit.ID]
		refuse(!has || j.Seq != tx.Edit.Seq, jobstore.PartJob, 0)
	}
	if tx.Progress != nil {
		j, has := m.hasJob[tx.Progress.Job]
		refuse(!has || j.Seq != tx.Progress.Seq, jobstore.PartJob, 0)
	}
	if tx.Guard != nil {
		j := m.hasJob[tx.Guard.Job] // none is not active either
		refuse(j.Status != job.JobIsActive || j.Generation != tx.Guard.Generation, jobstore.PartGuard, 0)
	}
	for i, r := range tx.Runs {
		refuse(m.hasRun[r.ID].Version != r.Version, jobstore.PartRun, i)
	}
	for i, row := range tx.Triggers {
		refuse(m.hasRow[row.ID], jobstore.PartTrigger, i)
	}
	if a := tx.Idempotency; a != nil {
		refuse(m.hasAnswer[a.Key].Expires.After(Start()), jobstore.PartIdempotency, 0)
	}
	if len(refused) == 0 {
		return nil
	}
	return &refused[0]
}

func (m *model) apply(tx *jobstore.Tx) {
	if tx.Create != nil {
		j := *tx.Create
		j.Version, j.Seq = 1, 1
		m.hasJob[j.ID] = j
	}
	if tx.Edit != nil {
		j := *tx.Edit
		j.Seq++
		m.hasJob[j.ID] = j
	}
	if tx.Progress != nil {
		j := m.hasJob[tx.Progress.Job]
		j.Progress = tx.Progress.Progress
		j.Seq++
		m.hasJob[j.ID] = j
	}
	for _, r := range tx.Runs {
		r.Version++
		m.hasRun[r.ID] = r
	}
	for _, row := range tx.Triggers {
		m.hasRow[row.ID] = true
	}
	if a := tx.Idempotency; a != nil {
		m.hasAnswer[a.Key] = *a
	}
}

// follow applies a sequence to store and model: every answer and what is left in the end agree.
func follow(ctx context.Context, t *rapid.T, h Harness) {
	m := newModel()
	for range rapid.IntRange(1, 10).Draw(t, "length") {
		tx := m.draw(t)
		if tx.Parts() == 0 {
			require.Error(t, h.Store.Commit(ctx, tx))
			continue
		}
		err := h.Store.Commit(ctx, tx)
		if want := m.refusal(&tx); want != nil {
			conflictOn(t, err, want.Part, want.Index)
		} else {
			require.NoError(t, err)
			m.apply(&tx)
		}
	}
	m.compare(ctx, t, h)
}

// kept checks one thing against what the model has of it.
func kept[T any](t *rapid.T, want T, has bool, got T, err error) {
	t.Helper()
	if !has {
		require.ErrorIs(t, err, jobstore.ErrNotFound)
		return
	}
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func (m *model) compare(ctx context.Context, t *rapid.T, h Harness) {
	for _, id := range m.ids {
		want, has := m.hasJob[id]
		got, err := h.Store.Job(ctx, id)
		kept(t, want, has, got, err)
	}
	for _, r := range m.runs {
		want, has := m.hasRun[r.ID]
		got, err := h.Store.Run(ctx, r.ID)
		kept(t, want, has, got, err)
	}
	for _, row := range m.rows {
		got, err := h.Row(ctx, row.Key())
		require.NoError(t, err)
		require.Equal(t, m.hasRow[row.ID], got != nil)
	}
	for _, key := range m.answers {
		want, has := m.hasAnswer[key]
		got, err := h.Store.Idempotency(ctx, m.tenant, key)
		kept(t, want, has && want.Expires.After(Start()), got, err)
	}
}
