package memqueue

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// SendBatch implements queue.Sender. On a FIFO queue a message behind a failed
// one of its group is not sent (ErrNotSent).
func (e *Engine) SendBatch(ctx context.Context, url string, msgs []queue.Message) []error {
	return e.send(ctx, e.opts.SenderID, url, msgs)
}

func (e *Engine) send(ctx context.Context, senderID, url string, msgs []queue.Message) []error {
	if err := ctx.Err(); err != nil {
		return all(len(msgs), notBegun("send", err))
	}
	fs, reply, err := e.faultsOf(ctx, len(msgs), func(i int) Entry {
		return Entry{Op: OpSend, URL: url, Message: &msgs[i]}
	})
	if err != nil {
		return all(len(msgs), fmt.Errorf("memqueue: send: %w", err))
	}
	errs := make([]error, len(msgs))
	e.mu.Lock()
	q, err := e.lookup(url)
	if err != nil {
		e.mu.Unlock()
		return all(len(msgs), err)
	}
	now := e.opts.Now()
	var stopped map[string]bool // FIFO groups in which a message failed
	for i := range msgs {
		m, f := &msgs[i], at(fs, i)
		if stopped[m.Group] {
			errs[i] = fmt.Errorf("memqueue: send: %w: an earlier message of its group failed", queue.ErrNotSent)
			continue
		}
		errs[i] = q.send(m, f, senderID, now)
		if errs[i] != nil && q.spec.FIFO {
			if stopped == nil {
				stopped = map[string]bool{}
			}
			stopped[m.Group] = true
		}
	}
	e.mu.Unlock()
	if err := pause(ctx, reply); err != nil && reply > 0 {
		return all(len(msgs), fmt.Errorf("memqueue: send: %w", err))
	}
	return errs
}

func (q *memQueue) send(m *queue.Message, f *Fault, senderID string, now time.Time) error {
	if f.Err != nil && !f.LoseReply {
		return f.Err
	}
	if reason := q.refuse(m); reason != "" {
		return fmt.Errorf("memqueue: send: %w: %s", queue.ErrRejected, reason)
	}
	if q.spec.FIFO && q.seen(m.Dedup, now) {
		return f.after()
	}
	q.e.seq++
	held := &message{
		id: "mem-" + strconv.FormatUint(q.e.seq, 10), seq: q.e.seq,
		body: m.Body, attrs: maps.Clone(m.Attributes), group: m.Group,
		sender: senderID, sentAt: now.UTC().Truncate(time.Millisecond),
	}
	if q.e.opts.OnSend != nil {
		q.e.opts.OnSend(q.url, *m)
	}
	delay := q.spec.Delay
	if !q.spec.FIFO {
		delay = seconds(m.Delay) + f.Hold
		held.early = f.Reorder
	}
	if delay > 0 {
		q.add(held, delayed, now.Add(delay))
	} else {
		q.add(held, visible, time.Time{})
	}
	if f.Duplicate {
		q.duplicate(held, f.DuplicateAfter)
	}
	return f.after()
}

// refuse returns why SQS would not take the message; empty if it would.
func (q *memQueue) refuse(m *queue.Message) string {
	switch {
	case m.Body == "":
		return "MissingParameter: the body is empty"
	case !trigger.SQSText(m.Body):
		return "InvalidMessageContents: the body has characters outside the allowed set"
	case m.Size() > queue.MaxMessageBytes:
		return fmt.Sprintf("InvalidParameterValue: %d bytes, at most %d", m.Size(), queue.MaxMessageBytes)
	case len(m.Attributes) > 10:
		return fmt.Sprintf("InvalidParameterValue: %d attributes, at most 10", len(m.Attributes))
	case q.spec.FIFO && m.Group == "":
		return "MissingParameter: a FIFO message needs a group"
	case q.spec.FIFO && m.Dedup == "":
		return "InvalidParameterValue: a FIFO message needs a deduplication id"
	case !q.spec.FIFO && (m.Delay < 0 || m.Delay > queue.MaxDelay):
		return fmt.Sprintf("InvalidParameterValue: delay %s, want 0 to %s", m.Delay, queue.MaxDelay)
	case !idText(m.Group):
		return "InvalidParameterValue: group: at most 128 ASCII letters, digits and punctuation"
	case q.spec.FIFO && !idText(m.Dedup):
		return "InvalidParameterValue: deduplication id: at most 128 ASCII letters, digits and punctuation"
	}
	for k, v := range m.Attributes {
		switch {
		case !attrName(k):
			return fmt.Sprintf("InvalidParameterValue: attribute name %.40q", k)
		case v == "":
			return fmt.Sprintf("InvalidParameterValue: attribute %s is empty", k)
		case !trigger.SQSText(v):
			return fmt.Sprintf("InvalidMessageContents: attribute %s", k)
		}
	}
	return ""
}

func idText(s string) bool {
	return len(s) <= 128 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func attrName(s string) bool {
	lower := strings.ToLower(s)
	return s != "" && len(s) <= 256 && s[0] != '.' && s[len(s)-1] != '.' && !strings.Contains(s, "..") &&
		!strings.HasPrefix(lower, "aws.") && !strings.HasPrefix(lower, "amazon.") &&
		!strings.ContainsFunc(s, func(r rune) bool { return r != '.' && !nameRune(r) })
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}
