package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Message is one attempt to hand a run to a queue or a topic. It holds a
// payload: log it through slog only, which does not print it.
//
// What arrives is a delivered message of the core (pkg/trigger's WIRE.md), whose
// headers are Myosin-Run-Id, Myosin-Attempt, Myosin-Scheduled-At and, where
// redriven, Myosin-Original-Run-Id: ten attributes at most, all that SQS allows.
type Message struct {
	// ID becomes Myosin-Id, by which consumers deduplicate, and on FIFO the
	// deduplication id. All attempts of a run and its redrives share it: pkg/job's
	// RunID.TriggerID of the original run where redriven, else of the run.
	ID            trigger.ID
	RunID         string    // required
	OriginalRunID string    // of a redriven run
	Attempt       int       // counted from 1
	ScheduledAt   time.Time // nominal time, required; also Myosin-Due
	// Job is the job's id, the message group on FIFO: the runs of one job stay in
	// order, and a message that fails holds up no other job's.
	Job string
	// Name is the job's name, by which workers choose a handler. It travels where
	// it is what the wire contract calls one: up to 128 letters, digits and
	// punctuation of ASCII, no blanks. Else the worker's default handler gets it.
	Name   string
	Tenant string // the message group on standard queues and topics: fair queues
	Urgent bool   // takes the service's urgent queue, where it has one
	Body   []byte // the payload
	// Traceparent is W3C's; left out where empty or malformed.
	Traceparent string
}

// LogValue names the message without its payload.
func (m Message) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", m.ID.String()), slog.String("run_id", m.RunID), slog.Int("attempt", m.Attempt))
}

// Format writes what LogValue says, whatever the verb.
func (m Message) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, m.LogValue().String()) }

func (m Message) check() error {
	var errs []error
	if m.ID.IsZero() {
		errs = append(errs, errors.New("message id: missing"))
	}
	errs = append(errs, checkID("run id", m.RunID))
	if m.OriginalRunID != "" {
		errs = append(errs, checkID("original run id", m.OriginalRunID))
	}
	if m.ScheduledAt.UnixMilli() < 0 {
		errs = append(errs, errors.New("scheduled at: missing, or before 1970"))
	}
	if len(m.Body) > trigger.MaxPayload {
		errs = append(errs, fmt.Errorf("payload: %d bytes; the limit is %d", len(m.Body), trigger.MaxPayload))
	}
	return errors.Join(errs...)
}

// deliver returns what is sent, encoded as the core does.
func (m Message) deliver(fifo bool) trigger.Delivered {
	t := trigger.Trigger{
		ID: m.ID, Due: m.ScheduledAt, Payload: m.Body, Tenant: m.Tenant,
		Headers: map[string]string{
			HeaderRunID: m.RunID, HeaderAttempt: strconv.Itoa(m.Attempt),
			HeaderScheduledAt: m.ScheduledAt.UTC().Format(time.RFC3339Nano),
		},
	}
	if m.OriginalRunID != "" {
		t.Headers[HeaderOriginalRunID] = m.OriginalRunID
	}
	if len(m.Name) <= trigger.MaxName && visible(m.Name) {
		t.Name = m.Name
	}
	if validTraceparent(m.Traceparent) {
		t.Traceparent = m.Traceparent
	}
	if fifo {
		t.Group = m.Job
	}
	return trigger.Deliver(&t, fifo)
}

// visible tells text of ASCII letters, digits and punctuation alone.
func visible(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// post is what the two senders of messages share.
type post struct {
	kind    string
	timeout time.Duration
	now     func() time.Time
	m       *metrics
}

func newPost(kind string, timeout time.Duration, now func() time.Time, r prometheus.Registerer) (post, error) {
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	if now == nil {
		now = time.Now
	}
	m, err := newMetrics(r)
	return post{kind: kind, timeout: timeout, now: now, m: m}, err
}

// attempt runs one send within the timeout and makes its Result: send returns
// what went wrong, or nothing where the message was accepted.
func (p *post) attempt(ctx context.Context, m Message, send func(context.Context) (Kind, error)) Result {
	r := Result{Timings: Timings{Start: p.now()}}
	if err := m.check(); err != nil {
		r.Kind, r.Err = KindInvalid, err
	} else {
		ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, errTimeout)
		defer cancel()
		r.Kind, r.Err = send(ctx)
		switch {
		case r.Err == nil:
			r.Kind, r.StatusCode = KindNone, http.StatusOK
		case r.Kind != KindUnavailable || ctx.Err() == nil:
		case errors.Is(context.Cause(ctx), errTimeout):
			r.Kind = KindTimeout
		default:
			r.Kind = KindCancelled
		}
	}
	r.Timings.Total = p.now().Sub(r.Timings.Start)
	p.m.observe(p.kind, r)
	return r
}
