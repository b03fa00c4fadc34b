package mq

import (
	"context"
	"strconv"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// senderID is who sent every message.
const senderID = "AIDAMYOSINNULLENDPOINT"

// receiving is one ReceiveMessage.
type receiving struct {
	url        []byte
	most       int
	wait       int64 // seconds; -1: the queue's own
	visibility int64 // seconds; -1: the queue's own
	attributes bool  // the caller's attributes are wanted
}

func parseReceiving(body []byte) (r receiving, err *wire.Error) {
	r.most, r.wait, r.visibility = 1, -1, -1
	c := wire.Over(body)
	c.Open('{')
	for {
		name, ok := c.Member()
		if !ok {
			break
		}
		raw := c.Raw()
		n, isInt := wire.Int(raw)
		within := func(low, high int64) {
			if !isInt || n < low || n > high {
				err = invalid("Value %s for parameter %s is invalid. Reason: Must be between %d and %d.", raw, name, low, high)
			}
		}
		switch string(name) {
		case "QueueUrl":
			r.url = raw
		case "MaxNumberOfMessages":
			within(1, maxEntries)
			r.most = int(n)
		case "WaitTimeSeconds":
			within(0, maxWait)
			r.wait = n
		case "VisibilityTimeout":
			within(0, maxVisibility)
			r.visibility = n
		case "MessageAttributeNames":
			r.attributes = len(raw) > 2
		}
	}
	if c.Bad() {
		err = wire.Malformed()
	}
	return r, err
}

// receive answers as soon as there is a message, or the wait or ctx ends.
func (e *Engine) receive(ctx context.Context, body, dst []byte) ([]byte, *wire.Error) {
	r, err := parseReceiving(body)
	if err != nil {
		return dst, err
	}
	q, err := e.queueOf(r.url, "ReceiveMessage")
	if err != nil {
		return dst, err
	}
	q.mu.Lock()
	visibility := q.visibility
	if r.visibility >= 0 {
		visibility = time.Duration(r.visibility) * time.Second
	}
	wait := r.wait
	if wait < 0 {
		wait = int64(number(q.attrs["ReceiveMessageWaitTimeSeconds"], 0))
	}
	long := wait > 0
	var timer *time.Timer
	empty := len(dst)
	for {
		// q is locked here.
		if q.removed {
			q.mu.Unlock()
			return dst, missing()
		}
		if ctx.Err() != nil { // nobody would get what is taken now; if woken, others are to be
			q.wake(time.Now().UnixNano())
			break
		}
		now := time.Now().UnixNano()
		most := r.most
		if limit := q.maxFlying; limit > 0 {
			if most = min(most, limit-q.inFlight); most <= 0 && !long {
				q.advance(now)
				q.mu.Unlock()
				return dst, wire.Fault(codeOverLimit, "Too many messages in flight")
			}
		}
		dead := q.take(most, visibility, now, func(m *message) { dst = e.appendMessage(dst, m, empty, r.attributes) })
		if len(dead) > 0 {
			q.mu.Unlock()
			e.bury(q, dead, now)
			q.mu.Lock()
		}
		if len(dst) > empty || wait <= 0 {
			q.wake(now) // what is left is for others
			break
		}
		if timer == nil {
			timer = time.NewTimer(time.Duration(wait) * time.Second)
			defer timer.Stop()
		}
		w := &waiter{ch: make(chan struct{}, 1)}
		q.waiters = append(q.waiters, w)
		q.wake(now)
		q.mu.Unlock()
		select {
		case <-w.ch:
		case <-timer.C:
			wait = 0 // one last look
		case <-ctx.Done():
		}
		q.mu.Lock()
		q.stopWaiting(w)
	}
	q.mu.Unlock()
	if len(dst) == empty {
		return append(dst, `{}`...), nil
	}
	return append(dst, `]}`...), nil
}

// appendMessage appends a message received, behind the head of the list if it is
// the first.
func (e *Engine) appendMessage(dst []byte, m *message, empty int, attributes bool) []byte {
	if len(dst) == empty {
		dst = append(dst, `{"Messages":[`...)
	} else {
		dst = append(dst, ',')
	}
	dst = append(dst, `{"Attributes":{"SenderId":"`+senderID+`","SentTimestamp":"`...)
	dst = strconv.AppendInt(dst, m.sent, 10)
	dst = append(dst, `","ApproximateReceiveCount":"`...)
	dst = strconv.AppendUint(dst, uint64(m.receives), 10)
	dst = append(dst, '"')
	if g := m.groupID(); len(g) > 0 {
		dst = append(dst, `,"MessageGroupId":`...)
		dst = wire.AppendString(dst, g)
	}
	dst = append(dst, `},"Body":`...)
	dst = append(dst, m.body()...)
	dst = e.appendSum(dst, "MD5OfBody", m.body())
	if attrs := m.attributes(); attributes && len(attrs) > 0 {
		dst = append(dst, `,"MessageAttributes":`...)
		dst = append(dst, attrs...)
	}
	dst = append(dst, `,"MessageId":"`...)
	dst = appendID(dst, e.seed, m.id)
	dst = append(dst, `","ReceiptHandle":"`...)
	dst = m.appendReceipt(dst)
	return append(dst, `"}`...)
}

// bury moves messages to the dead-letter queue, where they keep their ids. They
// are lost if there is none.
func (e *Engine) bury(from *queue, dead []*message, now int64) {
	from.mu.Lock()
	name := from.deadLetters
	from.mu.Unlock()
	e.mu.RLock()
	q := e.queues[name]
	e.mu.RUnlock()
	if q == nil || q == from {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range dead {
		m.receives, m.place, m.group = 0, -1, nil
		q.push(m, 0, now)
	}
	q.wake(now)
}
