package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/inbound"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/scheduler"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

// Options size a world. Zero values take the default.
type Options struct {
	Triggers   int           // submitted; default 320
	Faults     int           // default 20; negative: none
	Partitions int           // default 16
	Schedulers int           // default 3
	Span       time.Duration // in which things happen; default 75 s
	// Settle is how long the world is left alone afterwards, without faults.
	// Default 3 min: two sweeps past the age at which claims are recovered.
	Settle time.Duration
}

func (o *Options) setDefaults() {
	def := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	def(&o.Triggers, 320)
	def(&o.Faults, 20)
	def(&o.Partitions, 16)
	def(&o.Schedulers, 3)
	if o.Span == 0 {
		o.Span = 75 * time.Second
	}
	if o.Settle == 0 {
		o.Settle = 3 * time.Minute
	}
}

// Report is what a seed's world came to.
type Report struct {
	Triggers, Delivered, Cancelled, Duplicates int
	// Timed counts those that no fault excused from being on time.
	Timed  int
	Faults []string
}

// world is one seed's world.
type world struct {
	o          Options
	seed       uint64
	rand       *rand.Rand // of the driver alone
	start      time.Time
	faults     []fault
	callFaults []fault
	clocksOff  bool
	audit      *audit
	table      *memstore.Store
	queues     *memqueue.Engine
	registry   *registry.Static
	urls       map[string]string // by short name

	mu         sync.Mutex
	serial     int
	schedulers []*member
	inbounds   []*member
	workers    map[string]*process
	all        []*process
	grown      bool
}

// member is a process with a place among its kind.
type member struct {
	*process
	view      *membership.Manual
	scheduler *scheduler.Scheduler
}

var serviceNames = []string{"plain", "limited", "ordered", "fragile", "busy"}

// Run lives through the world of a seed and returns every breach of a promise.
func Run(seed uint64, o Options) ([]string, Report, error) {
	o.setDefaults()
	w := &world{
		o: o, seed: seed, rand: rand.New(rand.NewPCG(seed, 0x6d796f73696e)),
		start: time.Now(), urls: make(map[string]string), workers: make(map[string]*process),
	}
	w.audit = newAudit(w)
	if o.Faults > 0 {
		w.faults = planFaults(w.rand, o.Faults, o.Span)
	}
	for _, f := range w.faults {
		if slices.Contains(callKinds, f.kind) {
			w.callFaults = append(w.callFaults, f)
		}
		w.clocksOff = w.clocksOff || f.kind == clockAtStart || f.kind == clockStep
	}
	if err := w.build(); err != nil {
		return nil, Report{}, err
	}
	w.live()
	breaches := w.checkOwnership()
	w.shutDown()
	more, r := w.audit.verdict()
	breaches = append(append(breaches, more...), w.checkLeft()...)
	for _, f := range w.faults {
		r.Faults = append(r.Faults, f.String())
	}
	return breaches, r, nil
}

func (w *world) isInbound(url string) bool {
	return url == w.urls["inbound"] || url == w.urls["inbound-urgent"]
}

// build makes tables, queues and services and starts the first processes.
func (w *world) build() error {
	ctx := context.Background()
	w.table = memstore.New(memstore.Options{Faults: w.tableFault, StaleWindow: 2 * time.Second, OnChange: w.audit.changed})
	w.queues = memqueue.New(memqueue.Options{Faults: w.queueFault, OnSend: w.audit.sent})
	w.registry = registry.NewStatic()
	for _, name := range []string{"inbound", "inbound-urgent", "inbound-dlq"} {
		url, err := w.queues.Create(ctx, queue.Spec{Name: name, Visibility: time.Minute})
		if err != nil {
			return err
		}
		w.urls[name] = url
	}
	for _, name := range serviceNames {
		spec := queue.Spec{Name: "svc-" + name, FIFO: name == "ordered"}
		if spec.FIFO {
			spec.Name += ".fifo"
		}
		url, err := w.queues.Create(ctx, spec)
		if err != nil {
			return err
		}
		w.urls[name] = url
		svc := registry.Service{Name: name, QueueURL: url, FIFO: spec.FIFO}
		if name == "limited" {
			svc.Rate = 20
		}
		if err := w.registry.Put(ctx, svc); err != nil {
			return err
		}
	}
	for {
		err := w.table.SetEpochs(ctx, nil, trigger.Epochs{{N: w.o.Partitions}})
		if err == nil || errors.Is(err, store.ErrConflict) {
			break
		}
		time.Sleep(100 * time.Millisecond) // a fault of the first instant
	}
	for range w.o.Schedulers {
		w.startScheduler(w.smallSkew())
	}
	for range 2 {
		w.startInbound(w.smallSkew())
	}
	for _, name := range serviceNames {
		w.startWorker(name)
	}
	w.tell()
	return nil
}

func (w *world) smallSkew() time.Duration {
	if !w.clocksOff {
		return 0
	}
	return time.Duration((w.rand.Float64()*2 - 1) * float64(time.Second))
}

func (w *world) name(role string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serial++
	return fmt.Sprintf("%s-%d", role, w.serial)
}

// launch runs a process's loop until it is stopped or killed.
func (w *world) launch(p *process, run func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	w.mu.Lock()
	w.all = append(w.all, p)
	w.mu.Unlock()
	go func() {
		defer close(p.done)
		if err := run(ctx); err != nil && p.ctx.Err() == nil && !p.suspect() {
			w.note("%s ended with %v", p.name, err)
		}
	}()
}

func (w *world) note(format string, args ...any) {
	w.audit.mu.Lock()
	defer w.audit.mu.Unlock()
	w.audit.notes = append(w.audit.notes, fmt.Sprintf(format, args...))
}

func (w *world) startScheduler(offset time.Duration) *member {
	p := w.newProcess(w.name("scheduler"), offset)
	m := &member{process: p, view: membership.NewManual(membership.View{})}
	s, err := scheduler.New(scheduler.Options{
		Store: table{p, w.table}, Sender: queues{p}, Services: services{w}, Members: m.view, Clock: p.clock,
		Owner: p.name, EpochsEvery: 10 * time.Second, Grace: 25 * time.Second,
		BusyRows: 1, // few triggers, but every way of reading them
	})
	if err != nil {
		panic(err) // the world itself is wrong
	}
	m.scheduler = s
	w.mu.Lock()
	w.schedulers = append(w.schedulers, m)
	w.mu.Unlock()
	w.launch(p, s.Run)
	return m
}

func (w *world) startInbound(offset time.Duration) *member {
	p := w.newProcess(w.name("inbound"), offset)
	m := &member{process: p, view: membership.NewManual(membership.View{})}
	in, err := inbound.New(w.inboundOptions(p, m.view))
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	w.inbounds = append(w.inbounds, m)
	w.mu.Unlock()
	w.launch(p, in.Run)
	return m
}

func (w *world) inboundOptions(p *process, view *membership.Manual) inbound.Options {
	o := inbound.Options{
		Store: table{p, w.table}, Queue: queues{p}, Services: services{w}, Members: view, Clock: p.clock,
		Owner: p.name, Pollers: 2, EpochsEvery: 10 * time.Second,
	}
	o.URLs.DLQ = w.urls["inbound-dlq"]
	o.URLs.Inbound[trigger.Standard] = w.urls["inbound"]
	o.URLs.Inbound[trigger.Urgent] = w.urls["inbound-urgent"]
	return o
}

// startWorker starts the consumer of a service's queue.
func (w *world) startWorker(service string) {
	p := w.newProcess(w.name("worker-"+service), 0)
	wk, err := worker.New(worker.Options{
		Receiver: queues{p}, QueueURL: w.urls[service], Concurrency: 5, Visibility: 30 * time.Second, Wait: 20 * time.Second,
	})
	if err != nil {
		panic(err)
	}
	wk.HandleDefault(func(_ context.Context, j worker.Job[[]byte]) error {
		if p.ctx.Err() != nil {
			return errKilled
		}
		w.audit.with(j.ID.String(), func(a *job) { a.handled++ })
		return nil
	})
	w.mu.Lock()
	w.workers[service] = p
	w.mu.Unlock()
	w.launch(p, wk.Run)
}

// services looks services up as a cached registry does, without the cache.
type services struct{ w *world }

// Lookup implements the consumers' interfaces.
func (s services) Lookup(ctx context.Context, name string) (registry.Service, error) {
	return s.w.registry.Get(ctx, name)
}

// tell gives every member the newest view.
func (w *world) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ms := range [][]*member{w.schedulers, w.inbounds} {
		var names []string
		for _, m := range ms {
			names = append(names, m.name)
		}
		for _, m := range ms {
			m.view.Set(membership.View{Self: m.name, Members: names})
		}
	}
}

// remove takes a member out of the next view.
func (w *world) remove(list *[]*member, m *member) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*list = slices.DeleteFunc(*list, func(o *member) bool { return o == m })
}

func (w *world) pick(list *[]*member, n int) *member {
	w.mu.Lock()
	defer w.mu.Unlock()
	return (*list)[n%len(*list)]
}

// checkOwnership wants every partition of both lanes owned once, by the view
// everybody has had for a while.
func (w *world) checkOwnership() (breaches []string) {
	n := w.o.Partitions
	if w.grown {
		n *= 2
	}
	owners := make(map[string][]string)
	for _, m := range w.schedulers {
		for lane, ids := range m.scheduler.Owned() {
			for _, id := range ids {
				owners[trigger.PartitionKey(lane, id)] = append(owners[trigger.PartitionKey(lane, id)], m.name)
			}
		}
	}
	for _, lane := range trigger.Lanes {
		for id := range n {
			if k := trigger.PartitionKey(lane, id); len(owners[k]) != 1 {
				breaches = append(breaches, fmt.Sprintf("partition %s is owned by %v", k, owners[k]))
			}
		}
	}
	return breaches
}

// checkLeft wants nothing left in the table but tombstones, and no submission
// in the buffers or among the dead letters.
func (w *world) checkLeft() (breaches []string) {
	for _, r := range w.table.Rows() {
		if !r.State.Tombstone() {
			breaches = append(breaches, fmt.Sprintf("row %s of %s is left in state %s (%s)", r.ID, r.Service, r.State, r.Reason))
		}
	}
	for name, url := range w.urls {
		d, err := w.queues.Depth(context.Background(), url)
		if err != nil || d.Visible+d.InFlight+d.Delayed > 0 {
			breaches = append(breaches, fmt.Sprintf("queue %s is left with %+v, %v", name, d, err))
		}
	}
	return breaches
}

// shutDown ends every process and waits for it.
func (w *world) shutDown() {
	for _, p := range w.all {
		p.stop()
	}
	for _, p := range w.all {
		<-p.done
		p.kill()
	}
}

// caller is a service's client at one moment, with an id of its own.
func (w *world) caller(id trigger.ID, n int) (*client.Client, error) {
	table, err := client.NewTable(client.TableOptions{Store: w.table})
	if err != nil {
		return nil, err
	}
	return client.New(client.Options{
		Sender: w.queues, InboundURL: w.urls["inbound"], UrgentInboundURL: w.urls["inbound-urgent"],
		Services: services{w}, Triggers: table, Partitions: counts(n), NewID: func() trigger.ID { return id },
	})
}

// counts is a caller's idea of the partition count, perhaps an old one.
type counts int

// Epochs implements client.Partitions.
func (c counts) Epochs(context.Context) (trigger.Epochs, error) {
	return trigger.Epochs{{N: int(c)}}, nil
}
