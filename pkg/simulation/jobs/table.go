package jobs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Change is what one commit did to one job or run; before is nil for a new one.
type Change struct {
	JobBefore, Job *job.Job
	RunBefore, Run *job.Run
	JobOf          *job.Job // the run's job as it is after the commit
}

// table is the jobs and runs in memory, beside the triggers of a memstore. Its
// lists may be read as they were some time ago.
type table struct {
	jobstore.Records // none: every tenant is unknown

	triggers *memstore.Store
	onChange func(ctx context.Context, changes []Change)

	mu     sync.Mutex
	jobs   map[trigger.ID]job.Job
	runs   map[job.RunID]*kept
	ofJob  map[trigger.ID][]job.RunID // ascending
	waking map[jobstore.Wake]bool     // Run is empty for a job; At is zero
	units  float64
	reads  int
	writes int
}

// kept is a run, and what it was before its last change.
type kept struct {
	job.Run
	was     *job.Run
	changed time.Time
}

func newTable(triggers *memstore.Store) *table {
	return &table{
		triggers: triggers, jobs: map[trigger.ID]job.Job{}, runs: map[job.RunID]*kept{}, ofJob: map[trigger.ID][]job.RunID{},
		waking: map[jobstore.Wake]bool{},
	}
}

func cloneRun(r job.Run) job.Run {
	r.Attempts = slices.Clone(r.Attempts)
	return r
}

// Tenant implements jobstore.Records.
func (t *table) Tenant(context.Context, string) (jobstore.Tenant, error) {
	return jobstore.Tenant{Contact: job.Notify{Webhook: "https://owner.example/hook"}}, nil
}

// Job implements jobstore.Store.
func (t *table) Job(_ context.Context, id trigger.ID) (job.Job, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reads++
	j, ok := t.jobs[id]
	if !ok {
		return job.Job{}, jobstore.ErrNotFound
	}
	return j, nil
}

// Run implements jobstore.Store.
func (t *table) Run(_ context.Context, id job.RunID) (job.Run, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reads++
	r, ok := t.runs[id]
	if !ok {
		return job.Run{}, jobstore.ErrNotFound
	}
	return cloneRun(r.Run), nil
}

// Runs implements jobstore.Store, without cursors: nothing here lists further
// than one page.
func (t *table) Runs(ctx context.Context, q jobstore.RunQuery) (jobstore.Page[job.Run], error) {
	return t.list(ctx, q, 0)
}

func (t *table) list(_ context.Context, q jobstore.RunQuery, stale time.Duration) (jobstore.Page[job.Run], error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reads++
	var p jobstore.Page[job.Run]
	for _, id := range slices.Backward(t.ofJob[q.Job]) {
		k := t.runs[id]
		r := &k.Run
		if stale > 0 && time.Since(k.changed) < stale {
			r = k.was
		}
		if r == nil || (q.State != "" && r.State != q.State) {
			continue
		}
		if len(p.Items) == q.Limit {
			p.Next = "more"
			break
		}
		item := cloneRun(*r)
		item.Payload = nil
		p.Items = append(p.Items, item)
	}
	return p, nil
}

// Due implements jobstore.Store.
func (t *table) Due(_ context.Context, shard int, before time.Time, limit int) ([]jobstore.Wake, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reads++
	var due []jobstore.Wake
	for w := range t.waking {
		if int(w.Job[15])%jobstore.Wakes != shard {
			continue
		}
		if w.At = t.jobs[w.Job].Wake; w.Run != "" {
			w.At = t.runs[w.Run].Wake
		}
		if w.At.Before(before) {
			due = append(due, w)
		}
	}
	slices.SortFunc(due, func(a, b jobstore.Wake) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return strings.Compare(a.Job.String()+string(a.Run), b.Job.String()+string(b.Run))
	})
	return due[:min(limit, len(due))], nil
}

// Commit implements jobstore.Store.
func (t *table) Commit(ctx context.Context, tx jobstore.Tx) error {
	if err := tx.Validate(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writes++
	if err := t.check(ctx, &tx); err != nil {
		return err
	}
	units := 0.0
	var changes []Change
	for _, j := range []*job.Job{tx.Create, tx.Edit} {
		if j == nil {
			continue
		}
		next := *j
		next.Labels = maps.Clone(j.Labels)
		c := Change{Job: &next}
		if before, ok := t.jobs[j.ID]; ok {
			c.JobBefore = &before
		}
		next.Seq++
		t.jobs[j.ID] = next
		units += 3
		changes = append(changes, c)
	}
	if p := tx.Progress; p != nil {
		before := t.jobs[p.Job]
		next := before
		next.Progress = p.Progress
		next.Seq++
		t.jobs[p.Job] = next
		units += indexed(before.Wake, next.Wake)
		changes = append(changes, Change{JobBefore: &before, Job: &next})
	}
	if tx.Guard != nil {
		units++
	}
	for _, r := range tx.Runs {
		changes = append(changes, t.put(r))
		before := time.Time{}
		if b := changes[len(changes)-1].RunBefore; b != nil {
			before = b.Wake
		}
		units += indexed(before, r.Wake)
	}
	for _, row := range tx.Triggers {
		res := t.triggers.Write(ctx, []store.Op{{Kind: store.Insert, Key: row.Key(), Row: row}})
		if res[0].Err != nil {
			return errors.Join(errors.New("the world's own fault"), res[0].Err)
		}
	}
	if tx.Parts() > 1 {
		units *= 2
	}
	t.units += units
	for i, c := range changes {
		if c.Job != nil {
			t.watch(jobstore.Wake{Job: c.Job.ID}, c.Job.Wake)
			continue
		}
		t.watch(jobstore.Wake{Job: c.Run.Job, Run: c.Run.ID}, c.Run.Wake)
		j := t.jobs[c.Run.Job]
		changes[i].JobOf = &j
	}
	if t.onChange != nil {
		t.onChange(ctx, changes)
	}
	return nil
}

// indexed is what an item with an entry in the index of wakes costs to write.
func indexed(before, after time.Time) float64 {
	n := 1.0
	if before.Equal(after) {
		return n
	}
	if !before.IsZero() {
		n++
	}
	if !after.IsZero() {
		n++
	}
	return n
}

func (t *table) watch(w jobstore.Wake, at time.Time) {
	if at.IsZero() {
		delete(t.waking, w)
		return
	}
	t.waking[w] = true
}

func (t *table) put(r job.Run) Change {
	next := cloneRun(r)
	next.Version++
	c := Change{Run: &next}
	k := &kept{Run: next, changed: time.Now()}
	if old, ok := t.runs[r.ID]; ok {
		was := old.Run
		k.was, c.RunBefore = &was, &was
	} else {
		ids := t.ofJob[r.Job]
		i, _ := slices.BinarySearch(ids, r.ID)
		t.ofJob[r.Job] = slices.Insert(ids, i, r.ID)
	}
	t.runs[r.ID] = k
	return c
}

// check looks at every condition.
func (t *table) check(ctx context.Context, tx *jobstore.Tx) error {
	conflict := func(p jobstore.Part, i int) error { return &jobstore.ConflictError{Part: p, Index: i} }
	if tx.Create != nil {
		if _, there := t.jobs[tx.Create.ID]; there {
			return conflict(jobstore.PartJob, 0)
		}
	}
	if tx.Edit != nil && t.jobs[tx.Edit.ID].Seq != tx.Edit.Seq {
		return conflict(jobstore.PartJob, 0)
	}
	if p := tx.Progress; p != nil && t.jobs[p.Job].Seq != p.Seq {
		return conflict(jobstore.PartJob, 0)
	}
	if g := tx.Guard; g != nil && (t.jobs[g.Job].Status != job.JobIsActive || t.jobs[g.Job].Generation != g.Generation) {
		return conflict(jobstore.PartGuard, 0)
	}
	for i, r := range tx.Runs {
		version := int64(0)
		if k, ok := t.runs[r.ID]; ok {
			version = k.Version
		}
		if version != r.Version {
			return conflict(jobstore.PartRun, i)
		}
	}
	for i, row := range tx.Triggers {
		if found, err := t.triggers.Get(ctx, row.Key()); err != nil || found != nil {
			return conflict(jobstore.PartTrigger, i)
		}
	}
	return nil
}

// Jobs implements jobstore.Store: nothing here lists jobs.
func (t *table) Jobs(context.Context, jobstore.JobQuery) (jobstore.Page[job.Job], error) {
	return jobstore.Page[job.Job]{}, errors.ErrUnsupported
}

// Dead implements jobstore.Store: nothing here lists dead letters.
func (t *table) Dead(context.Context, jobstore.DeadQuery) (jobstore.Page[job.Run], error) {
	return jobstore.Page[job.Run]{}, errors.ErrUnsupported
}

// Idempotency implements jobstore.Store: nothing here keeps answers.
func (t *table) Idempotency(context.Context, string, string) (jobstore.Idempotency, error) {
	return jobstore.Idempotency{}, jobstore.ErrNotFound
}

// Audit implements jobstore.Store: nothing here reads audit records.
func (t *table) Audit(context.Context, string, string, int) (jobstore.Page[jobstore.AuditRecord], error) {
	return jobstore.Page[jobstore.AuditRecord]{}, errors.ErrUnsupported
}
