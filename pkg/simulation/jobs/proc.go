package jobs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/runner"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// errKilled is what a killed process's calls return: it never sees an answer.
var errKilled = errors.New("simulation: the process is dead")

// errUnknown is an outcome that nobody knows.
var errUnknown = errors.New("simulation: connection reset")

// Fault is what goes wrong with one call of the job store.
type Fault struct {
	Err   error         // answered; nothing is applied
	Lost  bool          // applied, and the answer is lost
	Delay time.Duration // before it is applied
	Stale time.Duration // how old a list is
}

// Proc is one start of one process. All its calls of stores and queues pass
// through it, so that it can be frozen and killed between any two of them, and
// sees the time through a clock of its own.
type Proc struct {
	Name   string
	Runner *runner.Runner

	w    *World
	view *membership.Manual
	ctx  context.Context // ends when it is killed
	kill context.CancelFunc
	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	offset time.Duration
	thaw   time.Time
	calls  int
	// stepping has room for one: steps are told one after the other.
	stepping chan struct{}
	// step is told of each call, once before it is applied and once after; true
	// kills the process there.
	step func(n int, op string) bool
}

func (p *Proc) now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.offset)
}

// Step moves the process's clock.
func (p *Proc) Step(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offset += by
}

// Freeze lets the process stand still, whatever contexts say.
func (p *Proc) Freeze(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(d); until.After(p.thaw) {
		p.thaw = until
	}
}

// Kill ends the process: no call of it is applied any more.
func (p *Proc) Kill() {
	p.kill()
	p.stop()
}

// Stop ends the process in good order and waits for it.
func (p *Proc) Stop() {
	p.stop()
	<-p.done
	p.kill()
}

func (p *Proc) still(op string) error {
	p.mu.Lock()
	d := time.Until(p.thaw)
	p.calls++
	n, step := p.calls, p.step
	p.mu.Unlock()
	if step != nil && p.ctx.Err() == nil {
		p.stepping <- struct{}{} // not a mutex: virtual time goes on for who waits here
		if step(n, op) {
			p.Kill()
		}
		<-p.stepping
	}
	if d > 0 {
		time.Sleep(d)
	}
	if p.ctx.Err() != nil {
		return errKilled
	}
	return nil
}

// do wraps one call.
func do[T any](ctx context.Context, p *Proc, op string, f func(ctx context.Context) (T, error)) (T, error) {
	var none T
	if err := p.still("before " + op); err != nil {
		return none, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	v, err := f(ctx)
	if dead := p.still("after " + op); dead != nil {
		return none, dead
	}
	return v, err
}

// jobsOf is the job store as one process reaches it.
type jobsOf struct {
	*table
	p *Proc
}

type writer struct{}

func faulty[T any](ctx context.Context, s jobsOf, op string, f func(ctx context.Context, fault Fault) (T, error)) (T, error) {
	return do(ctx, s.p, op, func(ctx context.Context) (T, error) {
		var none T
		fault := s.p.w.storeFault(op)
		if fault.Delay > 0 {
			t := time.NewTimer(fault.Delay)
			defer t.Stop()
			select {
			case <-t.C:
			case <-ctx.Done():
				return none, ctx.Err()
			}
		}
		if fault.Err != nil {
			return none, fault.Err
		}
		if err := ctx.Err(); err != nil {
			return none, err
		}
		v, err := f(ctx, fault)
		if fault.Lost {
			return none, errUnknown
		}
		return v, err
	})
}

// Job implements jobstore.Store.
func (s jobsOf) Job(ctx context.Context, id trigger.ID) (job.Job, error) {
	return faulty(ctx, s, "job", func(ctx context.Context, _ Fault) (job.Job, error) { return s.table.Job(ctx, id) })
}

// Run implements jobstore.Store.
func (s jobsOf) Run(ctx context.Context, id job.RunID) (job.Run, error) {
	return faulty(ctx, s, "run", func(ctx context.Context, _ Fault) (job.Run, error) { return s.table.Run(ctx, id) })
}

// Runs implements jobstore.Store.
func (s jobsOf) Runs(ctx context.Context, q jobstore.RunQuery) (jobstore.Page[job.Run], error) {
	return faulty(ctx, s, "runs", func(ctx context.Context, f Fault) (jobstore.Page[job.Run], error) {
		if f.Stale > 0 {
			return s.list(q, f.Stale), nil
		}
		return s.table.Runs(ctx, q)
	})
}

// Due implements jobstore.Store.
func (s jobsOf) Due(ctx context.Context, shard int, before time.Time, limit int) ([]jobstore.Wake, error) {
	return faulty(ctx, s, "due", func(ctx context.Context, _ Fault) ([]jobstore.Wake, error) {
		return s.table.Due(ctx, shard, before, limit)
	})
}

// Tenant implements jobstore.Records.
func (s jobsOf) Tenant(ctx context.Context, id string) (jobstore.Tenant, error) {
	return faulty(ctx, s, "tenant", func(ctx context.Context, _ Fault) (jobstore.Tenant, error) { return s.table.Tenant(ctx, id) })
}

// Commit implements jobstore.Store.
func (s jobsOf) Commit(ctx context.Context, tx jobstore.Tx) error {
	_, err := faulty(ctx, s, "commit", func(ctx context.Context, _ Fault) (struct{}, error) {
		return struct{}{}, s.table.Commit(context.WithValue(ctx, writer{}, s.p), tx)
	})
	return err
}

// queuesOf are the queues as one process reaches them.
type queuesOf struct{ p *Proc }

// Receive implements worker.Receiver.
func (q queuesOf) Receive(ctx context.Context, url string, o queue.ReceiveOptions) ([]queue.Received, error) {
	return do(ctx, q.p, "receive", func(ctx context.Context) ([]queue.Received, error) { return q.p.w.Queues.Receive(ctx, url, o) })
}

// Delete implements worker.Receiver.
func (q queuesOf) Delete(ctx context.Context, url string, receipts []string) []error {
	return each(ctx, q.p, "delete", len(receipts), func(ctx context.Context) []error { return q.p.w.Queues.Delete(ctx, url, receipts) })
}

// ChangeVisibility implements worker.Receiver.
func (q queuesOf) ChangeVisibility(ctx context.Context, url string, entries []queue.Visibility) []error {
	return each(ctx, q.p, "visibility", len(entries), func(ctx context.Context) []error {
		return q.p.w.Queues.ChangeVisibility(ctx, url, entries)
	})
}

func each(ctx context.Context, p *Proc, op string, n int, f func(ctx context.Context) []error) []error {
	errs, err := do(ctx, p, op, func(ctx context.Context) ([]error, error) { return f(ctx), nil })
	if err == nil {
		return errs
	}
	errs = make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// caller calls targets as one process: their answers are the world's.
type caller struct{ p *Proc }

// Ready implements runner.Caller.
func (c caller) Ready(_ context.Context, t job.Target) (time.Time, bool) { return c.p.w.ready(t) }

// Call implements runner.Caller.
func (c caller) Call(ctx context.Context, a runner.Attempt) target.Result {
	if err := c.p.still("before call"); err != nil {
		return target.Result{Kind: target.KindCancelled, Err: err}
	}
	ans := c.p.w.called(c.p, a)
	limit := a.Target.Timeout
	if limit == 0 {
		limit = job.DefaultTimeout
	}
	res := target.Result{StatusCode: ans.Code, Kind: ans.Kind, Excerpt: ans.Excerpt}
	if ans.RetryAfter > 0 {
		res.RetryAfter = &ans.RetryAfter
	}
	took := ans.Took
	if took >= limit {
		took, res = limit, target.Result{Kind: target.KindTimeout}
	}
	if res.Kind != target.KindNone {
		res.Err = errors.New(string(res.Kind))
	}
	t := time.NewTimer(took)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		res = target.Result{Kind: target.KindCancelled, Err: context.Cause(ctx)}
	case <-c.p.ctx.Done():
		return target.Result{Kind: target.KindCancelled, Err: errKilled}
	}
	if err := c.p.still("after call"); err != nil {
		return target.Result{Kind: target.KindCancelled, Err: err}
	}
	return res
}

// OnStep has f told of each call of the process, once before it is applied and
// once after ("before commit"); true kills the process there.
func (p *Proc) OnStep(f func(n int, op string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step = f
}
