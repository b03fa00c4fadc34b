package mq

import (
	"strconv"
)

// state is where a message is.
type state uint8

const (
	ready   state = iota // to be received
	delayed              // not yet to be received
	flying               // received, and neither deleted nor given up
	gone                 // deleted
)

// message is one message. Its queue's lock guards it.
type message struct {
	id       uint64
	blob     []byte // raw JSON: body, attributes, group
	bodyLen  uint32
	attrsLen uint32
	sent     int64  // epoch milliseconds
	at       int64  // when it leaves its state, epoch nanoseconds
	place    int32  // in the queue's timers; -1: not there
	receives uint32 // also tells its receipts apart
	state    state
	group    *group // FIFO
}

func newMessage(id uint64, body, attributes, group []byte) *message {
	m := &message{id: id, place: -1, bodyLen: uint32(len(body)), attrsLen: uint32(len(attributes))} //nolint:gosec // a request is at most a few MiB.
	m.blob = append(make([]byte, 0, len(body)+len(attributes)+len(group)), body...)
	m.blob = append(m.blob, attributes...)
	m.blob = append(m.blob, group...)
	return m
}

func (m *message) body() []byte       { return m.blob[:m.bodyLen] }
func (m *message) attributes() []byte { return m.blob[m.bodyLen : m.bodyLen+m.attrsLen] }
func (m *message) groupID() []byte    { return m.blob[m.bodyLen+m.attrsLen:] }

const hexDigits = "0123456789abcdef"

func appendHex(dst []byte, v uint64, digits int) []byte {
	for i := digits - 1; i >= 0; i-- {
		dst = append(dst, hexDigits[v>>(4*i)&15])
	}
	return dst
}

// appendID appends a message's id in the shape of a UUID.
func appendID(dst []byte, seed, id uint64) []byte {
	dst = appendHex(dst, seed>>32, 8)
	dst = append(dst, '-')
	dst = appendHex(dst, seed>>16, 4)
	dst = append(dst, "-4"...)
	dst = appendHex(dst, seed, 3)
	dst = append(dst, "-8"...)
	dst = appendHex(dst, id>>48, 3)
	dst = append(dst, '-')
	return appendHex(dst, id, 12)
}

const receiptLen = 1 + 16 + 8

// appendReceipt appends the handle of a message's latest receive.
func (m *message) appendReceipt(dst []byte) []byte {
	dst = append(dst, 'r')
	dst = appendHex(dst, m.id, 16)
	return appendHex(dst, uint64(m.receives), 8)
}

// parseReceipt reads a handle; false if no queue of this endpoint ever gave it.
func parseReceipt(text []byte) (id uint64, receive uint32, ok bool) {
	if len(text) != receiptLen || text[0] != 'r' {
		return 0, 0, false
	}
	id, err := strconv.ParseUint(string(text[1:17]), 16, 64)
	if err != nil {
		return 0, 0, false
	}
	n, err := strconv.ParseUint(string(text[17:]), 16, 32)
	return id, uint32(n), err == nil
}

// timers is a heap of messages by when they leave their state.
type timers []*message

func (t timers) less(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].id < t[j].id
}

func (t timers) swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = int32(i), int32(j) //nolint:gosec // far fewer.
}

func (t *timers) push(m *message) {
	m.place = int32(len(*t)) //nolint:gosec // far fewer.
	*t = append(*t, m)
	t.up(len(*t) - 1)
}

func (t *timers) remove(m *message) {
	i, last := int(m.place), len(*t)-1
	if i != last {
		t.swap(i, last)
	}
	(*t)[last] = nil
	*t = (*t)[:last]
	m.place = -1
	if i != last {
		t.down(i)
		t.up(i)
	}
}

func (t timers) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !t.less(i, parent) {
			return
		}
		t.swap(i, parent)
		i = parent
	}
}

func (t timers) down(i int) {
	for {
		kid := 2*i + 1
		if kid >= len(t) {
			return
		}
		if kid+1 < len(t) && t.less(kid+1, kid) {
			kid++
		}
		if !t.less(kid, i) {
			return
		}
		t.swap(i, kid)
		i = kid
	}
}

// ring is a first-in first-out list that reuses its memory.
type ring[T any] struct {
	buf  []T
	head int
	n    int
}

func (r *ring[T]) push(v T) {
	if r.n == len(r.buf) {
		grown := make([]T, max(16, 2*r.n))
		n := copy(grown, r.buf[r.head:])
		copy(grown[n:], r.buf[:r.head])
		r.buf, r.head = grown, 0
	}
	i := r.head + r.n
	if i >= len(r.buf) {
		i -= len(r.buf)
	}
	r.buf[i] = v
	r.n++
}

func (r *ring[T]) pop() (v T) {
	var none T
	v, r.buf[r.head] = r.buf[r.head], none
	if r.head++; r.head == len(r.buf) {
		r.head = 0
	}
	if r.n--; r.n == 0 && len(r.buf) > 4096 {
		*r = ring[T]{} // a backlog is over
	}
	return v
}
