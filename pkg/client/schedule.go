package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const (
	sendBackoff    = 200 * time.Millisecond
	sendBackoffMax = 5 * time.Second
	// parallelBatches bounds the sends of one ScheduleBatch that run at once.
	parallelBatches = 4
)

// Request is one job of a batch.
type Request struct {
	Service string
	Payload any // see [Payload]
	Options []Option
}

// Result is the outcome of one [Request]. Beside [ErrUncertain], Scheduled is
// set too.
type Result struct {
	Scheduled
	Err error
}

// Schedule submits a job: payload lands in the queue of service at the due
// time. Faults of the submission are [*trigger.FieldError], joined where there
// are several; an unknown service wraps registry.ErrUnknown too. Attempts that
// were refused for lack of capacity, or whose answer was lost, are repeated
// with the same id. [ErrUncertain] means that the last answer was lost as well:
// the result then names the job that may exist.
func (c *Client) Schedule(ctx context.Context, service string, payload any, opts ...Option) (Scheduled, error) {
	r := c.ScheduleBatch(ctx, []Request{{Service: service, Payload: payload, Options: opts}})[0]
	return r.Scheduled, r.Err
}

// ScheduleBatch submits many jobs, ten to a request of the queue, and returns
// one result for each in the order given. A fault of one is no fault of the
// others. See [Client.Schedule] for the errors.
func (c *Client) ScheduleBatch(ctx context.Context, requests []Request) []Result {
	results := make([]Result, len(requests))
	triggers := make([]*trigger.Trigger, len(requests))
	lanes := make(map[trigger.Lane][]int, 2)
	seen := make(map[string]error)
	for i, r := range requests {
		t, err := c.build(ctx, r.Service, r.Payload, r.Options, seen)
		if err == nil && c.inbound(t.Lane) == "" {
			err = fault("lane", "this client has no UrgentInboundURL")
		}
		if err != nil {
			results[i].Err = fmt.Errorf("schedule: %w", err)
			continue
		}
		triggers[i] = t
		lanes[t.Lane] = append(lanes[t.Lane], i)
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallelBatches)
	for _, lane := range trigger.Lanes {
		for part := range slices.Chunk(lanes[lane], queue.MaxBatch) {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				c.submit(ctx, lane, part, triggers, results)
			})
		}
	}
	wg.Wait()
	return results
}

// Prepare builds the row of a job and sends nothing: the caller inserts it in a
// transaction of its own (see the package comment). The row is in the state of
// a fresh trigger, and addressed by the handle as soon as it is committed. Every
// option works. With a Key the insert must be conditional, as InsertItem is, so
// that a repeat fails instead of replacing the row; that guards one partition
// count, so a repeat from across a growth of the table may become a second row.
func (c *Client) Prepare(ctx context.Context, service string, payload any, opts ...Option) (*store.Row, Scheduled, error) {
	t, err := c.build(ctx, service, payload, opts, nil)
	if err != nil {
		return nil, Scheduled{}, fmt.Errorf("prepare: %w", err)
	}
	row := &store.Row{
		Trigger: *t, State: trigger.StateScheduled,
		Created: c.o.Now().UTC().Truncate(time.Millisecond),
	}
	return row, scheduledOf(t), nil
}

// build turns a request into a valid trigger, or says what is wrong with it.
// seen, where given, remembers the services looked up for one batch.
func (c *Client) build(ctx context.Context, service string, payload any, opts []Option, seen map[string]error) (*trigger.Trigger, error) {
	now := c.o.Now()
	var j job
	for _, opt := range opts {
		opt(&j)
	}
	body, bodyErr := Payload(payload)
	due, dueErr := j.due(now)
	if dueErr != nil {
		due = now // reported already
	}
	var keyErr error
	id := c.o.NewID()
	switch {
	case j.keyed && j.key == "":
		keyErr = fault("key", "empty; leave Key out for a job without one")
	case j.keyed:
		id = trigger.KeyedID(service, j.tenant, j.key)
	}
	t := &trigger.Trigger{
		ID: id, Service: service, Due: due, Lane: j.lane, N: trigger.DefaultPartitions,
		Payload: body, Name: j.name, Tenant: j.tenant, Group: j.group,
		Headers: j.headers, Traceparent: j.traceparent,
	}
	if err := errors.Join(bodyErr, dueErr, keyErr, t.Validate(now)); err != nil {
		return nil, err
	}
	if err := c.known(ctx, service, seen); err != nil {
		return nil, err
	}
	epochs, err := c.epochs.get(ctx, now)
	if err != nil {
		return nil, err
	}
	t.N = epochs.At(now)
	return t, nil
}

// known checks that the registry holds a service.
func (c *Client) known(ctx context.Context, service string, seen map[string]error) error {
	if c.o.Services == nil {
		return nil
	}
	if err, ok := seen[service]; ok {
		return err
	}
	_, err := c.lookup(ctx, service)
	if seen != nil {
		seen[service] = err
	}
	return err
}

func (c *Client) lookup(ctx context.Context, service string) (registry.Service, error) {
	svc, err := c.o.Services.Lookup(ctx, service)
	switch {
	case errors.Is(err, registry.ErrUnknown):
		return svc, fmt.Errorf("%w: %w", &trigger.FieldError{Field: "service", Msg: fmt.Sprintf("%q is not known", service)}, registry.ErrUnknown)
	case err != nil:
		return svc, fmt.Errorf("look up service %s: %w", service, err)
	}
	return svc, nil
}

func (c *Client) inbound(l trigger.Lane) string {
	if l == trigger.Urgent {
		return c.o.UrgentInboundURL
	}
	return c.o.InboundURL
}

// submit sends the triggers at the given places, at most ten, until each was
// accepted, or refused for good, or the attempts or ctx are spent. Repeats carry
// the same id, which makes them harmless: rows are unique by id. Each attempt is
// stamped afresh, since the buffer compares the stamp with the time of arrival.
func (c *Client) submit(ctx context.Context, lane trigger.Lane, part []int, triggers []*trigger.Trigger, results []Result) {
	left := slices.Clone(part)
	uncertain := make(map[int]bool)
	var last map[int]error
	for try := 0; len(left) > 0 && try < c.o.Attempts; try++ {
		if try > 0 && pause(ctx, try, sendBackoff, sendBackoffMax) != nil {
			break
		}
		last = make(map[int]error, len(left))
		msgs := make([]queue.Message, 0, len(left))
		sent := make([]int, 0, len(left))
		stamp := c.o.Now()
		for _, i := range left {
			body, err := trigger.EncodeInbound(triggers[i], stamp)
			if err != nil {
				results[i].Err = fmt.Errorf("schedule: %w", err)
				continue
			}
			msgs = append(msgs, queue.Message{Body: string(body), Group: triggers[i].Service})
			sent = append(sent, i)
		}
		attempt, cancel := context.WithTimeout(ctx, c.o.AttemptTimeout)
		errs := c.o.Sender.SendBatch(attempt, c.inbound(lane), msgs)
		cancel()
		left = left[:0]
		for k, i := range sent {
			switch err := errs[k]; {
			case err == nil:
				results[i].Scheduled = scheduledOf(triggers[i])
			case errors.Is(err, queue.ErrMissing), errors.Is(err, queue.ErrDenied), errors.Is(err, queue.ErrRejected):
				results[i].Err = c.refused(triggers[i], err, uncertain[i], &results[i])
			default:
				uncertain[i] = uncertain[i] || !queue.SurelyUnsent(err)
				last[i] = err
				left = append(left, i)
			}
		}
	}
	for _, i := range left {
		err := last[i]
		if err == nil {
			err = ctx.Err()
		}
		results[i].Err = c.refused(triggers[i], err, uncertain[i], &results[i])
	}
}

// refused returns the error of a submission that failed. If an earlier attempt
// may have arrived, the result names the job.
func (c *Client) refused(t *trigger.Trigger, err error, uncertain bool, r *Result) error {
	if !uncertain {
		return fmt.Errorf("schedule: send to inbound: %w", err)
	}
	r.Scheduled = scheduledOf(t)
	return fmt.Errorf("schedule: %w: %w", ErrUncertain, err)
}
