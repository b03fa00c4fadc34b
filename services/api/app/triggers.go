package app

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// submission is [client.SubmitBody] for people who type it: a delay may be
// written as a duration too.
type submission struct {
	Service       string            `json:"service" doc:"The owning service whose queue receives the job" example:"hello"`
	Due           *time.Time        `json:"due,omitempty" doc:"When, up to ten years ahead, as RFC 3339. Give due, delay or delay_ms; without any, at once"`
	Delay         *string           `json:"delay,omitempty" doc:"How long from now, as a duration" example:"5m"`
	DelayMs       *int64            `json:"delay_ms,omitempty" doc:"How long from now, in milliseconds"`
	Submitted     *time.Time        `json:"submitted,omitempty" doc:"What a delay counts from; needed for a delay with a key, the same in every repeat"`
	Payload       json.RawMessage   `json:"payload,omitempty" doc:"Any JSON, up to 256 KiB, delivered as it stands"`
	PayloadBase64 *string           `json:"payload_base64,omitempty" doc:"Or any bytes, in base64"`
	Key           string            `json:"key,omitempty" doc:"Idempotency key: the same service, tenant, key and due time are one job. The header Idempotency-Key may stand in for it"`
	Lane          string            `json:"lane,omitempty" enum:"standard,urgent" doc:"The urgent lane is not delayed by bulk work; standard is the default"`
	Name          string            `json:"name,omitempty" doc:"Name of the job, by which a worker chooses the handler"`
	Tenant        string            `json:"tenant,omitempty" doc:"For whom; keeps tenants apart in fair queues"`
	Group         string            `json:"group,omitempty" doc:"Message group of the delivered message; the tenant is the default"`
	Headers       map[string]string `json:"headers,omitempty" doc:"Up to four message attributes of your own"`
	Traceparent   string            `json:"traceparent,omitempty" doc:"W3C trace context; the header of that name may stand in for it"`
}

type scheduleInput struct {
	IdempotencyKey string `header:"Idempotency-Key" doc:"Stands in for key; quotes around it are ignored"`
	Traceparent    string `header:"traceparent" doc:"Stands in for traceparent; ignored where it is not valid"`
	Body           submission
}

// accepted is [client.Scheduled] and what else the caller may want to see.
type accepted struct {
	client.Scheduled
	Service string       `json:"service"`
	Lane    trigger.Lane `json:"lane"`
}

type scheduleOutput struct {
	Location string `header:"Location" doc:"Where the trigger is looked up, moved and cancelled"`
	Body     accepted
}

type handleInput struct {
	Handle string `path:"handle" doc:"As the submission answered it"`
}

type rescheduleInput struct {
	Handle string `path:"handle" doc:"As the submission answered it; it goes on working after a move"`
	Body   struct {
		Due     *time.Time `json:"due,omitempty" doc:"When, as RFC 3339. Give one of due, delay and delay_ms"`
		Delay   *string    `json:"delay,omitempty" doc:"How long from now, as a duration" example:"5m"`
		DelayMs *int64     `json:"delay_ms,omitempty" doc:"How long from now, in milliseconds"`
	}
}

type viewOutput struct{ Body client.TriggerView }

type movedOutput struct{ Body client.Scheduled }

type cancelOutput struct{ Body client.CancelResult }

func (a *api) registerTriggers(h huma.API) {
	one := client.TriggersPath + "/{handle}"
	huma.Register(h, operation(h, huma.Operation{
		OperationID: "schedule", Method: http.MethodPost, Path: client.TriggersPath, DefaultStatus: http.StatusCreated,
		Tags: []string{"triggers"}, Summary: "Schedule a job",
		Description: "Accepted once the inbound buffer has it. Keep the handle: it looks up, moves and cancels the job.",
	}), a.schedule)
	huma.Register(h, operation(h, huma.Operation{
		OperationID: "get", Method: http.MethodGet, Path: one,
		Tags: []string{"triggers"}, Summary: "Look a trigger up",
		Description: "404 means that it was delivered, or is not stored yet: submissions wait in the inbound buffer for a moment.",
	}), a.get)
	huma.Register(h, operation(h, huma.Operation{
		OperationID: "reschedule", Method: http.MethodPatch, Path: one,
		Tags: []string{"triggers"}, Summary: "Move a trigger to another time",
		Description: "Only while it waits. 409 with the state where it does not, or with code not_stored where there is nothing to move yet.",
	}), a.reschedule)
	huma.Register(h, operation(h, huma.Operation{
		OperationID: "cancel", Method: http.MethodDelete, Path: one,
		Tags: []string{"triggers"}, Summary: "Cancel a trigger",
		Description: "Read the outcome: only cancelled says that it was not delivered and never will be.",
	}), a.cancel)
}

func (a *api) schedule(ctx context.Context, in *scheduleInput) (*scheduleOutput, error) {
	body, err := in.body()
	if err != nil {
		return nil, problemOf(err)
	}
	if err := a.submitter(ctx, body); err != nil {
		return nil, err
	}
	req, err := body.Request()
	if err != nil {
		return nil, problemOf(err)
	}
	if isSwitch(req.Service) {
		return nil, problemOf(errors.Join(fieldError("service", "%q is not known", req.Service), registry.ErrUnknown))
	}
	s, err := a.o.Jobs.Schedule(ctx, req.Service, req.Payload, req.Options...)
	if err != nil {
		p := a.fail(ctx, "schedule", err)
		for i := range p.Errors {
			if p.Errors[i].Location == "delay_ms" && in.Body.Delay != nil {
				p.Errors[i].Location = "delay"
			}
		}
		if p.Code == client.CodeUncertain {
			p.ID, p.Handle, p.Due = s.ID.String(), s.Handle, s.Due
		}
		return nil, p
	}
	return &scheduleOutput{
		Location: client.TriggersPath + "/" + s.Handle,
		Body:     accepted{Scheduled: s, Service: body.Service, Lane: body.Lane},
	}, nil
}

// body returns the submission as package client takes it.
func (in *scheduleInput) body() (*client.SubmitBody, error) {
	b := &in.Body
	out := &client.SubmitBody{
		Service: b.Service, DelayMs: b.DelayMs, Payload: b.Payload, Key: b.Key,
		Name: b.Name, Tenant: b.Tenant, Group: b.Group, Headers: b.Headers, Traceparent: b.Traceparent,
	}
	errs := make([]error, 0, 4)
	check := func(err error) { errs = append(errs, err) }
	var err error
	out.Lane, err = trigger.ParseLane(b.Lane)
	if err != nil {
		check(fieldError("lane", "%v", err))
	}
	if b.Submitted != nil {
		out.Submitted = *b.Submitted
	}
	check(oneTime(b.Due, b.Delay, b.DelayMs))
	switch {
	case b.Due != nil && b.Due.IsZero():
		check(fieldError("due", "the zero time"))
	case b.Due != nil:
		out.Due = *b.Due
	}
	if b.Delay != nil {
		d, err := delay(*b.Delay)
		check(err)
		// Rounded up: no job is early.
		ms := int64((d + time.Millisecond - 1) / time.Millisecond)
		out.DelayMs = &ms
	}
	if b.PayloadBase64 != nil {
		raw, err := base64.StdEncoding.DecodeString(*b.PayloadBase64)
		if err != nil {
			check(fieldError("payload_base64", "not standard base64 with padding: %v", err))
		}
		out.PayloadB64 = append([]byte{}, raw...) // not nil: it was given
	}
	if key := unquote(in.IdempotencyKey); key != "" {
		if b.Key != "" && b.Key != key {
			check(fieldError("key", "differs from the header Idempotency-Key"))
		}
		out.Key = key
	}
	if out.Traceparent == "" && traceparent(in.Traceparent) {
		out.Traceparent = in.Traceparent
	}
	return out, errors.Join(errs...)
}

func (a *api) get(ctx context.Context, in *handleInput) (*viewOutput, error) {
	if err := a.owner(ctx, access.Read, in.Handle); err != nil {
		return nil, err
	}
	v, err := a.o.Jobs.Get(ctx, in.Handle)
	if err != nil {
		return nil, a.fail(ctx, "get", err)
	}
	if !access.FromContext(ctx).MaySeePayloads() {
		v.Payload = nil
	}
	return &viewOutput{Body: v}, nil
}

func (a *api) reschedule(ctx context.Context, in *rescheduleInput) (*movedOutput, error) {
	b := &in.Body
	err := oneTime(b.Due, b.Delay, b.DelayMs)
	var due time.Time
	switch {
	case err != nil:
	case b.Due != nil && b.Due.IsZero():
		err = fieldError("due", "the zero time")
	case b.Due != nil:
		due = *b.Due
	case b.Delay != nil:
		var d time.Duration
		d, err = delay(*b.Delay)
		due = a.o.Now().Add(d)
	case b.DelayMs != nil:
		const limit = int64(trigger.MaxAhead / time.Millisecond)
		if *b.DelayMs < 0 || *b.DelayMs > limit {
			err = fieldError("delay_ms", "%d; want 0 to %d (ten years)", *b.DelayMs, limit)
			break
		}
		due = a.o.Now().Add(time.Duration(*b.DelayMs) * time.Millisecond)
	default:
		err = fieldError("due", "missing: give due, delay or delay_ms")
	}
	if err != nil {
		return nil, problemOf(err)
	}
	if err := a.owner(ctx, access.Write, in.Handle); err != nil {
		return nil, err
	}
	s, err := a.o.Jobs.Reschedule(ctx, in.Handle, due)
	if err != nil {
		return nil, a.fail(ctx, "reschedule", err)
	}
	return &movedOutput{Body: s}, nil
}

func (a *api) cancel(ctx context.Context, in *handleInput) (*cancelOutput, error) {
	if err := a.owner(ctx, access.Write, in.Handle); err != nil {
		return nil, err
	}
	r, err := a.o.Jobs.Cancel(ctx, in.Handle)
	if err != nil {
		return nil, a.fail(ctx, "cancel", err)
	}
	return &cancelOutput{Body: r}, nil
}

// fail returns the problem an error stands for, and logs those whose cause the
// answer does not tell.
func (a *api) fail(ctx context.Context, op string, err error) *problem {
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError && ctx.Err() == nil {
		a.log.ErrorContext(ctx, op+" failed", telemetry.KeyError, err)
	}
	return p
}

// oneTime refuses two due times in one request.
func oneTime(due *time.Time, delay *string, delayMs *int64) error {
	var errs []error
	if delay != nil && due != nil {
		errs = append(errs, fieldError("delay", "given beside due; give one of the two"))
	}
	if delayMs != nil && (due != nil || delay != nil) {
		errs = append(errs, fieldError("delay_ms", "given beside due or delay; give one of them"))
	}
	return errors.Join(errs...)
}

func delay(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fieldError("delay", "not a duration such as 90s, 5m or 36h")
	case d < 0 || d > trigger.MaxAhead:
		return 0, fieldError("delay", "%s; want 0 to %s (ten years)", d, trigger.MaxAhead)
	}
	return d, nil
}

// unquote takes the quotes off a structured header string, which the draft of
// Idempotency-Key asks for and few send.
func unquote(s string) string {
	s = strings.TrimSpace(s)
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		s = s[1 : len(s)-1]
	}
	return s
}

// traceparent reports whether a header can be carried on; one that cannot is
// ignored, as the standard asks. A field of the body is refused instead.
func traceparent(s string) bool {
	t := trigger.Trigger{Traceparent: s}
	if s == "" {
		return false
	}
	var field *trigger.FieldError
	for _, err := range unjoin(t.Validate(time.Time{})) {
		if errors.As(err, &field) && field.Field == "traceparent" {
			return false
		}
	}
	return true
}

func unjoin(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}
