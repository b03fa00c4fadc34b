package app

import (
	"context"
	"errors"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/myosin-jobs/myosin/pkg/forecast"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// JobControl changes jobs; [jobcontrol.Control] is one.
type JobControl interface {
	Create(ctx context.Context, a jobcontrol.Actor, spec job.Spec, idem *jobcontrol.IdempotencyRequest) (job.Job, error)
	Edit(ctx context.Context, a jobcontrol.Actor, id trigger.ID, ifVersion int64, change func(*job.Job) error) (job.Job, error)
	Delete(ctx context.Context, a jobcontrol.Actor, id trigger.ID, ifVersion int64) (job.Job, error)
	RunNow(ctx context.Context, a jobcontrol.Actor, id trigger.ID) (job.Run, error)
}

// RunControl changes runs; [jobcontrol.Control] is one.
type RunControl interface {
	Run(ctx context.Context, id job.RunID) (job.Run, error)
	CancelRun(ctx context.Context, a jobcontrol.Actor, id job.RunID) (job.Run, error)
	Heartbeat(ctx context.Context, id job.RunID, attempt int) (job.Run, error)
	Complete(ctx context.Context, id job.RunID, attempt int, success bool, message string) (job.Run, error)
	Redrive(ctx context.Context, a jobcontrol.Actor, id job.RunID) (job.Run, error)
}

// JobReads reads jobs and runs; every [jobstore.Store] is one.
type JobReads interface {
	Job(ctx context.Context, id trigger.ID) (job.Job, error)
	Jobs(ctx context.Context, q jobstore.JobQuery) (jobstore.Page[job.Job], error)
	Runs(ctx context.Context, q jobstore.RunQuery) (jobstore.Page[job.Run], error)
	Dead(ctx context.Context, q jobstore.DeadQuery) (jobstore.Page[job.Run], error)
	Idempotency(ctx context.Context, tenant, key string) (jobstore.Idempotency, error)
}

// Audits keeps what was changed; every [jobstore.Store] is one.
type Audits interface {
	Audit(ctx context.Context, tenant, cursor string, limit int) (jobstore.Page[jobstore.AuditRecord], error)
	Commit(ctx context.Context, tx jobstore.Tx) error
}

// Forecasts tells what is due; [forecast.Reader] is one.
type Forecasts interface {
	Forecast(ctx context.Context, services []string, from time.Time, minutes int) (map[string][]forecast.Point, error)
}

// Seal encrypts a tenant's signing secret for storage.
type Seal func(ctx context.Context, tenant, id string, secret []byte) ([]byte, error)

// Managed is what the managed layer's operations need: jobs, runs and the records
// of tenants. All but the last three are required.
type Managed struct {
	Jobs    JobControl
	Runs    RunControl
	Reads   JobReads
	Records jobstore.Records
	Audits  Audits
	// Guard decides what targets may be. Where targets on this machine are to be
	// tried out, it allows loopback.
	Guard *target.Guard
	// KeepAudit is how long records of changes to tenants, keys and secrets are
	// kept; 0: 400 days.
	KeepAudit time.Duration

	// Callbacks verifies the tokens of heartbeat and complete; nil: they take
	// credentials alone.
	Callbacks *target.Signer
	// Seal encrypts signing secrets; nil: there is no /v1/secrets.
	Seal Seal
	// Forecasts is read; nil: there is no /v1/forecast.
	Forecasts Forecasts
}

const keepAudit = 400 * 24 * time.Hour

// Validate reports everything at fault, joined.
func (m *Managed) Validate() error {
	var errs []error
	for name, missing := range map[string]bool{
		"jobs": m.Jobs == nil, "runs": m.Runs == nil, "reads": m.Reads == nil, "records": m.Records == nil,
		"audits": m.Audits == nil, "guard": m.Guard == nil,
	} {
		if missing {
			errs = append(errs, errors.New("managed "+name+": missing"))
		}
	}
	if m.KeepAudit < 0 {
		errs = append(errs, errors.New("managed keep audit: negative"))
	}
	return errors.Join(errs...)
}

// managed holds what the operations of the managed layer need. Its methods are
// the operations.
type managed struct {
	*api
	m Managed
}

func (a *api) registerManaged(h huma.API) {
	if a.o.Managed == nil {
		return
	}
	m := &managed{api: a, m: *a.o.Managed}
	if m.m.KeepAudit == 0 {
		m.m.KeepAudit = keepAudit
	}
	m.registerJobs(h)
	m.registerRuns(h)
	m.registerDeadLetters(h)
	m.registerSchedules(h)
	m.registerTenants(h)
	m.registerKeys(h)
	m.registerAudit(h)
	if m.m.Seal != nil {
		m.registerSecrets(h)
	}
	if m.m.Forecasts != nil {
		m.registerForecast(h)
	}
}
