// Package memqueue is an in-memory queue engine with the semantics of SQS, for
// simulations and tests: visibility timeouts, receive counts, redrive to a
// dead-letter queue, delays, FIFO groups and deduplication, fair queues, long
// polls, and SQS's own validation.
//
// It owns the messages; nothing is stored elsewhere. It injects faults on
// demand: refusals, unknown outcomes, lost replies, slow calls, duplicate
// delivery and reordering (see [Fault]).
//
// Every method may be called concurrently. Waits use timers and channels only
// and no lock is held meanwhile, so an engine made inside a testing/synctest
// bubble runs in virtual time. Operations cost O(log n) in the messages held.
package memqueue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
)

// Options configure an [Engine]. The zero value is usable.
type Options struct {
	// Now is the queue's own clock: it stamps SentAt and ends delays and
	// visibility. It may stand apart from time.Now but must advance at the same
	// pace, because waits use timers. nil: time.Now.
	Now func() time.Time
	// SenderID is what receivers see as the sender of [Engine.SendBatch].
	// Empty: "memqueue".
	SenderID string
	// Retention is how long a message is kept. 0: 14 days.
	Retention time.Duration
	// MaxInFlight is the in-flight limit of a queue: above it a short poll fails
	// with ErrThrottled and a long poll stays empty. 0: 120,000.
	MaxInFlight int
	// Faults is asked before every operation and for every entry of one, without
	// a lock held; concurrent calls happen. nil: no faults.
	Faults func(Entry) Fault
	// OnSend is called for each message really enqueued, once, before anyone can
	// receive it. Deduplicated sends, redrives and injected duplicates are not
	// enqueued anew. It runs under the engine's lock: it must not call the engine.
	OnSend func(url string, m queue.Message)
}

// Engine is a set of in-memory queues.
type Engine struct {
	opts Options

	mu      sync.Mutex
	queues  map[string]*memQueue // by URL
	deleted map[string]queue.Spec
	seq     uint64 // messages ever held
	made    uint64 // queues ever made
}

var _ queue.Queues = (*Engine)(nil)

// New returns an engine without queues.
func New(opts Options) *Engine {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.SenderID == "" {
		opts.SenderID = "memqueue"
	}
	if opts.Retention <= 0 {
		opts.Retention = 14 * 24 * time.Hour
	}
	if opts.MaxInFlight <= 0 {
		opts.MaxInFlight = 120_000
	}
	return &Engine{opts: opts, queues: map[string]*memQueue{}, deleted: map[string]queue.Spec{}}
}

const (
	urlPrefix         = "http://memqueue/000000000000/"
	defaultVisibility = 30 * time.Second
	dedupWindow       = 5 * time.Minute
)

func (e *Engine) lookup(url string) (*memQueue, error) {
	q := e.queues[url]
	if q == nil {
		return nil, fmt.Errorf("memqueue %s: %w", url, queue.ErrMissing)
	}
	return q, nil
}

// Create implements queue.Queues. A queue that exists is left as it is.
func (e *Engine) Create(ctx context.Context, s queue.Spec) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := validSpec(s); err != nil {
		return "", fmt.Errorf("create queue %q: %w", s.Name, err)
	}
	if s.Visibility == 0 {
		s.Visibility = defaultVisibility
	}
	url := urlPrefix + s.Name
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.queues[url] == nil {
		e.made++
		e.queues[url] = newMemQueue(e, url, s, e.made)
		delete(e.deleted, url)
	}
	return url, nil
}

func validSpec(s queue.Spec) error {
	var errs []error
	base := strings.TrimSuffix(s.Name, ".fifo")
	if s.FIFO != (base != s.Name) {
		errs = append(errs, errors.New("FIFO names end in .fifo, others do not"))
	}
	if base == "" || len(s.Name) > 80 || strings.ContainsFunc(base, func(r rune) bool { return !nameRune(r) }) {
		errs = append(errs, errors.New("name: want 1 to 80 of letters, digits, '-' and '_'"))
	}
	if s.Visibility < 0 || s.Visibility > queue.MaxVisibility {
		errs = append(errs, fmt.Errorf("visibility %s; want 0 to %s", s.Visibility, queue.MaxVisibility))
	}
	if s.Delay < 0 || s.Delay > queue.MaxDelay {
		errs = append(errs, fmt.Errorf("delay %s; want 0 to %s", s.Delay, queue.MaxDelay))
	}
	return errors.Join(errs...)
}

// URL implements queue.Queues.
func (e *Engine) URL(ctx context.Context, name string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	q, err := e.lookup(urlPrefix + name)
	if err != nil {
		return "", err
	}
	return q.url, nil
}

// Depth implements queue.Queues. The counts are exact, but for messages past
// their retention, which are counted until a receive comes upon them.
func (e *Engine) Depth(ctx context.Context, url string) (queue.Depth, error) {
	f := e.fault(Entry{Op: OpDepth, URL: url})
	if err := f.before(ctx); err != nil {
		return queue.Depth{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	q, err := e.lookup(url)
	if err != nil {
		return queue.Depth{}, err
	}
	q.promote(e.opts.Now())
	return queue.Depth{Visible: q.count[visible], InFlight: q.count[inFlight], Delayed: q.count[delayed]}, nil
}

// DeleteQueue implements queue.Queues: the messages are gone, and receives that
// wait on the queue end with ErrMissing.
func (e *Engine) DeleteQueue(ctx context.Context, url string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	q, err := e.lookup(url)
	if err != nil {
		return err
	}
	delete(e.queues, url)
	e.deleted[url] = q.spec
	for q.wakeOne() {
	}
	return nil
}

// Recreate makes a deleted queue again, empty, as it was specified. A queue
// that exists is left as it is.
func (e *Engine) Recreate(ctx context.Context, url string) error {
	e.mu.Lock()
	spec, gone := e.deleted[url]
	_, err := e.lookup(url)
	e.mu.Unlock()
	if !gone {
		return err
	}
	_, err = e.Create(ctx, spec)
	return err
}

// Messages returns copies of all messages held in a queue, in whatever state,
// in no order; nil if there is no such queue. For assertions.
func (e *Engine) Messages(url string) []queue.Message {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.queues[url]
	if q == nil {
		return nil
	}
	out := make([]queue.Message, 0, len(q.live))
	for _, m := range q.live {
		out = append(out, queue.Message{Body: m.body, Attributes: maps.Clone(m.attrs), Group: m.group})
	}
	return out
}

// SendAs returns a view of the engine that sends under another SenderID.
func (e *Engine) SendAs(senderID string) queue.Sender { return sender{e, senderID} }

type sender struct {
	e  *Engine
	id string
}

// SendBatch implements queue.Sender.
func (s sender) SendBatch(ctx context.Context, url string, msgs []queue.Message) []error {
	return s.e.send(ctx, s.id, url, msgs)
}
