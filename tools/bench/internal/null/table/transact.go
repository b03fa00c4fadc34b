package table

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// maxActions is what one TransactWriteItems takes.
const maxActions = 100

// transact makes all writes or none. Each costs double.
func (e *Engine) transact(body, dst []byte) ([]byte, error) {
	var in struct {
		TransactItems []struct {
			Put, Update, Delete, ConditionCheck *write
		}
		ClientRequestToken     string
		ReturnConsumedCapacity string
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return dst, err //nolint:wrapcheck // becomes the answer.
	}
	if len(in.TransactItems) == 0 || len(in.TransactItems) > maxActions {
		return dst, invalid("%d actions; want 1 to %d", len(in.TransactItems), maxActions)
	}
	now := time.Now()
	writes := make([]*write, 0, len(in.TransactItems))
	tables := make([]*Table, 0, 2)
	keys := make(map[string]bool, len(in.TransactItems))
	for i := range in.TransactItems {
		action := &in.TransactItems[i]
		for op, w := range map[string]*write{opPut: action.Put, opUpdate: action.Update, opDelete: action.Delete, opCheck: action.ConditionCheck} {
			if w == nil {
				continue
			}
			if err := w.prepare(e, op); err != nil {
				return dst, err
			}
			writes = append(writes, w)
			if !slices.Contains(tables, w.table) {
				tables = append(tables, w.table)
			}
			key := strings.Join([]string{w.TableName, string(w.hash), string(w.sort)}, "\x00")
			if keys[key] {
				return dst, invalid("Transaction request cannot include multiple operations on one item")
			}
			keys[key] = true
		}
	}
	if len(writes) != len(in.TransactItems) {
		return dst, invalid("an action that is none, or several")
	}
	if in.ClientRequestToken != "" && e.tokens.seen(in.ClientRequestToken, now) {
		return append(dst, `{}`...), nil
	}
	// One order, so that two transactions never wait for each other.
	slices.SortFunc(tables, func(a, b *Table) int { return strings.Compare(a.name, b.name) })
	for _, t := range tables {
		t.mu.Lock()
	}
	used, err := e.transactLocked(writes, now)
	for _, t := range tables {
		t.mu.Unlock()
	}
	if err != nil {
		return dst, err
	}
	if in.ClientRequestToken != "" {
		e.tokens.add(in.ClientRequestToken, now)
	}
	if !asked(in.ReturnConsumedCapacity) {
		return append(dst, `{}`...), nil
	}
	dst = append(dst, `{"ConsumedCapacity":[`...)
	for _, t := range tables {
		dst = comma(dst)
		dst = appendCapacity(dst, t.name, used[t])
	}
	return append(dst, `]}`...), nil
}

func (e *Engine) transactLocked(writes []*write, now time.Time) (map[*Table]float64, error) {
	e.counts.transactions.Add(1)
	for _, w := range writes {
		if !w.table.caps.mayWrite(now, w.table.partition(w.hash, true).physical) {
			return nil, throttled()
		}
	}
	used := make(map[*Table]float64, 1)
	reasons := []byte(`,"CancellationReasons":[`)
	failed := false
	for _, w := range writes {
		holds, err := w.judge()
		if err != nil {
			return nil, err
		}
		units := 2 * w.units()
		w.table.caps.wrote(w.part.physical, units)
		e.countWrite(w.table, units)
		used[w.table] += units
		reasons = comma(reasons)
		if holds {
			reasons = append(reasons, `{"Code":"None"}`...)
			continue
		}
		failed = true
		e.counts.conflicts.Add(1)
		reasons = append(reasons, `{"Code":"ConditionalCheckFailed","Message":"The conditional request failed"`...)
		if w.old != nil && w.ReturnValuesOnConditionCheckFailure == "ALL_OLD" {
			reasons = append(reasons, `,"Item":`...)
			reasons = w.old.appendTo(reasons, w.table, nil)
		}
		reasons = append(reasons, '}')
	}
	if failed {
		cancelled := wire.Fault("TransactionCanceledException", "Transaction cancelled, please refer to CancellationReasons")
		cancelled.Extra = append(reasons, ']')
		return nil, cancelled
	}
	for _, w := range writes {
		units := w.table.indexUnits(w.old, w.next)
		e.countWrite(w.table, units)
		used[w.table] += units
		w.apply()
	}
	return used, nil
}
