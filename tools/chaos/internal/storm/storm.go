// Package storm owns a run of chaos: it starts the endpoint and the platform's
// processes, loads them, plays a schedule of faults, waits until everything has
// arrived, and gives the account.
//
// It owns none of the platform's code. A run is made by one call of [Run].
package storm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/services/standalone/embedded"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/plan"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/procs"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/runs"
)

// Options configure [Run].
type Options struct {
	// Seed of the schedule.
	Seed uint64
	// Duration of the load and the faults, and the minute of calm that everything
	// usually needs to arrive. At least [MinDuration].
	Duration time.Duration
	// Endpoint of all AWS services, which must check no signatures. Empty: Engine,
	// in a process of its own.
	Endpoint string
	// Engine is [EngineKumo] or [EngineNull]. Empty: kumo, and null above
	// [KumoFor]. With an Endpoint it must be empty.
	Engine string
	// Rate of submissions a second.
	Rate float64
	// Inbounds, Schedulers and Workers are the processes of each kind; 1 or more.
	Inbounds, Schedulers, Workers int
	// Runs is how many jobs that run once are created a second over the API; 0
	// leaves the managed layer out. Runners and APIs are its processes; 1 or more.
	Runs          float64
	Runners, APIs int
	// Keep leaves the processes' logs behind; they are too where a promise was broken.
	Keep bool
	// Progress takes the schedule as it goes. Required.
	Progress io.Writer
}

// The engines that a run starts for itself.
const (
	EngineKumo = "kumo" // the embedded one, which has no PartiQL and reads its whole table for each query
	EngineNull = "null" // that of tools/bench, which has PartiQL and keeps nothing on disk
	// KumoFor is the longest run that is kumo's unless it is asked for.
	KumoFor = 5 * time.Minute
)

const (
	calmFor = time.Minute
	// MinDuration leaves room for a freeze of 70 s.
	MinDuration = plan.MinLength + calmFor
	// drainFor is the most that everything may take to arrive when the faults are
	// over: a claim is recovered within two sweeps of a minute, and a message that
	// was received is seen again after another.
	drainFor = 4 * time.Minute
	grace    = 25 * time.Second // that every process gives itself to stop
	maxRate  = 2000
	maxRuns  = 200
)

// Validate reports every option at fault, joined.
func (o *Options) Validate() error {
	var errs []error
	if o.Duration < MinDuration || o.Duration > 24*time.Hour {
		errs = append(errs, fmt.Errorf("duration is %s; want %s to 24h", o.Duration, MinDuration))
	}
	if o.Rate <= 0 || o.Rate > maxRate {
		errs = append(errs, fmt.Errorf("rate is %g; want above 0, up to %d a second", o.Rate, maxRate))
	}
	if o.Runs < 0 || o.Runs > maxRuns {
		errs = append(errs, fmt.Errorf("runs is %g; want 0 to %d a second", o.Runs, maxRuns))
	}
	processes := map[string]int{"inbounds": o.Inbounds, "schedulers": o.Schedulers, "workers": o.Workers}
	if o.Runs > 0 {
		processes["runners"], processes["apis"] = o.Runners, o.APIs
	}
	for name, n := range processes {
		if n < 1 || n > 20 {
			errs = append(errs, fmt.Errorf("%s is %d; want 1 to 20", name, n))
		}
	}
	if u, err := url.Parse(o.Endpoint); o.Endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http") {
		errs = append(errs, fmt.Errorf("endpoint is %q; want http://host:port", o.Endpoint))
	}
	switch {
	case o.Engine != "" && o.Engine != EngineKumo && o.Engine != EngineNull:
		errs = append(errs, fmt.Errorf("engine is %q; want %s or %s", o.Engine, EngineKumo, EngineNull))
	case o.Engine != "" && o.Endpoint != "":
		errs = append(errs, errors.New("engine: there is an endpoint already"))
	}
	return errors.Join(errs...)
}

// Commands are the arguments by which this program becomes another process of
// the run; see main.
const (
	KeeperCommand    = "keeper-process"
	EngineCommand    = "engine-process"
	WorkerCommand    = "worker-process"
	SchedulerCommand = "scheduler-process"
	InboundCommand   = "inbound-process"
	RunnerCommand    = "runner-process"
	// OffsetEnv is by how much a scheduler's, inbound's or runner's clock is off.
	OffsetEnv = "MYOSIN_CHAOS_CLOCK_OFFSET"
)

// The owning services: the queue of parcels is the one that gets deleted.
const (
	orders  = "orders"
	parcels = "parcels"
)

// Services are those that the workers consume.
func Services() []string { return []string{orders, parcels} }

// Run makes one run. The error is of the run itself; breaches are in the report.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	switch {
	case o.Engine != "" || o.Endpoint != "":
	case o.Duration > KumoFor:
		o.Engine = EngineNull
	default:
		o.Engine = EngineKumo
	}
	machine := look(ctx)
	dir, err := os.MkdirTemp("", "myosin-chaos-")
	if err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	w := &world{o: o, dir: dir, start: time.Now(), say: &progress{out: o.Progress}, faults: make(map[string]int)}
	if w.keeper, err = procs.StartKeeper(os.Environ(), KeeperCommand, dir); err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	defer w.keeper.Close()
	defer w.close()
	if err := w.build(ctx); err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	if r, err = w.run(ctx); err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	r.Machine = machine
	if o.Keep || r.Failure() != nil {
		w.keeper.Spare()
		r.Logs = dir
	}
	return r, nil
}

// run is the life of a world that is built.
func (w *world) run(ctx context.Context) (*Report, error) {
	length := w.o.Duration - calmFor
	w.start = time.Now()
	w.say.start = w.start
	w.say.line("seed %d: %g submissions/s and faults for %s, on %s", w.o.Seed, w.o.Rate, length, w.endpoint)
	o := plan.Options{Seed: w.o.Seed, Length: length, Places: w.places(false), Managed: w.places(true), Queue: parcels, Caller: caller}
	if w.hasDisk() {
		o.Engine = engine
	} else {
		w.say.line("no full disk: that takes the embedded engine, on Linux")
	}
	events := plan.Make(o)
	live, stop := context.WithTimeout(ctx, length)
	var all sync.WaitGroup
	all.Go(func() { w.load(ctx, live) })
	all.Go(func() { w.watch(live) })
	if w.managed != nil {
		all.Go(func() { w.managed.load.Run(ctx, live) })
	}
	for i := range events {
		all.Go(func() { w.happen(ctx, &events[i]) })
	}
	all.Wait()
	stop()
	w.calls.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	calm := time.Now()
	w.say.line("the faults are over")
	w.heal(ctx)
	if w.managed != nil {
		w.rollAPIs(ctx)
		w.endCrons(ctx)
	}
	drained := w.drain(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	took := time.Since(calm)
	w.shutDown()
	account, err := w.verdict(ctx, drained)
	if err != nil {
		return nil, err
	}
	var managed *runs.Account
	if w.managed != nil {
		if managed, err = w.managedVerdict(ctx); err != nil {
			return nil, err
		}
	}
	r := &Report{
		Managed: managed,
		Options: w.o, Endpoint: w.endpoint, Took: time.Since(w.start), Drained: took, Faults: w.counts(), Account: account,
		Refused: w.refused, GivenUp: w.journal.GivenUp(),
	}
	return r, nil
}

// counts sums up the faults that were injected.
func (w *world) counts() map[string]int {
	w.mu.Lock()
	out := maps.Clone(w.faults)
	w.mu.Unlock()
	for _, s := range w.slots {
		for kind, n := range s.faults.Counts() {
			out[string(kind)] += n
		}
	}
	return out
}

// environ is the environment of a process on an endpoint.
func environ(endpoint, prefix string) []string {
	env := slices.DeleteFunc(embedded.Environ(os.Environ(), ""), func(kv string) bool { return strings.HasPrefix(kv, "MYOSIN_") })
	return append(env, "AWS_ENDPOINT_URL="+endpoint, "MYOSIN_PREFIX="+prefix)
}

// progress prints lines with the time since the start.
type progress struct {
	start time.Time
	mu    sync.Mutex
	out   io.Writer
}

func (p *progress) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	since := 0.0
	if !p.start.IsZero() {
		since = time.Since(p.start).Seconds()
	}
	_, _ = fmt.Fprintf(p.out, "%7.1fs  %s\n", since, fmt.Sprintf(format, args...)) // a terminal that is gone
}
