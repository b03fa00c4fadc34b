package table

import (
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// maxStatements is what one BatchExecuteStatement takes.
const maxStatements = 25

// batch is one BatchExecuteStatement at work; it is used again and again.
type batch struct {
	runs     []run
	params   [][]byte // of all statements, one after another
	capacity bool
	members  attrs // of the item being built
	hash     []byte
	sort     []byte
}

// run is one statement of a batch and its outcome.
type run struct {
	st     *statement
	params [][]byte
	all    bool // the old item is wanted where the condition fails
	code   string
	reason string
	table  *Table
	old    *item
}

// The codes of a failed statement.
const (
	codeConflict  = "ConditionalCheckFailed"
	codeDuplicate = "DuplicateItem"
	codeThrottled = "ProvisionedThroughputExceeded"
	codeInvalid   = "ValidationError"
	codeMissing   = "ResourceNotFound"
)

func (e *Engine) batchExecute(body, dst []byte) ([]byte, error) {
	b, _ := e.scratch.Get().(*batch)
	defer func() {
		clear(b.runs) // no row must live on through it
		clear(b.params)
		clear(b.members)
		e.scratch.Put(b)
	}()
	if err := e.parseBatch(b, body); err != nil {
		return dst, err
	}
	units := e.execute(b)
	dst = append(dst, `{"Responses":[`...)
	var last *Table
	for i := range b.runs {
		r := &b.runs[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		if r.code != "" {
			dst = append(dst, `"Error":{"Code":"`...)
			dst = append(dst, r.code...)
			dst = append(dst, `","Message":`...)
			dst = wire.AppendString(dst, r.reason)
			if r.old != nil && r.all {
				dst = append(dst, `,"Item":`...)
				dst = r.old.appendTo(dst, r.table, nil)
			}
			dst = append(dst, `},`...)
		}
		if r.table != nil {
			last = r.table
			dst = append(dst, last.member...)
		} else {
			dst = append(dst, `"TableName":`...)
			dst = wire.AppendString(dst, r.st.table)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	if b.capacity && last != nil {
		dst = append(dst, `,"ConsumedCapacity":[`...)
		dst = appendCapacity(dst, last.name, units)
		dst = append(dst, ']')
	}
	return append(dst, '}'), nil
}

func (e *Engine) parseBatch(b *batch, body []byte) error {
	b.runs, b.params, b.capacity = b.runs[:0], b.params[:0], false
	c := wire.Over(body)
	c.Open('{')
	for {
		name, ok := c.Member()
		if !ok {
			break
		}
		switch string(name) {
		case "Statements":
			if c.Open('['); c.Bad() {
				return wire.Malformed()
			}
			for c.Element() {
				if err := e.parseRun(b, &c); err != nil {
					return err
				}
			}
		case "ReturnConsumedCapacity":
			b.capacity = asked(wire.Text(c.Raw()))
		default:
			c.Raw()
		}
	}
	switch {
	case c.Bad():
		return wire.Malformed()
	case len(b.runs) == 0 || len(b.runs) > maxStatements:
		return invalid("%d statements; want 1 to %d", len(b.runs), maxStatements)
	}
	// The list of all parameters has stopped moving.
	at := 0
	for i := range b.runs {
		r := &b.runs[i]
		n := len(r.params)
		r.params = b.params[at : at+n]
		at += n
	}
	return nil
}

// parseRun reads one statement. Its params are but a count until all are read.
func (e *Engine) parseRun(b *batch, c *wire.Cursor) error {
	var r run
	from := len(b.params)
	c.Open('{')
	for {
		name, ok := c.Member()
		if !ok {
			break
		}
		switch string(name) {
		case "Statement":
			var err error
			if r.st, err = e.texts.statements.of(c.Raw(), readStatement); err != nil {
				return err
			}
		case "Parameters":
			if c.Open('['); c.Bad() {
				return wire.Malformed()
			}
			for c.Element() {
				b.params = append(b.params, c.Raw())
			}
		case "ReturnValuesOnConditionCheckFailure":
			r.all = string(c.Raw()) == `"ALL_OLD"`
		default:
			c.Raw()
		}
	}
	if c.Bad() || r.st == nil {
		return wire.Malformed()
	}
	if len(b.params)-from != r.st.params {
		return invalid("%d parameters for a statement that has %d", len(b.params)-from, r.st.params)
	}
	r.params = b.params[from:]
	b.runs = append(b.runs, r)
	return nil
}

func readStatement(text string) (*statement, error) {
	st := parseStatement(text)
	if st == nil {
		return nil, invalid("statement not understood by this endpoint: %s", text)
	}
	return st, nil
}

// execute runs the statements and returns what they cost.
func (e *Engine) execute(b *batch) float64 {
	now := time.Now()
	units := 0.0
	for i := 0; i < len(b.runs); {
		name := b.runs[i].st.table
		t := e.table(name)
		if t != nil {
			t.mu.Lock()
		}
		for ; i < len(b.runs) && b.runs[i].st.table == name; i++ {
			r := &b.runs[i]
			if t == nil {
				r.code, r.reason = codeMissing, "Requested resource not found"
				continue
			}
			r.table = t
			one := e.executeOne(b, r, now)
			units += one
			e.countWrite(t, one)
			switch r.code {
			case codeConflict, codeDuplicate:
				e.counts.conflicts.Add(1)
			case codeThrottled:
				e.counts.throttled.Add(1)
			}
		}
		if t != nil {
			t.mu.Unlock()
		}
	}
	e.counts.statements.Add(int64(len(b.runs)))
	return units
}

// executeOne runs one statement, its table locked.
func (e *Engine) executeOne(b *batch, r *run, now time.Time) float64 {
	t := r.table
	if !b.findKey(r) {
		r.code, r.reason = codeInvalid, "the key is not given in full"
		return 0
	}
	part := t.partition(b.hash, true)
	if !t.caps.mayWrite(now, part.physical) {
		r.code, r.reason = codeThrottled, "The level of configured provisioned throughput for the table was exceeded."
		return 0
	}
	old := t.find(b.hash, b.sort)
	size, indexed := int32(0), 0.0
	if old != nil {
		size = old.size
	}
	switch {
	case r.st.verb == insert && old != nil:
		r.code, r.reason = codeDuplicate, "Duplicate primary key exists in table"
	case r.st.verb == insert:
		b.members = b.members[:0]
		for i, name := range r.st.names {
			b.members = append(b.members, attr{name, r.params[i]})
		}
		next := t.build(part, b.sort, b.members)
		size, indexed = next.size, t.indexUnits(nil, next)
		t.put(next, nil)
	case old == nil && r.st.verb == remove: // succeeds, and proves nothing
	case old == nil || !r.holds(old):
		r.code, r.reason = codeConflict, "The conditional request failed"
	case r.st.verb == remove:
		indexed = t.indexUnits(old, nil)
		t.delete(old)
	default:
		next := r.changed(old)
		size, indexed = max(size, next.size), t.indexUnits(old, next)
		t.put(next, old)
	}
	if r.code != "" {
		r.old = old
	}
	units := writeUnits(size)
	t.caps.wrote(part.physical, units)
	return units + indexed
}

// findKey sets the key that a statement is about.
func (b *batch) findKey(r *run) bool {
	b.hash, b.sort = nil, nil
	names, params := r.st.names, r.params
	if r.st.verb != insert {
		names, params = r.st.where, params[len(r.st.names):]
	}
	for i, name := range names {
		var ok bool
		switch name {
		case r.table.hash:
			b.hash, ok = keyText(params[i])
		case r.table.sort:
			b.sort, ok = keyBytes(r.table.sortKind, params[i])
		default:
			continue
		}
		if !ok {
			return false
		}
	}
	return b.hash != nil && (b.sort != nil || r.table.sort == "") && len(b.hash) <= maxHash && len(b.sort) <= maxSort
}

// holds reports whether the row is as the statement wants it.
func (r *run) holds(old *item) bool {
	params := r.params[len(r.st.names):]
	for i, name := range r.st.where {
		if name == r.table.hash || name == r.table.sort {
			continue
		}
		if raw := old.attribute(r.table, name); raw == nil || !same(raw, params[i]) {
			return false
		}
	}
	return true
}

// changed is the row with the statement's values.
func (r *run) changed(old *item) *item {
	if len(r.st.names) == 1 && r.st.names[0] == hot {
		return old.withHot(r.params[0])
	}
	members := old.members()
	for i, name := range r.st.names {
		members = members.with(name, r.params[i])
	}
	return r.table.build(old.part, old.key(), members)
}

// with is the members with another value of one.
func (a attrs) with(name string, raw []byte) attrs {
	for i := range a {
		if a[i].name == name {
			a[i].raw = raw
			return a
		}
	}
	return append(a, attr{name, raw})
}

const (
	maxHash = 2048
	maxSort = 1024
)
