package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Sender sends messages to a queue; see queue.Sender for the contract.
type Sender interface {
	SendBatch(ctx context.Context, url string, msgs []queue.Message) []error
}

// Services looks owning services up. An error that wraps registry.ErrUnknown
// means that there is no such service.
type Services interface {
	Lookup(ctx context.Context, name string) (registry.Service, error)
}

// Partitions reads the partition epochs of the trigger table.
type Partitions interface {
	Epochs(ctx context.Context) (trigger.Epochs, error)
}

// Options configure a [Client].
type Options struct {
	// Sender sends submissions, and direct messages. Required.
	Sender Sender
	// InboundURL is the queue for standard submissions. Required.
	InboundURL string
	// UrgentInboundURL is the queue for urgent ones. Empty: urgent jobs are refused.
	UrgentInboundURL string
	// Services checks that a service exists before anything is sent to it, and
	// knows its queues for Direct. nil: services are not checked, Direct fails.
	Services Services
	// Partitions tells the partition counts of the table, which handles and
	// submissions hold. nil: Triggers is asked where it can tell, as HTTP and
	// Table can.
	//
	// Beware: with neither, every job goes out with trigger.DefaultPartitions
	// (64). The drain refuses a count above the table's own, so that on a table
	// made with fewer (standalone has 4) Schedule succeeds and each job ends in
	// the inbound dead-letter queue.
	Partitions Partitions
	// PartitionsFor is how long an answer of Partitions is used before it is asked
	// again. Default 15 s. A new count is announced a minute before it comes into
	// force, and an old count still finds its rows: while Partitions is slow or
	// fails, the last answer goes on being used. Without any, Schedule fails.
	PartitionsFor time.Duration
	// Triggers looks up, moves and cancels. nil: those calls give ErrNoTriggers.
	// See Partitions for what else it may be asked.
	Triggers Triggers
	// AttemptTimeout bounds one attempt to send. Default 20 s; at most 25 s, since
	// the buffer refuses a submission whose time stamp is over 30 s off.
	AttemptTimeout time.Duration
	// Attempts bounds how often a submission is sent. Default 6, over about five
	// seconds where each fails at once. The caller's context ends it earlier.
	Attempts int
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// NewID makes the ids of jobs without a Key. Default trigger.NewID.
	NewID func() trigger.ID
}

// Validate reports every option at fault, joined.
func (o *Options) Validate() error {
	var errs []error
	if o.Sender == nil {
		errs = append(errs, errors.New("option Sender is required"))
	}
	if o.InboundURL == "" {
		errs = append(errs, errors.New("option InboundURL is required"))
	}
	if o.PartitionsFor < 0 || o.PartitionsFor > time.Minute {
		errs = append(errs, fmt.Errorf("option PartitionsFor is %s; want 0 (default) to 1m", o.PartitionsFor))
	}
	if o.AttemptTimeout < 0 || o.AttemptTimeout > 25*time.Second {
		errs = append(errs, fmt.Errorf("option AttemptTimeout is %s; want 0 (default) to 25s", o.AttemptTimeout))
	}
	if o.Attempts < 0 {
		errs = append(errs, fmt.Errorf("option Attempts is %d; want 0 (default) or more", o.Attempts))
	}
	return errors.Join(errs...)
}

// Client schedules jobs, and looks up, moves and cancels them. It holds no
// goroutine and needs no closing.
type Client struct {
	o      Options
	epochs epochCache
}

// New returns a client.
func New(o Options) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if o.PartitionsFor == 0 {
		o.PartitionsFor = 15 * time.Second
	}
	if o.AttemptTimeout == 0 {
		o.AttemptTimeout = 20 * time.Second
	}
	if o.Attempts == 0 {
		o.Attempts = 6
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = trigger.NewID
	}
	if o.Partitions == nil {
		o.Partitions, _ = o.Triggers.(Partitions)
	}
	c := &Client{o: o}
	c.epochs.source, c.epochs.keep = o.Partitions, o.PartitionsFor
	return c, nil
}

// Cancel tries to keep a job from being delivered. Read the outcome: only
// [OutcomeCancelled] says that it was not delivered and never will be.
func (c *Client) Cancel(ctx context.Context, handle string) (CancelResult, error) {
	h, err := c.target(handle)
	if err != nil {
		return CancelResult{}, fmt.Errorf("cancel: %w", err)
	}
	return c.o.Triggers.Cancel(ctx, h)
}

// Reschedule moves a job that still waits to another due time, and returns its
// new handle; the old one goes on working. Errors a caller may branch on:
// [*ConflictError], [ErrNotStored], [*trigger.FieldError] for due.
func (c *Client) Reschedule(ctx context.Context, handle string, due time.Time) (Scheduled, error) {
	h, err := c.target(handle)
	if err != nil {
		return Scheduled{}, fmt.Errorf("reschedule: %w", err)
	}
	return c.o.Triggers.Reschedule(ctx, h, due)
}

// Get looks a job up. [ErrNotFound] means that it is not stored yet, or no
// longer: a delivered job leaves no row behind.
func (c *Client) Get(ctx context.Context, handle string) (TriggerView, error) {
	h, err := c.target(handle)
	if err != nil {
		return TriggerView{}, fmt.Errorf("get: %w", err)
	}
	return c.o.Triggers.Get(ctx, h)
}

func (c *Client) target(handle string) (trigger.Handle, error) {
	if c.o.Triggers == nil {
		return trigger.Handle{}, ErrNoTriggers
	}
	return trigger.ParseHandle(handle)
}

// pause waits before try number n (1 is the first repeat): from base, doubling
// up to limit, with jitter over its upper half.
func pause(ctx context.Context, n int, base, limit time.Duration) error {
	d := limit
	if n < 16 {
		d = min(base<<(n-1), limit)
	}
	d = d/2 + rand.N(d/2+1) //nolint:gosec // jitter, not a secret.
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
