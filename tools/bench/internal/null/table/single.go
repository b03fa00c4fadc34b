package table

import (
	"encoding/json"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// write is a put, an update, a delete or a check of one item, alone or in a
// transaction.
type write struct {
	TableName                           string
	Item                                attrs
	Key                                 attrs
	ConditionExpression                 string
	UpdateExpression                    string
	ExpressionAttributeNames            map[string]string
	ExpressionAttributeValues           attrs
	ReturnConsumedCapacity              string
	ReturnValues                        string
	ReturnValuesOnConditionCheckFailure string

	op        string
	table     *Table
	condition *expr
	change    *change
	scope     scope
	hash      []byte
	sort      []byte
	part      *partition
	old       *item
	next      *item // after it; nil: none
}

// The operations of a write.
const (
	opPut    = "PutItem"
	opUpdate = "UpdateItem"
	opDelete = "DeleteItem"
	opCheck  = "ConditionCheck"
)

// prepare finds table, key and expressions; the table is not locked yet.
func (w *write) prepare(e *Engine, op string) error {
	w.op = op
	if w.table = e.table(w.TableName); w.table == nil {
		return missing()
	}
	w.scope = scope{w.ExpressionAttributeNames, w.ExpressionAttributeValues}
	key := w.Key
	if op == opPut {
		key = w.Item
	}
	var ok bool
	if w.hash, w.sort, ok = w.table.keyOf(key); !ok {
		return invalid("The provided key element does not match the schema")
	}
	var err error
	if w.ConditionExpression != "" {
		raw := wire.AppendString(nil, w.ConditionExpression)
		if w.condition, err = e.texts.conditions.of(raw, parseExpr); err != nil {
			return err
		}
	}
	if op == opUpdate {
		w.change, err = e.texts.changes.of(wire.AppendString(nil, w.UpdateExpression), parseChange)
	}
	return err
}

// keyOf takes the key out of members.
func (t *Table) keyOf(members attrs) (hash, sort []byte, ok bool) {
	hash, ok = keyText(members.get(t.hash))
	if !ok || len(hash) > maxHash {
		return nil, nil, false
	}
	if t.sort == "" {
		return hash, nil, true
	}
	sort, ok = keyBytes(t.sortKind, members.get(t.sort))
	return hash, sort, ok && len(sort) <= maxSort
}

// judge looks at the row and reports whether the condition holds; then next is
// what is to be. An error is of an update that does not go with the row. The
// table is locked.
func (w *write) judge() (holds bool, err error) {
	t := w.table
	w.part = t.partition(w.hash, true)
	w.old = t.find(w.hash, w.sort)
	if w.condition != nil && !w.condition.eval(t, w.old, &w.scope) {
		return false, nil
	}
	switch w.op {
	case opPut:
		w.next = t.build(w.part, w.sort, w.Item)
	case opUpdate:
		w.next, err = w.updated()
	case opCheck:
		w.next = w.old
	}
	return err == nil, err
}

func (w *write) updated() (*item, error) {
	var members attrs
	if w.old != nil {
		members = w.old.members()
	}
	for _, add := range w.change.add {
		name, _ := w.scope.name(add[0])
		total, ok := sum(members.get(name), w.scope.values.get(add[1]))
		if !ok {
			return nil, invalid("An operand in the update expression has an incorrect data type")
		}
		members = members.with(name, total)
	}
	for _, set := range w.change.set {
		name, _ := w.scope.name(set[0])
		raw := w.scope.values.get(set[1])
		if raw == nil {
			return nil, invalid("An expression attribute value used in expression is not defined; attribute value: %s", set[1])
		}
		members = members.with(name, raw)
	}
	for _, operand := range w.change.remove {
		name, _ := w.scope.name(operand)
		for i := range members {
			if members[i].name == name {
				members = append(members[:i], members[i+1:]...)
				break
			}
		}
	}
	return w.table.build(w.part, w.sort, members), nil
}

// apply puts next in the place of old.
func (w *write) apply() {
	switch {
	case w.op == opCheck:
	case w.next != nil:
		w.table.put(w.next, w.old)
	case w.old != nil:
		w.table.delete(w.old)
	}
}

func (w *write) units() float64 {
	size := int32(0)
	for _, it := range []*item{w.old, w.next} {
		if it != nil {
			size = max(size, it.size)
		}
	}
	return writeUnits(size)
}

func (e *Engine) writeItem(op string, body, dst []byte) ([]byte, error) {
	var w write
	if err := json.Unmarshal(body, &w); err != nil {
		return dst, err //nolint:wrapcheck // becomes the answer.
	}
	if err := w.prepare(e, op); err != nil {
		return dst, err
	}
	w.table.mu.Lock()
	units, err := e.writeLocked(&w)
	w.table.mu.Unlock()
	if err != nil {
		return dst, err
	}
	e.countWrite(w.table, units)
	dst = append(dst, '{')
	if w.ReturnValues == "ALL_OLD" && w.old != nil || w.ReturnValues == "ALL_NEW" && w.next != nil {
		it := w.old
		if w.ReturnValues == "ALL_NEW" {
			it = w.next
		}
		dst = append(dst, `"Attributes":`...)
		dst = it.appendTo(dst, w.table, nil)
	}
	if asked(w.ReturnConsumedCapacity) {
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(dst, `"ConsumedCapacity":`...)
		dst = appendCapacity(dst, w.table.name, units)
	}
	return append(dst, '}'), nil
}

// writeLocked makes one write; a condition that fails costs too.
func (e *Engine) writeLocked(w *write) (float64, error) {
	part := w.table.partition(w.hash, true)
	if !w.table.caps.mayWrite(time.Now(), part.physical) {
		return 0, throttled()
	}
	holds, err := w.judge()
	if err != nil {
		return 0, err
	}
	units := w.units()
	w.table.caps.wrote(part.physical, units)
	if holds {
		units += w.table.indexUnits(w.old, w.next)
		w.apply()
		return units, nil
	}
	e.counts.conflicts.Add(1)
	e.countWrite(w.table, units)
	failed := wire.Fault("ConditionalCheckFailedException", "The conditional request failed")
	if w.old != nil && w.ReturnValuesOnConditionCheckFailure == "ALL_OLD" {
		failed.Extra = w.old.appendTo([]byte(`,"Item":`), w.table, nil)
	}
	return 0, failed
}

func (e *Engine) getItem(body, dst []byte) ([]byte, error) {
	var in struct {
		TableName              string
		Key                    attrs
		ConsistentRead         bool
		ReturnConsumedCapacity string
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return dst, err //nolint:wrapcheck // becomes the answer.
	}
	t := e.table(in.TableName)
	if t == nil {
		return dst, missing()
	}
	it, units, err := e.get(t, in.Key, in.ConsistentRead)
	if err != nil {
		return dst, err
	}
	dst = append(dst, '{')
	if it != nil {
		dst = append(dst, `"Item":`...)
		dst = it.appendTo(dst, t, nil)
	}
	if asked(in.ReturnConsumedCapacity) {
		if it != nil {
			dst = append(dst, ',')
		}
		dst = append(dst, `"ConsumedCapacity":`...)
		dst = appendCapacity(dst, t.name, units)
	}
	return append(dst, '}'), nil
}

// get reads one item and counts its cost.
func (e *Engine) get(t *Table, key attrs, consistent bool) (*item, float64, error) {
	hash, sort, ok := t.keyOf(key)
	if !ok {
		return nil, 0, invalid("The provided key element does not match the schema")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	physical := 0
	if p := t.parts[string(hash)]; p != nil {
		physical = p.physical
	}
	if !t.caps.mayRead(time.Now(), physical) {
		return nil, 0, throttled()
	}
	it, size := t.find(hash, sort), 0
	if it != nil {
		size = int(it.size)
	}
	units := readUnits(size, consistent)
	t.caps.readUnits(physical, units)
	e.countRead(units)
	return it, units, nil
}

func (e *Engine) batchGet(body, dst []byte) ([]byte, error) {
	var in struct {
		RequestItems map[string]struct {
			Keys           []attrs
			ConsistentRead bool
		}
		ReturnConsumedCapacity string
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return dst, err //nolint:wrapcheck // becomes the answer.
	}
	dst = append(dst, `{"Responses":{`...)
	var left, used []byte
	n := 0
	for name, ask := range in.RequestItems {
		t := e.table(name)
		if t == nil {
			return dst, missing()
		}
		if n += len(ask.Keys); n > 100 {
			return dst, invalid("Too many items requested for the BatchGetItem call")
		}
		dst = comma(dst)
		dst = wire.AppendString(dst, name)
		dst = append(dst, `:[`...)
		total := 0.0
		var throttledKeys []byte
		for _, key := range ask.Keys {
			it, units, err := e.get(t, key, ask.ConsistentRead)
			if failed, ok := err.(*wire.Error); ok && failed.Type == throttledCall { //nolint:errorlint // made right there.
				throttledKeys = comma(throttledKeys)
				throttledKeys = key.appendTo(throttledKeys)
				continue
			}
			if err != nil {
				return dst, err
			}
			if total += units; it != nil {
				dst = comma(dst)
				dst = it.appendTo(dst, t, nil)
			}
		}
		dst = append(dst, ']')
		if throttledKeys != nil {
			left = comma(left)
			left = wire.AppendString(left, name)
			left = append(left, `:{"Keys":[`...)
			left = append(left, throttledKeys...)
			left = append(left, `]}`...)
		}
		used = comma(used)
		used = appendCapacity(used, name, total)
	}
	dst = append(dst, `},"UnprocessedKeys":{`...)
	dst = append(dst, left...)
	dst = append(dst, '}')
	if asked(in.ReturnConsumedCapacity) {
		dst = append(dst, `,"ConsumedCapacity":[`...)
		dst = append(dst, used...)
		dst = append(dst, ']')
	}
	return append(dst, '}'), nil
}

// comma appends a comma behind what is not the beginning of a list.
func comma(dst []byte) []byte {
	if len(dst) == 0 || dst[len(dst)-1] == '[' || dst[len(dst)-1] == '{' {
		return dst
	}
	return append(dst, ',')
}

func (a attrs) appendTo(dst []byte) []byte {
	dst = append(dst, '{')
	for _, m := range a {
		dst = comma(dst)
		dst = wire.AppendString(dst, m.name)
		dst = append(dst, ':')
		dst = append(dst, m.raw...)
	}
	return append(dst, '}')
}
