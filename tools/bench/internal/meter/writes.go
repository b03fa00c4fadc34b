package meter

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/store/dynamostore"
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
	Statements int     // conditional writes that reached the table, applied or not
	Conflicts  int     // those whose condition did not hold
	Units      float64 // as DynamoDB bills: ⌈size/1 KB⌉ each, of the larger of before and after
}

// Writes counts conditional writes at the SDK's client, below the store's own
// retries. Sizes are reckoned from the items, since the emulator reports no
// consumed capacity; the clients of all processes under test must share one
// Writes, which learns a row's size from its insert.
type Writes struct {
	mu    sync.Mutex
	sizes map[string]int // of a row's item without its state, by key
	costs map[Kind]Cost
}

// NewWrites returns a counter at zero.
func NewWrites() *Writes { return &Writes{sizes: make(map[string]int), costs: make(map[Kind]Cost)} }

// Over returns an API that counts and passes on.
func (w *Writes) Over(api dynamostore.API) dynamostore.API { return &table{API: api, w: w} }

// Costs returns what was counted.
func (w *Writes) Costs() map[Kind]Cost {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.costs)
}

// The attributes that the counting needs to know; see dynamostore.
const (
	attrP, attrS, attrState = "p", "s", "st"
	valueTo                 = ":to"
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
func (w *Writes) insert(it map[string]types.AttributeValue, o outcome, factor float64) {
	if o == failed {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	size := itemSize(it)
	if o == applied {
		w.sizes[text(it[attrP])+"/"+text(it[attrS])] = size - len(text(it[attrState]))
	}
	w.add(Insert, size, o, factor)
}

// change counts a new state, or with to empty a delete, of the row under p, s.
func (w *Writes) change(p, s, from, to string, o outcome) {
	if o == failed {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
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
	w.add(kind, w.sizes[key]+max(len(from), len(to)), o, 1)
	if to == "" && o == applied {
		delete(w.sizes, key)
	}
}

// add counts a write. Called with mu held.
func (w *Writes) add(kind Kind, size int, o outcome, factor float64) {
	c := w.costs[kind]
	c.Statements++
	if o == conflicted {
		c.Conflicts++
	}
	c.Units += factor * float64(max(1, (size+1023)/1024))
	w.costs[kind] = c
}

// table is a client whose writes are counted.
type table struct {
	dynamostore.API
	w *Writes
}

func (t *table) PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	out, err := t.API.PutItem(ctx, in, opts...)
	t.w.insert(in.Item, outcomeOf(err), 1)
	return out, err //nolint:wrapcheck // passed on as it is.
}

func (t *table) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	out, err := t.API.UpdateItem(ctx, in, opts...)
	to := text(in.ExpressionAttributeValues[valueTo])
	if to == "" {
		to = string(Other) // no plain transition
	}
	t.w.change(text(in.Key[attrP]), text(in.Key[attrS]), text(in.ExpressionAttributeValues[":from"]), to, outcomeOf(err))
	return out, err //nolint:wrapcheck // passed on as it is.
}

func (t *table) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	out, err := t.API.DeleteItem(ctx, in, opts...)
	t.w.change(text(in.Key[attrP]), text(in.Key[attrS]), text(in.ExpressionAttributeValues[":from"]), "", outcomeOf(err))
	return out, err //nolint:wrapcheck // passed on as it is.
}

func (t *table) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	out, err := t.API.TransactWriteItems(ctx, in, opts...)
	o := outcomeOf(err)
	if _, cancelled := errors.AsType[*types.TransactionCanceledException](err); cancelled {
		o = conflicted
	}
	for i := range in.TransactItems {
		if put := in.TransactItems[i].Put; put != nil {
			t.w.insert(put.Item, o, 2)
		} else if o != failed { // a check or a tombstone: small, and billed double
			t.w.mu.Lock()
			t.w.add(Other, 0, o, 2)
			t.w.mu.Unlock()
		}
	}
	return out, err //nolint:wrapcheck // passed on as it is.
}

func (t *table) BatchExecuteStatement(ctx context.Context, in *dynamodb.BatchExecuteStatementInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchExecuteStatementOutput, error) {
	out, err := t.API.BatchExecuteStatement(ctx, in, opts...)
	if err != nil {
		return out, err //nolint:wrapcheck // passed on as it is; nothing of the batch was executed.
	}
	for i := range min(len(in.Statements), len(out.Responses)) {
		o := applied
		if e := out.Responses[i].Error; e != nil {
			if o = failed; e.Code == types.BatchStatementErrorCodeEnumConditionalCheckFailed || e.Code == types.BatchStatementErrorCodeEnumDuplicateItem {
				o = conflicted
			}
		}
		t.w.statement(&in.Statements[i], o)
	}
	return out, nil
}

// statement counts one PartiQL statement as dynamostore writes them.
func (w *Writes) statement(st *types.BatchStatementRequest, o outcome) {
	stmt, params := *st.Statement, st.Parameters
	switch {
	case strings.HasPrefix(stmt, "INSERT"):
		it := make(map[string]types.AttributeValue, len(params))
		_, list, _ := strings.Cut(stmt, "{")
		for i, part := range strings.Split(list, ",") {
			if name := strings.Split(part, "'"); len(name) > 1 && i < len(params) {
				it[name[1]] = params[i]
			}
		}
		w.insert(it, o, 1)
	case strings.HasPrefix(stmt, "UPDATE") && len(params) == 4:
		w.change(text(params[1]), text(params[2]), text(params[3]), text(params[0]), o)
	case strings.HasPrefix(stmt, "DELETE") && len(params) == 3:
		w.change(text(params[0]), text(params[1]), text(params[2]), "", o)
	}
}
