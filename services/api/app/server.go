package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

// Sealer encrypts what is bound to a context; an access.Sealer is one.
type Sealer interface {
	Seal(ctx context.Context, plain []byte, bind map[string]string) ([]byte, error)
}

// ServerOptions configure [Server].
type ServerOptions struct {
	Platform *platform.Platform   // required
	Buffers  platform.Buffers     // required
	Addr     string               // required; loopback without Auth
	Log      *slog.Logger         // required
	Registry *prometheus.Registry // required
	// Checks of readiness beside the registry's and the clock's.
	Checks []telemetry.Check

	// Grace is how long requests under way have when the server stops; 0: that of
	// telemetry.ServerOptions.
	Grace time.Duration

	// Control changes jobs and runs; nil: triggers and services alone are served.
	Control *jobcontrol.Control
	// Guard decides what targets may be; nil: the public internet.
	Guard *target.Guard
	// Callbacks, Sealer and Forecasts are those of [Managed]; nil: none.
	Callbacks *target.Signer
	Sealer    Sealer
	Forecasts Forecasts
	// Auth tells who makes a request; nil: everybody on this machine may do all.
	Auth Auth
}

// Server binds the address and returns the API over an installation, with
// probes and metrics. Whoever runs it runs the platform's registry too.
func Server(o ServerOptions) (*telemetry.Server, error) {
	if o.Auth == nil {
		if err := CheckAddr(o.Addr); err != nil {
			return nil, err
		}
	}
	p := o.Platform
	jobs, err := NewClient(p, o.Buffers)
	if err != nil {
		return nil, err
	}
	handler, err := NewHandler(HandlerOptions{
		Jobs: jobs, Services: p.Source, Partitions: p.Store, Now: p.Clock.Now, Log: o.Log, Metrics: o.Registry,
		Managed: o.managed(), Auth: o.Auth,
	})
	if err != nil {
		return nil, err
	}
	return telemetry.NewServer(telemetry.ServerOptions{
		Addr: o.Addr, Gatherer: o.Registry, Handler: handler, Log: o.Log, Grace: o.Grace,
		Checks: append([]telemetry.Check{
			{Name: "registry", Func: p.Services.Ready},
			{Name: "clock", Func: p.Clock.Ready},
		}, o.Checks...),
	})
}

func (o *ServerOptions) managed() *Managed {
	if o.Control == nil {
		return nil
	}
	m := &Managed{
		Jobs: o.Control, Runs: o.Control, Reads: o.Platform.Jobs, Records: o.Platform.Jobs, Audits: o.Platform.Jobs,
		Guard: o.Guard, Callbacks: o.Callbacks, Forecasts: o.Forecasts,
	}
	if m.Guard == nil {
		m.Guard = target.NewGuard(target.GuardOptions{})
	}
	if o.Sealer != nil {
		// The runners open it with the same binding.
		m.Seal = func(ctx context.Context, tenant, id string, secret []byte) ([]byte, error) {
			return o.Sealer.Seal(ctx, secret, map[string]string{"tenant": tenant, "secret": id})
		}
	}
	return m
}

// NewClient returns a client for a role that may use an installation's table.
func NewClient(p *platform.Platform, b platform.Buffers) (*client.Client, error) {
	return p.ClientFor(b)
}

// NewControl returns what changes the jobs and runs of an installation; counted
// is told of the triggers it writes, nil: nobody is.
func NewControl(p *platform.Platform, b platform.Buffers, counted jobcontrol.Forecast) (*jobcontrol.Control, error) {
	triggers, err := NewClient(p, b)
	if err != nil {
		return nil, err
	}
	return jobcontrol.New(jobcontrol.Options{Store: p.Jobs, Triggers: triggers, Now: p.Clock.Now, Forecast: counted})
}
