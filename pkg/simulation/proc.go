package simulation

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// errKilled is what a killed process's calls return: it never sees an answer.
var errKilled = errors.New("simulation: the process is dead")

// process is one start of one process. All its calls of the table and the
// queues pass through it, so that it can be stopped, frozen and killed between
// any two of them, and sees time through a clock of its own.
type process struct {
	w     *world
	name  string
	clock *clock.Clock
	ctx   context.Context // ends when it is killed
	kill  context.CancelFunc

	mu     sync.Mutex
	offset time.Duration
	thaw   time.Time // frozen until

	leaving atomic.Bool // stopped or killed for good

	stop func()        // asks it to shut down, as SIGTERM does
	done chan struct{} // closed when its Run has returned
}

func (w *world) newProcess(name string, offset time.Duration) *process {
	p := &process{w: w, name: name, offset: offset, done: make(chan struct{})}
	p.ctx, p.kill = context.WithCancel(context.Background())
	p.clock = clock.New(p.local)
	return p
}

func (p *process) local() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.offset)
}

func (p *process) step(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offset += by
}

func (p *process) freeze(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(d); until.After(p.thaw) {
		p.thaw = until
	}
}

// still stands still while the process is frozen, whatever contexts say, and
// tells whether it is dead.
func (p *process) still() error {
	p.mu.Lock()
	d := time.Until(p.thaw)
	p.mu.Unlock()
	if d > 0 {
		time.Sleep(d)
	}
	if p.ctx.Err() != nil {
		return errKilled
	}
	return nil
}

// call wraps one call of the process: it may be frozen before and after, and
// learns the table's time from the answer.
func call[T any](ctx context.Context, p *process, f func(ctx context.Context) T, dead func(error) T) T {
	if err := p.still(); err != nil {
		return dead(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	sent := p.local()
	out := f(ctx)
	now := time.Now()
	if err := p.still(); err != nil {
		return dead(err)
	}
	p.clock.Observe(now.UTC().Truncate(time.Second), sent, p.local())
	return out
}

// table is the trigger table as one process reaches it.
type table struct {
	p     *process
	inner *memstore.Store
}

var _ store.Store = table{}

type answer[T any] struct {
	v   T
	err error
}

func killed[T any](err error) answer[T] { return answer[T]{err: err} }

func failed(err error) store.Result { return store.Result{Err: err} }

// Write implements store.Store.
func (t table) Write(ctx context.Context, ops []store.Op) []store.Result {
	return call(ctx, t.p, func(ctx context.Context) []store.Result { return t.inner.Write(ctx, ops) }, func(err error) []store.Result {
		rs := make([]store.Result, len(ops))
		for i := range rs {
			rs[i].Err = err
		}
		return rs
	})
}

// Range implements store.Store.
func (t table) Range(ctx context.Context, r store.Range) (store.Page, error) {
	a := call(ctx, t.p, func(ctx context.Context) (a answer[store.Page]) { a.v, a.err = t.inner.Range(ctx, r); return a }, killed[store.Page])
	return a.v, a.err
}

// Get implements store.Store.
func (t table) Get(ctx context.Context, k trigger.Key) (*store.Row, error) {
	a := call(ctx, t.p, func(ctx context.Context) (a answer[*store.Row]) { a.v, a.err = t.inner.Get(ctx, k); return a }, killed[*store.Row])
	return a.v, a.err
}

// Cancel implements store.Store.
func (t table) Cancel(ctx context.Context, k trigger.Key, from, to trigger.State, x time.Time) store.Result {
	return call(ctx, t.p, func(ctx context.Context) store.Result { return t.inner.Cancel(ctx, k, from, to, x) }, failed)
}

// PutTombstone implements store.Store.
func (t table) PutTombstone(ctx context.Context, h trigger.Handle, s trigger.State, x time.Time) (time.Time, store.Result) {
	type put struct {
		at time.Time
		r  store.Result
	}
	a := call(ctx, t.p, func(ctx context.Context) (a put) { a.at, a.r = t.inner.PutTombstone(ctx, h, s, x); return a },
		func(err error) put { return put{r: failed(err)} })
	return a.at, a.r
}

// SetState implements store.Store.
func (t table) SetState(ctx context.Context, k trigger.Key, from, to trigger.State, x time.Time) store.Result {
	return call(ctx, t.p, func(ctx context.Context) store.Result { return t.inner.SetState(ctx, k, from, to, x) }, failed)
}

// Bury implements store.Store.
func (t table) Bury(ctx context.Context, k trigger.Key, from trigger.State, reason string, x time.Time) store.Result {
	return call(ctx, t.p, func(ctx context.Context) store.Result { return t.inner.Bury(ctx, k, from, reason, x) }, failed)
}

// Move implements store.Store.
func (t table) Move(ctx context.Context, old trigger.Key, from trigger.State, next *store.Row, x time.Time) store.MoveResult {
	return call(ctx, t.p, func(ctx context.Context) store.MoveResult { return t.inner.Move(ctx, old, from, next, x) },
		func(err error) store.MoveResult { return store.MoveResult{Err: err} })
}

// Dead implements store.Store.
func (t table) Dead(ctx context.Context, service string, after *trigger.Key, limit int) (store.Page, error) {
	a := call(ctx, t.p, func(ctx context.Context) (a answer[store.Page]) {
		a.v, a.err = t.inner.Dead(ctx, service, after, limit)
		return a
	}, killed[store.Page])
	return a.v, a.err
}

// Epochs implements store.Store.
func (t table) Epochs(ctx context.Context) (trigger.Epochs, error) {
	a := call(ctx, t.p, func(ctx context.Context) (a answer[trigger.Epochs]) { a.v, a.err = t.inner.Epochs(ctx); return a }, killed[trigger.Epochs])
	return a.v, a.err
}

// SetEpochs implements store.Store.
func (t table) SetEpochs(ctx context.Context, old, next trigger.Epochs) error {
	return call(ctx, t.p, func(ctx context.Context) error { return t.inner.SetEpochs(ctx, old, next) }, func(err error) error { return err })
}

// queues are the queues as one process reaches them.
type queues struct{ p *process }

// SendBatch implements queue.Sender.
func (q queues) SendBatch(ctx context.Context, url string, msgs []queue.Message) []error {
	q.p.w.audit.sending(q.p, msgs)
	return call(ctx, q.p, func(ctx context.Context) []error {
		q.p.w.audit.sending(q.p, msgs) // again: it may have been frozen in between
		return q.p.w.queues.SendBatch(ctx, url, msgs)
	}, every(len(msgs)))
}

func every(n int) func(error) []error {
	return func(err error) []error {
		errs := make([]error, n)
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
}

// Receive implements queue.Receiver. What a killed process was handed stays
// invisible for its visibility timeout.
func (q queues) Receive(ctx context.Context, url string, o queue.ReceiveOptions) ([]queue.Received, error) {
	a := call(ctx, q.p, func(ctx context.Context) (a answer[[]queue.Received]) {
		a.v, a.err = q.p.w.queues.Receive(ctx, url, o)
		return a
	}, killed[[]queue.Received])
	return a.v, a.err
}

// Delete implements queue.Receiver.
func (q queues) Delete(ctx context.Context, url string, receipts []string) []error {
	return call(ctx, q.p, func(ctx context.Context) []error { return q.p.w.queues.Delete(ctx, url, receipts) }, every(len(receipts)))
}

// ChangeVisibility implements queue.Receiver.
func (q queues) ChangeVisibility(ctx context.Context, url string, entries []queue.Visibility) []error {
	return call(ctx, q.p, func(ctx context.Context) []error { return q.p.w.queues.ChangeVisibility(ctx, url, entries) }, every(len(entries)))
}
