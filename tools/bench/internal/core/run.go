package core

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/inbound"
	"github.com/myosin-jobs/myosin/pkg/lifecycle"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/queue/sqsqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/scheduler"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/dynamostore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
	"github.com/myosin-jobs/myosin/tools/bench/internal/meter"
)

// The components that requests are counted for.
const (
	compClient    = "client"
	compInbound   = "inbound"
	compScheduler = "scheduler"
	compConsumer  = "consumer"
)

const (
	// The loops are set as standalone sets them over the embedded engine: that
	// does not wake a poll when a delay or a visibility timeout ends.
	poll           = time.Second
	inboundPollers = 2
	idleTick       = time.Second

	grace        = 15 * time.Second
	readyWait    = 20 * time.Second
	emptyWait    = 5 * time.Second         // for the last completions, once all is delivered
	repeatWait   = 1500 * time.Millisecond // for a second copy of the last jobs
	progressEach = 5 * time.Second
	look         = 50 * time.Millisecond
)

// bench is one run while it is under way.
type bench struct {
	o        Options
	prefix   string
	admin    *platform.Platform // not metered
	buffers  platform.Buffers
	services []registry.Service
	requests *meter.Requests
	writes   *meter.Writes
	jobs     *ledger
	client   *client.Client
	ready    []func() error
	parts    []lifecycle.Component
}

// Run makes an installation of its own on the engine, measures, and reports.
// The error is of a run that could not be made, or was broken off; what became
// of the jobs stands in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Endpoint == "" {
		return nil, errors.New("bench: no endpoint")
	}
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	o.setDefaults()
	id := trigger.NewID()
	b := &bench{
		o: o, prefix: "b" + hex.EncodeToString(id[:5]), requests: meter.NewRequests(), writes: meter.NewWrites(),
		jobs: newLedger(o.needs()),
	}
	for _, step := range []func(context.Context) error{b.prepare, b.openClient, b.openInbound, b.openScheduler, b.openConsumers} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
	}
	report, err := b.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	return report, nil
}

// open opens the installation for one component, and its registry cache.
func (b *bench) open(ctx context.Context, component string) (*platform.Platform, error) {
	o := platform.Options{
		Prefix: b.prefix, Endpoint: b.o.Endpoint, Region: "us-east-1", Log: b.o.Log, SQS: sqsqueue.Options{MaxPoll: poll},
	}
	if component != "" {
		o.Meter = b.requests.Of(component)
	}
	p, err := platform.Open(ctx, o)
	if err != nil || component == "" {
		return p, err
	}
	// The first answer sets the clock.
	if err := p.Reach(ctx); err != nil {
		return nil, err
	}
	if _, err := p.Services.Refresh(ctx); err != nil {
		return nil, err
	}
	b.parts = append(b.parts, lifecycle.Component{Name: "registry of " + component, Run: p.Services.Run})
	return p, nil
}

// table is the trigger table of a component, its writes counted.
func (b *bench) table(p *platform.Platform) (*dynamostore.Store, error) {
	return dynamostore.New(dynamostore.Options{API: b.writes.Over(p.Dynamo()), Table: p.Names.Triggers(), Logger: b.o.Log})
}

func (b *bench) prepare(ctx context.Context) error {
	var err error
	if b.admin, err = b.open(ctx, ""); err != nil {
		return err
	}
	if b.buffers, err = b.admin.Ensure(ctx, b.o.Partitions); err != nil {
		return err
	}
	for i := range b.o.Services {
		svc, err := b.admin.EnsureService(ctx, registry.Service{Name: "s" + strconv.Itoa(i), Owner: "bench"}, true)
		if err != nil {
			return err
		}
		b.services = append(b.services, svc)
	}
	return nil
}

func (b *bench) openClient(ctx context.Context) error {
	p, err := b.open(ctx, compClient)
	if err != nil {
		return err
	}
	b.client, err = client.New(client.Options{
		Sender: p.Queues, InboundURL: b.buffers.Inbound[trigger.Standard], UrgentInboundURL: b.buffers.Inbound[trigger.Urgent],
		Services: p.Services, Partitions: p.Store, Now: p.Clock.Now,
	})
	return err
}

func (b *bench) openInbound(ctx context.Context) error {
	p, err := b.open(ctx, compInbound)
	if err != nil {
		return err
	}
	table, err := b.table(p)
	if err != nil {
		return err
	}
	members, err := membership.NewStatic(0, 1)
	if err != nil {
		return err
	}
	drain, err := inbound.New(inbound.Options{
		Store: table, Queue: p.Queues, Services: p.Services, Members: members, Clock: p.Clock, Owner: "i" + b.prefix,
		URLs:    inbound.URLs{Inbound: b.buffers.Inbound, DLQ: b.buffers.DLQ},
		Pollers: inboundPollers, Wait: poll, Grace: grace / 2, Log: b.o.Log,
	})
	if err != nil {
		return err
	}
	b.ready = append(b.ready, drain.Ready)
	b.parts = append(b.parts, lifecycle.Component{Name: compInbound, Run: drain.Run})
	return nil
}

func (b *bench) openScheduler(ctx context.Context) error {
	p, err := b.open(ctx, compScheduler)
	if err != nil {
		return err
	}
	table, err := b.table(p)
	if err != nil {
		return err
	}
	members, err := membership.NewStatic(0, 1)
	if err != nil {
		return err
	}
	sched, err := scheduler.New(scheduler.Options{
		Store: table, Sender: p.Queues, Services: p.Services, Members: members, Clock: p.Clock, Owner: "s" + b.prefix,
		IdleTick: idleTick, LookAhead: b.o.LookAhead, Grace: grace / 2, Log: b.o.Log,
	})
	if err != nil {
		return err
	}
	b.ready = append(b.ready, sched.Ready)
	b.parts = append(b.parts, lifecycle.Component{Name: compScheduler, Run: sched.Run})
	return nil
}

// run starts everything, measures, and stops everything.
func (b *bench) run(ctx context.Context) (*Report, error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		defer stop() // a part that failed ends the measuring
		ended <- lifecycle.Run(running, grace, b.o.Log, b.parts...)
	}()
	report, err := b.measure(running)
	stop()
	if failed := <-ended; failed != nil {
		return nil, errors.Join(failed, err)
	}
	return report, err
}

func (b *bench) measure(ctx context.Context) (*Report, error) {
	b.say("waiting until the loops are ready")
	if err := until(ctx, readyWait, func() (bool, error) {
		for _, ready := range b.ready {
			if ready() != nil {
				return false, nil //nolint:nilerr // not ready yet.
			}
		}
		return true, nil
	}); err != nil {
		return nil, fmt.Errorf("loops not ready: %w", err)
	}
	r := &Report{Options: b.o}
	b.requests.Reset()
	own, _ := host.CPU()
	var engine time.Duration
	if b.o.EngineCPU != nil {
		engine, _ = b.o.EngineCPU()
	}
	began := time.Now()
	var showing sync.WaitGroup
	shown, hide := context.WithCancel(ctx)
	showing.Go(func() { b.show(shown, began) })
	defer showing.Wait()
	defer hide()

	r.Submitting = b.submit(ctx)
	if err := b.await(ctx); err != nil {
		return nil, err
	}
	hide()
	left, err := b.empty(ctx)
	if err != nil {
		return nil, err
	}
	r.Took, r.RowsLeft = time.Since(began), left
	r.Requests, r.Writes = b.requests.Counts(), b.writes.Costs()
	if used, ok := host.CPU(); ok {
		r.CPU = used - own
	}
	if b.o.EngineCPU != nil {
		if used, ok := b.o.EngineCPU(); ok {
			r.EngineCPU = used - engine
		}
	}
	if err := pause(ctx, repeatWait); err != nil {
		return nil, err
	}
	b.jobs.sum(r)
	return r, nil
}

// await waits until every job was delivered, or patience ends.
func (b *bench) await(ctx context.Context) error {
	limit := time.Until(b.jobs.lastDue().Add(b.o.Patience))
	err := until(ctx, limit, func() (bool, error) { return b.jobs.missing() == 0, nil })
	if errors.Is(err, errTime) {
		return nil // lost ones stand in the report
	}
	return err
}

// empty waits until no row is left and returns how many are: each would be
// delivered again one day.
func (b *bench) empty(ctx context.Context) (left int, err error) {
	err = until(ctx, emptyWait, func() (bool, error) {
		left = 0
		for _, lane := range trigger.Lanes {
			for part := range b.o.Partitions {
				page, err := b.admin.Store.Range(ctx, store.Range{
					Lane: lane, Partition: part, To: time.Now().Add(trigger.MaxAhead).UnixMilli(), Heads: true, Consistent: true,
				})
				if err != nil {
					return false, err
				}
				left += len(page.Rows)
			}
		}
		return left == 0, nil
	})
	if errors.Is(err, errTime) {
		err = nil
	}
	return left, err
}

// show prints where the run is until ctx ends.
func (b *bench) show(ctx context.Context, began time.Time) {
	for pause(ctx, progressEach) == nil {
		accepted, delivered, late := b.jobs.progress()
		b.say("%3.0f s  submitted %d  delivered %d  late by at most %s in the last %s",
			time.Since(began).Seconds(), accepted, delivered, late.Round(time.Millisecond), progressEach)
	}
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.o.Progress, "bench: "+format+"\n", args...)
}

var errTime = errors.New("time is up")

// until asks again and again until done says so, or limit is over (errTime).
func until(ctx context.Context, limit time.Duration, done func() (bool, error)) error {
	end := time.Now().Add(limit)
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return errTime
		}
		if err := pause(ctx, look); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
