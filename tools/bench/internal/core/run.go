package core

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/bench/internal/meter"
)

// The components of a run. There may be several scheduler processes.
const (
	compClient    = "client"
	compInbound   = "inbound"
	compScheduler = "scheduler"
	compConsumer  = "consumer"
)

// What the client is asked, and tells when it is through.
const (
	askStart = "start"
	toldDone = "done"
)

const (
	readyWait    = 30 * time.Second
	settleWait   = time.Second             // for the last completions, once all is delivered
	emptyWait    = 5 * time.Second         // as above, if something is amiss
	repeatWait   = 1500 * time.Millisecond // for a second copy of the last jobs
	progressEach = 5 * time.Second
	look         = 50 * time.Millisecond
)

// bench is one run while it is under way.
type bench struct {
	o      Options
	prefix string
	admin  *platform.Platform // not metered
	parts  []part
	jobs   *ledger
	done   chan struct{} // the client has submitted all
}

// Run makes an installation of its own on the engine, measures, and reports.
// The error is of a run that could not be made, or was broken off; what became
// of the jobs stands in the report.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	if o.Endpoint == "" {
		return nil, errors.New("bench: no endpoint")
	}
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	o.setDefaults()
	id := trigger.NewID()
	b := &bench{o: o, prefix: "b" + hex.EncodeToString(id[:5]), jobs: newLedger(o.needs()), done: make(chan struct{})}
	defer func() {
		if failed := b.stop(); failed != nil {
			report, err = nil, errors.Join(err, failed)
		}
	}()
	for _, step := range []func(context.Context) error{b.prepare, b.start} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
	}
	if report, err = b.measure(ctx); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	return report, nil
}

// prepare makes the installation.
func (b *bench) prepare(ctx context.Context) (err error) {
	if b.admin, err = platform.Open(ctx, platform.Options{Prefix: b.prefix, Endpoint: b.o.Endpoint, Region: region}); err != nil {
		return err
	}
	if _, err = b.admin.Ensure(ctx, b.o.Partitions); err != nil {
		return err
	}
	for i := range b.o.Services {
		if _, err := b.admin.EnsureService(ctx, registry.Service{Name: serviceName(i), Owner: "bench"}, b.o.Urgent > 0); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) measure(ctx context.Context) (*Report, error) {
	r := &Report{Options: b.o}
	// A process that ends ends the measuring.
	ctx, broken := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer broken(nil)
	for _, p := range b.parts {
		watching.Go(func() {
			select {
			case <-p.Ended():
				broken(fmt.Errorf("%s ended before its time", p.Name()))
			case <-ctx.Done():
			}
		})
	}
	watching.Go(func() { b.show(ctx, time.Now()) })
	if err := b.load(ctx, r); err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	return r, nil
}

// load has the jobs submitted and waits until all is delivered and done.
func (b *bench) load(ctx context.Context, r *Report) error {
	before, err := b.counts(meter.Restart)
	if err != nil {
		return err
	}
	engine, untold := b.engine()
	began := time.Now()
	if err := b.client().Ask(askStart, nil); err != nil {
		return err
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.Submitting = time.Since(began)
	if err := b.await(ctx); err != nil {
		return err
	}
	if err := pause(ctx, settleWait); err != nil {
		return err
	}
	r.Took = time.Since(began)
	if r.Used, err = b.counts(meter.Ask); err != nil {
		return err
	}
	for name, start := range before {
		u := r.Used[name]
		u.CPU -= start.CPU
		r.Used[name] = u
	}
	if used, err := b.engine(); untold == nil && err == nil {
		r.EngineCPU = used - engine
	}
	b.peaks(r)
	if r.RowsLeft, err = b.empty(ctx); err != nil {
		return err
	}
	if err := pause(ctx, repeatWait); err != nil {
		return err
	}
	b.jobs.sum(r)
	return nil
}

// counts asks every process; those of one component are summed.
func (b *bench) counts(ask func(meter.Asker) (meter.Counts, error)) (map[string]meter.Counts, error) {
	all := make(map[string]meter.Counts)
	for _, p := range b.parts {
		c, err := ask(p)
		if err != nil {
			return nil, err
		}
		sum := all[p.component]
		sum.Add(&c)
		all[p.component] = sum
	}
	return all, nil
}

var errUntold = errors.New("the engine is not ours")

// engine is the processor time the engine has used.
func (b *bench) engine() (time.Duration, error) {
	if b.o.EngineCPU == nil {
		return 0, errUntold
	}
	return b.o.EngineCPU()
}

// peaks notes the largest memory of each component, where the system tells.
func (b *bench) peaks(r *Report) {
	r.Peak = make(map[string]int64)
	for _, p := range b.parts {
		if peak, err := p.Peak(); err == nil {
			r.Peak[p.component] = max(r.Peak[p.component], peak)
		}
	}
}

// heard takes what the client tells.
func (b *bench) heard(text string) {
	if text == toldDone {
		close(b.done)
		return
	}
	var s submission
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		s.Jobs = []job{{Error: err.Error()}}
	}
	b.jobs.submitted(&s)
}

// brought takes what the consumers tell.
func (b *bench) brought(text string) {
	var r receipt
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		r.Trouble = err.Error()
	}
	b.jobs.received(&r)
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
	_, _ = fmt.Fprintf(b.o.Progress, "bench: "+format+"\n", args...) // it is but progress
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

func schedulerName(i int) string { return compScheduler + " " + strconv.Itoa(i) }
