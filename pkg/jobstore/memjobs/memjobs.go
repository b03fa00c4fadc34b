// Package memjobs is the job store in memory: for tests, simulations in virtual
// time, and the test kit. It can fail, delay and lose replies on request, and
// counts what DynamoDB would bill. Its lists and its index are never behind.
//
// It owns the conditions of jobstore.Tx and refuses to know more of jobs than the
// contract does. It starts no goroutine. Safe for concurrent use.
package memjobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// ErrReplyLost answers a write that was applied.
var ErrReplyLost = errors.New("memjobs: the reply was lost")

// Fault is what goes wrong with one operation. The zero value is nothing.
type Fault struct {
	// Err is answered, and nothing is applied.
	Err error
	// Delay passes before the operation is applied; a context that ends in it
	// leaves it unapplied. ReplyDelay passes after it.
	Delay, ReplyDelay time.Duration
	// LostReply applies the operation and answers [ErrReplyLost].
	LostReply bool
}

// Triggers is the table that triggers are inserted into; a memstore.Store is one.
type Triggers interface {
	Write(ctx context.Context, ops []store.Op) []store.Result
	Get(ctx context.Context, k trigger.Key) (*store.Row, error)
}

// Options configure a Store. The zero value has no trigger table and no faults.
type Options struct {
	// Triggers takes the triggers of transactions; nil: such a Tx is refused.
	Triggers Triggers
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Fault is asked before each operation ("commit", "job", "run", "jobs",
	// "runs", "dead", "due", "idempotency", "audit", "records"); tx is nil but for
	// a commit. nil: nothing goes wrong. It must not call the store.
	Fault func(op string, tx *jobstore.Tx) Fault
	// OnCommit is told of each transaction that was applied, in order, before
	// anything else can happen. It must not call the store.
	OnCommit func(tx *jobstore.Tx)
}

// Store is a jobstore.Store.
type Store struct {
	o Options

	mu      sync.Mutex
	jobs    map[trigger.ID]*job.Job
	runs    map[trigger.ID]map[string]*job.Run // by job and sort key
	answers map[string]jobstore.Idempotency
	audit   map[string][]jobstore.AuditRecord
	tenants map[string]jobstore.Tenant
	keys    map[string]jobstore.Key
	secrets map[string][]jobstore.Secret
	counts  Counts
}

var _ jobstore.Store = (*Store)(nil)

// New returns an empty store.
func New(o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Store{
		o: o, jobs: map[trigger.ID]*job.Job{}, runs: map[trigger.ID]map[string]*job.Run{},
		answers: map[string]jobstore.Idempotency{}, audit: map[string][]jobstore.AuditRecord{},
		tenants: map[string]jobstore.Tenant{}, keys: map[string]jobstore.Key{}, secrets: map[string][]jobstore.Secret{},
	}
}

// do wraps one operation with its fault.
func (s *Store) do(ctx context.Context, op string, tx *jobstore.Tx, apply func() error) error {
	var f Fault
	if s.o.Fault != nil {
		f = s.o.Fault(op, tx)
	}
	if err := sleep(ctx, f.Delay); err != nil {
		return err
	}
	if f.Err != nil {
		return f.Err
	}
	if err := apply(); err != nil {
		return err
	}
	if err := sleep(ctx, f.ReplyDelay); err != nil {
		return err
	}
	if f.LostReply {
		return ErrReplyLost
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Job implements [jobstore.Store].
func (s *Store) Job(ctx context.Context, id trigger.ID) (job.Job, error) {
	var out job.Job
	err := s.do(ctx, "job", nil, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		j, ok := s.jobs[id]
		if !ok {
			return fmt.Errorf("job %s: %w", id, jobstore.ErrNotFound)
		}
		out = cloneJob(*j)
		return nil
	})
	if err != nil {
		return job.Job{}, err
	}
	return out, nil
}

// Run implements [jobstore.Store].
func (s *Store) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	var out job.Run
	err := s.do(ctx, "run", nil, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		r := s.find(id)
		if r == nil {
			return fmt.Errorf("run %s: %w", id, jobstore.ErrNotFound)
		}
		out = cloneRun(*r)
		return nil
	})
	if err != nil {
		return job.Run{}, err
	}
	return out, nil
}

func (s *Store) find(id job.RunID) *job.Run { return s.runs[id.Job()][id.Sort()] }

// Commit implements [jobstore.Store]. Conditions are looked at in the order job,
// guard, runs, triggers, idempotency.
func (s *Store) Commit(ctx context.Context, tx jobstore.Tx) error {
	if err := tx.Validate(); err != nil {
		return fmt.Errorf("memjobs: %w", err)
	}
	if len(tx.Triggers) > 0 && s.o.Triggers == nil {
		return errors.New("memjobs: commit: there is no table of triggers")
	}
	if err := refuse(&tx); err != nil {
		return fmt.Errorf("memjobs: commit: %w", err)
	}
	return s.do(ctx, "commit", &tx, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.check(&tx); err != nil {
			return err
		}
		if err := s.insert(context.WithoutCancel(ctx), tx.Triggers); err != nil {
			return err
		}
		s.counts.commit(s, &tx)
		s.apply(&tx)
		if s.o.OnCommit != nil {
			s.o.OnCommit(&tx)
		}
		return nil
	})
}

// refuse reports what DynamoDB takes in no state of the tables: a run without a
// proper id, an item twice, one or all that are too large.
func refuse(tx *jobstore.Tx) error {
	total := 0
	fits := func(bytes int) error {
		total += bytes
		if bytes > maxItem || total > maxTransaction {
			return fmt.Errorf("%w: %d bytes, %d so far", jobstore.ErrTooLarge, bytes, total)
		}
		return nil
	}
	var errs []error
	for _, j := range []*job.Job{tx.Create, tx.Edit} {
		if j != nil {
			errs = append(errs, fits(jobBytes+len(j.Payload)))
		}
	}
	for i := range tx.Runs {
		if _, _, err := job.ParseRunID(string(tx.Runs[i].ID)); err != nil {
			errs = append(errs, fmt.Errorf("run %q: %w", tx.Runs[i].ID, err))
		}
		errs = append(errs, fits(runSize(&tx.Runs[i])))
	}
	rows := map[trigger.Key]bool{}
	for _, row := range tx.Triggers {
		if rows[row.Key()] {
			errs = append(errs, fmt.Errorf("trigger %s twice", row.ID))
		}
		rows[row.Key()] = true
		errs = append(errs, fits(row.Size()))
	}
	return errors.Join(errs...)
}

func conflict(part jobstore.Part, i int) error { return &jobstore.ConflictError{Part: part, Index: i} }

func (s *Store) check(tx *jobstore.Tx) error {
	seq := func(id trigger.ID, want int64) error {
		if j := s.jobs[id]; j == nil || j.Seq != want {
			return conflict(jobstore.PartJob, 0)
		}
		return nil
	}
	if tx.Create != nil && s.jobs[tx.Create.ID] != nil {
		return conflict(jobstore.PartJob, 0)
	}
	if tx.Edit != nil {
		if err := seq(tx.Edit.ID, tx.Edit.Seq); err != nil {
			return err
		}
	}
	if tx.Progress != nil {
		if err := seq(tx.Progress.Job, tx.Progress.Seq); err != nil {
			return err
		}
	}
	if g := tx.Guard; g != nil {
		if j := s.jobs[g.Job]; j == nil || j.Status != job.JobIsActive || j.Generation != g.Generation {
			return conflict(jobstore.PartGuard, 0)
		}
	}
	for i := range tx.Runs {
		var version int64
		if r := s.find(tx.Runs[i].ID); r != nil {
			version = r.Version
		}
		if version != tx.Runs[i].Version {
			return conflict(jobstore.PartRun, i)
		}
	}
	for i, row := range tx.Triggers {
		found, err := s.o.Triggers.Get(context.Background(), row.Key())
		if err != nil {
			return fmt.Errorf("memjobs: look for trigger: %w", err)
		}
		if found != nil {
			return conflict(jobstore.PartTrigger, i)
		}
	}
	if m := tx.Idempotency; m != nil {
		if had, ok := s.answers[m.Tenant+"/"+m.Key]; ok && had.Expires.After(s.o.Now()) {
			return conflict(jobstore.PartIdempotency, 0)
		}
	}
	return nil
}

// insert writes triggers that were found absent. Nobody but a scheduler writes
// beside this store, and it never inserts.
func (s *Store) insert(ctx context.Context, rows []*store.Row) error {
	ops := make([]store.Op, len(rows))
	for i, row := range rows {
		ops[i] = store.Op{Kind: store.Insert, Key: row.Key(), Row: row}
	}
	if len(ops) == 0 {
		return nil
	}
	for i, r := range s.o.Triggers.Write(ctx, ops) {
		switch {
		case errors.Is(r.Err, store.ErrConflict):
			return conflict(jobstore.PartTrigger, i)
		case r.Err != nil:
			return fmt.Errorf("memjobs: insert trigger: %w", r.Err)
		}
	}
	return nil
}

func (s *Store) apply(tx *jobstore.Tx) {
	if tx.Create != nil {
		j := cloneJob(*tx.Create)
		j.Version, j.Seq = 1, 1
		s.jobs[j.ID] = &j
	}
	if tx.Edit != nil {
		j := cloneJob(*tx.Edit)
		j.Seq++
		s.jobs[j.ID] = &j
	}
	if tx.Progress != nil {
		j := s.jobs[tx.Progress.Job]
		j.Progress = tx.Progress.Progress
		j.Seq++
	}
	for i := range tx.Runs {
		r := cloneRun(tx.Runs[i])
		r.Version++
		of := s.runs[r.ID.Job()]
		if of == nil {
			of = map[string]*job.Run{}
			s.runs[r.ID.Job()] = of
		}
		of[r.ID.Sort()] = &r
	}
	if m := tx.Idempotency; m != nil {
		kept := *m
		kept.Answer = slices.Clone(m.Answer)
		s.answers[m.Tenant+"/"+m.Key] = kept
	}
	for _, a := range tx.Audit {
		list := slices.DeleteFunc(s.audit[a.Tenant], func(b jobstore.AuditRecord) bool { return b.ID == a.ID && b.At.Equal(a.At) })
		s.audit[a.Tenant] = append(list, a)
	}
}

func cloneJob(j job.Job) job.Job {
	j.Labels = maps.Clone(j.Labels)
	j.Payload = slices.Clone(j.Payload)
	j.Retry.Also = slices.Clone(j.Retry.Also)
	j.Target.Headers = maps.Clone(j.Target.Headers)
	if j.Tolerance != nil {
		t := *j.Tolerance
		j.Tolerance = &t
	}
	return j
}

func cloneRun(r job.Run) job.Run {
	r.Attempts = slices.Clone(r.Attempts)
	r.Payload = slices.Clone(r.Payload)
	if r.Call != nil {
		c := *r.Call
		c.Payload = slices.Clone(c.Payload)
		c.Target.Headers = maps.Clone(c.Target.Headers)
		r.Call = &c
	}
	return r
}
