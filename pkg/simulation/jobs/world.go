package jobs

import (
	"container/heap"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/jobstore/memjobs"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/runner"
	"github.com/myosin-jobs/myosin/pkg/runner/protect"
	"github.com/myosin-jobs/myosin/pkg/runner/protect/memshared"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Call is one call of a target.
type Call struct {
	At      time.Time
	Proc    string
	Job     trigger.ID
	Run     job.RunID
	Kind    job.Kind
	Attempt int
	Target  job.Target
	Payload []byte
	Answer  Answer
}

// Answer is what a target does.
type Answer struct {
	Code       int
	Kind       target.Kind
	Took       time.Duration
	RetryAfter time.Duration
	Excerpt    string
}

// Options set a world up.
type Options struct {
	// Answer is asked for every call; n is how often the run was called before.
	// nil: 200 at once.
	Answer func(a runner.Attempt, n int) Answer
	// Ready is asked whether a target takes calls; nil: it does.
	Ready func(t job.Target) (time.Time, bool)
	// StoreFault is asked for each call of the job store by a process.
	StoreFault func(op string) Fault
	// QueueFault is asked by the queues.
	QueueFault func(e memqueue.Entry) memqueue.Fault
	// Lost tells triggers that never reach their queue.
	Lost func(row *store.Row) bool
	// Log takes the runners' events; nil: nowhere.
	Log *slog.Logger
}

// World is tables, queues, a clock and whoever works on them.
type World struct {
	Queues  *memqueue.Engine
	Control *jobcontrol.Control // of a client, which nothing befalls
	URL     string
	Urgent  string

	o      Options
	table  *table
	rows   *memstore.Store
	shared *memshared.Shared
	audit  *audit

	mu     sync.Mutex
	due    rowHeap
	notify chan struct{}
	down   bool // triggers stay where they are
	lag    time.Duration
	calls  []Call
	perRun map[job.RunID]int
	procs  []*Proc
	serial int
	reads  int // of jobs, runs and tenants by processes
	end    context.CancelFunc
	mover  sync.WaitGroup
}

type rowHeap []*store.Row

func (h rowHeap) Len() int           { return len(h) }
func (h rowHeap) Less(i, j int) bool { return h[i].Due.Before(h[j].Due) }
func (h rowHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *rowHeap) Push(x any) { *h = append(*h, x.(*store.Row)) }

// Pop implements heap.Interface.
func (h *rowHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// New returns a world without runners. Call [World.Close] at its end.
func New(o Options) (*World, error) {
	w := &World{o: o, notify: make(chan struct{}, 1), perRun: map[job.RunID]int{}, shared: &memshared.Shared{}}
	w.rows = memstore.New(memstore.Options{OnChange: func(before, after *store.Row) {
		if before == nil {
			row := *after
			w.mu.Lock()
			heap.Push(&w.due, &row)
			w.mu.Unlock()
			w.poke()
		}
	}})
	w.table = newTable(w.rows)
	w.audit = newAudit(w)
	w.table.onChange = w.audit.changed
	w.Queues = memqueue.New(memqueue.Options{Faults: o.QueueFault})
	ctx := context.Background()
	var err error
	for name, url := range map[string]*string{jobcontrol.Service: &w.URL, jobcontrol.UrgentService: &w.Urgent} {
		if *url, err = w.Queues.Create(ctx, queue.Spec{Name: name, Visibility: job.LeaseFor}); err != nil {
			return nil, err
		}
	}
	if w.Control, err = w.control(w.table, time.Now); err != nil {
		return nil, err
	}
	run, end := context.WithCancel(ctx)
	w.end = end
	w.mover.Go(func() { w.move(run) })
	return w, nil
}

func (w *World) poke() {
	select {
	case w.notify <- struct{}{}:
	default:
	}
}

// control is job control as a process with this store and clock has it.
func (w *World) control(s jobstore.Store, now func() time.Time) (*jobcontrol.Control, error) {
	c, err := client.New(client.Options{Sender: w.Queues, InboundURL: "none", Now: now})
	if err != nil {
		return nil, err
	}
	return jobcontrol.New(jobcontrol.Options{Store: s, Triggers: c, Now: now})
}

// move delivers triggers when they are due, as the schedulers do.
func (w *World) move(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		w.mu.Lock()
		wait := time.Hour
		var row *store.Row
		if len(w.due) > 0 && !w.down {
			if wait = time.Until(w.due[0].Due.Add(w.lag)); wait <= 0 {
				row = heap.Pop(&w.due).(*store.Row)
			}
		}
		w.mu.Unlock()
		if row != nil {
			w.deliver(ctx, row)
			continue
		}
		t.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-w.notify:
		case <-t.C:
		}
	}
}

func (w *World) deliver(ctx context.Context, row *store.Row) {
	w.rows.Write(ctx, []store.Op{{Kind: store.Delete, Key: row.Key(), From: row.State}})
	if w.o.Lost != nil && w.o.Lost(row) {
		return
	}
	url := w.URL
	if row.Service == jobcontrol.UrgentService {
		url = w.Urgent
	}
	d := trigger.Deliver(&row.Trigger, false)
	for {
		errs := w.Queues.SendBatch(ctx, url, []queue.Message{{Body: d.Body, Attributes: d.Attributes, Group: d.Group}})
		if errs[0] == nil || ctx.Err() != nil {
			return
		}
		time.Sleep(100 * time.Millisecond) // and perhaps it was sent: then it comes twice
	}
}

// SetLag makes queues behind: every trigger reaches its queue so much later.
func (w *World) SetLag(d time.Duration) {
	w.mu.Lock()
	w.lag = d
	w.mu.Unlock()
	w.poke()
}

// Outage stops or resumes the delivery of triggers.
func (w *World) Outage(on bool) {
	w.mu.Lock()
	w.down = on
	w.mu.Unlock()
	w.poke()
}

// Start starts a runner; change may alter its options.
func (w *World) Start(change ...func(p *Proc, o *runner.Options)) (*Proc, error) {
	w.mu.Lock()
	w.serial++
	p := &Proc{Name: fmt.Sprintf("runner-%d", w.serial), w: w, view: membership.NewManual(membership.View{}), done: make(chan struct{}), stepping: make(chan struct{}, 1)}
	w.mu.Unlock()
	p.ctx, p.kill = context.WithCancel(context.Background())
	s := jobsOf{w.table, p}
	control, err := w.control(s, p.now)
	if err != nil {
		return nil, err
	}
	gate, err := protect.New(protect.Options{Runner: p.Name, Shared: w.shared, Now: p.now, Members: func() int { return max(len(p.view.View().Members), 1) }})
	if err != nil {
		return nil, err
	}
	tenants, err := runner.NewTenants(runner.TenantsOptions{Store: s, Now: p.now})
	if err != nil {
		return nil, err
	}
	o := runner.Options{
		Store: s, Control: control, Caller: caller{p}, Gate: gate, Tenants: tenants, Queue: queuesOf{p}, QueueURL: w.URL,
		UrgentURL: w.Urgent, Members: p.view, Concurrency: 50, Now: p.now, Log: w.o.Log,
	}
	for _, f := range change {
		f(p, &o)
	}
	if p.Runner, err = runner.New(o); err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(context.Background())
	p.stop = stop
	w.mu.Lock()
	w.procs = append(w.procs, p)
	w.mu.Unlock()
	var gating sync.WaitGroup
	gating.Go(func() { _ = gate.Run(run) })
	go func() {
		defer close(p.done)
		_ = p.Runner.Run(run)
		gating.Wait()
	}()
	w.Tell()
	return p, nil
}

// Tell tells every runner which of them live.
func (w *World) Tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, p := range w.procs {
		if p.ctx.Err() == nil {
			names = append(names, p.Name)
		}
	}
	for _, p := range w.procs {
		p.view.Set(membership.View{Self: p.Name, Members: names})
	}
}

// Live returns the runners that were not killed.
func (w *World) Live() []*Proc {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.procs), func(p *Proc) bool { return p.ctx.Err() != nil })
}

// Close ends every process and waits for it.
func (w *World) Close() {
	w.end()
	w.mu.Lock()
	procs := slices.Clone(w.procs)
	w.mu.Unlock()
	for _, p := range procs {
		p.stop()
	}
	for _, p := range procs {
		<-p.done
		p.kill()
	}
	w.mover.Wait()
}

func (w *World) ready(t job.Target) (time.Time, bool) {
	if w.o.Ready == nil {
		return time.Time{}, true
	}
	return w.o.Ready(t)
}

func (w *World) storeFault(op string) Fault {
	if op != "commit" && op != "due" {
		w.mu.Lock()
		w.reads++
		w.mu.Unlock()
	}
	if w.o.StoreFault == nil {
		return Fault{}
	}
	return w.o.StoreFault(op)
}

func (w *World) called(p *Proc, a runner.Attempt) Answer {
	w.mu.Lock()
	n := w.perRun[a.Run.ID]
	w.perRun[a.Run.ID]++
	w.mu.Unlock()
	ans := Answer{Code: 200}
	if w.o.Answer != nil {
		ans = w.o.Answer(a, n)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, Call{
		At: time.Now().UTC(), Proc: p.Name, Job: a.Run.Job, Run: a.Run.ID, Kind: a.Run.Kind, Attempt: a.Run.Attempt,
		Target: a.Target, Payload: a.Payload, Answer: ans,
	})
	return ans
}

// Calls returns the calls of targets so far, of one job or of all (zero).
func (w *World) Calls(id trigger.ID) []Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.calls), func(c Call) bool { return id != trigger.ID{} && c.Job != id })
}

// Job returns a job as it lies in the table.
func (w *World) Job(id trigger.ID) job.Job {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	return w.table.jobs[id]
}

// Runs returns a job's runs, by nominal time.
func (w *World) Runs(id trigger.ID) []job.Run {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	var out []job.Run
	for _, r := range w.table.ofJob[id] {
		out = append(out, cloneRun(w.table.runs[r].Run))
	}
	return out
}

// Cost returns what the job store counted so far, and how often it was read by
// processes.
func (w *World) Cost() (counts memjobs.Counts, reads int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.table.Counts(), w.reads
}

// Behind returns the control of a process that the world's faults befall.
func (w *World) Behind() (*jobcontrol.Control, error) {
	p := &Proc{Name: "control", w: w, stepping: make(chan struct{}, 1)}
	p.ctx, p.kill = context.WithCancel(context.Background())
	p.stop = func() {}
	return w.control(jobsOf{w.table, p}, p.now)
}
