package mq

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the protocol says so; it protects nothing.
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// entry is one message to send, as it stands in the request.
type entry struct {
	id, body, attributes, group, dedup []byte // raw; id without quotes
	delay                              int64  // seconds; -1: the queue's own

	size          int
	due           int64  // Myosin-Due; 0: none
	key           []byte // Myosin-Id, raw
	code, message string // why it is refused
	sent          uint64 // the message's id
}

// sending is one SendMessageBatch at work; it is used again and again.
type sending struct {
	url     []byte
	entries []entry
}

func (e *Engine) sendBatch(body, dst []byte) ([]byte, *wire.Error) {
	s, _ := e.scratch.Get().(*sending)
	defer func() {
		clear(s.entries)
		e.scratch.Put(s)
	}()
	if !s.parse(body) {
		return dst, wire.Malformed()
	}
	q, err := e.queueOf(s.url, "SendMessageBatch")
	if err != nil {
		return dst, err
	}
	if err := checkIDs(len(s.entries), func(i int) []byte { return s.entries[i].id }); err != nil {
		return dst, err
	}
	total := 0
	for i := range s.entries {
		s.entries[i].check(q)
		total += s.entries[i].size
	}
	if total > maxBytes {
		return dst, wire.Fault("BatchRequestTooLong", "Batch requests cannot be longer than %d bytes. You have sent %d bytes.", maxBytes, total)
	}
	if !e.accept(q, s.entries) {
		return dst, missing()
	}
	dst = append(dst, `{"Successful":[`...)
	failed := 0
	first := true
	for i := range s.entries {
		n := &s.entries[i]
		if n.code != "" {
			failed++
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, `{"Id":"`...)
		dst = append(dst, n.id...)
		dst = append(dst, `","MessageId":"`...)
		dst = appendID(dst, e.seed, n.sent)
		dst = append(dst, '"')
		dst = e.appendSum(dst, "MD5OfMessageBody", n.body)
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	if failed > 0 {
		e.refused.Add(int64(failed))
		dst = append(dst, `,"Failed":[`...)
		for i := range s.entries {
			if n := &s.entries[i]; n.code != "" {
				dst = failure(dst, n.id, n.code, n.message)
			}
		}
		dst = append(dst, ']')
	}
	return append(dst, '}'), nil
}

// send is SendMessage: a batch of one whose failure is the call's.
func (e *Engine) send(body, dst []byte) ([]byte, *wire.Error) {
	c := wire.Over(body)
	n, url := parseEntry(&c)
	if c.Bad() {
		return dst, wire.Malformed()
	}
	q, err := e.queueOf(url, "SendMessage")
	if err != nil {
		return dst, err
	}
	one := []entry{n}
	one[0].check(q)
	if one[0].code != "" {
		return dst, wire.Fault(one[0].code, "%s", one[0].message)
	}
	if !e.accept(q, one) {
		return dst, missing()
	}
	if one[0].code != "" {
		return dst, wire.Fault(one[0].code, "%s", one[0].message)
	}
	dst = append(dst, `{"MessageId":"`...)
	dst = appendID(dst, e.seed, one[0].sent)
	dst = append(dst, '"')
	dst = e.appendSum(dst, "MD5OfMessageBody", n.body)
	return append(dst, '}'), nil
}

// appendSum appends the checksum of a raw body, if clients are to have them.
func (e *Engine) appendSum(dst []byte, name string, body []byte) []byte {
	if !e.opts.Checksums {
		return dst
	}
	sum := md5.Sum(wire.Plain(body)) //nolint:gosec // see the import.
	return fmt.Appendf(dst, `,%q:"%x"`, name, sum)
}

func (s *sending) parse(body []byte) bool {
	s.url, s.entries = nil, s.entries[:0]
	c := wire.Over(body)
	c.Open('{')
	for {
		name, ok := c.Member()
		if !ok {
			return !c.Bad()
		}
		switch string(name) {
		case "QueueUrl":
			s.url = c.Raw()
		case "Entries":
			for c.Open('['); c.Element(); {
				n, _ := parseEntry(&c)
				s.entries = append(s.entries, n)
			}
		default:
			c.Raw()
		}
	}
}

// parseEntry reads an entry of a batch, or a SendMessage, which has a URL.
func parseEntry(c *wire.Cursor) (n entry, url []byte) {
	n.delay = -1
	c.Open('{')
	for {
		name, ok := c.Member()
		if !ok {
			return n, url
		}
		raw := c.Raw()
		switch string(name) {
		case "Id":
			n.id = wire.Plain(raw)
		case "QueueUrl":
			url = raw
		case "MessageBody":
			n.body = raw
		case "MessageAttributes":
			n.attributes = raw
		case "MessageGroupId":
			n.group = raw
		case "MessageDeduplicationId":
			n.dedup = raw
		case "DelaySeconds":
			if string(raw) == "null" {
				break
			}
			if n.delay, ok = wire.Int(raw); !ok || n.delay < 0 {
				n.delay = maxDelay + 1
			}
		}
	}
}

// checkIDs holds a batch to the rules for its entries' number and ids.
func checkIDs(n int, id func(int) []byte) *wire.Error {
	switch {
	case n == 0:
		return wire.Fault("EmptyBatchRequest", "There should be at least one entry in the request.")
	case n > maxEntries:
		return wire.Fault("TooManyEntriesInBatchRequest", "Maximum number of entries per request are %d. You have sent %d.", maxEntries, n)
	}
	for i := range n {
		if !validID(id(i)) {
			return wire.Fault("InvalidBatchEntryId", "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long.")
		}
		for k := range i {
			if bytes.Equal(id(i), id(k)) {
				return wire.Fault("BatchEntryIdsNotDistinct", "Id %s repeated.", id(i))
			}
		}
	}
	return nil
}

func validID(id []byte) bool {
	for _, ch := range id {
		if !(ch >= 'a' && ch <= 'z' || ch >= 'A' && ch <= 'Z' || ch >= '0' && ch <= '9' || ch == '-' || ch == '_') {
			return false
		}
	}
	return len(id) >= 1 && len(id) <= 80
}

func (n *entry) refuse(code, format string, args ...any) {
	n.code, n.message = code, fmt.Sprintf(format, args...)
}

// check finds what SQS would refuse, and the size.
func (n *entry) check(q *queue) {
	size, fit := wire.TextSize(n.body)
	n.size = size
	switch {
	case n.body == nil || size == 0:
		n.refuse("MissingParameter", "The request must contain the parameter MessageBody.")
		return
	case !fit:
		n.refuse("InvalidMessageContents", "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF")
	}
	n.checkAttributes(q.sink != nil)
	switch {
	case n.code != "":
	case q.fifo && n.group == nil:
		n.refuse("MissingParameter", "The request must contain the parameter MessageGroupId.")
	case q.fifo && n.delay > 0:
		n.refuse(codeInvalid, "Value %d for parameter DelaySeconds is invalid. Reason: The request include parameter that is not valid for this queue type.", n.delay)
	case n.delay > maxDelay:
		n.refuse(codeInvalid, "Value for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= %d.", maxDelay)
	case n.size > q.maxSize:
		n.refuse(codeInvalid, "One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", q.maxSize)
	}
}

// checkAttributes adds their size; for a sink it looks for Myosin's own.
func (n *entry) checkAttributes(sink bool) {
	if n.attributes == nil || string(n.attributes) == "null" {
		n.attributes = nil
		return
	}
	count := 0
	c := wire.Over(n.attributes)
	c.Open('{')
	for {
		name, ok := c.Member()
		if !ok {
			break
		}
		count++
		n.size += len(name)
		var value, kind []byte
		c.Open('{')
		for {
			member, ok := c.Member()
			if !ok {
				break
			}
			switch raw := c.Raw(); string(member) {
			case "DataType":
				kind = raw
			case "StringValue", "BinaryValue":
				value = raw
			}
		}
		size, fit := wire.TextSize(value)
		n.size += size + len(kind) - 2
		if size == 0 || len(kind) < 3 || len(name) == 0 || !fit {
			n.refuse(codeInvalid, "The message attribute '%.80s' is empty or has characters that are not valid.", name)
		}
		if sink {
			switch string(name) {
			case trigger.AttrDue:
				n.due, _ = wire.Int(value)
			case trigger.AttrID:
				n.key = value
			}
		}
	}
	switch {
	case c.Bad():
		n.refuse(codeInvalid, "The message attributes are not an object of objects.")
	case count > maxAttributes:
		n.refuse(codeInvalid, "Number of message attributes [%d] exceeds the allowed maximum [%d].", count, maxAttributes)
	case count == 0:
		n.attributes = nil
	}
}

// accept puts the entries that were not refused into the queue; false if it was
// deleted meanwhile.
func (e *Engine) accept(q *queue, entries []entry) bool {
	at := time.Now()
	now := at.UnixNano()
	if q.sink != nil {
		q.sink.record(e, entries, now)
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.removed {
		return false
	}
	for i := range entries {
		n := &entries[i]
		if n.code != "" {
			continue
		}
		n.sent = e.last.Add(1)
		if q.fifo && q.repeats(n, at) {
			continue
		}
		m := newMessage(n.sent, n.body, n.attributes, wire.Plain(n.group))
		m.sent = now / int64(time.Millisecond)
		delay := q.delay
		if n.delay >= 0 && !q.fifo {
			delay = time.Duration(n.delay) * time.Second
		}
		q.push(m, delay, now)
	}
	q.advance(now)
	q.wake(now)
	return true
}

// repeats reports whether a message was sent before, as its deduplication id
// tells; one without is refused. Called locked.
func (q *queue) repeats(n *entry, now time.Time) bool {
	id := wire.Text(n.dedup)
	if id == "" {
		if q.attrs["ContentBasedDeduplication"] != "true" {
			n.refuse(codeInvalid, "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly")
			return true
		}
		sum := sha256.Sum256(wire.Plain(n.body))
		id = hex.EncodeToString(sum[:])
	}
	return q.groups.repeated(id, now)
}
