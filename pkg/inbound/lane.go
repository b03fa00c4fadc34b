package inbound

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/myosin-jobs/myosin/pkg/batch"
	"github.com/myosin-jobs/myosin/pkg/dispatch"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const (
	insertBatch  = 25
	callTimeout  = 10 * time.Second
	ackLinger    = 20 * time.Millisecond
	deadWorkers  = 2
	backWorkers  = 2
	backTimeout  = 2 * time.Second
	retryMost    = 5 * time.Second
	backFirst    = 15 * time.Second
	backMost     = 5 * time.Minute
	emptyPause   = 50 * time.Millisecond // after a poll that ended early with nothing
	pausedLook   = time.Second           // between looks at the operator's switch
	pollFailMost = 15 * time.Second
)

// item is one message in hand. One goroutine at a time owns it.
type item struct {
	msg   queue.Received
	until time.Time // local; the message is not ours to work on after it
	tries int       // of the step it is in

	t       trigger.Trigger
	digest  digest
	busy    bool          // holds its trigger in Inbound.busy
	claimed trigger.State // what it was or may have been inserted as, if acquired
	at      time.Time     // of the claim
	unknown bool          // an insert of it may have been applied

	letter *DeadLetter // why it is to be dead-lettered
	cut    int         // how often the dead-letter queue refused it as too large

	back time.Duration // invisible for, when given back
}

// lane is everything one lane has for itself.
type lane struct {
	in     *Inbound
	id     trigger.Lane
	url    string
	writes *rate.Limiter
	d      *dispatch.Dispatcher
	crew   *crew
	tokens *tokens
	hold   *hold
	health *health

	inserts *batch.Batcher[*item]
	acks    *batch.Batcher[*item]
	dead    *batch.Batcher[*item]
	backs   *batch.Batcher[*item]

	working  context.Context // ends when a shutdown must hurry; set by Run
	stopping chan struct{}   // closed when a shutdown begins
	waits    sync.WaitGroup  // items that wait to be tried again

	claimBytes atomic.Int64 // of rows handed to the dispatcher

	mu        sync.Mutex
	pollErr   error
	pollFails time.Time // local; since when polls have been failing
}

func newLane(in *Inbound, id trigger.Lane, writes *rate.Limiter, d *dispatch.Dispatcher) (*lane, error) {
	o := &in.o
	l := &lane{
		in: in, id: id, url: o.URLs.Inbound[id], writes: writes, d: d, crew: newCrew(o.Pollers),
		tokens: newTokens(o.Clock.Local), hold: newHold(o.MaxHeld, o.MaxBytes), health: newHealth(o.Clock),
		stopping: make(chan struct{}),
	}
	l.tokens.setRate(l.rate(1))
	var errs [4]error
	batcher := func(size int, linger time.Duration, workers int, flush func([]*item)) batch.Options[*item] {
		return batch.Options[*item]{Size: size, Linger: linger, Workers: workers, Flush: flush}
	}
	l.inserts, errs[0] = batch.New(batcher(insertBatch, o.Linger, o.Workers, l.insert))
	l.acks, errs[1] = batch.New(batcher(queue.MaxBatch, ackLinger, 2*o.Pollers, l.delete)) // never slower than the receives
	l.dead, errs[2] = batch.New(batcher(queue.MaxBatch, o.Linger, deadWorkers, l.bury))
	l.backs, errs[3] = batch.New(batcher(queue.MaxBatch, o.Linger, backWorkers, l.giveBack))
	return l, errors.Join(errs[:]...)
}

// begin says in which context work in hand is done.
func (l *lane) begin(working context.Context) { l.working = working }

// rate is this process's part of what the fleet may drain, in submissions per
// second; 0: no limit. What could not be written is not received either.
func (l *lane) rate(members int) float64 {
	perSecond := l.in.o.Rate / float64(members)
	if w := l.in.o.StandardWrites; l.id == trigger.Standard && w > 0 && (perSecond == 0 || w < perSecond) {
		perSecond = w
	}
	return perSecond
}

// poll receives until ctx ends, while the crew needs this poller.
func (l *lane) poll(ctx context.Context, poller int) {
	failures := 0
	for l.crew.join(ctx, poller) {
		if l.in.isPaused() {
			pause(ctx, pausedLook)
			continue
		}
		began := l.in.o.Clock.Local()
		n, err := l.pollOnce(ctx)
		l.crew.found(n)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			failures++
			l.pollFailed(err)
			pause(ctx, jitter(min(pauseFirst<<min(failures, 10), pollFailMost)))
			continue
		}
		failures = 0
		l.pollFailed(nil)
		if n == 0 && l.in.o.Clock.Local().Sub(began) < emptyPause {
			pause(ctx, emptyPause) // an engine that does not wait, or a wait of zero
		}
	}
}

// pollOnce receives up to ten messages, as far as rate, memory and the table's
// health allow, and has them worked on. It returns how many came.
func (l *lane) pollOnce(ctx context.Context) (int, error) {
	probe, ok := l.health.admit(ctx)
	if !ok {
		return 0, nil
	}
	want := queue.MaxBatch
	if probe {
		want = 1
	}
	if !l.hold.reserve(ctx, want) {
		return 0, nil
	}
	// Tokens come first: what is received must not wait for them, invisible.
	took := l.tokens.take(ctx, want)
	if took == 0 {
		l.hold.release(want, 0)
		return 0, nil
	}
	o := &l.in.o
	msgs, err := o.Queue.Receive(ctx, l.url, queue.ReceiveOptions{Max: took, Wait: o.Wait, Visibility: o.Visibility})
	l.tokens.done(took, len(msgs))
	until := o.Clock.Local().Add(o.Visibility - margin)
	items := make([]*item, len(msgs))
	bytes := 0
	for i := range msgs {
		items[i] = &item{msg: msgs[i], until: until}
		bytes += len(msgs[i].Body)
	}
	l.hold.grow(bytes)
	l.hold.release(want-len(msgs), 0)
	if err != nil {
		err = fmt.Errorf("receive %s submissions: %w", l.id, err)
	}
	if len(items) == 0 {
		if probe {
			l.health.idle()
		}
		return 0, err
	}
	l.in.metrics.receivedN(l.id, len(items))
	if ctx.Err() != nil || l.in.isPaused() {
		for _, it := range items {
			l.release(it, 0)
		}
		if probe {
			l.health.idle()
		}
		return len(items), err
	}
	if l.check(items) == 0 && probe {
		l.health.idle()
	}
	return len(items), err
}

func (l *lane) pollFailed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && l.pollErr == nil {
		l.pollFails = l.in.o.Clock.Local()
		l.in.o.Log.Warn("inbound buffer cannot be received from", "lane", l.id.String(), "error", err)
	}
	l.pollErr = err
}

func (l *lane) pollError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pollErr == nil || l.in.o.Clock.Local().Sub(l.pollFails) < readyLate {
		return nil
	}
	return fmt.Errorf("inbound: %s: %w", l.id, l.pollErr)
}

// check decodes and judges messages and hands them on; it returns how many go
// to the table, now or later.
func (l *lane) check(items []*item) int {
	newest := items[0].msg.SentAt
	for _, it := range items[1:] {
		if it.msg.SentAt.After(newest) {
			newest = it.msg.SentAt
		}
	}
	counts, err := l.in.epochs.at(l.working, newest)
	if err != nil {
		l.tableFailed(err)
		for _, it := range items {
			l.later(it, l.checkOne)
		}
		return len(items)
	}
	n := 0
	for _, it := range items {
		if l.judge(it, counts) {
			n++
		}
	}
	return n
}

func (l *lane) checkOne(it *item) { l.check([]*item{it}) }

// judge decodes one message and hands it on: to the table, which it reports, or
// to the dead-letter queue.
func (l *lane) judge(it *item, counts trigger.Epochs) bool {
	t, err := trigger.DecodeInbound([]byte(it.msg.Body), it.msg.SentAt, counts.At)
	if err == nil && t.N > counts.Max() {
		// Nobody would scan such a row. A count just announced may be used early by
		// nobody either, but costs no more than a look.
		if counts, err = l.in.epochs.with(l.working, t.N); err != nil {
			l.tableFailed(err)
			l.later(it, l.checkOne)
			return true
		}
		if t.N > counts.Max() {
			err = &trigger.FieldError{Field: "n", Msg: fmt.Sprintf("%d; the table has %d partitions", t.N, counts.Max())}
		}
	}
	if err != nil {
		l.deadLetter(it, ReasonInvalid, err)
		return false
	}
	svc, err := l.lookup(t.Service)
	switch {
	case err == nil:
		if !svc.Allows(it.msg.SenderID) {
			l.deadLetter(it, ReasonSender, &trigger.FieldError{
				Field: "service", Msg: fmt.Sprintf("%s does not allow the sender %q", t.Service, clip(it.msg.SenderID, 128)),
			})
			return false
		}
	case errors.Is(err, registry.ErrUnknown): // stored, and parked by the schedulers
	default:
		l.later(it, l.checkOne) // who may send is not known now
		return true
	}
	it.t, it.digest = t, digestOf(&t)
	it.tries = 0
	l.inserts.Add(it)
	return true
}

func (l *lane) lookup(service string) (registry.Service, error) {
	ctx, cancel := context.WithTimeout(l.working, epochsTimeout)
	defer cancel()
	return l.in.o.Services.Lookup(ctx, service)
}

// tableFailed notes that the table did nothing of what was asked.
func (l *lane) tableFailed(err error) {
	if l.health.failed() {
		l.in.o.Log.Warn("trigger table fails: receiving stops until it answers", "lane", l.id.String(), "error", err)
	}
}

func (l *lane) tableWorked() {
	if l.health.worked() {
		l.in.o.Log.Info("trigger table answers again", "lane", l.id.String())
	}
}

// drain waits until nothing is in hand, or ctx ends.
func (l *lane) drain(ctx context.Context) error {
	if !l.hold.empty(ctx) {
		return fmt.Errorf("%s: %d messages in hand: %w", l.id, l.hold.held(), ctx.Err())
	}
	l.waits.Wait()
	for _, b := range []*batch.Batcher[*item]{l.inserts, l.dead, l.acks, l.backs} {
		b.Drain() // empty: waits for the workers to return
	}
	return nil
}
