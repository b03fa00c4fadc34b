package memstore

import (
	"maps"
	"time"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// record is a row in a third of the space. Records are never changed once they
// are in a list, so that the history can keep them.
type record struct {
	due       int64
	id        trigger.ID
	state     trigger.State
	service   string
	created   int64 // epoch ms; 0 for none
	expires   int64 // epoch s; 0 for never
	moved     int64 // epoch ms; 0 for tombstones that no move left
	n         uint16
	partition uint16
	lane      trigger.Lane
	body      *body // nil for tombstones
}

// body is what a tombstone loses.
type body struct {
	payload                                  []byte
	name, tenant, group, traceparent, reason string
	headers                                  map[string]string
}

func newRecord(row *store.Row, key trigger.Key) *record {
	r := &record{
		due: key.Due, id: key.ID, lane: key.Lane, partition: uint16(key.Partition), //nolint:gosec // < MaxPartitions.
		state: row.State, service: row.Service, created: toMilli(row.Created), expires: toSec(row.Expires),
		n: uint16(row.N), //nolint:gosec // ≤ MaxPartitions, checked by store.CheckOps.
	}
	if r.state.Tombstone() {
		r.moved = toMilli(row.MovedTo)
		return r
	}
	r.body = &body{
		payload: append([]byte(nil), row.Payload...), name: row.Name, tenant: row.Tenant, group: row.Group,
		traceparent: row.Traceparent, reason: row.Reason,
	}
	if len(row.Headers) > 0 {
		r.body.headers = maps.Clone(row.Headers)
	}
	return r
}

func (r *record) key() trigger.Key {
	return trigger.Key{Lane: r.lane, Partition: int(r.partition), Due: r.due, ID: r.id}
}

// row builds the row; its payload and headers stay shared with the record.
func (r *record) row() *store.Row {
	row := &store.Row{}
	r.fill(row, false)
	return row
}

func (r *record) fill(row *store.Row, head bool) {
	row.ID, row.Due, row.Lane, row.N = r.id, time.UnixMilli(r.due).UTC(), r.lane, int(r.n)
	row.State, row.Service = r.state, r.service
	if head {
		return
	}
	row.Created, row.Expires, row.MovedTo = fromMilli(r.created), fromSec(r.expires), fromMilli(r.moved)
	if b := r.body; b != nil {
		row.Payload, row.Name, row.Tenant, row.Group = b.payload, b.name, b.tenant, b.group
		row.Traceparent, row.Reason, row.Headers = b.traceparent, b.reason, b.headers
	}
}

// with returns a copy in another state.
func (r *record) with(state trigger.State) *record {
	c := *r
	c.state = state
	return &c
}

// tombstone returns a copy without its body.
func (r *record) tombstone(state trigger.State, expires time.Time) *record {
	c := r.with(state)
	c.body, c.expires = nil, toSec(expires)
	return c
}

// buried returns a dead copy.
func (r *record) buried(reason string, expires time.Time) *record {
	c := r.with(trigger.StateDead)
	c.expires = toSec(expires)
	var b body
	if r.body != nil {
		b = *r.body
	}
	b.reason = store.CutReason(reason)
	c.body = &b
	return c
}

// size estimates the row's item in DynamoDB: names of one or two letters, text
// as it is, numbers at half a byte a digit. It does not compress.
func (r *record) size() int {
	const keys = 1 + 5 + 1 + 50 // p, s
	n := keys + 2 + len(r.state) + 1 + len(r.service) + 1 + 3 + 1 + 8
	if r.expires != 0 {
		n += 1 + 6
	}
	if r.state == trigger.StateDead {
		n += 2 + len(r.service)
	}
	if b := r.body; b != nil {
		n += 1 + len(b.payload)
		for _, s := range [...]string{b.name, b.tenant, b.group, b.traceparent, b.reason} {
			if s != "" {
				n += 1 + len(s)
			}
		}
		for k, v := range b.headers {
			n += 4 + len(k) + len(v)
		}
	}
	return n
}

func toMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func toSec(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func fromSec(s int64) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(s, 0).UTC()
}
