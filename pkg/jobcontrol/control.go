// Package jobcontrol changes jobs and runs: it composes what the rules of
// package job say into transactions of the job store, with the triggers that
// belong to them. The HTTP API and the runner both work through it, so there is
// one place that knows what must change together:
//
//	create           job, trigger of the first occurrence, kept answer, audit
//	edit, delete     job with its next generation; the occurrence that waited is
//	                 recorded as SKIPPED or CANCELLED; trigger of the next one
//	arm              (runner) trigger of the next occurrence, then the job's progress
//	retry, defer     run and trigger
//	accepted (202)   run and the trigger of its watchdog
//	end of a run     run; the overlap claim and the run that waited for it; for a
//	                 dead one the notice to its owner, which is a run too
//
// It refuses to know how targets are called and who may do what. It holds no
// state but a cache of tenants, and may be used by many goroutines at once.
package jobcontrol

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// The owning services of the managed layer, and the name of their messages.
const (
	Service       = "runs"
	UrgentService = "runs-urgent"
	MessageName   = "run"
)

// ErrDeleted: the job is deleted, or was never there.
var (
	ErrDeleted = errors.New("job is deleted")
	// ErrNotPending: the run is not known, and not the one that waits.
	ErrNotPending = errors.New("no such run")
)

// VersionError says that a job has another version than the caller saw.
type VersionError struct{ Version int64 }

func (e *VersionError) Error() string { return fmt.Sprintf("job has version %d", e.Version) }

// Preparer builds the row of a trigger; [client.Client] is one.
type Preparer interface {
	Prepare(ctx context.Context, service string, payload any, opts ...client.Option) (*store.Row, client.Scheduled, error)
}

// Forecast is told of the triggers written here.
type Forecast interface {
	Add(service string, due time.Time, n int)
}

// Options configure a Control. Store and Triggers are required.
type Options struct {
	Store    jobstore.Store
	Triggers Preparer
	// RunURL returns where people see a run, for notices; nil: nowhere.
	RunURL func(job.RunID) string
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// NewID makes job ids; nil: trigger.NewID.
	NewID func() trigger.ID
	// Random draws from [0, 1) for jitter; nil: crypto/rand.
	Random func() float64
	// Forecast is told of every trigger written; nil: nobody is.
	Forecast Forecast
	// KeepAudit is how long audit records are kept; 0: 400 days.
	KeepAudit time.Duration
	// Wait waits before a change is tried again; nil: a timer.
	Wait func(ctx context.Context, d time.Duration) error
}

// Validate reports every option at fault, joined.
func (o *Options) Validate() error {
	var errs []error
	if o.Store == nil {
		errs = append(errs, errors.New("store: missing"))
	}
	if o.Triggers == nil {
		errs = append(errs, errors.New("triggers: missing"))
	}
	if o.KeepAudit < 0 {
		errs = append(errs, fmt.Errorf("keep audit: %s is negative", o.KeepAudit))
	}
	return errors.Join(errs...)
}

// Control changes jobs and runs.
type Control struct{ o Options }

// New returns a control.
func New(o Options) (*Control, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("job control: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = trigger.NewID
	}
	if o.Random == nil {
		o.Random = random
	}
	if o.KeepAudit == 0 {
		o.KeepAudit = 400 * 24 * time.Hour
	}
	if o.Wait == nil {
		o.Wait = wait
	}
	return &Control{o: o}, nil
}

func random() float64 {
	const steps = 1 << 53
	n, err := rand.Int(rand.Reader, big.NewInt(steps))
	if err != nil {
		return 0.5
	}
	return float64(n.Int64()) / steps
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// now returns the time in whole milliseconds, as times are stored.
func (c *Control) now() time.Time { return c.o.Now().UTC().Truncate(time.Millisecond) }

// attempts bounds how often a change is tried over others' changes and faults.
const attempts = 8

// repeat calls fn until it returns nil or an error that is neither a conflict
// nor passing.
func (c *Control) repeat(ctx context.Context, fn func() error) error {
	pause := 20 * time.Millisecond
	for n := 1; ; n++ {
		err := fn()
		var conflict *jobstore.ConflictError
		again := errors.As(err, &conflict) || errors.Is(err, jobstore.ErrBusy) || errors.Is(err, errAgain)
		if err == nil || !again || n == attempts {
			return err
		}
		if err := c.o.Wait(ctx, time.Duration((0.5+c.o.Random()/2)*float64(pause))); err != nil {
			return err
		}
		pause = min(2*pause, time.Second)
	}
}

// errAgain asks repeat for another look.
var errAgain = errors.New("changed meanwhile")

// Actor is who makes a change.
type Actor struct {
	Tenant  string // of what is changed
	Subject string // key id or OIDC subject
}

func (c *Control) audit(a Actor, now time.Time, action, object, detail string) []jobstore.AuditRecord {
	if a.Subject == "" {
		return nil // the platform itself
	}
	return []jobstore.AuditRecord{{
		Tenant: a.Tenant, At: now, ID: c.o.NewID(), Subject: a.Subject, Action: action, Object: object, Detail: detail,
		Expires: now.Add(c.o.KeepAudit).Truncate(time.Second),
	}}
}

// commit applies a transaction and tells the forecast of its triggers.
func (c *Control) commit(ctx context.Context, tx jobstore.Tx) error {
	if err := c.o.Store.Commit(ctx, tx); err != nil {
		return err
	}
	if c.o.Forecast != nil {
		for _, row := range tx.Triggers {
			c.o.Forecast.Add(row.Service, row.Due, 1)
		}
	}
	return nil
}
