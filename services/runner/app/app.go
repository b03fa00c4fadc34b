// Package app is the wiring of the runner process: configuration, clock, tables,
// queues, registry, membership, the runner with what protects targets, and the
// server for health and metrics.
//
// It owns no behaviour. Several may run in one process.
package app

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/myosin-jobs/myosin/pkg/access/seal"
	"github.com/myosin-jobs/myosin/pkg/forecast"
	"github.com/myosin-jobs/myosin/pkg/lifecycle"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/queue/sqsqueue"
	"github.com/myosin-jobs/myosin/pkg/runner"
	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

// Options configure [Run]. Zero values of Runner take the runner's own defaults;
// its wiring fields are ignored.
type Options struct {
	Process platform.Process
	Runner  runner.Options
	Targets Targets
	// Secrets says how signing secrets are sealed; see the API's.
	Secrets seal.Settings
}

// Settings sets the defaults and adds every option to s.
func (o *Options) Settings(s *settings.Set) {
	o.Process = platform.NewProcess("runner", "127.0.0.1:9103")
	r := &o.Runner
	r.Concurrency, r.UrgentSlots, r.Wait, r.Every, r.Late = 200, 50, 10*time.Second, 15*time.Second, 2*time.Minute
	o.Process.Settings(s)
	s.IntVar(&r.Concurrency, "concurrency", "MYOSIN_RUNNER_CONCURRENCY", "calls under way at most")
	s.IntVar(&r.UrgentSlots, "urgent-slots", "MYOSIN_RUNNER_URGENT_SLOTS", "how many of them only urgent runs may use")
	s.DurationVar(&r.Wait, "wait", "MYOSIN_RUNNER_WAIT", "length of a long poll, whole seconds up to 20s")
	s.DurationVar(&r.Late, "late", "MYOSIN_RUNNER_LATE", "how long after it should have woken a run is woken again; at least 1m")
	s.DurationVar(&r.Every, "reconcile-every", "MYOSIN_RUNNER_RECONCILE_EVERY", "time between two looks for what should have woken")
	o.Targets.Settings(s)
	o.Secrets.Settings(s)
}

// Settings adds what runs may call to s.
func (t *Targets) Settings(s *settings.Set) {
	s.StringVar(&t.Allow, "allow-targets", "MYOSIN_ALLOW_TARGETS", "private address ranges that targets may be in, as CIDRs separated by commas")
	s.BoolVar(&t.AllowLoopback, "allow-loopback-targets", "MYOSIN_ALLOW_LOOPBACK_TARGETS", "let targets be on this machine: never in a shared installation")
	s.StringVar(&t.CallbackKeys, "callback-keys", "MYOSIN_CALLBACK_KEYS", "keys (whsec_…) that sign callback tokens, separated by commas; the API needs the same")
	s.Secret("callback-keys")
}

// Run runs runs until ctx ends, then shuts down within the grace period. It
// waits for an installation that cannot be reached yet.
func Run(ctx context.Context, o Options) error {
	st, err := o.Process.Start(ctx, platform.Options{SQS: sqsqueue.Options{CancelGrace: max(o.Runner.Wait, time.Second)}})
	if err != nil {
		return err
	}
	counter, err := forecast.NewCounter(forecast.CounterOptions{Store: st.Forecast, Now: st.Clock.Now, Log: st.Log, Registerer: st.Metrics})
	if err != nil {
		return err
	}
	if sealer, err := o.Secrets.Open(st.Config, st.Clock.Now); err != nil {
		return err
	} else if sealer != nil {
		o.Targets.Sealer = sealer
	}
	p := &process{o: o, st: st, counter: counter}
	server, err := telemetry.NewServer(telemetry.ServerOptions{
		Addr: o.Process.Addr, Gatherer: st.Metrics, Log: st.Log,
		Checks: []telemetry.Check{{Name: "runner", Func: p.ready}, {Name: "registry", Func: st.Services.Ready}},
	})
	if err != nil {
		return err
	}
	if o.Process.OnListen != nil {
		o.Process.OnListen(server.Addr())
	}
	st.Log.InfoContext(ctx, "runner starts", "prefix", st.Names.Prefix, telemetry.KeyOwner, st.Owner, "addr", server.Addr())
	return lifecycle.Run(ctx, o.Process.Grace, st.Log,
		lifecycle.Component{Name: "server", Run: server.Run},
		lifecycle.Component{Name: "membership", Run: st.Members.Run},
		lifecycle.Component{Name: "registry", Run: st.Services.Run},
		lifecycle.Component{Name: "forecast", Run: counter.Run},
		lifecycle.Component{Name: "runs", Run: p.run},
	)
}

// process is the runner once the platform can be reached.
type process struct {
	o       Options
	st      *platform.Started
	counter *forecast.Counter
	begun   atomic.Bool
}

func (p *process) ready() error {
	if !p.begun.Load() {
		return errors.New("the platform or the services of runs cannot be reached yet")
	}
	return nil
}

func (p *process) run(ctx context.Context) error {
	if err := p.st.WaitReach(ctx, p.st.Log); err != nil {
		return nil //nolint:nilerr // stopped before it began.
	}
	buffers, err := p.st.WaitBuffers(ctx, p.st.Log)
	if err != nil {
		return nil //nolint:nilerr // as above.
	}
	control, err := NewControl(p.st.Platform, buffers, p.counter)
	if err != nil {
		return err
	}
	o := BuildOptions{
		Platform: p.st.Platform, Control: control, Members: p.st.Members, Owner: p.st.Owner, Targets: p.o.Targets,
		Runner: p.o.Runner, Log: p.st.Log, Registerer: p.st.Metrics,
	}
	if o.Runner.Grace == 0 {
		o.Runner.Grace = max(p.o.Process.Grace*8/10, time.Second)
	}
	built, err := p.build(ctx, o)
	if err != nil || built == nil {
		return err
	}
	p.begun.Store(true)
	return lifecycle.Run(ctx, p.o.Process.Grace, p.st.Log, built.Components...)
}

// build waits for the services of runs, which may be registered after the
// process starts.
func (p *process) build(ctx context.Context, o BuildOptions) (*Built, error) {
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 15*time.Second) {
		if err := p.st.Services.Ready(); err == nil {
			if _, err = p.st.Services.Lookup(ctx, "runs"); err == nil {
				return Build(ctx, o)
			}
			p.st.Log.WarnContext(ctx, "services of runs cannot be used yet, trying again", telemetry.KeyError, err, "in", pause)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, nil //nolint:nilnil // stopped before it began.
		}
	}
}
