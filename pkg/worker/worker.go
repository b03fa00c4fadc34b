package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Worker consumes the queues of one service. Make it with [New].
type Worker struct {
	opts    Options // with defaults
	log     *slog.Logger
	metrics *metrics
	lanes   []*lane // urgent first

	stopOnce sync.Once
	stopping chan struct{} // closed when a stop begins
	finished chan struct{} // closed when Run has returned

	handling sync.WaitGroup // goroutines of handlers

	mu         sync.Mutex // guards what follows, and lanes and entries
	handlers   map[string]Handler
	fallback   Handler
	middleware []Middleware
	mistakes   []error
	started    bool

	chain     Handler         // middleware around route, from Run on
	base      context.Context // parent of the handlers' contexts
	entries   map[*entry]struct{}
	running   int // handlers, abandoned ones included
	pollers   int
	closing   bool // a stop has begun: nothing new is started
	drained   chan struct{}
	isDrained bool // drained is closed
}

// New returns a worker that runs nothing yet.
func New(opts Options) (*Worker, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	w := &Worker{
		opts:     opts.withDefaults(),
		stopping: make(chan struct{}),
		finished: make(chan struct{}),
		drained:  make(chan struct{}),
		handlers: make(map[string]Handler),
		entries:  make(map[*entry]struct{}),
	}
	w.log = w.opts.Log
	if w.opts.UrgentQueueURL != "" {
		w.lanes = append(w.lanes, newLane(w, trigger.Urgent, w.opts.UrgentQueueURL, w.opts.Concurrency))
	}
	if w.opts.QueueURL != "" {
		w.lanes = append(w.lanes, newLane(w, trigger.Standard, w.opts.QueueURL, w.opts.Concurrency-w.opts.UrgentSlots))
	}
	var err error
	if w.metrics, err = newMetrics(w, opts.Metrics); err != nil {
		return nil, err
	}
	return w, nil
}

// Stop begins a graceful stop, as the end of Run's context does, and waits
// until Run has returned or ctx ends. It may be called any number of times,
// before Run too: Run then returns at once.
func (w *Worker) Stop(ctx context.Context) error {
	w.stopOnce.Do(func() { close(w.stopping) })
	w.mu.Lock()
	started := w.started
	w.mu.Unlock()
	if !started {
		return nil
	}
	select {
	case <-w.finished:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop worker: %w", ctx.Err())
	}
}

// Run consumes until ctx ends or [Worker.Stop] is called, then stops as the
// package comment describes, within Options.Grace. It returns mistakes of the
// registration, or an error when handlers ignored their cancelled contexts and
// were left behind; else nil. A Worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	calls, cancelCalls := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelCalls()
	handling, cancelHandlers := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancelHandlers(nil)
	if err := w.begin(handling); err != nil {
		return err
	}
	defer close(w.finished)
	w.log.Info("worker started", "queues", w.urls(), "concurrency", w.opts.Concurrency)

	polls, cancelPolls := context.WithCancel(calls)
	defer cancelPolls()
	var polling, upkeep sync.WaitGroup
	quit := make(chan struct{}) // ends upkeep
	for _, l := range w.lanes {
		for range w.opts.Pollers {
			polling.Go(func() { w.poll(polls, l) })
		}
		upkeep.Go(func() { w.keep(calls, l, quit) })
		for _, b := range []*batcher{l.deletes, l.releases, l.burials} {
			upkeep.Go(func() { b.run(calls, quit) })
		}
	}

	select {
	case <-ctx.Done():
		w.stopOnce.Do(func() { close(w.stopping) })
	case <-w.stopping:
	}
	// Order matters. Buffered messages go back first, since they wait for
	// nothing. Polls end by themselves and handlers finish; then both are cut,
	// with enough of the grace left to give back what they held. Upkeep stops last:
	// until then, what is held stays hidden and deletes are tried again.
	began := time.Now()
	w.beginStop()
	reserve := w.opts.reserve()
	if !w.wait(began.Add(w.opts.Grace - reserve)) {
		cancelPolls()
		cancelHandlers(ErrStopping)
		if !w.wait(began.Add(w.opts.Grace - reserve/2)) {
			w.abandon()
			w.wait(began.Add(w.opts.Grace - reserve/10))
		}
	}
	cancelCalls()
	close(quit)
	polling.Wait()
	upkeep.Wait()
	return w.ended(time.Since(began))
}

func (w *Worker) urls() []string {
	var urls []string
	for _, l := range w.lanes {
		urls = append(urls, l.url)
	}
	return urls
}

func (w *Worker) begin(handling context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		return errors.New("worker runs only once")
	}
	if len(w.handlers) == 0 && w.fallback == nil {
		w.mistakes = append(w.mistakes, errors.New("no handler"))
	}
	if len(w.mistakes) > 0 {
		return fmt.Errorf("worker handlers: %w", errors.Join(w.mistakes...))
	}
	w.started = true
	w.base = handling
	w.chain = guard(w.route)
	for _, mw := range slices.Backward(w.middleware) {
		w.chain = mw(w.chain)
	}
	w.chain = guard(w.chain)
	w.pollers = len(w.lanes) * w.opts.Pollers
	return nil
}

// beginStop gives back everything that was not started.
func (w *Worker) beginStop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = true
	n := 0
	for _, l := range w.lanes {
		for len(l.buffer) > 0 {
			e := l.buffer[0]
			l.buffer = l.buffer[1:]
			w.metrics.released.WithLabelValues(releaseStop).Inc()
			w.release(e, 0)
			n++
		}
	}
	w.log.Info("worker stopping", "running", w.running, "released", n, "grace", w.opts.Grace)
	w.checkDrained()
}

// abandon gives back the messages of handlers that ignore their contexts.
func (w *Worker) abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for e := range w.entries {
		if e.state != running {
			continue
		}
		w.log.Error("handler does not return; its message is given back", w.about(e)...)
		w.metrics.handled.WithLabelValues(w.label(e), outcomeInterrupted).Inc()
		w.release(e, 0)
	}
	w.checkDrained()
}

// wait reports whether everything was finished before the deadline.
func (w *Worker) wait(deadline time.Time) bool {
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case <-w.drained:
		return true
	case <-t.C:
		return false
	}
}

// checkDrained must be called with mu held.
func (w *Worker) checkDrained() {
	if w.closing && !w.isDrained && w.pollers == 0 && len(w.entries) == 0 {
		w.isDrained = true
		close(w.drained)
	}
}

// ended drops what is left, and says so.
func (w *Worker) ended(took time.Duration) error {
	w.mu.Lock()
	for e := range w.entries {
		w.log.Error("message left to its visibility timeout", append(w.about(e), "state", e.state.String())...)
		w.forget(e)
	}
	abandoned := w.running
	w.mu.Unlock()
	w.log.Info("worker stopped", "took", took)
	if abandoned > 0 {
		return fmt.Errorf("worker stopped with %d handlers still running after their contexts were cancelled", abandoned)
	}
	w.handling.Wait()
	return nil
}
