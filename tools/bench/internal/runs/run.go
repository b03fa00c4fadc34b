package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/forecast"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/platform"
	runner "github.com/myosin-jobs/myosin/services/runner/app"
	"github.com/myosin-jobs/myosin/tools/bench/internal/child"
	"github.com/myosin-jobs/myosin/tools/bench/internal/endpoint"
	"github.com/myosin-jobs/myosin/tools/bench/internal/engine"
	"github.com/myosin-jobs/myosin/tools/bench/internal/fleet"
	"github.com/myosin-jobs/myosin/tools/bench/internal/meter"
	endpointstats "github.com/myosin-jobs/myosin/tools/bench/internal/null"
)

const (
	region    = "us-east-1" // any: no engine looks
	readyWait = 30 * time.Second
	look      = 100 * time.Millisecond
	// recorded is for the last runs to be recorded, once all have been called.
	recorded = 1500 * time.Millisecond
	// quiet is where in a minute nothing of minutely jobs is under way.
	quiet = 45 * time.Second
)

// bench is one run while it is under way.
type bench struct {
	o       Options
	engine  *child.Process
	url     string
	p       *platform.Platform
	control *jobcontrol.Control
	own     *meter.Meter // what creating takes

	target              *child.Process
	schedulers, runners []*child.Process

	working sync.WaitGroup
	stop    context.CancelFunc // of working
}

// Run measures. The error is of a run that could not be made; what became of the
// jobs stands in the report.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("bench runs: %w", err)
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	b := &bench{o: o, own: meter.New(), stop: func() {}}
	defer func() {
		if failed := b.close(); failed != nil {
			r, err = nil, errors.Join(err, failed)
		}
	}()
	if err := b.open(ctx); err != nil {
		return nil, fmt.Errorf("bench runs: %w", err)
	}
	if r, err = b.measure(ctx); err != nil {
		return nil, fmt.Errorf("bench runs: %w", err)
	}
	return r, nil
}

// open starts engine and target, and makes the installation.
func (b *bench) open(ctx context.Context) error {
	if b.o.Engine == kumo {
		e, err := engine.Start(ctx)
		if err != nil {
			return err
		}
		b.engine = e.Process
	} else {
		e, err := endpoint.Start(ctx, "--sink=false")
		if err != nil {
			return err
		}
		b.engine = e
	}
	b.url = b.engine.Ready()
	var err error
	b.target, err = child.Start(ctx, child.Options{Name: "target", Args: []string{
		Command, b.o.Delay.String(), b.o.Tolerance.String(), b.o.period().String(),
	}})
	if err != nil {
		return err
	}
	o := platform.Options{Endpoint: b.url, Region: region}
	if b.o.Metered {
		o.Configure = b.own.Attach
	}
	if b.p, err = platform.Open(ctx, o); err != nil {
		return err
	}
	buffers, err := b.p.Ensure(ctx, b.o.Partitions)
	if err != nil {
		return err
	}
	for _, name := range []string{jobcontrol.Service, jobcontrol.UrgentService} {
		if _, err := b.p.EnsureRuns(ctx, name); err != nil {
			return err
		}
	}
	if _, err := b.p.Services.Refresh(ctx); err != nil {
		return err
	}
	counter, err := forecast.NewCounter(forecast.CounterOptions{Store: b.p.Forecast, Now: b.p.Clock.Now})
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	b.stop = stop
	b.working.Go(func() { _ = b.p.Services.Run(work) }) // its errors are the next creation's
	b.working.Go(func() { _ = counter.Run(work) })      // it tells of none but the end of work
	b.control, err = runner.NewControl(b.p, buffers, counter)
	return err
}

// close stops everything.
func (b *bench) close() error {
	b.stop()
	b.working.Wait()
	var errs []error
	for _, p := range append(append(b.runners, b.schedulers...), b.target, b.engine) {
		if p != nil {
			errs = append(errs, p.Stop())
		}
	}
	return errors.Join(errs...)
}

// start starts n processes of a service.
func (b *bench) start(ctx context.Context, service string, n int, profile string, flags ...string) (ps []*child.Process, err error) {
	args := []string{service, "--endpoint", b.url, "--region", region, "--addr", "127.0.0.1:0", "--log-level", "warn", "--member-count", fmt.Sprint(n)}
	if b.o.Metered {
		args = append(args, "--metered")
	}
	args = append(args, flags...)
	for i := range n {
		p, err := fleet.Start(ctx, fmt.Sprint(service, " ", i), profile, append(slices.Clip(args), "--member-index", fmt.Sprint(i))...)
		if err != nil {
			return ps, err
		}
		ps, profile = append(ps, p), ""
	}
	for _, p := range ps {
		if err := fleet.Ready(ctx, p, readyWait); err != nil {
			return ps, err
		}
	}
	return ps, nil
}

func (b *bench) startSchedulers(ctx context.Context) (err error) {
	flags := []string{"--send-linger", "5ms"}
	if b.o.Engine == kumo { // as standalone sets them
		flags = append(flags, "--idle-tick", "1s")
	}
	b.schedulers, err = b.start(ctx, "scheduler", b.o.Schedulers, "", flags...)
	return err
}

func (b *bench) startRunners(ctx context.Context) (err error) {
	flags := []string{"--allow-loopback-targets", "--concurrency", fmt.Sprint(b.o.Concurrency), "--urgent-slots", fmt.Sprint(b.o.UrgentSlots)}
	if b.o.Engine == kumo {
		flags = append(flags, "--wait", "1s")
	}
	b.runners, err = b.start(ctx, "runner", b.o.Runners, b.o.Profile, flags...)
	return err
}

// measure makes the load and waits for it.
func (b *bench) measure(ctx context.Context) (*Report, error) {
	switch {
	case b.o.Minutes > 0:
		return b.minutely(ctx)
	case b.o.Rate > 0:
		return b.steady(ctx)
	}
	return b.instant(ctx)
}

// steady creates jobs at the rate, and measures creating too.
func (b *bench) steady(ctx context.Context) (*Report, error) {
	if err := errors.Join(b.startSchedulers(ctx), b.startRunners(ctx)); err != nil {
		return nil, err
	}
	w, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.create(ctx, time.Time{}); err != nil {
		return nil, err
	}
	last := time.Now().Add(b.o.Lead)
	if err := b.await(ctx, b.o.Jobs, last.Add(b.o.Patience)); err != nil {
		return nil, err
	}
	return b.end(ctx, w, b.o.Jobs)
}

// minutely creates minutely jobs, lets their first minute pass and measures some.
func (b *bench) minutely(ctx context.Context) (*Report, error) {
	if err := errors.Join(b.startSchedulers(ctx), b.startRunners(ctx)); err != nil {
		return nil, err
	}
	if left := time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)); left < 15*time.Second {
		if err := fleet.Pause(ctx, left+time.Second); err != nil {
			return nil, err
		}
	}
	if err := b.create(ctx, time.Time{}); err != nil {
		return nil, err
	}
	from := time.Now().Truncate(time.Minute).Add(time.Minute + quiet)
	b.say("measuring from %s on", from.Format(time.TimeOnly))
	if err := fleet.Pause(ctx, time.Until(from)); err != nil {
		return nil, err
	}
	w, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	if err := fleet.Pause(ctx, time.Until(from.Add(time.Duration(b.o.Minutes)*time.Minute))); err != nil {
		return nil, err
	}
	return b.end(ctx, w, b.o.Jobs*b.o.Minutes)
}

// instant creates jobs of one instant and measures their runs.
func (b *bench) instant(ctx context.Context) (*Report, error) {
	total := b.o.Jobs + b.o.Urgent
	at := time.Now().Add(2*b.o.Settle + time.Duration(total)*time.Second/createRate)
	if b.o.Cron {
		at = at.Add(time.Minute).Truncate(time.Minute)
	}
	at = at.UTC().Truncate(time.Second)
	b.say("all are due at %s", at.Format(time.TimeOnly))
	if err := b.create(ctx, at); err != nil {
		return nil, err
	}
	if time.Until(at) < b.o.Settle {
		return nil, errors.New("the machine is too slow: jobs fell due before all were created; give fewer --jobs")
	}
	if err := fleet.Pause(ctx, time.Until(at)-b.o.Settle); err != nil {
		return nil, err
	}
	if err := b.startSchedulers(ctx); err != nil {
		return nil, err
	}
	if b.o.Backlog {
		if err := b.backlog(ctx, at); err != nil {
			return nil, err
		}
	}
	w, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.startRunners(ctx); err != nil {
		return nil, err
	}
	if late := time.Since(at); late > 0 && !b.o.Backlog {
		return nil, fmt.Errorf("the machine is too slow: the runners were ready %s late", late.Round(time.Millisecond))
	}
	if err := b.await(ctx, total, at.Add(b.o.spread()+b.o.Patience)); err != nil {
		return nil, err
	}
	return b.end(ctx, w, total)
}

// backlog waits until every run is on its queue.
func (b *bench) backlog(ctx context.Context, at time.Time) error {
	for time.Now().Before(at.Add(b.o.Patience)) {
		var s endpointstats.Stats
		if err := endpoint.Ask(ctx, http.MethodGet, b.url+"/_stats", &s); err != nil {
			return err
		}
		if s.DynamoDB.Rows[b.p.Names.Triggers()] <= 1 { // the settings row
			return nil
		}
		if err := fleet.Pause(ctx, look); err != nil {
			return err
		}
	}
	return errors.New("the schedulers have not sent all in time")
}

// await waits until the target has seen as many runs, or the deadline, which is
// no error.
func (b *bench) await(ctx context.Context, runs int, deadline time.Time) error {
	for told := time.Now(); ; {
		var s seen
		if err := b.target.Ask(askSeen, &s); err != nil {
			return err
		}
		if s.Runs >= runs || time.Now().After(deadline) {
			return fleet.Pause(ctx, recorded)
		}
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			b.say("%d of %d runs (%d urgent)", s.Runs, runs, s.Urgent)
		}
		if err := fleet.Pause(ctx, look); err != nil {
			return err
		}
	}
}

func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.o.Progress, "bench: "+format+"\n", args...) // it is but progress
}
