package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// DirectOptions describe a direct message. The zero value is a message at once.
type DirectOptions struct {
	// Delay before consumers see it: whole seconds, 0 to 15 minutes. Queues of
	// FIFO services take none.
	Delay time.Duration
	// Lane chooses between the service's queues.
	Lane trigger.Lane
	// Name, Tenant, Group, Headers and Traceparent are as for a scheduled job.
	Name, Tenant, Group string
	Headers             map[string]string
	Traceparent         string
}

// Direct is a message sent straight to a service's queue. It has no handle: it
// is not in the trigger table, so it cannot be looked up, moved or cancelled.
type Direct struct {
	ID  trigger.ID `json:"id"`  // Myosin-Id of the message
	Due time.Time  `json:"due"` // UTC, by this client's clock; the queue counts whole seconds
}

// Direct sends payload straight to the queue of service: the cheap path, one
// request and no row. It passes the platform by: the message cannot be
// cancelled, has no key, does not count towards the service's rate, and is at
// most 15 minutes away. A paused service gives [ErrPaused].
//
// Messages that were surely not sent are repeated. A lost answer is not, except
// on FIFO queues, where the queue drops a repeat: it gives [ErrUncertain], and
// the result holds the id that consumers would deduplicate on.
func (c *Client) Direct(ctx context.Context, service string, payload any, o DirectOptions) (Direct, error) {
	d, err := c.direct(ctx, service, payload, o)
	if err != nil {
		return d, fmt.Errorf("direct: %w", err)
	}
	return d, nil
}

func (c *Client) direct(ctx context.Context, service string, payload any, o DirectOptions) (Direct, error) {
	if c.o.Services == nil {
		return Direct{}, errors.New("client has no Services: set Options.Services to find the service's queue")
	}
	now := c.o.Now()
	body, bodyErr := Payload(payload)
	var delayErr error
	if o.Delay < 0 || o.Delay > queue.MaxDelay || o.Delay%time.Second != 0 {
		delayErr = fault("delay", "%s; want whole seconds from 0 to %s; Schedule takes any time", o.Delay, queue.MaxDelay)
	}
	t := &trigger.Trigger{
		ID: c.o.NewID(), Service: service, Due: wholeMillis(now.Add(o.Delay)), Lane: o.Lane, N: trigger.DefaultPartitions,
		Payload: body, Name: o.Name, Tenant: o.Tenant, Group: o.Group, Headers: o.Headers, Traceparent: o.Traceparent,
	}
	if err := errors.Join(bodyErr, delayErr, t.Validate(now)); err != nil {
		return Direct{}, err
	}
	svc, err := c.lookup(ctx, service)
	switch {
	case err != nil:
		return Direct{}, err
	case svc.Paused:
		return Direct{}, fmt.Errorf("%w: %s", ErrPaused, service)
	case svc.FIFO && o.Delay > 0:
		return Direct{}, fault("delay", "%s; queue of %s is FIFO and takes no delay for one message; use Schedule", o.Delay, service)
	}
	dm := trigger.Deliver(t, svc.FIFO)
	msg := queue.Message{Body: dm.Body, Attributes: dm.Attributes, Group: dm.Group, Delay: o.Delay}
	if svc.FIFO {
		msg.Dedup = t.ID.String()
	}
	sent := Direct{ID: t.ID, Due: t.Due}
	uncertain := false
	for try := 0; try < c.o.Attempts; try++ {
		if try > 0 && pause(ctx, try, sendBackoff, sendBackoffMax) != nil {
			break
		}
		err = c.attempt(ctx, svc.Queue(t.Lane), msg)
		if err == nil {
			return sent, nil
		}
		uncertain = uncertain || !queue.SurelyUnsent(err)
		if uncertain && !svc.FIFO {
			break
		}
		if errors.Is(err, queue.ErrMissing) || errors.Is(err, queue.ErrDenied) || errors.Is(err, queue.ErrRejected) {
			break
		}
	}
	if uncertain {
		return sent, fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	return Direct{}, fmt.Errorf("send to %s: %w", service, err)
}

func (c *Client) attempt(ctx context.Context, url string, msg queue.Message) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.AttemptTimeout)
	defer cancel()
	return c.o.Sender.SendBatch(ctx, url, []queue.Message{msg})[0]
}
