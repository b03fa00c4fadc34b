package mq

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// queue is one queue.
type queue struct {
	name string
	fifo bool
	sink *sink // of a queue that keeps nothing; nil: an ordinary one

	mu          sync.Mutex
	attrs       map[string]string
	visibility  time.Duration
	delay       time.Duration
	maxSize     int
	deadLetters string // name of the queue; empty: none
	maxReceives uint32
	maxFlying   int // messages in flight; 0: no limit
	removed     bool

	messages ring[*message] // ready ones, and some that are gone; FIFO: unused
	timers   timers
	taken    map[uint64]*message // those received at least once
	groups   groups
	waiters  []*waiter
	alarm    *time.Timer // wakes waiters when a message leaves its state
	alarmAt  int64       // 0: it is not set
	calls    map[string]*callBucket

	visible, inDelay, inFlight      int
	sent, received, deleted, buried int64
}

// waiter is a long poll.
type waiter struct{ ch chan struct{} }

// push puts a message into the queue, ready or after a delay. Called locked.
func (q *queue) push(m *message, delay time.Duration, now int64) {
	q.sent++
	if delay > 0 {
		m.state, m.at = delayed, now+int64(delay)
		q.inDelay++
		q.timers.push(m)
		return
	}
	q.makeReady(m)
}

// makeReady lets a message be received. It is in no list. Called locked.
func (q *queue) makeReady(m *message) {
	m.state = ready
	q.visible++
	if q.fifo {
		q.groups.enter(m)
		return
	}
	q.messages.push(m)
}

// advance does what time has brought about. Called locked.
func (q *queue) advance(now int64) {
	for len(q.timers) > 0 && q.timers[0].at <= now {
		m := q.timers[0]
		q.leaveTimers(m)
		q.makeReady(m)
	}
}

// leaveTimers ends a delay or a flight. Called locked.
func (q *queue) leaveTimers(m *message) {
	q.timers.remove(m)
	if m.state == delayed {
		q.inDelay--
		return
	}
	q.inFlight--
	if q.fifo {
		m.group.flying--
	}
}

// wake wakes as many long polls as there is work for, and sets the alarm for
// those that go on. Called locked.
func (q *queue) wake(now int64) {
	for n := (q.receivable() + maxEntries - 1) / maxEntries; n > 0 && len(q.waiters) > 0; n-- {
		q.waiters[0].ch <- struct{}{} // has room for one, and each is woken once
		q.waiters = slices.Delete(q.waiters, 0, 1)
	}
	if len(q.waiters) == 0 || len(q.timers) == 0 || q.alarmAt != 0 && q.alarmAt <= q.timers[0].at {
		return
	}
	q.alarmAt = q.timers[0].at
	in := time.Duration(q.alarmAt - now)
	if q.alarm == nil {
		q.alarm = time.AfterFunc(in, q.ring)
	} else {
		q.alarm.Reset(in)
	}
}

// receivable is how many messages a receive would find now, roughly.
func (q *queue) receivable() int {
	if q.fifo {
		if q.maxFlying > 0 && q.inFlight >= q.maxFlying {
			return 0
		}
		return len(q.groups.free) * maxEntries
	}
	if q.maxFlying > 0 {
		return min(q.visible, q.maxFlying-q.inFlight)
	}
	return q.visible
}

// ring is the alarm.
func (q *queue) ring() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now().UnixNano()
	q.alarmAt = 0
	q.advance(now)
	q.wake(now)
}

// stopWaiting takes a waiter out of the list, unless it was woken. Called locked.
func (q *queue) stopWaiting(w *waiter) {
	if i := slices.Index(q.waiters, w); i >= 0 {
		q.waiters = slices.Delete(q.waiters, i, i+1)
	}
}

// take receives up to most messages: each is handed to f, or was received too
// often and is returned. Called locked.
func (q *queue) take(most int, visibility time.Duration, now int64, f func(*message)) (dead []*message) {
	q.advance(now)
	for n := 0; n < most; {
		m := q.next()
		if m == nil {
			break
		}
		q.visible--
		if q.deadLetters != "" && m.receives >= q.maxReceives {
			q.forget(m)
			q.buried++
			dead = append(dead, m)
			continue
		}
		if m.receives++; m.receives == 1 {
			q.taken[m.id] = m
		}
		m.state, m.at = flying, now+int64(visibility)
		q.inFlight++
		q.received++
		if q.fifo {
			m.group.flying++
		}
		q.timers.push(m)
		f(m)
		n++
	}
	if q.fifo {
		q.groups.settle()
	}
	return dead
}

// next takes the next ready message out of its list; nil if there is none.
func (q *queue) next() *message {
	if q.fifo {
		return q.groups.next()
	}
	for q.messages.n > 0 {
		if m := q.messages.pop(); m.state == ready {
			return m
		}
	}
	return nil
}

// forget ends a message that is in no list.
func (q *queue) forget(m *message) {
	m.state = gone
	delete(q.taken, m.id)
}

// outcome is what became of one entry of a delete or a visibility change.
type outcome uint8

const (
	done outcome = iota
	badReceipt
	notInFlight
	badTimeout
)

// remove deletes the message of a receipt. As on SQS, a receipt that a later one
// has replaced deletes nothing, and says nothing. Called locked.
func (q *queue) remove(receipt []byte) outcome {
	id, receive, ok := parseReceipt(receipt)
	if !ok {
		return badReceipt
	}
	m := q.taken[id]
	if m == nil || m.receives != receive {
		return done
	}
	q.deleted++
	switch {
	case m.place >= 0:
		q.leaveTimers(m)
	case q.fifo:
		q.groups.leave(m)
		q.visible--
	default:
		q.visible-- // it stays in its list until it comes up
	}
	q.forget(m)
	if q.fifo {
		q.groups.freed(m.group)
	}
	return done
}

// setVisibility changes how long the message of a receipt stays in flight.
// Called locked.
func (q *queue) setVisibility(receipt []byte, d time.Duration, now int64) outcome {
	id, receive, ok := parseReceipt(receipt)
	if !ok {
		return badReceipt
	}
	m := q.taken[id]
	if m == nil || m.receives != receive || m.state != flying {
		return notInFlight
	}
	if d <= 0 {
		q.leaveTimers(m)
		q.makeReady(m)
		return done
	}
	q.timers.remove(m)
	m.at = now + int64(d)
	q.timers.push(m)
	return done
}

// purge drops every message. Called locked.
func (q *queue) purge() {
	q.messages, q.timers, q.taken = ring[*message]{}, nil, make(map[uint64]*message)
	q.groups.purge()
	q.visible, q.inDelay, q.inFlight = 0, 0, 0
}

// set takes attributes over. Called locked.
func (q *queue) set(attrs map[string]string) {
	maps.Copy(q.attrs, attrs)
	seconds := func(name string, def int) time.Duration {
		return time.Duration(number(q.attrs[name], def)) * time.Second
	}
	q.visibility, q.delay = seconds("VisibilityTimeout", 30), seconds("DelaySeconds", 0)
	q.maxSize = number(q.attrs["MaximumMessageSize"], maxBytes)
	q.deadLetters, q.maxReceives = parseRedrive(q.attrs["RedrivePolicy"])
}

func number(text string, def int) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return def
	}
	return n
}
