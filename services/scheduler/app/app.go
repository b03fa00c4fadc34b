// Package app is the wiring of the scheduler process: configuration, clock,
// table, queues, registry, membership, the scheduling loop, and the server for
// health and metrics.
//
// It owns no behaviour. Several may run in one process.
package app

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/myosin-jobs/myosin/pkg/lifecycle"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/scheduler"
	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

// Options configure [Run]: what every process has, and what the scheduler has.
// Zero values of Scheduler take its own defaults; its wiring fields are ignored.
type Options struct {
	Process   platform.Process
	Scheduler scheduler.Options
}

// Settings sets the defaults and adds every option to s.
func (o *Options) Settings(s *settings.Set) {
	o.Process = platform.NewProcess("scheduler", "127.0.0.1:9102")
	c := &o.Scheduler
	c.Tick, c.IdleTick, c.LookAhead, c.Lead = 500*time.Millisecond, 2*time.Second, 4*time.Second, 100*time.Millisecond
	c.SweepEvery, c.StaleAfter = time.Minute, time.Minute
	c.HeapBytes, c.MaxClaimed, c.AcquireWorkers, c.RateShare = 128<<20, 4000, 8, 0.9
	c.Dispatch.Linger, c.Dispatch.SendsPerService = 5*time.Millisecond, 16
	o.Process.Settings(s)
	s.DurationVar(&c.Tick, "tick", "MYOSIN_SCHEDULER_TICK", "between passes over a partition")
	s.DurationVar(&c.IdleTick, "idle-tick", "MYOSIN_SCHEDULER_IDLE_TICK", "between passes over a partition where nothing is due")
	s.DurationVar(&c.LookAhead, "look-ahead", "MYOSIN_SCHEDULER_LOOK_AHEAD", "how far ahead rows are read; above the idle tick")
	s.DurationVar(&c.Lead, "lead", "MYOSIN_SCHEDULER_LEAD", "before the due time rows are acquired")
	s.DurationVar(&c.SweepEvery, "sweep-every", "MYOSIN_SCHEDULER_SWEEP_EVERY", "between sweeps of a partition")
	s.DurationVar(&c.StaleAfter, "stale-after", "MYOSIN_SCHEDULER_STALE_AFTER", "age of a claim that others recover; at least 1m")
	s.IntVar(&c.HeapBytes, "heap-bytes", "MYOSIN_SCHEDULER_HEAP_BYTES", "memory for rows read ahead, in bytes")
	s.IntVar(&c.MaxClaimed, "max-claimed", "MYOSIN_SCHEDULER_MAX_CLAIMED", "rows acquired and not finished, per lane")
	s.IntVar(&c.AcquireWorkers, "acquire-workers", "MYOSIN_SCHEDULER_ACQUIRE_WORKERS", "acquiring batches at once, per lane")
	s.FloatVar(&c.StandardWrites, "standard-writes", "MYOSIN_SCHEDULER_STANDARD_WRITES", "table writes per second of the standard lane in this process; 0 for no limit")
	s.FloatVar(&c.RateShare, "rate-share", "MYOSIN_SCHEDULER_RATE_SHARE", "part of a service's rate for the schedulers; the rest is inbound's")
	s.DurationVar(&c.Dispatch.Linger, "send-linger", "MYOSIN_SCHEDULER_SEND_LINGER", "how long a due message waits for company, up to 1s: longer is cheaper and later")
	s.IntVar(&c.Dispatch.SendsPerService, "sends-per-service", "MYOSIN_SCHEDULER_SENDS_PER_SERVICE", "concurrent sends to one service")
}

// Run schedules until ctx ends, then shuts down within the grace period. It
// waits for an installation that cannot be reached yet.
func Run(ctx context.Context, o Options) error {
	st, err := o.Process.Start(ctx, platform.Options{})
	if err != nil {
		return err
	}
	l := &loop{o: o, st: st}
	server, err := telemetry.NewServer(telemetry.ServerOptions{
		Addr: o.Process.Addr, Gatherer: st.Metrics, Log: st.Log,
		Checks: []telemetry.Check{{Name: "scheduler", Func: l.ready}, {Name: "registry", Func: st.Services.Ready}},
	})
	if err != nil {
		return err
	}
	if o.Process.OnListen != nil {
		o.Process.OnListen(server.Addr())
	}
	st.Log.InfoContext(ctx, "scheduler starts", "prefix", st.Names.Prefix, telemetry.KeyOwner, st.Owner, "addr", server.Addr())
	return lifecycle.Run(ctx, o.Process.Grace, st.Log,
		lifecycle.Component{Name: "server", Run: server.Run},
		lifecycle.Component{Name: "membership", Run: st.Members.Run},
		lifecycle.Component{Name: "registry", Run: st.Services.Run},
		lifecycle.Component{Name: "scheduler", Run: l.run},
	)
}

// loop is the scheduler once the platform can be reached.
type loop struct {
	o  Options
	st *platform.Started
	s  atomic.Pointer[scheduler.Scheduler]
}

func (l *loop) run(ctx context.Context) error {
	if err := l.st.WaitReach(ctx, l.st.Log); err != nil {
		return nil //nolint:nilerr // stopped before it began.
	}
	o := l.o.Scheduler
	o.Store, o.Sender, o.Services, o.Members, o.Clock = l.st.Store, l.st.Queues, l.st.Services, l.st.Members, l.st.Clock
	o.Owner, o.Log, o.Registerer = l.st.Owner, l.st.Log, l.st.Metrics
	if o.Grace == 0 {
		o.Grace = max(l.o.Process.Grace*8/10, time.Second)
	}
	s, err := scheduler.New(o)
	if err != nil {
		return err
	}
	l.s.Store(s)
	return s.Run(ctx)
}

func (l *loop) ready() error {
	s := l.s.Load()
	if s == nil {
		return errors.New("scheduler: the platform was not reached yet")
	}
	return s.Ready()
}
