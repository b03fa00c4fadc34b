package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/queue"
)

// Receiver is what a worker needs of a queue engine; [queue.Receiver] says how
// each method behaves.
type Receiver interface {
	Receive(ctx context.Context, url string, opts queue.ReceiveOptions) ([]queue.Received, error)
	Delete(ctx context.Context, url string, receipts []string) []error
	ChangeVisibility(ctx context.Context, url string, entries []queue.Visibility) []error
}

// Sender sends to the dead-letter queue; see [queue.Sender].
type Sender interface {
	SendBatch(ctx context.Context, url string, msgs []queue.Message) []error
}

// Options configure a [Worker]. Receiver and one queue URL are required.
type Options struct {
	// Receiver is the queue engine.
	Receiver Receiver
	// QueueURL is the service's queue.
	QueueURL string
	// UrgentQueueURL is the service's urgent queue; empty: none. Its messages
	// are started first, and have slots of their own (UrgentSlots).
	UrgentQueueURL string

	// Concurrency is the most handlers running at once, over both queues. Default 10.
	Concurrency int
	// UrgentSlots is how many of them only urgent messages may use, where there
	// is an urgent queue. Default a quarter of Concurrency, at least 1 if
	// Concurrency is above 1; negative: none.
	UrgentSlots int
	// Prefetch is the most messages buffered per queue beyond those running.
	// Default Concurrency; negative: none.
	Prefetch int
	// Pollers is the most receives under way per queue; idle, it is one.
	// Default: enough to fill Concurrency and Prefetch at once, at most 4.
	Pollers int

	// Visibility is how long a message stays hidden without an extension: how
	// late it comes again after a crash. Whole seconds, default 30 s.
	Visibility time.Duration
	// Wait is the long poll. Whole seconds up to 20 s, the default. Use 1 or 2
	// seconds on embedded engines, which do not wake a poll when a delay expires.
	Wait time.Duration
	// Timeout bounds one handler call by its context. 0: none but MaxAge.
	Timeout time.Duration
	// MaxAge is how long after its receive a message may be held before the
	// worker gives up with an error event. Default, and at most, 11 h 55 min.
	MaxAge time.Duration
	// Grace bounds a stop, contexts of handlers being cancelled a little
	// earlier (a fifth, at most 5 s). Keep it under the pod's
	// terminationGracePeriodSeconds, and its four fifths above Wait, or a stop
	// has to cut a long poll. Default 27 s.
	Grace time.Duration

	// DeadLetterURL is the queue for dead-letter results; see the package
	// comment for what happens without it. Needs Sender.
	DeadLetterURL string
	Sender        Sender

	// Backoff returns the delay before the retry of a message received attempt
	// times (from 1). It is rounded up to whole seconds. Default: 1 s doubling
	// up to 15 min, the upper half random.
	Backoff func(attempt int) time.Duration
	// Log receives events; never payloads. Default: none.
	Log *slog.Logger
	// Metrics registers the worker's metrics. Default: not registered. Two workers on
	// one registry need prometheus.WrapRegistererWith.
	Metrics prometheus.Registerer
	// Now is the wall clock lateness is measured by. Default time.Now.
	Now func() time.Time
}

const (
	// maxAge leaves five minutes under the ceiling of SQS to give up in good order.
	maxAge = queue.MaxVisibility - 5*time.Minute
	// callTimeout bounds one call to the engine beyond what it waits by design.
	callTimeout = 10 * time.Second
)

// Validate reports every problem, joined.
func (o *Options) Validate() error {
	var errs []error
	check := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	whole := func(d time.Duration) bool { return d%time.Second == 0 }
	check(o.Receiver == nil, "receiver is missing")
	check(o.QueueURL == "" && o.UrgentQueueURL == "", "queue URL is missing")
	check(o.QueueURL != "" && o.QueueURL == o.UrgentQueueURL, "queue URL and urgent queue URL are the same")
	check(o.Concurrency < 0, "concurrency is %d; want 1 or more", o.Concurrency)
	check(o.UrgentSlots > 0 && o.UrgentSlots >= o.withDefaults().Concurrency,
		"urgent slots are %d; want fewer than concurrency", o.UrgentSlots)
	check(o.Pollers < 0, "pollers are %d; want 1 or more", o.Pollers)
	check(o.Visibility < 0 || o.Visibility > queue.MaxVisibility || !whole(o.Visibility),
		"visibility is %s; want whole seconds up to %s", o.Visibility, queue.MaxVisibility)
	check(o.Wait < 0 || o.Wait > queue.MaxWait || !whole(o.Wait), "wait is %s; want whole seconds up to %s", o.Wait, queue.MaxWait)
	check(o.Timeout < 0, "timeout is %s; want 0 or more", o.Timeout)
	check(o.MaxAge < 0 || o.MaxAge > maxAge, "max age is %s; want up to %s", o.MaxAge, maxAge)
	check(o.Grace < 0, "grace is %s; want 0 or more", o.Grace)
	check(o.DeadLetterURL != "" && o.Sender == nil, "dead-letter URL without a sender")
	if len(errs) > 0 {
		return fmt.Errorf("worker options: %w", errors.Join(errs...))
	}
	return nil
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func (o *Options) withDefaults() Options {
	d := *o
	orDefault(&d.Concurrency, 10)
	orDefault(&d.UrgentSlots, (d.Concurrency+3)/4)
	d.UrgentSlots = max(min(d.UrgentSlots, d.Concurrency-1), 0)
	if d.UrgentQueueURL == "" {
		d.UrgentSlots = 0
	}
	orDefault(&d.Prefetch, d.Concurrency)
	d.Prefetch = max(d.Prefetch, 0)
	orDefault(&d.Pollers, min((d.Concurrency+d.Prefetch+queue.MaxBatch-1)/queue.MaxBatch, 4))
	orDefault(&d.Visibility, 30*time.Second)
	orDefault(&d.Wait, queue.MaxWait)
	orDefault(&d.MaxAge, maxAge)
	orDefault(&d.Grace, 27*time.Second)
	if d.Backoff == nil {
		d.Backoff = func(attempt int) time.Duration { return jittered(time.Second, 15*time.Minute, attempt) }
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return d
}

// reserve is the end of the grace period kept for giving messages back.
func (o *Options) reserve() time.Duration { return min(o.Grace/5, 5*time.Second) }

// jittered is exponential backoff for attempt 1, 2, …: first doubling up to
// limit, the upper half random so that failures do not march in step.
func jittered(first, limit time.Duration, attempt int) time.Duration {
	d := limit
	if shift := max(attempt-1, 0); shift < 32 && first<<shift < limit {
		d = first << shift
	}
	return d - rand.N(d/2+1) //nolint:gosec // spreads load; nothing secret.
}
