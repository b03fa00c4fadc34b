package table

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// maxPage is where DynamoDB ends a page, in bytes read.
const maxPage = 1 << 20

// read is a Query or a Scan at work.
type read struct {
	table      *Table
	index      *index
	scope      scope
	condition  *expr // of a query's key
	filter     *expr
	project    []string
	start      attrs
	limit      int
	consistent bool
	capacity   bool
	count      bool // answer no items

	hash      []byte
	low, high []byte // of the sort key, both included; high nil: to the end
	below     bool   // high is not included
	prefix    []byte // begins_with
	backwards bool
	items     []*item
	size      int
	more      bool
}

func (e *Engine) query(body, dst []byte, scan bool) ([]byte, error) {
	r, err := e.parseRead(body)
	if err != nil {
		return dst, err
	}
	switch {
	case scan && r.index != nil:
		return dst, invalid("a scan of an index is not known here")
	case !scan && r.condition == nil:
		return dst, invalid("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	case !scan:
		if err := r.bind(r.condition); err != nil {
			return dst, err
		}
		if r.hash == nil {
			return dst, invalid("Query condition missed key schema element: %s", r.hashName())
		}
		if r.high != nil && bytes.Compare(r.low, r.high) > 0 {
			return dst, invalid("The BETWEEN operator requires upper bound to be greater than or equal to lower bound")
		}
	}
	units, ok := r.collect(scan)
	if !ok {
		return dst, throttled()
	}
	e.countRead(units)
	e.counts.queried.Add(int64(len(r.items)))
	return r.appendTo(dst, units), nil
}

func (r *read) hashName() string {
	if r.index != nil {
		return r.index.hash
	}
	return r.table.hash
}

func (r *read) sortName() string {
	if r.index != nil {
		return r.index.sort
	}
	return r.table.sort
}

func (r *read) sortKind() string {
	if r.index != nil {
		return r.index.sortKind
	}
	return r.table.sortKind
}

func (e *Engine) parseRead(body []byte) (*read, error) {
	r := &read{}
	var err error
	var indexName string
	c := wire.Over(body)
	c.Open('{')
	for err == nil {
		name, ok := c.Member()
		if !ok {
			break
		}
		raw := c.Raw()
		switch string(name) {
		case "TableName":
			r.table, err = e.tableOf(raw)
		case "IndexName":
			indexName = wire.Text(raw)
		case "KeyConditionExpression":
			r.condition, err = e.texts.conditions.of(raw, parseExpr)
		case "FilterExpression":
			r.filter, err = e.texts.conditions.of(raw, parseExpr)
		case "ProjectionExpression":
			r.project, err = e.texts.lists.of(raw, parseList)
		case "ExpressionAttributeValues":
			r.scope.values, ok = parseAttrs(raw)
		case "ExpressionAttributeNames":
			err = json.Unmarshal(raw, &r.scope.names)
		case "ExclusiveStartKey":
			r.start, ok = parseAttrs(raw)
		case "ConsistentRead":
			r.consistent = wire.True(raw)
		case "ReturnConsumedCapacity":
			r.capacity = asked(wire.Text(raw))
		case "Select":
			r.count = wire.Text(raw) == "COUNT"
		case "Limit":
			n, isInt := wire.Int(raw)
			if r.limit = int(n); !isInt || n < 1 {
				err = invalid("Limit: want 1 or more")
			}
		case "ScanIndexForward":
			r.backwards = !wire.True(raw)
		default:
			err = invalid("%s is not known here", name)
		}
		if !ok {
			err = wire.Malformed()
		}
	}
	switch {
	case err != nil:
		return nil, err
	case c.Bad():
		return nil, wire.Malformed()
	case r.table == nil:
		return nil, missing()
	}
	if len(r.scope.names) > 0 && len(r.project) > 0 {
		project := make([]string, len(r.project))
		for i, operand := range r.project {
			project[i], _ = r.scope.name(operand)
		}
		r.project = project
	}
	for _, x := range r.table.indexes {
		if x.name == indexName {
			r.index = x
		}
	}
	if indexName != "" && r.index == nil {
		return nil, invalid("The table does not have the specified index: %s", indexName)
	}
	if r.index != nil && r.consistent {
		return nil, invalid("Consistent reads are not supported on global secondary indexes")
	}
	return r, nil
}

func parseList(text string) ([]string, error) {
	list := strings.Split(text, ",")
	for i := range list {
		if list[i] = strings.TrimSpace(list[i]); !operand(list[i]) {
			return nil, invalid("projection not understood by this endpoint: %s", text)
		}
	}
	return list, nil
}

// collect reads a page under the table's lock.
func (r *read) collect(scan bool) (units float64, ok bool) {
	t := r.table
	t.mu.Lock()
	defer t.mu.Unlock()
	physical := 0
	if p := t.parts[string(r.hash)]; p != nil {
		physical = p.physical
	}
	if !t.caps.mayRead(time.Now(), physical) {
		return 0, false
	}
	startHash, _ := keyText(r.start.get(t.hash))
	startSort, _ := keyBytes(t.sortKind, r.start.get(t.sort))
	switch {
	case scan:
		r.scan(startHash, startSort)
	case r.backwards:
		r.collectBackwards(startHash, startSort)
	case r.index != nil:
		r.fromIndex(startHash, startSort)
	default:
		low := r.low
		if r.start != nil {
			if after := append(bytes.Clone(startSort), 0); bytes.Compare(after, low) > 0 {
				low = after
			}
		}
		if p := t.parts[string(r.hash)]; p != nil {
			p.each(t, low, func(it *item) bool { return r.add(it, it.key()) })
		}
	}
	units = readUnits(r.size, r.consistent)
	t.caps.readUnits(physical, units)
	return units, true
}

func (r *read) fromIndex(startHash, startSort []byte) {
	list := r.index.parts[string(r.hash)]
	if list == nil {
		return
	}
	low := r.low
	if r.start != nil {
		k, _ := keyBytes(r.index.sortKind, r.start.get(r.index.sort))
		low = append(entryKey(bytes.Clone(k), startHash, startSort), 0)
	}
	for at, _ := list.seek(low); ; at = list.after(at) {
		x, ok := list.at(at)
		if !ok {
			return
		}
		k, _, _ := bytes.Cut(x.k, []byte{0})
		if !r.add(x.it, k) {
			return
		}
	}
}

func (r *read) scan(startHash, startSort []byte) {
	for _, name := range r.table.names() {
		from := []byte(nil)
		if r.start != nil {
			switch strings.Compare(name, string(startHash)) {
			case -1:
				continue
			case 0:
				from = append(bytes.Clone(startSort), 0)
			}
		}
		if name == string(startHash) && r.table.sort == "" {
			continue
		}
		going := true
		r.table.parts[name].each(r.table, from, func(it *item) bool {
			going = r.add(it, it.key())
			return going
		})
		if !going {
			return
		}
	}
}

// add takes the next item, whose sort key in what is read is k; false where the
// page ends, or the range.
func (r *read) add(it *item, k []byte) bool {
	if !r.within(k) {
		return false
	}
	return r.take(it)
}

// within reports whether a sort key, which is not below low, lies in the range.
func (r *read) within(k []byte) bool {
	if !bytes.HasPrefix(k, r.prefix) {
		return false
	}
	if r.high == nil {
		return true
	}
	c := bytes.Compare(k, r.high)
	return c < 0 || c == 0 && !r.below
}

// take takes an item; false where the page ends.
func (r *read) take(it *item) bool {
	r.items = append(r.items, it)
	if r.index != nil {
		r.size += int(r.index.size(r.table, it))
	} else {
		r.size += int(it.size)
	}
	r.more = r.limit > 0 && len(r.items) == r.limit || r.size > maxPage
	return !r.more
}

// appendTo appends the answer. It needs no lock: items do not change.
func (r *read) appendTo(dst []byte, units float64) []byte {
	t, project := r.table, r.project
	if r.index != nil && r.index.keysOnly && project == nil {
		project = r.index.keys(t)
	}
	dst = append(dst, '{')
	if !r.count {
		dst = append(dst, `"Items":[`...)
	}
	n := 0
	for _, it := range r.items {
		if r.filter != nil && !r.filter.eval(t, it, &r.scope) {
			continue
		}
		if n++; r.count {
			continue
		}
		if n > 1 {
			dst = append(dst, ',')
		}
		dst = it.appendTo(dst, t, project)
	}
	if !r.count {
		dst = append(dst, `],`...)
	}
	dst = append(dst, `"Count":`...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	dst = append(dst, `,"ScannedCount":`...)
	dst = strconv.AppendInt(dst, int64(len(r.items)), 10)
	if r.more {
		last := r.items[len(r.items)-1]
		dst = append(dst, `,"LastEvaluatedKey":`...)
		dst = last.appendKey(dst, t)
		if r.index != nil {
			for _, name := range []string{r.index.hash, r.index.sort} {
				if name == "" || name == t.hash || name == t.sort {
					continue
				}
				dst = append(dst, ',')
				dst = wire.AppendString(dst, name)
				dst = append(dst, ':')
				dst = append(dst, last.attribute(t, name)...)
			}
		}
		dst = append(dst, '}')
	}
	if r.capacity {
		dst = append(dst, `,"ConsumedCapacity":`...)
		dst = appendCapacity(dst, t.name, units)
	}
	return append(dst, '}')
}
