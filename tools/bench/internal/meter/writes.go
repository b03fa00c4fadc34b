package meter

import (
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Kind is what a write does to a trigger's row.
type Kind string

// The kinds of writes.
const (
	Insert   Kind = "insert"
	Acquire  Kind = "acquire"
	Complete Kind = "complete"
	Release  Kind = "release" // or recovered: back to waiting
	Other    Kind = "other"
)

// Kinds lists them in the order of a row's life.
func Kinds() [5]Kind { return [...]Kind{Insert, Acquire, Complete, Release, Other} }

// Cost is what writes of one kind came to.
type Cost struct {
	Statements int     `json:"statements"` // conditional writes that reached the table, applied or not
	Conflicts  int     `json:"conflicts"`  // those whose condition did not hold
	Units      float64 `json:"units"`      // as DynamoDB bills: ⌈size/1 KB⌉ each, of the larger of before and after
}

// Plus adds.
func (c Cost) Plus(o Cost) Cost {
	return Cost{c.Statements + o.Statements, c.Conflicts + o.Conflicts, c.Units + o.Units}
}

// The attributes that the counting needs to know; see dynamostore.
const (
	attrP, attrS, attrState = "p", "s", "st"
	valueFrom, valueTo      = ":from", ":to"
)

type outcome uint8

const (
	applied outcome = iota
	conflicted
	failed // nothing reached the table, or nobody knows
)

func outcomeOf(err error) outcome {
	if err == nil {
		return applied
	}
	if _, conflict := errors.AsType[*types.ConditionalCheckFailedException](err); conflict {
		return conflicted
	}
	return failed
}

// insert counts a put of an item; factor is 2 in a transaction.
func (m *Meter) insert(it item, o outcome, factor float64) {
	if o == failed {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	size, state := itemSize(it), text(it[attrState])
	// Others read a row before they change it; who inserts it as acquired does not.
	if o == applied && trigger.State(state).Kind() == trigger.Acquired {
		m.sizes[keyOf(it)] = size - len(state)
	}
	m.write(Insert, size, o, factor)
}

// change counts a new state, or with to empty a delete, of the row under p, s.
func (m *Meter) change(p, s, from, to string, o outcome) {
	if o == failed {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	kind := Complete
	if to != "" {
		switch state := trigger.State(to); {
		case state.Kind() == trigger.Acquired:
			kind = Acquire
		case state.Waiting():
			kind = Release
		default:
			kind = Other
		}
	}
	key := p + "/" + s
	m.write(kind, m.sizes[key]+max(len(from), len(to)), o, 1)
	if to == "" && o == applied {
		delete(m.sizes, key)
	}
}

// write counts a write. Called with mu held.
func (m *Meter) write(kind Kind, size int, o outcome, factor float64) {
	one := Cost{Statements: 1, Units: factor * float64(max(1, (size+1023)/1024))}
	if o == conflicted {
		one.Conflicts = 1
	}
	m.c.Writes[kind] = m.c.Writes[kind].Plus(one)
}

// call counts what a call did to tables, once it is over.
func (m *Meter) call(in, out any, err error) {
	o := outcomeOf(err)
	switch in := in.(type) {
	case *dynamodb.PutItemInput:
		m.insert(in.Item, o, 1)
	case *dynamodb.UpdateItemInput:
		to := text(in.ExpressionAttributeValues[valueTo])
		if to == "" {
			to = string(Other) // no plain transition
		}
		m.change(text(in.Key[attrP]), text(in.Key[attrS]), text(in.ExpressionAttributeValues[valueFrom]), to, o)
	case *dynamodb.DeleteItemInput:
		m.change(text(in.Key[attrP]), text(in.Key[attrS]), text(in.ExpressionAttributeValues[valueFrom]), "", o)
	case *dynamodb.TransactWriteItemsInput:
		if _, cancelled := errors.AsType[*types.TransactionCanceledException](err); cancelled {
			o = conflicted
		}
		m.transaction(in, o)
	case *dynamodb.BatchExecuteStatementInput:
		if done, _ := out.(*dynamodb.BatchExecuteStatementOutput); err == nil && done != nil {
			m.batch(in, done)
		}
	default:
		if err == nil {
			m.read(in, out)
		}
	}
}

func (m *Meter) transaction(in *dynamodb.TransactWriteItemsInput, o outcome) {
	for i := range in.TransactItems {
		if put := in.TransactItems[i].Put; put != nil {
			m.insert(put.Item, o, 2)
		} else if o != failed { // a check or a tombstone: small, and billed double
			m.mu.Lock()
			m.write(Other, 0, o, 2)
			m.mu.Unlock()
		}
	}
}

func (m *Meter) batch(in *dynamodb.BatchExecuteStatementInput, out *dynamodb.BatchExecuteStatementOutput) {
	for i := range min(len(in.Statements), len(out.Responses)) {
		o := applied
		if e := out.Responses[i].Error; e != nil {
			if o = failed; e.Code == types.BatchStatementErrorCodeEnumConditionalCheckFailed || e.Code == types.BatchStatementErrorCodeEnumDuplicateItem {
				o = conflicted
			}
		}
		m.statement(&in.Statements[i], o)
	}
}

// statement counts one PartiQL statement as dynamostore writes them.
func (m *Meter) statement(st *types.BatchStatementRequest, o outcome) {
	stmt, params := *st.Statement, st.Parameters
	switch {
	case strings.HasPrefix(stmt, "INSERT"):
		it := make(item, len(params))
		_, list, _ := strings.Cut(stmt, "{")
		for i, part := range strings.Split(list, ",") {
			if name := strings.Split(part, "'"); len(name) > 1 && i < len(params) {
				it[name[1]] = params[i]
			}
		}
		m.insert(it, o, 1)
	case strings.HasPrefix(stmt, "UPDATE") && len(params) == 4:
		m.change(text(params[1]), text(params[2]), text(params[3]), text(params[0]), o)
	case strings.HasPrefix(stmt, "DELETE") && len(params) == 3:
		m.change(text(params[0]), text(params[1]), text(params[2]), "", o)
	}
}
