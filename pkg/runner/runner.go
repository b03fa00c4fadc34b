// Package runner is the owning service of the managed layer: it receives runs
// from the queues of the services "runs" and "runs-urgent", sees to it that the
// job's next occurrence will come, leases the run, calls its target, renews the
// lease meanwhile, and records what became of it. A reconciler beside it finds
// what should have woken long ago and wakes it.
//
// It owns the order of these steps. It refuses to know how targets are called
// (Caller), what is written together (package jobcontrol) and what an answer
// means (package job). Any number of runners may work on the same queues: the
// lease's attempt is the fence, and nothing is written by who has lost it.
package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/lifecycle"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/runner/protect"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

// Attempt is one call to make.
type Attempt struct {
	Job     *job.Job
	Run     job.Run // leased
	Target  job.Target
	Payload []byte
	Tenant  Tenant
	// Traceparent is W3C's; may be empty.
	Traceparent string
}

// Tenant is what a call needs to know of a tenant.
type Tenant struct {
	jobstore.Tenant
	Secrets []target.Secret
}

// Caller makes calls.
type Caller interface {
	// Ready reports whether the target takes calls now; not before the time
	// returned if it does not.
	Ready(ctx context.Context, t job.Target) (until time.Time, ready bool)
	// Call makes one attempt. It returns soon after ctx ends.
	Call(ctx context.Context, a Attempt) target.Result
}

// Gate admits calls; *protect.Gate is one.
type Gate interface {
	Admit(now time.Time, c protect.Call) (*protect.Permit, *protect.Denied)
}

// Options configure a Runner.
type Options struct {
	Store   jobstore.Store      // required
	Control *jobcontrol.Control // required
	Caller  Caller              // required
	Gate    Gate                // required
	Tenants *Tenants            // required

	// Queue is the engine of the two queues. Required, with QueueURL.
	Queue               worker.Receiver
	QueueURL, UrgentURL string

	// Members divide the reconciler's shards. Required.
	Members membership.Provider

	// Concurrency is the most calls under way; UrgentSlots of them only urgent
	// runs may use. Defaults 200, and a quarter of Concurrency.
	Concurrency, UrgentSlots int
	// Wait is the long poll; see [worker.Options]. Default there.
	Wait time.Duration
	// Grace bounds a stop; calls that have not ended then are cut. Default 27 s.
	Grace time.Duration
	// Late is how long after it should have woken a run is woken again. Default 2 min.
	Late time.Duration
	// Every is the time between two passes of the reconciler. Default 15 s.
	Every time.Duration

	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Random draws from [0, 1) for jitter; nil: math/rand/v2.
	Random     func() float64
	Log        *slog.Logger          // nil: discarded
	Registerer prometheus.Registerer // nil: no metrics
}

// Validate reports every option at fault, joined.
func (o *Options) Validate() error {
	var errs []error
	for _, m := range []struct {
		name    string
		missing bool
	}{
		{"store", o.Store == nil}, {"control", o.Control == nil}, {"caller", o.Caller == nil}, {"gate", o.Gate == nil},
		{"tenants", o.Tenants == nil}, {"queue", o.Queue == nil}, {"queue url", o.QueueURL == ""}, {"members", o.Members == nil},
	} {
		if m.missing {
			errs = append(errs, fmt.Errorf("%s: missing", m.name))
		}
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"late", o.Late}, {"every", o.Every}, {"wait", o.Wait}, {"grace", o.Grace}} {
		if d.d < 0 {
			errs = append(errs, fmt.Errorf("%s: %s is negative", d.name, d.d))
		}
	}
	if o.Late != 0 && o.Late < 2*job.LeaseFor {
		errs = append(errs, fmt.Errorf("late: %s; want at least %s, twice a lease", o.Late, 2*job.LeaseFor))
	}
	return errors.Join(errs...)
}

func (o *Options) setDefaults() {
	if o.Concurrency == 0 {
		o.Concurrency = 200
	}
	if o.Late == 0 {
		o.Late = 2 * time.Minute
	}
	if o.Every == 0 {
		o.Every = 15 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Runner runs runs.
type Runner struct {
	o      Options
	log    *slog.Logger
	m      *metrics
	worker *worker.Worker
	plans  plans
}

// New returns a runner.
func New(o Options) (*Runner, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("runner: %w", err)
	}
	o.setDefaults()
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("runner: %w", err)
	}
	r := &Runner{o: o, log: o.Log, m: m}
	var received prometheus.Registerer
	if o.Registerer != nil {
		received = prometheus.WrapRegistererWith(prometheus.Labels{"service": jobcontrol.Service}, o.Registerer)
	}
	r.worker, err = worker.New(worker.Options{
		Receiver: o.Queue, QueueURL: o.QueueURL, UrgentQueueURL: o.UrgentURL,
		Concurrency: o.Concurrency, UrgentSlots: o.UrgentSlots, Visibility: job.LeaseFor, Wait: o.Wait, Grace: o.Grace,
		Log: o.Log, Metrics: received, Now: o.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("runner: %w", err)
	}
	worker.Handle(r.worker, jobcontrol.MessageName, r.handle)
	return r, nil
}

// Run runs runs until ctx ends.
func (r *Runner) Run(ctx context.Context) error {
	return lifecycle.Run(ctx, r.o.Grace, r.log,
		lifecycle.Component{Name: "reconciler", Run: r.reconcile},
		lifecycle.Component{Name: "worker", Run: r.worker.Run},
	)
}

// now returns the time in whole milliseconds, as times are stored.
func (r *Runner) now() time.Time { return r.o.Now().UTC().Truncate(time.Millisecond) }
