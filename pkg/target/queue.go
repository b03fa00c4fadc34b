package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// ErrPaused is wrapped by the error of a [Result] of KindPaused.
var ErrPaused = errors.New("service is paused")

// Services finds owning services; *registry.Cache is one. An unknown service is
// registry.ErrUnknown, any other error means that it cannot be told now.
type Services interface {
	Lookup(ctx context.Context, name string) (registry.Service, error)
}

// QueueOptions of a [QueueSender]. Zero values mean the defaults named.
type QueueOptions struct {
	Services   Services              // required
	Sender     queue.Sender          // required
	Timeout    time.Duration         // of a send, the service's look-up included; 10 s
	Now        func() time.Time      // time.Now
	Registerer prometheus.Registerer // nil: no metrics
}

// Validate reports every fault together.
func (o QueueOptions) Validate() error {
	var errs []error
	if o.Services == nil {
		errs = append(errs, errors.New("services: required"))
	}
	if o.Sender == nil {
		errs = append(errs, errors.New("sender: required"))
	}
	if o.Timeout < 0 {
		errs = append(errs, errors.New("timeout: must not be negative"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("queue target options: %w", err)
	}
	return nil
}

// QueueSender hands runs to the queues of owning services.
type QueueSender struct {
	o QueueOptions
	p post
}

// NewQueueSender returns a sender.
func NewQueueSender(o QueueOptions) (*QueueSender, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p, err := newPost(typeQueue, o.Timeout, o.Now, o.Registerer)
	if err != nil {
		return nil, err
	}
	return &QueueSender{o: o, p: p}, nil
}

// Send makes one attempt to put a run on the service's queue. Success is that SQS
// accepted it. After KindTimeout, KindCancelled and KindUnavailable it may have
// been sent; consumers know a second one by its Myosin-Id.
//
// A service that the registry does not hold is KindRefused: it alone says which
// queues may be sent to.
func (s *QueueSender) Send(ctx context.Context, service string, m Message) Result {
	return s.p.attempt(ctx, m, func(ctx context.Context) (Kind, error) { return s.send(ctx, service, m) })
}

func (s *QueueSender) send(ctx context.Context, service string, m Message) (Kind, error) {
	if err := trigger.ValidService(service); err != nil {
		return KindInvalid, fmt.Errorf("target service: %w", err)
	}
	svc, err := s.o.Services.Lookup(ctx, service)
	switch {
	case errors.Is(err, registry.ErrUnknown):
		return KindRefused, fmt.Errorf("find service: %w", &RefusedError{Host: service, Reason: registry.ErrUnknown.Error()})
	case err != nil:
		return KindUnavailable, fmt.Errorf("find service %s: %w", service, err)
	case svc.Paused:
		return KindPaused, fmt.Errorf("send to %s: %w; nothing was sent", service, ErrPaused)
	}
	lane := trigger.Standard
	if m.Urgent {
		lane = trigger.Urgent
	}
	d := m.deliver(svc.FIFO)
	msg := queue.Message{Body: d.Body, Attributes: d.Attributes, Group: d.Group}
	if svc.FIFO {
		msg.Dedup = m.ID.String() // a run id may be longer than SQS allows
	}
	errs := s.o.Sender.SendBatch(ctx, svc.Queue(lane), []queue.Message{msg})
	if len(errs) != 1 {
		return KindUnavailable, fmt.Errorf("send to %s: %d outcomes of one message", service, len(errs))
	}
	if err := errs[0]; err != nil {
		return kindOf(err), fmt.Errorf("send to queue of %s: %w", service, err)
	}
	return KindNone, nil
}

// kindOf classifies the error of a send by the sentinels of package queue.
func kindOf(err error) Kind {
	for _, c := range []struct {
		is   error
		kind Kind
	}{
		{queue.ErrRejected, KindInvalid},
		{queue.ErrThrottled, KindThrottled},
		{queue.ErrDenied, KindDenied},
		{queue.ErrMissing, KindMissing},
	} {
		if errors.Is(err, c.is) {
			return c.kind
		}
	}
	return KindUnavailable
}
