package trigger

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// inboundV1 is the submission as it lies in the inbound buffer.
type inboundV1 struct {
	V           int               `json:"v"`
	ID          string            `json:"id"`
	Service     string            `json:"service"`
	Due         string            `json:"due,omitempty"`
	DelayMs     *int64            `json:"delay_ms,omitempty"`
	Payload     []byte            `json:"payload,omitempty"`
	Name        string            `json:"name,omitempty"`
	N           *int              `json:"n,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Lane        string            `json:"lane,omitempty"`
	Tenant      string            `json:"tenant,omitempty"`
	Group       string            `json:"group,omitempty"`
	Traceparent string            `json:"traceparent,omitempty"`
	Submitted   string            `json:"submitted,omitempty"`
}

const inboundVersion = 1

// EncodeInbound returns the inbound message of a valid trigger. A zero
// submitted time is left out; the queue's SentTimestamp then stands for it.
func EncodeInbound(t *Trigger, submitted time.Time) ([]byte, error) {
	m := inboundV1{
		V: inboundVersion, ID: t.ID.String(), Service: t.Service, Due: stamp(t.Due),
		Payload: t.Payload, Name: t.Name, N: &t.N, Headers: t.Headers, Lane: t.Lane.String(),
		Tenant: t.Tenant, Group: t.Group, Traceparent: t.Traceparent,
	}
	if !submitted.IsZero() {
		m.Submitted = stamp(submitted)
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode inbound message: %w", err)
	}
	return b, nil
}

// DecodeInbound reads an inbound message and checks it against the limits.
// sent is the queue's SentTimestamp: relative delays and "overdue" count from
// the message's submitted time, else from sent, never from now. countAt gives
// the partition count in force at a time and is used where the message names
// none. Errors join one [*FieldError] for each field at fault; what could be
// read is returned beside them for whoever reports the error.
func DecodeInbound(body []byte, sent time.Time, countAt func(time.Time) int) (Trigger, error) {
	var m inboundV1
	if err := json.Unmarshal(body, &m); err != nil {
		var typ *json.UnmarshalTypeError
		if errors.As(err, &typ) && typ.Field != "" {
			return Trigger{}, bad(typ.Field, "want %s, found a JSON %s", typ.Type, typ.Value)
		}
		return Trigger{}, bad("body", "not a JSON object: %v", err)
	}
	if m.V != inboundVersion {
		return Trigger{}, bad("v", "version %d; this release reads %d", m.V, inboundVersion)
	}
	t := Trigger{
		Service: m.Service, Payload: m.Payload, Name: m.Name, Headers: m.Headers,
		Tenant: m.Tenant, Group: m.Group, Traceparent: m.Traceparent,
	}
	var errs []error
	var err error
	if m.ID != "" {
		if t.ID, err = ParseID(m.ID); err != nil {
			errs = append(errs, bad("id", "%v", err))
		}
	}
	if t.Lane, err = ParseLane(m.Lane); err != nil {
		errs = append(errs, bad("lane", "%v", err))
	}
	submitted := sent
	if m.Submitted != "" {
		at, err := time.Parse(time.RFC3339, m.Submitted)
		switch {
		case err != nil:
			errs = append(errs, bad("submitted", "%q is not an RFC 3339 time", clip(m.Submitted, 40)))
		case at.Sub(sent).Abs() > MaxSubmitSkew:
			errs = append(errs, bad("submitted", "%s is %s away from the queue's %s; at most %s: check the sender's clock",
				stamp(at), at.Sub(sent).Abs().Round(time.Millisecond), stamp(sent), MaxSubmitSkew))
		default:
			submitted = at
		}
	}
	if t.Due, err = m.due(submitted); err != nil {
		errs = append(errs, err)
		t.Due = submitted // already reported
	}
	if m.N != nil {
		t.N = *m.N
	} else {
		t.N = countAt(sent)
	}
	return t, errors.Join(append(errs, t.Validate(submitted))...)
}

// due returns the due time in whole milliseconds.
func (m *inboundV1) due(submitted time.Time) (time.Time, error) {
	switch {
	case m.Due != "" && m.DelayMs != nil:
		return time.Time{}, bad("delay_ms", "given beside due; give one of the two")
	case m.DelayMs != nil:
		const limit = int64(MaxAhead / time.Millisecond)
		if *m.DelayMs < 0 || *m.DelayMs > limit {
			return time.Time{}, bad("delay_ms", "%d; want 0 to %d (ten years)", *m.DelayMs, limit)
		}
		return submitted.Add(time.Duration(*m.DelayMs) * time.Millisecond).UTC().Truncate(time.Millisecond), nil
	case m.Due == "":
		return time.Time{}, bad("due", "missing: give due, or delay_ms")
	}
	at, err := time.Parse(time.RFC3339, m.Due)
	if err != nil {
		return time.Time{}, bad("due", "%q is not an RFC 3339 time", clip(m.Due, 40))
	}
	return at.UTC().Truncate(time.Millisecond), nil
}
