package runner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/target"
)

// TargetsOptions configure [NewTargets].
type TargetsOptions struct {
	HTTP   *target.Caller         // required
	Queues *target.QueueSender    // nil: queue targets are refused
	Topics *target.TopicPublisher // nil: topic targets are refused
	// Services tells paused services. nil: none is.
	Services target.Services
	// Signer makes callback tokens; nil: none are sent.
	Signer *target.Signer
	// TokenFor is how long a callback token is good. Default 7 days.
	TokenFor time.Duration
	// AnyService lets every tenant target every owning service: for one's own
	// machine, where tenants have no records.
	AnyService bool
	Now        func() time.Time // nil: time.Now
}

// Targets calls targets through package target. It is a [Caller].
type Targets struct{ o TargetsOptions }

// NewTargets returns the caller of real targets.
func NewTargets(o TargetsOptions) (*Targets, error) {
	if o.HTTP == nil {
		return nil, errors.New("targets: http: missing")
	}
	if o.TokenFor == 0 {
		o.TokenFor = 7 * 24 * time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Targets{o: o}, nil
}

// pausedFor is how long a run for a paused service is put off.
const pausedFor = 30 * time.Second

// Ready implements [Caller]: the queue of a paused service takes nothing.
func (c *Targets) Ready(ctx context.Context, t job.Target) (time.Time, bool) {
	if t.Type != job.TargetQueue || c.o.Services == nil {
		return time.Time{}, true
	}
	svc, err := c.o.Services.Lookup(ctx, t.Service)
	if err != nil || !svc.Paused {
		return time.Time{}, true // the call says what is wrong
	}
	return c.o.Now().Add(pausedFor), false
}

// Call implements [Caller].
func (c *Targets) Call(ctx context.Context, a Attempt) target.Result {
	switch a.Target.Type {
	case job.TargetQueue:
		if c.o.Queues == nil {
			return refuse("queue targets are not set up")
		}
		if !c.o.AnyService && !allowed(a.Target.Service, a.Tenant.AllowServices) {
			return refuse(fmt.Sprintf("service %q is not one that tenant %q may target", a.Target.Service, a.Job.Tenant))
		}
		return c.o.Queues.Send(ctx, a.Target.Service, message(a))
	case job.TargetTopic:
		if c.o.Topics == nil {
			return refuse("topic targets are not set up")
		}
		topics := a.Tenant.AllowTopics
		if a.Run.Kind == job.Notice {
			topics = []string{a.Target.ARN} // an admin's or the job's choice, checked when it was made
		}
		return c.o.Topics.Publish(ctx, a.Target.ARN, topics, message(a))
	case job.TargetHTTP:
		return c.http(ctx, a)
	default:
		return target.Result{Kind: target.KindInvalid, Err: fmt.Errorf("target type %q", a.Target.Type)}
	}
}

func refuse(reason string) target.Result {
	return target.Result{Kind: target.KindRefused, Err: errors.New(reason)}
}

// allowed reports whether a name is listed; '*' at an entry's end matches the rest.
func allowed(name string, list []string) bool {
	for _, e := range list {
		if prefix, ok := strings.CutSuffix(e, "*"); e == name || (ok && strings.HasPrefix(name, prefix)) {
			return true
		}
	}
	return false
}

func (c *Targets) http(ctx context.Context, a Attempt) target.Result {
	var allow []netip.Prefix
	if len(a.Tenant.AllowRanges) > 0 {
		var err error
		if allow, err = target.ParseAllow(strings.Join(a.Tenant.AllowRanges, ",")); err != nil {
			return target.Result{Kind: target.KindInvalid, Err: fmt.Errorf("allowed ranges of tenant %s: %w", a.Job.Tenant, err)}
		}
	}
	var token target.Token
	if c.o.Signer != nil && a.Run.Kind != job.Notice {
		token = c.o.Signer.Token(string(a.Run.ID), c.o.Now().Add(c.o.TokenFor))
	}
	return c.o.HTTP.Call(ctx, target.Request{
		Method: a.Target.Method, URL: a.Target.URL, Header: a.Target.Headers, Body: a.Payload, Timeout: a.Target.Timeout,
		Allow: allow, RunID: string(a.Run.ID), OriginalRunID: string(a.Run.OriginalID), Attempt: a.Run.Attempt,
		ScheduledAt: a.Run.Nominal, Secrets: a.Tenant.Secrets, Token: token, Traceparent: a.Traceparent,
	})
}

func message(a Attempt) target.Message {
	id := a.Run.ID
	if a.Run.OriginalID != "" {
		id = a.Run.OriginalID
	}
	return target.Message{
		ID: id.TriggerID(), RunID: string(a.Run.ID), OriginalRunID: string(a.Run.OriginalID), Attempt: a.Run.Attempt,
		ScheduledAt: a.Run.Nominal, Job: a.Job.ID.String(), Name: a.Job.Name, Tenant: a.Job.Tenant, Urgent: a.Run.Urgent,
		Body: a.Payload, Traceparent: a.Traceparent,
	}
}
