package jobs

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/jobstore/memjobs"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Change is what one commit did to one job or run; before is nil for a new one.
type Change struct {
	JobBefore, Job *job.Job
	RunBefore, Run *job.Run
	JobOf          *job.Job // the run's job as it is after the commit
}

// table is the job store, with a second account of what lies in it, so that each
// commit can be judged by what was there before. Its list of runs may be read as
// it was some time ago.
type table struct {
	*memjobs.Store
	onChange func(ctx context.Context, changes []Change)

	mu     sync.Mutex
	jobs   map[trigger.ID]job.Job
	runs   map[job.RunID]*kept
	ofJob  map[trigger.ID][]job.RunID // ascending
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
		Store: memjobs.New(memjobs.Options{Triggers: triggers}),
		jobs:  map[trigger.ID]job.Job{}, runs: map[job.RunID]*kept{}, ofJob: map[trigger.ID][]job.RunID{},
	}
}

func cloneRun(r job.Run) job.Run {
	r.Attempts = slices.Clone(r.Attempts)
	return r
}

// Tenant implements jobstore.Records: every tenant has the same contact.
func (t *table) Tenant(context.Context, string) (jobstore.Tenant, error) {
	return jobstore.Tenant{Contact: job.Notify{Webhook: "https://owner.example/hook"}}, nil
}

// list is Runs as it was some time ago, in one page.
func (t *table) list(q jobstore.RunQuery, stale time.Duration) jobstore.Page[job.Run] {
	t.mu.Lock()
	defer t.mu.Unlock()
	var p jobstore.Page[job.Run]
	for _, id := range slices.Backward(t.ofJob[q.Job]) {
		k := t.runs[id]
		r := &k.Run
		if time.Since(k.changed) < stale {
			r = k.was
		}
		if r == nil || (q.State != "" && r.State != q.State) {
			continue
		}
		if len(p.Items) == q.Limit {
			break
		}
		item := cloneRun(*r)
		item.Payload = nil
		p.Items = append(p.Items, item)
	}
	return p
}

// Commit implements jobstore.Store.
func (t *table) Commit(ctx context.Context, tx jobstore.Tx) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.Store.Commit(ctx, tx); err != nil {
		return err
	}
	t.writes++
	var changes []Change
	changeJob := func(id trigger.ID, next job.Job) {
		c := Change{Job: &next}
		if before, ok := t.jobs[id]; ok {
			c.JobBefore = &before
		}
		next.Seq++
		t.jobs[id] = next
		changes = append(changes, c)
	}
	if tx.Create != nil {
		changeJob(tx.Create.ID, *tx.Create)
	}
	if tx.Edit != nil {
		changeJob(tx.Edit.ID, *tx.Edit)
	}
	if tx.Progress != nil {
		next := t.jobs[tx.Progress.Job]
		next.Progress = tx.Progress.Progress
		changeJob(tx.Progress.Job, next)
	}
	for _, r := range tx.Runs {
		changes = append(changes, t.put(r))
	}
	for i, c := range changes {
		if c.Run != nil {
			j := t.jobs[c.Run.Job]
			changes[i].JobOf = &j
		}
	}
	if t.onChange != nil {
		t.onChange(ctx, changes)
	}
	return nil
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
