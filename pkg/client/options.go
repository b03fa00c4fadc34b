package client

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Option says one thing about a job. A later option replaces an earlier one of
// its kind; headers add up.
type Option func(*job)

// job is what the options of one submission say.
type job struct {
	in          *time.Duration
	at          *time.Time
	submitted   time.Time
	key         string
	keyed       bool
	lane        trigger.Lane
	name        string
	tenant      string
	group       string
	traceparent string
	headers     map[string]string
}

// In makes the job due d after the call, or after [Submitted] where that is
// given. Use it or [At], not both; without either the job is due at once.
func In(d time.Duration) Option { return func(j *job) { j.in = &d } }

// At makes the job due at t, up to ten years ahead. Times are kept in whole
// milliseconds and rounded up: a job is never early.
func At(t time.Time) Option { return func(j *job) { j.at = &t } }

// Submitted sets the time from which [In] counts. A caller that repeats a
// submission under one [Key] gives the same time each time, such as the moment
// its own record was made.
func Submitted(t time.Time) Option { return func(j *job) { j.submitted = t } }

// Key makes the job idempotent: the same service, tenant, key and due time are
// one job, however often they are submitted, for as long as the job is stored.
// It needs a due time that a repeat can give again: [At], or [Submitted].
func Key(k string) Option { return func(j *job) { j.key, j.keyed = k, true } }

// UrgentLane sends the job through the lane that bulk work cannot delay.
func UrgentLane() Option { return Lane(trigger.Urgent) }

// Lane chooses the lane; standard is the default.
func Lane(l trigger.Lane) Option { return func(j *job) { j.lane = l } }

// Name names the job, so that a worker finds the handler for it.
func Name(s string) Option { return func(j *job) { j.name = s } }

// Tenant says for whom the job is: the message group of the delivered message,
// unless [Group] is given, so that fair queues keep tenants apart.
func Tenant(s string) Option { return func(j *job) { j.tenant = s } }

// Group sets the message group of the delivered message: the unit of order on
// a FIFO queue, and of fairness on a standard one.
func Group(s string) Option { return func(j *job) { j.group = s } }

// Header adds a message attribute to the delivered message; four at most.
func Header(name, value string) Option {
	return func(j *job) {
		if j.headers == nil {
			j.headers = make(map[string]string, 1)
		}
		j.headers[name] = value
	}
}

// Headers adds several headers.
func Headers(h map[string]string) Option {
	return func(j *job) {
		if j.headers == nil {
			j.headers = make(map[string]string, len(h))
		}
		maps.Copy(j.headers, h)
	}
}

// Traceparent carries a W3C trace context to the delivered message.
func Traceparent(s string) Option { return func(j *job) { j.traceparent = s } }

// Payload returns the bytes that stand for v: []byte, json.RawMessage and string
// as they are, nil as no bytes, everything else as JSON. An error is a
// [*trigger.FieldError] for payload.
func Payload(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []byte:
		return v, nil
	case json.RawMessage:
		return v, nil
	case string:
		return []byte(v), nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fault("payload", "not valid JSON: %v", err)
	}
	return b, nil
}

// due returns the due time in whole milliseconds, or says which option is wrong.
func (j *job) due(now time.Time) (time.Time, error) {
	base := now
	if !j.submitted.IsZero() {
		base = j.submitted
	}
	switch {
	case j.in != nil && j.at != nil:
		return time.Time{}, fault("due", "both In and At are given; give one of the two")
	case j.at != nil && j.at.IsZero():
		return time.Time{}, fault("due", "At is given the zero time")
	case j.at != nil:
		return wholeMillis(*j.at), nil
	case j.keyed && j.submitted.IsZero():
		return time.Time{}, fault("submitted", "missing: with a Key the due time must be the same in every repeat, "+
			"so give At, or Submitted with the time In counts from")
	case j.in == nil:
		return wholeMillis(base), nil
	case *j.in < 0:
		return time.Time{}, fault("delay_ms", "%s; want 0 or more", *j.in)
	case *j.in > trigger.MaxAhead:
		return time.Time{}, fault("delay_ms", "%s; at most ten years", *j.in)
	}
	return wholeMillis(base.Add(*j.in)), nil
}

// wholeMillis rounds up, so that no job is early.
func wholeMillis(t time.Time) time.Time {
	down := t.UTC().Truncate(time.Millisecond)
	if down.Before(t) {
		return down.Add(time.Millisecond)
	}
	return down
}

// fault returns an error that names a field as it is called on the wire.
func fault(field, format string, args ...any) error {
	return &trigger.FieldError{Field: field, Msg: fmt.Sprintf(format, args...)}
}
