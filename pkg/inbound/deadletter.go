package inbound

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Reasons of dead letters.
const (
	// ReasonInvalid: the message cannot be understood or is outside the limits.
	ReasonInvalid = "invalid"
	// ReasonSender: the service does not allow the sender.
	ReasonSender = "sender"
	// ReasonConflict: a trigger of this id and due time is there, and is another.
	ReasonConflict = "conflict"
	// ReasonRefused: the table refuses the row.
	ReasonRefused = "refused"
)

// DeadLetter is what lies in the inbound dead-letter queue: a message that was
// not accepted, and why. A message that SQS itself moved there lies there as it
// was sent; see [ParseDeadLetter].
type DeadLetter struct {
	V      int               `json:"v"`
	Reason string            `json:"reason"` // one of the Reason constants
	Errors []DeadLetterFault `json:"errors"`
	// Lane of the buffer it was taken from; a redrive puts it back there.
	Lane     trigger.Lane `json:"lane"`
	Message  string       `json:"message,omitempty"` // the SQS message id it had there
	Sender   string       `json:"sender,omitempty"`  // SQS SenderId
	Sent     time.Time    `json:"sent"`              // SentTimestamp
	Received time.Time    `json:"received"`
	// Encoding of Body: empty for none, or "base64".
	Encoding  string `json:"encoding,omitempty"`
	Truncated bool   `json:"truncated,omitempty"` // Body is only the beginning
	Body      string `json:"body"`
}

// DeadLetterFault is one field at fault.
type DeadLetterFault struct {
	Field string `json:"field"` // as on the wire; "body" for the message as a whole
	Msg   string `json:"msg"`
}

const (
	deadLetterVersion = 1
	deadLetterBase64  = "base64"
	// maxFaults and maxFault bound what a hostile message makes us write.
	maxFaults = 20
	maxFault  = 400
)

// ErrNotDeadLetter is returned for text that is no dead letter of a known version.
var ErrNotDeadLetter = errors.New("not a wrapped dead letter")

// ErrTruncated is returned for a dead letter whose original was cut to fit.
var ErrTruncated = errors.New("the original message was too large to be kept whole")

// ParseDeadLetter reads a message of the inbound dead-letter queue. Text that
// Myosin did not wrap (SQS moved it there itself) gives [ErrNotDeadLetter]: it
// is the original message.
func ParseDeadLetter(body string) (DeadLetter, error) {
	var d DeadLetter
	if err := json.Unmarshal([]byte(body), &d); err != nil {
		return DeadLetter{}, fmt.Errorf("%w: %w", ErrNotDeadLetter, err)
	}
	if d.V != deadLetterVersion || d.Reason == "" || d.Sent.IsZero() {
		return DeadLetter{}, fmt.Errorf("%w of version %d", ErrNotDeadLetter, deadLetterVersion)
	}
	return d, nil
}

// Original returns the message as it was sent; [ErrTruncated] beside what there
// is of it.
func (d *DeadLetter) Original() (string, error) {
	body := d.Body
	if d.Encoding == deadLetterBase64 {
		b, err := base64.StdEncoding.DecodeString(body)
		if err != nil {
			return "", fmt.Errorf("dead letter: body is not base64: %w", err)
		}
		body = string(b)
	}
	if d.Truncated {
		return body, fmt.Errorf("dead letter: %w", ErrTruncated)
	}
	return body, nil
}

// Redrive returns the message that submits the original again. Its due time
// stays what it was: a delay is made absolute, counted from the first
// submission, and the stamp of that submission, which would be refused as old,
// is left out. [ErrTruncated] if the original is not whole.
func (d *DeadLetter) Redrive() (queue.Message, error) {
	body, err := d.Original()
	if err != nil {
		return queue.Message{}, err
	}
	m := queue.Message{Body: body}
	var fields map[string]json.RawMessage
	if !json.Valid([]byte(body)) || json.Unmarshal([]byte(body), &fields) != nil {
		return m, nil //nolint:nilerr // what is no submission goes back as it is.
	}
	base := d.Sent
	var submitted string
	if json.Unmarshal(fields["submitted"], &submitted) == nil {
		if at, err := time.Parse(time.RFC3339, submitted); err == nil && at.Sub(d.Sent).Abs() <= trigger.MaxSubmitSkew {
			base = at
		}
	}
	delete(fields, "submitted")
	var delay int64
	if raw, ok := fields["delay_ms"]; ok && fields["due"] == nil && json.Unmarshal(raw, &delay) == nil &&
		delay >= 0 && delay <= int64(trigger.MaxAhead/time.Millisecond) {
		delete(fields, "delay_ms")
		due := base.Add(time.Duration(delay) * time.Millisecond).UTC()
		fields["due"] = json.RawMessage(due.Format(`"2006-01-02T15:04:05.000Z"`))
	}
	var service string
	if json.Unmarshal(fields["service"], &service) == nil && trigger.ValidService(service) == nil {
		m.Group = service
	}
	b, err := json.Marshal(fields)
	if err != nil {
		return queue.Message{}, fmt.Errorf("dead letter: %w", err)
	}
	m.Body = string(b)
	return m, nil
}

// faults lists the fields that an error names.
func faults(err error) []DeadLetterFault {
	var out []DeadLetterFault
	var walk func(error)
	walk = func(err error) {
		if len(out) >= maxFaults {
			return
		}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				walk(e)
			}
			return
		}
		if field, ok := errors.AsType[*trigger.FieldError](err); ok {
			out = append(out, DeadLetterFault{Field: clip(field.Field, maxFault), Msg: clip(field.Msg, maxFault)})
			return
		}
		out = append(out, DeadLetterFault{Field: "body", Msg: clip(err.Error(), maxFault)})
	}
	walk(err)
	return out
}

// clip cuts foreign text without cutting a character, and makes it text that
// SQS takes.
func clip(s string, n int) string {
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n] + "…"
	}
	if trigger.SQSText(s) {
		return s
	}
	return fmt.Sprintf("%+q", s)
}

// encode returns the letter as a message of at most limit bytes.
func (d DeadLetter) encode(body string, limit int) (string, error) {
	head, err := marshal(&d)
	if err != nil {
		return "", err
	}
	room := limit - len(head) - len(`,"encoding":"base64","truncated":true`)
	if trigger.SQSText(body) {
		d.Body = fit(body, room)
		d.Truncated = len(d.Body) < len(body)
	} else {
		d.Encoding = deadLetterBase64
		whole := []byte(body)
		cut := whole[:min(len(whole), max(room, 0)/4*3)]
		d.Truncated = len(cut) < len(whole)
		d.Body = base64.StdEncoding.EncodeToString(cut)
	}
	return marshal(&d)
}

// fit cuts text so that it takes at most room bytes as a JSON string, its
// quotes not counted. The text holds what SQS accepts.
func fit(s string, room int) string {
	used := 0
	for i, r := range s {
		switch {
		case r == '"', r == '\\', r == '\n', r == '\r', r == '\t':
			used += 2
		case r < ' ', r == '\u2028', r == '\u2029':
			used += 6
		default:
			used += utf8.RuneLen(r)
		}
		if used > room {
			return s[:i]
		}
	}
	return s
}

func marshal(d *DeadLetter) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(d); err != nil {
		return "", fmt.Errorf("encode dead letter: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

const (
	// deadTries bounds the tries in hand: a dead-letter queue that fails must not
	// fill the lane's memory with what is meant for it.
	deadTries = 3
)

// sizes are the limits tried in turn when the dead-letter queue refuses a
// letter: that of SQS, what queues had before it was raised, and little.
func sizeLimit(cut int) int {
	switch cut {
	case 0:
		return queue.MaxMessageBytes - 1024
	case 1:
		return 256<<10 - 1024
	default:
		return 16 << 10
	}
}

// deadLetter sends a message to the dead-letter queue, and deletes it after.
func (l *lane) deadLetter(it *item, reason string, err error) {
	it.letter = &DeadLetter{
		V: deadLetterVersion, Reason: reason, Errors: faults(err), Lane: l.id,
		Message: it.msg.ID, Sender: clip(it.msg.SenderID, maxFault), Sent: it.msg.SentAt.UTC(),
		Received: l.in.o.Clock.Now().UTC().Truncate(time.Millisecond),
	}
	it.tries = 0
	l.in.busy.leave(it)
	l.dead.Add(it)
}

// bury sends one batch of dead letters. A letter whose send may have failed
// stays in the buffer and is sent again: there it may come twice, never not.
func (l *lane) bury(items []*item) {
	ctx, cancel := context.WithTimeout(l.working, callTimeout)
	defer cancel()
	msgs := make([]queue.Message, 0, len(items))
	sent := items[:0:0]
	for _, it := range items {
		body, err := it.letter.encode(it.msg.Body, sizeLimit(it.cut))
		if err != nil {
			l.buryLater(it, err)
			continue
		}
		msgs, sent = append(msgs, queue.Message{Body: body}), append(sent, it)
	}
	if len(msgs) == 0 {
		return
	}
	for i, err := range l.in.o.Queue.SendBatch(ctx, l.in.o.URLs.DLQ, msgs) {
		it := sent[i]
		if err == nil {
			l.in.metrics.deadLettered(l.id, it.letter)
			l.in.o.Log.Warn("submission refused: it lies in the inbound dead-letter queue", "lane", l.id.String(),
				"reason", it.letter.Reason, "field", it.letter.class(), "sender", it.letter.Sender, "message", it.msg.ID)
			l.ack(it)
			continue
		}
		if errors.Is(err, queue.ErrRejected) {
			it.cut++
		}
		l.buryLater(it, err)
	}
}

func (l *lane) buryLater(it *item, err error) {
	if it.tries >= deadTries {
		l.in.o.Log.Error("inbound dead-letter queue fails: the message stays in the buffer", "lane", l.id.String(),
			"reason", it.letter.Reason, "message", it.msg.ID, "error", err)
		l.release(it, backoff(it.msg.ReceiveCount))
		return
	}
	l.later(it, func(it *item) { l.dead.Add(it) })
}

// class names the first field at fault, as a bounded label.
func (d *DeadLetter) class() string {
	if len(d.Errors) == 0 {
		return "other"
	}
	field, _, _ := strings.Cut(d.Errors[0].Field, ".")
	switch field {
	case "body", "v", "id", "service", "due", "delay_ms", "payload", "name", "n", "headers", "lane",
		"tenant", "group", "traceparent", "submitted":
		return field
	}
	return "other"
}
