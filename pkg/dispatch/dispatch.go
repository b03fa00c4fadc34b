// Package dispatch owns what happens to a claimed trigger: it waits for the due
// time, is sent with its neighbours to its service's queue, and is completed,
// released or buried, in batches. It also holds the gates: per service, the
// rate limit, the breaker and what the registry says.
//
// It never sends on a claim it does not hold, never starts a send on a claim
// older than the limit, and never blocks whoever adds claims; callers bound
// what they add by [Dispatcher.Room]. Safe for concurrent use.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/myosin-jobs/myosin/pkg/batch"
	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Outcome says how a claim ended.
type Outcome uint8

// The outcomes.
const (
	// Delivered: the service queue took it, and the row is deleted (or no longer ours).
	Delivered Outcome = iota + 1
	// Released: not delivered; the row waits again, as Claim.ReleasedTo.
	Released
	// Buried: it can never be sent; the row is dead, with the reason.
	Buried
	// Dropped: the claim was given up as it is; the sweep recovers the row.
	Dropped
)

// String returns the outcome's name in metrics.
func (o Outcome) String() string {
	return [...]string{"none", "delivered", "released", "buried", "dropped"}[o]
}

// Claim is one acquired row.
type Claim struct {
	Key     trigger.Key   // of the row as it lies in the table
	Row     store.Row     // State is what it was acquired from: S or S!
	Claimed trigger.State // what is in the table: A.<owner>.<ms>
	At      time.Time     // when it was acquired, by the process's clock
	// Done is called once, when the claim has ended. It must not block.
	Done func(*Claim, Outcome)
	// ReleasedTo is the state a released row was left in.
	ReleasedTo trigger.State

	maybeSent bool // an earlier send of this claim may have arrived
	tries     int  // sends
	readyAt   time.Time
	msg       queue.Message
	size      int
	finish    finish
}

// Table is what dispatching needs of the store.
type Table interface {
	Write(ctx context.Context, ops []store.Op) []store.Result
	Bury(ctx context.Context, key trigger.Key, from trigger.State, reason string, expires time.Time) store.Result
}

// Options configure a [Dispatcher] of one lane.
type Options struct {
	Lane   trigger.Lane
	Table  Table
	Sender queue.Sender
	Gates  *Gates
	Clock  *clock.Clock
	// Linger is how long a due message waits for company. Default 5 ms.
	Linger time.Duration
	// FinishLinger is the same for completions and releases. Default 20 ms.
	FinishLinger time.Duration
	// MaxClaimAge is the age above which no send is started on a claim. Default 20 s.
	MaxClaimAge time.Duration
	// SendTimeout bounds one send. Default 10 s. With MaxClaimAge it must stay
	// well below the age at which other processes recover a claim.
	SendTimeout time.Duration
	// SendsPerService bounds concurrent sends to one service. Default 16; FIFO
	// services have one at a time, which keeps their order.
	SendsPerService int
	// FinishWorkers bounds concurrent batches of completions. Default 8.
	FinishWorkers int
	// Writes is the lane's share of the table's write capacity; nil: no bound.
	Writes *rate.Limiter
	// DeadFor is how long dead rows are kept. Default 14 days.
	DeadFor time.Duration
	Log     *slog.Logger
	Metrics *Metrics
}

func (o *Options) setDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.Linger, 5*time.Millisecond)
	def(&o.FinishLinger, 20*time.Millisecond)
	def(&o.MaxClaimAge, 20*time.Second)
	def(&o.SendTimeout, 10*time.Second)
	def(&o.DeadFor, 14*24*time.Hour)
	if o.SendsPerService == 0 {
		o.SendsPerService = 16
	}
	if o.FinishWorkers == 0 {
		o.FinishWorkers = 8
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Validate reports every option that is missing or outside its range.
func (o *Options) Validate() error {
	var errs []error
	for name, missing := range map[string]bool{
		"Table": o.Table == nil, "Sender": o.Sender == nil, "Gates": o.Gates == nil, "Clock": o.Clock == nil,
	} {
		if missing {
			errs = append(errs, fmt.Errorf("dispatch: %s is missing", name))
		}
	}
	if o.Linger < 0 || o.Linger > time.Second {
		errs = append(errs, fmt.Errorf("dispatch: Linger is %s; want 0 to 1s", o.Linger))
	}
	if o.MaxClaimAge < 0 || o.SendTimeout < 0 || o.MaxClaimAge+o.SendTimeout > 50*time.Second {
		errs = append(errs, fmt.Errorf("dispatch: MaxClaimAge %s and SendTimeout %s add up to more than 50s; claims are recovered by others after 60s", o.MaxClaimAge, o.SendTimeout))
	}
	return errors.Join(errs...)
}

// Dispatcher delivers the claims of one lane.
type Dispatcher struct {
	o        Options
	finishes *batch.Batcher[*Claim]
	sends    *batch.Pool

	mu       sync.Mutex
	idle     *sync.Cond
	services map[string]*sendQueue
	open     int // claims added and not ended
	draining bool
	giveUp   context.Context // ends when a drain runs out of time
	hurry    context.CancelFunc
}

// New returns a dispatcher, or the joined errors of its options.
func New(o Options) (*Dispatcher, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	d := &Dispatcher{o: o, services: make(map[string]*sendQueue), sends: batch.NewPool()}
	d.idle = sync.NewCond(&d.mu)
	d.giveUp, d.hurry = context.WithCancel(context.Background()) //nolint:gosec // a Drain that runs out of time calls hurry.
	var err error
	d.finishes, err = batch.New(batch.Options[*Claim]{
		Size: 25, Linger: o.FinishLinger, Workers: o.FinishWorkers, Flush: d.flushFinishes,
	})
	return d, err
}

// Add takes over a claim. It does not block.
func (d *Dispatcher) Add(c *Claim) {
	c.readyAt = c.Row.Due
	d.mu.Lock()
	d.open++
	q := d.services[c.Row.Service]
	if q == nil {
		q = newSendQueue(d, c.Row.Service)
		d.services[c.Row.Service] = q
	}
	d.mu.Unlock()
	q.push(c)
}

// Bury ends a claim as dead without sending it.
func (d *Dispatcher) Bury(c *Claim, reason string) {
	d.mu.Lock()
	d.open++
	d.mu.Unlock()
	d.bury(c, reason)
}

// Room is how many more claims of a service should be acquired now: about two
// seconds' worth of what its queue has been taking, at least minUnsent, less
// what is acquired and unsent.
func (d *Dispatcher) Room(service string) int {
	d.mu.Lock()
	q := d.services[service]
	d.mu.Unlock()
	if q == nil {
		return minUnsent
	}
	return q.room()
}

// Unsent is how many claims of a service wait to be sent or are being sent.
func (d *Dispatcher) Unsent(service string) int {
	d.mu.Lock()
	q := d.services[service]
	d.mu.Unlock()
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.unsent
}

// Open is the number of claims that have not ended.
func (d *Dispatcher) Open() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open
}

// Drain sends what is acquired and due within its time, finishes it, and
// releases what cannot be sent; it returns when every claim has ended. When ctx
// ends first, open claims are dropped (the sweep of another process recovers
// them) and the context's error is returned. Nothing may be added meanwhile.
func (d *Dispatcher) Drain(ctx context.Context) error {
	stop := context.AfterFunc(ctx, d.hurry)
	defer stop()
	d.mu.Lock()
	d.draining = true
	queues := make([]*sendQueue, 0, len(d.services))
	for _, q := range d.services {
		queues = append(queues, q)
	}
	d.mu.Unlock()
	for _, q := range queues {
		q.poke()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.open > 0 { // bounded: sends by SendTimeout, all else by giveUp
		d.idle.Wait()
	}
	d.sends.Close()
	d.finishes.Close()
	return ctx.Err()
}

func (d *Dispatcher) isDraining() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.draining
}

// end reports a claim's outcome and forgets it.
func (d *Dispatcher) end(c *Claim, o Outcome) {
	d.o.Metrics.ended(d.o.Lane, o)
	if c.Done != nil {
		c.Done(c, o)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open--; d.open == 0 {
		d.idle.Broadcast()
	}
}
