package trigger

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// inboundV1 is the submission as it lies in the inbound buffer.
type inboundV1 struct {
	V           *int              `json:"v"`
	ID          string            `json:"id"`
	Service     string            `json:"service"`
	Due         string            `json:"due,omitempty"`
	DelayMs     *int64            `json:"delay_ms,omitempty"`
	Payload     string            `json:"payload,omitempty"` // base64
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
	v := inboundVersion
	m := inboundV1{
		V: &v, ID: t.ID.String(), Service: t.Service, Due: stamp(t.Due),
		Payload: base64.StdEncoding.EncodeToString(t.Payload), Name: t.Name, N: &t.N, Headers: t.Headers, Lane: t.Lane.String(),
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
	jsonErr := json.Unmarshal(body, &m)
	// The version comes first: in another one, other types may be right.
	if m.V != nil && *m.V != inboundVersion {
		return Trigger{}, bad("v", "version %d; this release reads %d", *m.V, inboundVersion)
	}
	if jsonErr != nil {
		return Trigger{}, badJSON(jsonErr)
	}
	if m.V == nil {
		return Trigger{}, bad("v", "missing; this release reads version %d", inboundVersion)
	}
	t := Trigger{
		Service: m.Service, Name: m.Name, Tenant: m.Tenant, Group: m.Group, Traceparent: m.Traceparent,
	}
	if len(m.Headers) > 0 {
		t.Headers = m.Headers
	}
	var errs []error
	var err error
	fail := func(field, format string, args ...any) { errs = append(errs, bad(field, format, args...)) }

	badID, badDue := false, false
	if m.ID != "" {
		if t.ID, err = ParseID(m.ID); err != nil {
			fail("id", "%v", err)
			badID = true
		}
	}
	if t.Lane, err = ParseLane(m.Lane); err != nil {
		fail("lane", "%v", err)
	}
	if m.Payload != "" {
		if t.Payload, err = base64.StdEncoding.DecodeString(m.Payload); err != nil {
			fail("payload", "not standard base64 with padding: %v", err)
			t.Payload = nil
		}
	}
	submitted := sent
	if m.Submitted != "" {
		at, err := parseTime(m.Submitted)
		switch {
		case err != nil:
			fail("submitted", "%v", err)
		case at.Sub(sent).Abs() > MaxSubmitSkew:
			fail("submitted", "%s is %s away from the queue's %s; at most %s: check the sender's clock",
				stamp(at), at.Sub(sent).Abs().Round(time.Millisecond), stamp(sent), MaxSubmitSkew)
		default:
			submitted = at
		}
	}
	if t.Due, err = m.due(submitted); err != nil {
		errs = append(errs, err)
		badDue = true
	}
	if m.N != nil {
		t.N = *m.N
	} else {
		t.N = countAt(sent)
	}
	// What is reported above is not reported again as missing.
	check := t
	if badID {
		check.ID = namespaceKey
	}
	if badDue {
		check.Due = submitted
	}
	return t, errors.Join(append(errs, check.Validate(submitted))...)
}

// badJSON names the field of a JSON type error, else the body as a whole.
func badJSON(err error) error {
	var typ *json.UnmarshalTypeError
	if !errors.As(err, &typ) || typ.Field == "" {
		return bad("body", "not a JSON object: %v", err)
	}
	want := "a string"
	switch {
	case strings.HasPrefix(typ.Field, "headers"):
		want = "an object of strings"
	case typ.Type.Kind() != reflect.String:
		want = "a whole number"
	}
	return bad(printable(typ.Field), "want %s, found a JSON %s", want, clip(typ.Value, 40))
}

// parseTime reads an RFC 3339 time strictly and cuts it to the millisecond.
func parseTime(s string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, s)
	if err != nil || !strictRFC3339(s) {
		return time.Time{}, fmt.Errorf("%q is not an RFC 3339 time with a zone, such as 2027-01-01T09:00:00.000Z", clip(s, 40))
	}
	return at.UTC().Truncate(time.Millisecond), nil
}

// strictRFC3339 refuses what [time.Parse] takes and other languages may not:
// hours of one digit, a comma before the fraction, zones of a day and more.
func strictRFC3339(s string) bool {
	if s[13] != ':' || s[19] == ',' {
		return false
	}
	if strings.HasSuffix(s, "Z") {
		return true
	}
	hours, minutes, _ := strings.Cut(s[len(s)-5:], ":")
	return hours <= "23" && minutes <= "59"
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
	at, err := parseTime(m.Due)
	if err != nil {
		return time.Time{}, bad("due", "%v", err)
	}
	return at, nil
}
