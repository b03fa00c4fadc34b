// Package jobstore is the contract of the managed layer's two tables: jobs
// (definitions, progress, idempotency keys, tenants, API keys, secrets, audit)
// and runs (runs with their attempts, dead letters).
//
// Everything is read by key or by an index whose cost is the page's. Everything
// is written by Commit: one or several items, all or none, each on condition of
// the version that was read. The rules of what may follow what are pkg/job's; a
// store knows versions only.
//
// It owns no transport: dynamojobs and memjobs implement it, and jobstoretest is
// the suite both pass. Every method may be called concurrently. What is handed
// out is the caller's own.
package jobstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Errors a caller may branch on. Any other error of a Commit means that it may
// have been applied or not: read again.
var (
	ErrNotFound = errors.New("not found")
	// ErrCursor: the cursor is none of this list's.
	ErrCursor = errors.New("cursor is not valid here")
	// ErrBusy: refused for now (throttled, or another transaction is under way),
	// surely not applied.
	ErrBusy = errors.New("store is busy")
	// ErrTooLarge: an item is larger than the table takes; surely not applied.
	ErrTooLarge = errors.New("item too large")
)

// Part is a part of a [Tx].
type Part string

// The parts.
const (
	PartJob         Part = "job"
	PartRun         Part = "run"
	PartTrigger     Part = "trigger"
	PartIdempotency Part = "idempotency"
	PartGuard       Part = "guard"
	PartRecord      Part = "record"
)

// ConflictError says which condition of a Commit did not hold. Nothing of the
// Commit was applied.
type ConflictError struct {
	Part  Part
	Index int // within the part's slice; 0 for a single one
}

func (e *ConflictError) Error() string { return fmt.Sprintf("conflict on %s %d", e.Part, e.Index) }

// Conflict reports whether err is a conflict on the part.
func Conflict(err error, part Part) bool {
	var c *ConflictError
	return errors.As(err, &c) && c.Part == part
}

// MaxParts is how many items one Commit may write and check: the limit of a
// DynamoDB transaction. A created or edited job counts as three.
const MaxParts = 100

// Tx is what a Commit writes. A Tx of one item costs a single write, anything
// more a transaction at twice the units.
type Tx struct {
	// Create puts a job that is not there yet; Version and Seq become 1.
	Create *job.Job
	// Edit replaces a job's definition, status and progress. Condition: Seq is
	// still the given one. The store sets Seq to one more; Version is the caller's.
	Edit *job.Job
	// Progress replaces a job's [job.Progress] alone. Condition: Seq is still
	// Progress.Seq. The store sets it to one more.
	Progress *ProgressWrite
	// Guard checks that a job is still active and of a generation, without writing.
	Guard *Guard
	// Runs are put. Condition: the version is still Run.Version; 0 means that
	// there is no such run yet. The store sets it to one more.
	Runs []job.Run
	// Triggers are inserted. Condition: no row under their key.
	Triggers []*store.Row
	// Idempotency is put. Condition: there is none under its key, or an expired one.
	Idempotency *Idempotency
	// Audit records are put, without a condition.
	Audit []AuditRecord
}

// Parts returns how many items the Tx touches.
func (t *Tx) Parts() int {
	n := len(t.Runs) + len(t.Triggers) + len(t.Audit)
	for _, three := range []bool{t.Create != nil, t.Edit != nil} {
		if three {
			n += 3
		}
	}
	for _, one := range []bool{t.Progress != nil, t.Guard != nil, t.Idempotency != nil} {
		if one {
			n++
		}
	}
	return n
}

// Validate reports a Tx that no store can apply.
func (t *Tx) Validate() error {
	switch n := t.Parts(); {
	case n == 0:
		return errors.New("commit: nothing to write")
	case n > MaxParts:
		return fmt.Errorf("commit: %d items; the limit is %d", n, MaxParts)
	}
	jobs := map[trigger.ID]bool{}
	add := func(id trigger.ID) error {
		if jobs[id] {
			return fmt.Errorf("commit: job %s twice", id)
		}
		jobs[id] = true
		return nil
	}
	var errs []error
	if t.Create != nil {
		errs = append(errs, add(t.Create.ID))
	}
	if t.Edit != nil {
		errs = append(errs, add(t.Edit.ID))
	}
	if t.Progress != nil {
		errs = append(errs, add(t.Progress.Job))
	}
	if t.Guard != nil {
		errs = append(errs, add(t.Guard.Job))
	}
	runs := map[job.RunID]bool{}
	for i := range t.Runs {
		if runs[t.Runs[i].ID] {
			errs = append(errs, fmt.Errorf("commit: run %s twice", t.Runs[i].ID))
		}
		runs[t.Runs[i].ID] = true
	}
	return errors.Join(errs...)
}

// ProgressWrite is a job's progress to write.
type ProgressWrite struct {
	Job trigger.ID
	job.Progress
}

// Guard is a condition on a job.
type Guard struct {
	Job        trigger.ID
	Generation int64
}

// Idempotency is the kept answer to a request with an Idempotency-Key.
type Idempotency struct {
	Tenant, Key string
	BodyHash    [32]byte
	Status      int    // of the HTTP answer
	Answer      []byte // its body; up to 64 KiB
	Expires     time.Time
}

// AuditRecord is one change that somebody made.
type AuditRecord struct {
	Tenant  string
	At      time.Time
	ID      trigger.ID // tells records of one moment apart
	Subject string     // key id or OIDC subject
	Action  string     // such as job.create, job.pause, run.cancel, key.revoke
	Object  string     // id of what was changed
	Detail  string     // names of what changed; never a payload or a secret
	Expires time.Time
}

// JobQuery is a list of a tenant's jobs, newest first.
type JobQuery struct {
	Tenant string        // required
	Status job.JobStatus // empty: active and paused
	Label  string        // "name" or "name=value"; empty: any
	Cursor string        // of the page before; empty: the first
	Limit  int           // 1 to 100
}

// RunQuery is a list of a job's runs, newest nominal time first. The pending
// occurrence of a cron job is not among them before it begins.
type RunQuery struct {
	Job    trigger.ID
	State  job.State // empty: any
	Cursor string
	Limit  int // 1 to 100
}

// DeadQuery is a list of a tenant's dead letters, newest death first.
type DeadQuery struct {
	Tenant      string
	Job         trigger.ID // zero: any
	From, Until time.Time  // of death; zero: any
	Cursor      string
	Limit       int // 1 to 100
}

// Page is one page of a list. A page may be shorter than its limit, even empty,
// and still have a Next: what a filter leaves out is read too.
type Page[T any] struct {
	Items []T
	Next  string // cursor; empty: this was the last
}

// Wakes is how many shards the index of what should have woken has.
const Wakes = 16

// Wake is an entry of that index: of a job's pending occurrence where Run is empty.
type Wake struct {
	Job trigger.ID
	Run job.RunID
	At  time.Time
}

// Store keeps jobs and runs. Reads of single items are strongly consistent,
// lists and Due eventually.
type Store interface {
	// Job returns a job, deleted ones too; ErrNotFound.
	Job(ctx context.Context, id trigger.ID) (job.Job, error)
	// Jobs lists jobs without their payloads.
	Jobs(ctx context.Context, q JobQuery) (Page[job.Job], error)
	// Run returns a run; ErrNotFound.
	Run(ctx context.Context, id job.RunID) (job.Run, error)
	// Runs lists runs without payloads.
	Runs(ctx context.Context, q RunQuery) (Page[job.Run], error)
	// Dead lists dead letters: dead runs that were not redriven, with payloads.
	Dead(ctx context.Context, q DeadQuery) (Page[job.Run], error)
	// Due returns what should have woken before an instant, oldest first, of one
	// shard in [0, Wakes).
	Due(ctx context.Context, shard int, before time.Time, limit int) ([]Wake, error)
	// Idempotency returns the kept answer of a key; ErrNotFound, also when expired.
	Idempotency(ctx context.Context, tenant, key string) (Idempotency, error)
	// Audit lists a tenant's audit records, newest first.
	Audit(ctx context.Context, tenant, cursor string, limit int) (Page[AuditRecord], error)
	// Commit writes all of a transaction or nothing. A *ConflictError says which
	// condition did not hold; see also ErrBusy and ErrTooLarge.
	Commit(ctx context.Context, tx Tx) error

	Records
}

// Records are the small items that admins keep: tenants, API keys and secrets.
type Records interface {
	// Tenant returns a tenant; ErrNotFound.
	Tenant(ctx context.Context, id string) (Tenant, error)
	// PutTenant creates or replaces one. Condition: Version is still the given
	// one, 0 for none; the store sets it to one more. The loser sees a
	// *ConflictError of PartRecord.
	PutTenant(ctx context.Context, t Tenant) error
	// Key returns an API key by its id; ErrNotFound.
	Key(ctx context.Context, id string) (Key, error)
	// PutKey creates or replaces one, as PutTenant does.
	PutKey(ctx context.Context, k Key) error
	// Keys lists a tenant's keys, revoked ones too; up to 1,000.
	Keys(ctx context.Context, tenant string) ([]Key, error)
	// Secrets lists a tenant's signing secrets, newest first; up to 100.
	Secrets(ctx context.Context, tenant string) ([]Secret, error)
	// PutSecret creates or replaces one, without a condition.
	PutSecret(ctx context.Context, s Secret) error
	// DeleteSecret removes one; ErrNotFound.
	DeleteSecret(ctx context.Context, tenant, id string) error
}

// Tenant is who owns jobs.
type Tenant struct {
	ID      string
	Contact job.Notify // told when a run dies and its job names nobody
	// MaxConcurrent caps the calls under way over the fleet; 0: no cap.
	MaxConcurrent int
	// AllowRanges are private address ranges (CIDRs) that targets may be in.
	AllowRanges []string
	// AllowServices and AllowTopics are the owning services and topic ARNs (a
	// '*' at the end matches by prefix) that targets may be.
	AllowServices, AllowTopics []string
	// Rates are calls per second over the fleet, by [job.Target.Key].
	Rates   map[string]float64
	Updated time.Time
	Version int64
}

// Key is an API key as it is kept: a hash of what the caller holds.
type Key struct {
	ID      string
	Hash    [32]byte
	Tenant  string
	Role    string
	Name    string
	Created time.Time
	Expires time.Time // zero: never
	Revoked time.Time // zero: not
	Version int64
}

// Secret is a signing secret, sealed.
type Secret struct {
	Tenant  string
	ID      string
	Sealed  []byte
	Created time.Time
	Expires time.Time // zero: never; during a rotation the old one expires
}
