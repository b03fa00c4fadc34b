package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// maxDelay is how far ahead jobs are due.
const maxDelay = 40 * time.Second

// order is what the ledger knows of one trigger.
type order struct {
	id, handle string
	due        time.Time // the one it is to be delivered at
	urgent     bool
	payload    string
	cancelled  bool // a cancel answered that it will not be delivered
	tooLate    bool // one answered that it may have been
	moved      bool
	twice      bool // submitted twice under one key
}

// ledger is what callers were told. Safe for concurrent use.
type ledger struct {
	w      *world
	mu     sync.Mutex
	orders map[string]*order
	faults []string       // answers that no caller should get
	calls  sync.WaitGroup // the load, and the cancels and moves that it brings
	slots  chan struct{}  // of them at once
}

func newLedger(w *world) *ledger {
	return &ledger{w: w, orders: make(map[string]*order), slots: make(chan struct{}, 4)}
}

func (l *ledger) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// submit hands jobs over in one batch. due answers the time of each.
func (l *ledger) submit(ctx context.Context, n int, due func(i int) time.Time) {
	var orders []*order
	var requests []client.Request
	for i := range n {
		o := &order{urgent: rand.N(5) == 0, due: due(i), payload: fmt.Sprintf(`{"n":%d}`, rand.Uint64())}
		opts := []client.Option{client.At(o.due), client.Name("order"), client.Header("n", fmt.Sprint(i))}
		if o.urgent {
			opts = append(opts, client.UrgentLane())
		}
		// A repeat is one job for as long as the first is stored: not if it may
		// be delivered before the repeat is drained.
		if o.twice = time.Until(o.due) > 15*time.Second && rand.N(40) == 0; o.twice {
			opts = append(opts, client.Key(o.payload))
		}
		r := client.Request{Service: service, Payload: o.payload, Options: opts}
		for range 1 + btoi(o.twice) {
			orders, requests = append(orders, o), append(requests, r)
		}
	}
	for i, r := range l.w.jobs.ScheduleBatch(ctx, requests) {
		o := orders[i]
		if r.Err != nil {
			l.fault("schedule: %v", r.Err)
			continue
		}
		l.mu.Lock()
		known := l.orders[r.ID.String()] != nil
		o.id, o.handle, o.due = r.ID.String(), r.Handle, r.Due
		l.orders[o.id] = o
		l.mu.Unlock()
		if !known && !o.twice {
			l.change(ctx, o)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// change cancels or moves some orders later on.
func (l *ledger) change(ctx context.Context, o *order) {
	var do func(context.Context)
	switch dice := rand.N(100); {
	case dice < 6:
		do = func(ctx context.Context) { l.cancel(ctx, o) }
	case dice < 12:
		do = func(ctx context.Context) { l.move(ctx, o) }
	case dice < 14: // the handle of the submission finds it after a move too
		do = func(ctx context.Context) {
			l.move(ctx, o)
			l.cancel(ctx, o)
		}
	default:
		return
	}
	at := time.Now().Add(rand.N(max(time.Until(o.due), time.Millisecond) + time.Second/2))
	l.calls.Go(func() {
		if !pause(ctx, at) {
			return
		}
		l.slots <- struct{}{}
		defer func() { <-l.slots }()
		do(ctx)
	})
}

func (l *ledger) cancel(ctx context.Context, o *order) {
	res, err := l.w.jobs.Cancel(ctx, o.handle)
	if err != nil {
		l.fault("cancel %s: %v", o.id, err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	o.cancelled = res.Outcome == client.OutcomeCancelled
	o.tooLate = res.Outcome == client.OutcomeTooLate
	// Being delivered: nothing was changed.
}

func (l *ledger) move(ctx context.Context, o *order) {
	to := time.Now().Add(rand.N(maxDelay / 2))
	for {
		moved, err := l.w.jobs.Reschedule(ctx, o.handle, to)
		var conflict *client.ConflictError
		switch {
		case err == nil:
			l.mu.Lock()
			defer l.mu.Unlock()
			o.due, o.moved = moved.Due, true
			return
		case errors.As(err, &conflict): // being delivered
			return
		case !errors.Is(err, client.ErrNotStored):
			l.fault("move %s: %v", o.id, err)
			return
		case time.Now().After(o.due): // delivered
			return
		}
		if !pause(ctx, time.Now().Add(200*time.Millisecond)) {
			return
		}
	}
}

// load submits jobs in the background until the given time, or the test's end.
func (l *ledger) load(until time.Time) {
	ctx, cancel := context.WithCancel(l.w.t.Context())
	l.w.t.Cleanup(func() {
		cancel()
		l.calls.Wait()
	})
	l.calls.Go(func() { l.run(ctx, until) })
}

// burstSize is how many triggers are due in the instant of a fault, so that
// there is something to lose.
const burstSize = 150

// burst submits triggers that are all due at one time.
func (l *ledger) burst(ctx context.Context, at time.Time) {
	l.submit(ctx, burstSize, func(int) time.Time { return at })
}

// run submits jobs at the engine's rate until the given time.
func (l *ledger) run(ctx context.Context, until time.Time) {
	const turns = 10 // a second
	tick := time.NewTicker(time.Second / turns)
	defer tick.Stop()
	began, submitted := time.Now(), 0
	for time.Now().Before(until) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		// By the clock, so that a slow turn is made up for.
		n := int(time.Since(began).Seconds()*float64(l.w.engine.rate)) - submitted
		submitted += n
		l.submit(ctx, n, func(int) time.Time {
			if rand.N(5) == 0 { // a fifth comes late to a scheduler's reading ahead, or is due already
				return time.Now().Add(rand.N(2 * time.Second))
			}
			return time.Now().Add(rand.N(maxDelay))
		})
	}
}

// lanes says which lane an order took.
func (o *order) lane() trigger.Lane {
	if o.urgent {
		return trigger.Urgent
	}
	return trigger.Standard
}
