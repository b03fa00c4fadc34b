package client

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// TriggersPath is the collection of the HTTP API: POST a [SubmitBody] to it,
// GET, PATCH (a [RescheduleBody]) and DELETE TriggersPath + "/" + handle. The
// answers are [Scheduled], [TriggerView], Scheduled and [CancelResult]; errors
// are a [Problem].
const TriggersPath = "/v1/triggers"

// SubmitBody is a submission as the HTTP API takes it. Give due or delay_ms, or
// neither for at once.
type SubmitBody struct {
	Service     string            `json:"service"`
	Due         time.Time         `json:"due,omitzero"`
	DelayMs     *int64            `json:"delay_ms,omitempty"`
	Submitted   time.Time         `json:"submitted,omitzero"`       // what delay_ms counts from; needed with key
	Payload     json.RawMessage   `json:"payload,omitempty"`        // any JSON, delivered as it stands
	PayloadB64  []byte            `json:"payload_base64,omitempty"` // or bytes
	Key         string            `json:"key,omitempty"`
	Lane        trigger.Lane      `json:"lane,omitempty"`
	Name        string            `json:"name,omitempty"`
	Tenant      string            `json:"tenant,omitempty"`
	Group       string            `json:"group,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Traceparent string            `json:"traceparent,omitempty"`
}

// Request returns the submission as [Client.ScheduleBatch] takes it.
func (b *SubmitBody) Request() (Request, error) {
	r := Request{Service: b.Service, Payload: b.Payload}
	if b.PayloadB64 != nil {
		if b.Payload != nil {
			return Request{}, fault("payload_base64", "given beside payload; give one of the two")
		}
		r.Payload = b.PayloadB64
	}
	r.Options = []Option{
		Lane(b.Lane), Name(b.Name), Tenant(b.Tenant), Group(b.Group), Headers(b.Headers),
		Traceparent(b.Traceparent), Submitted(b.Submitted),
	}
	if b.Key != "" {
		r.Options = append(r.Options, Key(b.Key))
	}
	if !b.Due.IsZero() {
		r.Options = append(r.Options, At(b.Due))
	}
	if b.DelayMs != nil {
		const limit = int64(trigger.MaxAhead / time.Millisecond)
		if *b.DelayMs < 0 || *b.DelayMs > limit {
			return Request{}, fault("delay_ms", "%d; want 0 to %d (ten years)", *b.DelayMs, limit)
		}
		r.Options = append(r.Options, In(time.Duration(*b.DelayMs)*time.Millisecond))
	}
	return r, nil
}

// RescheduleBody asks for another due time.
type RescheduleBody struct {
	Due time.Time `json:"due"`
}

// PartitionsPath answers a GET with a [PartitionsView].
const PartitionsPath = "/v1/partitions"

// PartitionsView is [trigger.Epochs] as the JSON body of the API.
type PartitionsView struct {
	Epochs []EpochView `json:"epochs" doc:"In the order they come into force; counts only grow"`
}

// EpochView is a partition count and the time from which senders use it; the
// first has been in force from the beginning and has no time.
type EpochView struct {
	N    int       `json:"n" doc:"Partitions of each lane: what n is in a submission"`
	From time.Time `json:"from,omitzero" doc:"From when senders use it; absent: from the beginning"`
}

// PartitionsViewOf returns the view of a table's partition counts.
func PartitionsViewOf(epochs trigger.Epochs) PartitionsView {
	v := PartitionsView{Epochs: make([]EpochView, len(epochs))}
	for i, e := range epochs {
		v.Epochs[i] = EpochView(e)
	}
	return v
}

// ProblemType is the media type of a [Problem].
const ProblemType = "application/problem+json"

// Codes of a [Problem]: what a program branches on.
const (
	CodeInvalid        = "invalid"         // errors names the fields
	CodeUnknownService = "unknown_service" // so does it
	CodeBadHandle      = "bad_handle"
	CodeNotFound       = "not_found"
	CodeNotStored      = "not_stored"
	CodeConflict       = "conflict" // state and due say with what
	CodePaused         = "paused"
	CodeUncertain      = "uncertain"
	CodeUnavailable    = "unavailable" // try again
	CodeInternal       = "internal"
)

// Problem is an error of the HTTP API, after RFC 9457.
type Problem struct { //nolint:errname // it is called so on the wire.
	Type   string         `json:"type,omitempty"`
	Title  string         `json:"title,omitempty"`
	Status int            `json:"status,omitempty"`
	Detail string         `json:"detail,omitempty"`
	Code   string         `json:"code,omitempty"`
	Errors []ProblemField `json:"errors,omitempty"`
	State  string         `json:"state,omitempty"`
	Due    time.Time      `json:"due,omitzero"`
	Taken  bool           `json:"taken,omitempty"`
}

// ProblemField is one field at fault.
type ProblemField struct {
	Message  string `json:"message"`
	Location string `json:"location"` // the field, as trigger.FieldError names it
}

// Error implements error.
func (p *Problem) Error() string {
	switch {
	case p.Detail != "":
		return p.Detail
	case p.Title != "":
		return p.Title
	}
	return http.StatusText(p.Status)
}

// ProblemOf returns the problem an error of this package stands for. Errors it
// does not know become an internal one without detail: they may hold names that
// callers of an API need not see.
func ProblemOf(err error) *Problem {
	p := &Problem{}
	set := func(status int, code, detail string) *Problem {
		p.Status, p.Code, p.Title, p.Detail = status, code, http.StatusText(status), detail
		return p
	}
	var conflict *ConflictError
	for _, f := range fieldErrors(err) {
		p.Errors = append(p.Errors, ProblemField{Message: f.Msg, Location: f.Field})
	}
	switch {
	case errors.As(err, &conflict):
		p.State, p.Due, p.Taken = conflict.State, conflict.Due, conflict.Taken
		return set(http.StatusConflict, CodeConflict, conflict.Error())
	case errors.Is(err, registry.ErrUnknown):
		return set(http.StatusUnprocessableEntity, CodeUnknownService, registry.ErrUnknown.Error())
	case len(p.Errors) > 0:
		return set(http.StatusUnprocessableEntity, CodeInvalid, "the request is not valid")
	case errors.Is(err, trigger.ErrHandle):
		return set(http.StatusBadRequest, CodeBadHandle, err.Error())
	case errors.Is(err, ErrNotFound):
		return set(http.StatusNotFound, CodeNotFound, ErrNotFound.Error())
	case errors.Is(err, ErrNotStored):
		return set(http.StatusConflict, CodeNotStored, ErrNotStored.Error())
	case errors.Is(err, ErrPaused):
		return set(http.StatusConflict, CodePaused, ErrPaused.Error())
	case errors.Is(err, ErrUncertain):
		return set(http.StatusServiceUnavailable, CodeUncertain, ErrUncertain.Error())
	case errors.Is(err, store.ErrThrottled), errors.Is(err, errAgain):
		return set(http.StatusServiceUnavailable, CodeUnavailable, "busy; try again")
	}
	return set(http.StatusInternalServerError, CodeInternal, "")
}

// err returns the error a problem stands for: the other way of [ProblemOf].
func (p *Problem) err() error {
	errs := make([]error, 0, len(p.Errors)+1)
	for _, f := range p.Errors {
		errs = append(errs, &trigger.FieldError{Field: f.Location, Msg: f.Message})
	}
	switch p.Code {
	case CodeConflict:
		return &ConflictError{State: p.State, Due: p.Due, Taken: p.Taken}
	case CodeUnknownService:
		return errors.Join(append(errs, registry.ErrUnknown)...)
	case CodeBadHandle:
		return trigger.ErrHandle
	case CodeNotFound:
		return ErrNotFound
	case CodeNotStored:
		return ErrNotStored
	case CodePaused:
		return ErrPaused
	case CodeUncertain:
		return ErrUncertain
	case CodeInvalid:
		if len(errs) > 0 {
			return errors.Join(errs...)
		}
	}
	return p
}

// fieldErrors collects every field error of a tree of wrapped and joined errors.
func fieldErrors(err error) []*trigger.FieldError {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself.
	case nil:
		return nil
	case *trigger.FieldError:
		return []*trigger.FieldError{e}
	case interface{ Unwrap() []error }:
		var list []*trigger.FieldError
		for _, inner := range e.Unwrap() {
			list = append(list, fieldErrors(inner)...)
		}
		return list
	}
	return fieldErrors(errors.Unwrap(err))
}
