package mq

import (
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// settling is one entry of a delete or a visibility change.
type settling struct {
	id, receipt []byte // without quotes
	timeout     int64  // seconds; -1: not given
}

const opDelete = "DeleteMessage"

func (e *Engine) settleBatch(op string, body, dst []byte) ([]byte, *wire.Error) {
	var url []byte
	var buf [maxEntries + 1]settling
	entries := buf[:0]
	c := wire.Over(body)
	c.Open('{')
	for {
		name, ok := c.Member()
		if !ok {
			break
		}
		switch string(name) {
		case "QueueUrl":
			url = c.Raw()
		case "Entries":
			for c.Open('['); c.Element(); {
				s, _ := parseSettling(&c)
				entries = append(entries, s)
			}
		default:
			c.Raw()
		}
	}
	if c.Bad() {
		return dst, wire.Malformed()
	}
	q, err := e.queueOf(url, op)
	if err != nil {
		return dst, err
	}
	if err := checkIDs(len(entries), func(i int) []byte { return entries[i].id }); err != nil {
		return dst, err
	}
	op = op[:len(op)-len("Batch")]
	var outcomes [maxEntries]outcome
	if err := q.settle(op, entries, outcomes[:]); err != nil {
		return dst, err
	}
	dst = append(dst, `{"Successful":[`...)
	failed := false
	first := true
	for i := range entries {
		if outcomes[i] != done {
			failed = true
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, `{"Id":"`...)
		dst = append(dst, entries[i].id...)
		dst = append(dst, `"}`...)
	}
	dst = append(dst, ']')
	if failed {
		dst = append(dst, `,"Failed":[`...)
		for i := range entries {
			if code, message := outcomes[i].refusal(); code != "" {
				dst = failure(dst, entries[i].id, code, message)
			}
		}
		dst = append(dst, ']')
	}
	return append(dst, '}'), nil
}

// settle is DeleteMessage and ChangeMessageVisibility.
func (e *Engine) settle(op string, body, dst []byte) ([]byte, *wire.Error) {
	c := wire.Over(body)
	one, url := parseSettling(&c)
	if c.Bad() {
		return dst, wire.Malformed()
	}
	q, err := e.queueOf(url, op)
	if err != nil {
		return dst, err
	}
	var outcomes [1]outcome
	if err := q.settle(op, []settling{one}, outcomes[:]); err != nil {
		return dst, err
	}
	if code, message := outcomes[0].refusal(); code != "" {
		return dst, wire.Fault(code, "%s", message)
	}
	return append(dst, `{}`...), nil
}

func parseSettling(c *wire.Cursor) (s settling, url []byte) {
	s.timeout = -1
	c.Open('{')
	for {
		name, ok := c.Member()
		if !ok {
			return s, url
		}
		raw := c.Raw()
		switch string(name) {
		case "Id":
			s.id = wire.Plain(raw)
		case "QueueUrl":
			url = raw
		case "ReceiptHandle":
			s.receipt = wire.Plain(raw)
		case "VisibilityTimeout":
			if s.timeout, ok = wire.Int(raw); !ok {
				s.timeout = -1
			}
		}
	}
}

// settle deletes, or changes visibility.
func (q *queue) settle(op string, entries []settling, outcomes []outcome) *wire.Error {
	now := time.Now().UnixNano()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.removed {
		return missing()
	}
	q.advance(now)
	for i := range entries {
		s := &entries[i]
		switch {
		case op == opDelete:
			outcomes[i] = q.remove(s.receipt)
		case s.timeout > maxVisibility:
			outcomes[i] = badTimeout
		default:
			// One that is not given counts as zero: the SDK leaves zeros out.
			outcomes[i] = q.setVisibility(s.receipt, time.Duration(max(0, s.timeout))*time.Second, now)
		}
	}
	q.wake(now) // a FIFO group or a place in flight may have come free
	return nil
}

// refusal is what a failed entry's answer says.
func (o outcome) refusal() (code, message string) {
	switch o {
	case badReceipt:
		return "ReceiptHandleIsInvalid", "The input receipt handle is invalid."
	case notInFlight:
		return "MessageNotInflight", "The message is not in flight."
	case badTimeout:
		return codeInvalid, "Value for parameter VisibilityTimeout is invalid. Reason: VisibilityTimeout must be an integer between 0 and 43200."
	}
	return "", ""
}
