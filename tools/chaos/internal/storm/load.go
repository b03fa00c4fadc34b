package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/audit"
)

const (
	maxDelay  = 40 * time.Second // how far ahead jobs are due
	burstSize = 60
	batchSize = 25
	// callFor bounds what a caller waits.
	callFor = time.Minute
)

// job is one submission of a caller.
type job struct {
	order audit.Order
	due   time.Time
	key   string // half of them have one, and are the same job when submitted again
}

// load submits jobs at the rate until live ends.
func (w *world) load(ctx, live context.Context) {
	const turns = 10 // a second
	tick := time.NewTicker(time.Second / turns)
	defer tick.Stop()
	began, made := time.Now(), 0
	for {
		select {
		case <-tick.C:
		case <-live.Done():
			return
		}
		// By the clock, so that a slow turn is made up for.
		n := int(time.Since(began).Seconds()*w.o.Rate) - made
		made += n
		var jobs []*job
		for range n {
			jobs = append(jobs, newJob(time.Now().Add(delay())))
		}
		w.submitAll(ctx, jobs)
	}
}

// burst submits jobs that are all due at one time.
func (w *world) burst(ctx context.Context, due time.Time) {
	var jobs []*job
	for range burstSize {
		jobs = append(jobs, newJob(due))
	}
	w.submitAll(ctx, jobs)
}

//nolint:gosec // load, not secrets.
func delay() time.Duration {
	if rand.N(5) == 0 { // comes late to a scheduler's reading ahead, or is due already
		return rand.N(2 * time.Second)
	}
	return rand.N(maxDelay)
}

//nolint:gosec // load, not secrets.
func newJob(due time.Time) *job {
	n := fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
	j := &job{due: due.UTC().Truncate(time.Millisecond)}
	j.order = audit.Order{Service: orders, Payload: fmt.Sprintf(`{"n":%q}`, n), Urgent: rand.N(5) == 0}
	if rand.N(3) == 0 {
		j.order.Service = parcels
	}
	if rand.N(2) == 0 {
		j.key = n
	}
	return j
}

// submitAll submits jobs in batches of their own goroutines, so that a caller
// who waits holds up no other.
func (w *world) submitAll(ctx context.Context, jobs []*job) {
	w.mu.Lock()
	w.submitted += len(jobs)
	w.mu.Unlock()
	for len(jobs) > 0 {
		part := jobs[:min(len(jobs), batchSize)]
		jobs = jobs[len(part):]
		w.calls.Go(func() { w.submit(ctx, part) })
	}
}

// submit hands jobs over in one batch, and has some of them changed later on.
func (w *world) submit(ctx context.Context, jobs []*job) {
	call, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	requests := make([]client.Request, len(jobs))
	for i, j := range jobs {
		requests[i] = j.request()
	}
	for i, r := range w.jobs.ScheduleBatch(call, requests) {
		j := jobs[i]
		var field *trigger.FieldError
		uncertain := errors.Is(r.Err, client.ErrUncertain)
		switch {
		case r.Err == nil, uncertain:
			j.order.ID = r.ID.String()
			w.ledger.Offer(j.order, j.due)
			w.journal.Note(j.order.ID, caller, fmt.Sprintf("submitted for %s, due at %.3fs: %v", j.order.Service, j.due.Sub(w.start).Seconds(), r.Err))
		case errors.As(r.Err, &field):
			w.ledger.Breach(fmt.Sprintf("%+v: a submission was refused: %v", j.order, r.Err))
		default:
			w.mu.Lock()
			w.refused++
			w.mu.Unlock()
		}
		switch {
		case r.Err == nil:
			w.ledger.Accepted(j.order.ID, r.Handle)
			w.change(ctx, j, r.Handle)
		case uncertain && j.key != "" && rand.N(2) == 0: //nolint:gosec // load.
			// A caller who must know repeats it, with its key.
			w.later(ctx, time.Now().Add(rand.N(5*time.Second)), func(ctx context.Context) { w.again(ctx, j) }) //nolint:gosec // load.
		}
	}
}

func (j *job) request() client.Request {
	opts := []client.Option{client.At(j.due), client.Name("order")}
	if j.key != "" {
		opts = append(opts, client.Key(j.key))
	}
	if j.order.Urgent {
		opts = append(opts, client.UrgentLane())
	}
	return client.Request{Service: j.order.Service, Payload: j.order.Payload, Options: opts}
}

// again submits a job once more, under its key.
func (w *world) again(ctx context.Context, j *job) {
	w.ledger.Offer(j.order, j.due)
	r := w.jobs.ScheduleBatch(ctx, []client.Request{j.request()})[0]
	w.journal.Note(j.order.ID, caller, fmt.Sprintf("submitted again: %v", r.Err))
	if r.Err == nil {
		w.ledger.Accepted(j.order.ID, r.Handle)
	}
}

// later makes a call of a caller at a time, a few at once.
func (w *world) later(ctx context.Context, at time.Time, call func(context.Context)) {
	w.calls.Go(func() {
		if !until(ctx, at) {
			return
		}
		w.busy <- struct{}{}
		defer func() { <-w.busy }()
		ctx, cancel := context.WithTimeout(ctx, callFor)
		defer cancel()
		call(ctx)
	})
}

// change cancels, moves or repeats some jobs.
func (w *world) change(ctx context.Context, j *job, handle string) {
	at := time.Now().Add(rand.N(max(time.Until(j.due), time.Millisecond) + time.Second/2)) //nolint:gosec // load.
	switch dice := rand.N(100); {                                                          //nolint:gosec // load.
	case dice < 6:
		w.later(ctx, at, func(ctx context.Context) { w.cancel(ctx, j, handle) })
	case dice < 12:
		w.later(ctx, at, func(ctx context.Context) { w.move(ctx, j, handle) })
	case dice < 14: // the handle of the submission finds it after a move too
		w.later(ctx, at, func(ctx context.Context) {
			w.move(ctx, j, handle)
			w.cancel(ctx, j, handle)
		})
	case dice < 18 && j.key != "":
		w.later(ctx, at, func(ctx context.Context) { w.again(ctx, j) })
	}
}

func (w *world) cancel(ctx context.Context, j *job, handle string) {
	w.journal.Note(j.order.ID, caller, "a cancel begins")
	res, err := w.jobs.Cancel(ctx, handle)
	w.ledger.Cancelled(j.order.ID, res, err)
	w.journal.Note(j.order.ID, caller, fmt.Sprintf("cancel: %s %v", res.Outcome, err))
}

func (w *world) move(ctx context.Context, j *job, handle string) {
	to := time.Now().Add(rand.N(maxDelay / 2)).UTC().Truncate(time.Millisecond) //nolint:gosec // load.
	w.ledger.Moving(j.order.ID, to)
	for ctx.Err() == nil {
		w.journal.Note(j.order.ID, caller, fmt.Sprintf("a move to %.3fs begins", to.Sub(w.start).Seconds()))
		moved, err := w.jobs.Reschedule(ctx, handle, to)
		w.journal.Note(j.order.ID, caller, fmt.Sprintf("move: %v", err))
		switch {
		case err == nil:
			w.ledger.Moved(j.order.ID, moved.Due)
			return
		case !errors.Is(err, client.ErrNotStored), time.Now().After(j.due):
			return // being delivered, delivered, or nobody knows
		}
		until(ctx, time.Now().Add(300*time.Millisecond))
	}
}
