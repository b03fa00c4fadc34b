package app

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/forecast"
	"github.com/myosin-jobs/myosin/pkg/inbound"
	"github.com/myosin-jobs/myosin/pkg/lifecycle"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/queue/sqsqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/scheduler"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	api "github.com/myosin-jobs/myosin/services/api/app"
	"github.com/myosin-jobs/myosin/services/standalone/embedded"
)

const (
	// grace is how long everything has to stop.
	grace = 15 * time.Second
	// An embedded engine does not wake a poll when a delay or a visibility timeout
	// ends, so each of its polls is short; calls to it cost little.
	embeddedPoll    = time.Second
	embeddedPollers = 2
	embeddedIdle    = time.Second
	embeddedRefresh = 2 * time.Second
)

// process is one standalone process while it is put together.
type process struct {
	o      Options
	log    *slog.Logger
	reg    *prometheus.Registry
	show   *printer
	engine *embedded.Engine // nil with External
	p      *platform.Platform
	b      platform.Buffers
	jobs   *client.Client
	sample *sample   // nil where there is no sample service
	target *endpoint // likewise
	managed
	parts []lifecycle.Component
}

// Run runs everything until ctx ends, or the demo does with ExitAfterDemo.
func Run(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return fmt.Errorf("standalone: %w", err)
	}
	o.setDefaults()
	s := &process{o: o, log: o.Log, reg: telemetry.NewRegistry("standalone"), show: newPrinter(o.Out)}
	if s.log == nil {
		var err error
		if s.log, err = telemetry.NewLogger(telemetry.LogOptions{Level: o.LogLevel, Format: o.LogFormat}); err != nil {
			return fmt.Errorf("standalone: %w", err)
		}
	}
	if err := s.run(ctx); err != nil {
		return fmt.Errorf("standalone: %w", err)
	}
	return nil
}

func (s *process) run(ctx context.Context) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	endpoint := ""
	if !s.o.External {
		if s.engine, err = embedded.Listen(ctx, embedded.Options{Addr: s.o.AWSAddr, DataDir: s.o.DataDir, Log: s.log}); err != nil {
			return taken(err, "aws-addr", "MYOSIN_AWS_ADDR", s.o.AWSAddr)
		}
		s.o.AWSAddr, endpoint = s.engine.Addr(), s.engine.Direct()
		defer func() { err = errors.Join(err, s.engine.Close()) }()
	}
	server, err := s.open(ctx, endpoint)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	s.o.APIAddr = server.Addr()
	var ended error // of the demo
	if s.sample != nil && !s.o.NoDemo {
		s.parts = append(s.parts, lifecycle.Component{Name: "demo", Run: func(ctx context.Context) error {
			ended = s.demo(ctx)
			if s.o.ExitAfterDemo {
				stop()
			}
			return nil
		}})
	}
	s.greet()
	if s.o.Ready != nil {
		addrs := Addrs{API: s.o.APIAddr}
		if s.engine != nil {
			addrs.AWS = s.engine.URL()
		}
		s.o.Ready(addrs)
	}
	began := time.Now()
	err = lifecycle.Run(ctx, grace, s.log, s.parts...)
	s.goodbye(time.Since(began), err)
	if s.o.ExitAfterDemo {
		err = errors.Join(err, ended)
	}
	return err
}

// open makes every part, in the order in which they start; they stop in reverse.
func (s *process) open(ctx context.Context, endpoint string) (*telemetry.Server, error) {
	if s.engine != nil {
		s.parts = append(s.parts, lifecycle.Component{Name: "engine", Run: s.engine.Run})
	}
	o := platform.Options{Prefix: s.o.Prefix, Endpoint: endpoint, Log: s.log, Registerer: s.reg}
	if s.engine != nil {
		o.Refresh, o.SQS = embeddedRefresh, sqsqueue.Options{MaxPoll: embeddedPoll}
	}
	var err error
	if s.p, err = platform.Open(ctx, o); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	if s.jobs, err = api.NewClient(s.p, s.b); err != nil {
		return nil, err
	}
	s.parts = append(s.parts, lifecycle.Component{Name: "registry", Run: s.p.Services.Run})
	checks, err := s.loops(ctx)
	if err != nil {
		return nil, err
	}
	if s.sample != nil {
		if err := s.sample.open(s); err != nil {
			return nil, err
		}
		if s.target, err = newEndpoint(s.show); err != nil {
			return nil, err
		}
		s.parts = append(s.parts,
			lifecycle.Component{Name: "worker of " + Sample, Run: s.sample.worker.Run},
			lifecycle.Component{Name: "sample target", Run: s.target.run})
	}
	so := api.ServerOptions{
		Platform: s.p, Buffers: s.b, Addr: s.o.APIAddr, Log: s.log, Registry: s.reg, Checks: checks,
		Control: s.control, Guard: target.NewGuard(target.GuardOptions{AllowLoopback: true}), Callbacks: s.callbacks,
	}
	if s.sealer != nil {
		so.Sealer = s.sealer
	}
	if s.forecasts != nil {
		so.Forecasts = s.forecasts
	}
	server, err := api.Server(so)
	if err != nil {
		return nil, taken(err, "api-addr", "MYOSIN_API_ADDR", s.o.APIAddr)
	}
	s.parts = append(s.parts, lifecycle.Component{Name: "api", Run: server.Run})
	return server, nil
}

// prepare makes or finds the tables and buffers, and the sample service.
func (s *process) prepare(ctx context.Context) error {
	var err error
	if !s.o.Create {
		if err := s.p.Reach(ctx); err != nil {
			return fmt.Errorf("%w (--create makes what is missing)", err)
		}
		if s.b, err = s.p.Buffers(ctx); err != nil {
			return fmt.Errorf("%w (--create makes what is missing)", err)
		}
		return nil
	}
	if s.b, err = s.p.Ensure(ctx, s.o.Partitions); err != nil {
		return err
	}
	if err := s.p.Reach(ctx); err != nil {
		return err
	}
	svc, err := s.p.Source.Get(ctx, Sample)
	if errors.Is(err, registry.ErrUnknown) {
		svc, err = s.p.EnsureService(ctx, registry.Service{Name: Sample, Owner: "whoever tries this"}, false)
	}
	if err == nil && s.engine != nil {
		err = s.address(ctx, &svc)
	}
	if err != nil {
		return err
	}
	if err := s.ensureRuns(ctx); err != nil {
		return err
	}
	if _, err := s.p.Services.Refresh(ctx); err != nil {
		return err
	}
	s.sample = newSample(svc, s.show)
	return nil
}

// address makes the queue URLs in the registry lead to the front of the engine,
// where it is now: other processes read them.
func (s *process) address(ctx context.Context, svc *registry.Service) error {
	before := *svc
	for _, u := range []*string{&svc.QueueURL, &svc.UrgentQueueURL, &svc.DLQURL} {
		if at, err := url.Parse(*u); err == nil && *u != "" {
			*u = s.engine.URL() + at.Path
		}
	}
	if svc.QueueURL == before.QueueURL && svc.UrgentQueueURL == before.UrgentQueueURL && svc.DLQURL == before.DLQURL {
		return nil
	}
	return s.p.Source.Put(ctx, *svc)
}

// loops makes the drain and the scheduler, as their own processes do.
func (s *process) loops(ctx context.Context) ([]telemetry.Check, error) {
	members, err := membership.NewStatic(0, 1)
	if err != nil {
		return nil, err
	}
	start := trigger.NewID()
	owner := hex.EncodeToString(start[10:])
	part := func(name string) prometheus.Registerer {
		return prometheus.WrapRegistererWith(prometheus.Labels{"loop": name}, s.reg)
	}
	so := scheduler.Options{
		Store: s.p.Store, Sender: s.p.Queues, Services: s.p.Services, Members: members, Clock: s.p.Clock,
		Owner: "s" + owner, Log: s.log, Registerer: part("scheduler"), Grace: grace / 2,
	}
	counter, err := forecast.NewCounter(forecast.CounterOptions{
		Store: s.p.Forecast, Now: s.p.Clock.Now, Log: s.log, Registerer: s.reg,
	})
	if err != nil {
		return nil, err
	}
	do := inbound.Options{
		Store: s.p.Store, Queue: s.p.Queues, Services: s.p.Services, Members: members, Clock: s.p.Clock,
		Owner: "i" + owner, URLs: inbound.URLs{Inbound: s.b.Inbound, DLQ: s.b.DLQ}, Paused: s.p.DrainPaused,
		Forecast: counter, Log: s.log, Registerer: part("inbound"), Grace: grace / 2,
	}
	if s.engine != nil {
		so.IdleTick = embeddedIdle
		do.Pollers, do.Wait = embeddedPollers, embeddedPoll
	}
	sched, err := scheduler.New(so)
	if err != nil {
		return nil, err
	}
	drain, err := inbound.New(do)
	if err != nil {
		return nil, err
	}
	s.parts = append(s.parts,
		lifecycle.Component{Name: "scheduler", Run: sched.Run},
		lifecycle.Component{Name: "forecast", Run: counter.Run}, // stops after the drain, which counts to its end
		lifecycle.Component{Name: "inbound", Run: drain.Run},
	)
	if err := s.manage(ctx, members, counter); err != nil {
		return nil, err
	}
	return []telemetry.Check{{Name: "scheduler", Func: sched.Ready}, {Name: "inbound", Func: drain.Ready}}, nil
}

// taken says which flag to change where an address is in use.
func taken(err error, flag, env, addr string) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("--%s %s is in use, perhaps by another standalone: choose another port with --%s or %s (port 0 takes a free one)", flag, addr, flag, env)
	}
	return err
}
