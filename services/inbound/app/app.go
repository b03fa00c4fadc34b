// Package app is the wiring of the inbound process: configuration, clock, table,
// queues, registry, membership, the drain, and the server for health and metrics.
//
// It owns no behaviour. Several may run in one process.
package app

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/myosin-jobs/myosin/pkg/forecast"
	"github.com/myosin-jobs/myosin/pkg/inbound"
	"github.com/myosin-jobs/myosin/pkg/lifecycle"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/queue/sqsqueue"
	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

// Options configure [Run]: what every process has, and what the drain has.
// Zero values of Drain take the drain's own defaults; its wiring fields are
// ignored.
type Options struct {
	Process platform.Process
	Drain   inbound.Options
	// Paused keeps the drain from polling, beside the operator's switch.
	Paused bool
}

// Settings sets the defaults and adds every option to s.
func (o *Options) Settings(s *settings.Set) {
	o.Process = platform.NewProcess("inbound", "127.0.0.1:9101")
	d := &o.Drain
	// A poll is let end by itself in a shutdown, so that no message it takes is
	// stranded: it must be much shorter than the grace period.
	d.Pollers, d.Wait, d.Visibility, d.Linger = 16, 10*time.Second, time.Minute, 10*time.Millisecond
	d.MaxHeld, d.Workers, d.RateShare, d.Dispatch.Linger = 500, 8, 0.1, 5*time.Millisecond
	o.Process.Settings(s)
	s.FloatVar(&d.Rate, "rate", "MYOSIN_INBOUND_RATE", "submissions per second that the fleet takes out of each lane's buffer; 0 for no limit")
	s.FloatVar(&d.StandardWrites, "standard-writes", "MYOSIN_INBOUND_STANDARD_WRITES", "table writes per second of the standard lane in this process; 0 for no limit")
	s.FloatVar(&d.RateShare, "rate-share", "MYOSIN_INBOUND_RATE_SHARE", "part of a service's rate for jobs that are due when they arrive; must match the scheduler's")
	s.IntVar(&d.Pollers, "pollers", "MYOSIN_INBOUND_POLLERS", "receives at once per lane, at most; idle, there are two")
	s.DurationVar(&d.Wait, "wait", "MYOSIN_INBOUND_WAIT", "length of a long poll, whole seconds up to 20s; a shutdown may take as long")
	s.DurationVar(&d.Visibility, "visibility", "MYOSIN_INBOUND_VISIBILITY", "how long a message in hand is hidden from others")
	s.IntVar(&d.MaxHeld, "max-held", "MYOSIN_INBOUND_MAX_HELD", "messages in hand per lane")
	s.IntVar(&d.Workers, "workers", "MYOSIN_INBOUND_WORKERS", "batches of inserts at once per lane")
	s.DurationVar(&d.Linger, "linger", "MYOSIN_INBOUND_LINGER", "how long an insert waits for company")
	s.DurationVar(&d.Dispatch.Linger, "send-linger", "MYOSIN_INBOUND_SEND_LINGER", "how long a job that is due waits for company")
	s.BoolVar(&o.Paused, "paused", "MYOSIN_INBOUND_PAUSED", "start without draining; `myosin inbound pause` is the switch for all processes")
}

// Run drains until ctx ends, then shuts down within the grace period. It waits
// for an installation that cannot be reached yet.
func Run(ctx context.Context, o Options) error {
	st, err := o.Process.Start(ctx, platform.Options{SQS: sqsqueue.Options{CancelGrace: max(o.Drain.Wait, time.Second)}})
	if err != nil {
		return err
	}
	counter, err := forecast.NewCounter(forecast.CounterOptions{
		Store: st.Forecast, Now: st.Clock.Now, Log: st.Log, Registerer: st.Metrics,
	})
	if err != nil {
		return err
	}
	o.Drain.Forecast = counter
	d := &drain{o: o, st: st}
	server, err := telemetry.NewServer(telemetry.ServerOptions{
		Addr: o.Process.Addr, Gatherer: st.Metrics, Log: st.Log,
		Checks: []telemetry.Check{{Name: "inbound", Func: d.ready}, {Name: "registry", Func: st.Services.Ready}},
	})
	if err != nil {
		return err
	}
	if o.Process.OnListen != nil {
		o.Process.OnListen(server.Addr())
	}
	st.Log.InfoContext(ctx, "inbound starts", "prefix", st.Names.Prefix, telemetry.KeyOwner, st.Owner, "addr", server.Addr())
	return lifecycle.Run(ctx, o.Process.Grace, st.Log,
		lifecycle.Component{Name: "server", Run: server.Run},
		lifecycle.Component{Name: "membership", Run: st.Members.Run},
		lifecycle.Component{Name: "registry", Run: st.Services.Run},
		lifecycle.Component{Name: "forecast", Run: counter.Run}, // stops after the drain, which counts to its end
		lifecycle.Component{Name: "inbound", Run: d.run},
	)
}

// drain is the drain once the platform can be reached.
type drain struct {
	o  Options
	st *platform.Started
	in atomic.Pointer[inbound.Inbound]
}

func (d *drain) run(ctx context.Context) error {
	if err := d.st.WaitReach(ctx, d.st.Log); err != nil {
		return nil //nolint:nilerr // stopped before it began.
	}
	urls, err := d.st.WaitBuffers(ctx, d.st.Log)
	if err != nil {
		return nil //nolint:nilerr // as above.
	}
	o := d.o.Drain
	o.Store, o.Queue, o.Services, o.Members, o.Clock = d.st.Store, d.st.Queues, d.st.Services, d.st.Members, d.st.Clock
	o.Owner, o.URLs = d.st.Owner, inbound.URLs{Inbound: urls.Inbound, DLQ: urls.DLQ}
	o.Log, o.Registerer = d.st.Log, d.st.Metrics
	o.Paused = d.st.DrainPaused
	if o.Grace == 0 {
		o.Grace = max(d.o.Process.Grace*8/10, time.Second)
	}
	in, err := inbound.New(o)
	if err != nil {
		return err
	}
	in.SetPaused(d.o.Paused)
	d.in.Store(in)
	return in.Run(ctx)
}

func (d *drain) ready() error {
	in := d.in.Load()
	if in == nil {
		return errors.New("inbound: the platform was not reached yet")
	}
	return in.Ready()
}
