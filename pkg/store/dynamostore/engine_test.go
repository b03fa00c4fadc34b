package dynamostore

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// engine is a PartiQL engine in memory whose every statement and call can fail.
// It knows the three statements the store makes, and refuses all else.
type engine struct {
	API // nil: a call the test does not expect panics

	items map[string]item
	calls int
	sent  []int // statements of each batch
	reads int
	// code, if it answers one, replaces a statement's answer; applied says whether
	// the statement takes effect all the same.
	code func(call int, key string) (code types.BatchStatementErrorCodeEnum, applied bool)
	// fail, if it answers one, is a batch's error, behind its effects if applied.
	fail func(call int, in *dynamodb.BatchExecuteStatementInput) (err error, applied bool)
	// noItems leaves the old item out of failed conditions, as ministack does.
	noItems bool
	readErr error
}

func (e *engine) BatchExecuteStatement(ctx context.Context, in *dynamodb.BatchExecuteStatementInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchExecuteStatementOutput, error) {
	e.calls++
	e.sent = append(e.sent, len(in.Statements))
	if err := ctx.Err(); err != nil {
		return nil, err //nolint:wrapcheck // a fake.
	}
	var failure error
	if e.fail != nil {
		var takesEffect bool
		if failure, takesEffect = e.fail(e.calls, in); failure != nil && !takesEffect {
			return nil, failure
		}
	}
	out := &dynamodb.BatchExecuteStatementOutput{}
	for _, st := range in.Statements {
		code, old := e.execute(st)
		response := types.BatchStatementResponse{}
		if code != "" {
			response.Error = &types.BatchStatementError{Code: code, Message: aws.String("injected")}
			if !e.noItems {
				response.Error.Item = old
			}
		}
		out.Responses = append(out.Responses, response)
	}
	if in.ReturnConsumedCapacity != "" {
		out.ConsumedCapacity = []types.ConsumedCapacity{{CapacityUnits: aws.Float64(float64(len(in.Statements)))}}
	}
	return out, failure
}

func text(v types.AttributeValue) string { return v.(*types.AttributeValueMemberS).Value }

func (e *engine) execute(st types.BatchStatementRequest) (types.BatchStatementErrorCodeEnum, item) {
	var key string
	var from, to types.AttributeValue
	var fresh item
	switch q, p := *st.Statement, st.Parameters; {
	case strings.HasPrefix(q, `INSERT INTO "t" VALUE {'p': ?, 's': ?, `) && strings.Count(q, "?") == len(p):
		fresh = item{}
		for i, field := range strings.Split(strings.TrimSuffix(q[strings.Index(q, "{")+1:], "}"), ", ") {
			fresh[strings.Trim(strings.TrimSuffix(field, ": ?"), "'")] = p[i]
		}
		key = text(fresh["p"]) + "/" + text(fresh["s"])
	case q == `UPDATE "t" SET st = ? WHERE p = ? AND s = ? AND st = ?` && len(p) == 4:
		to, key, from = p[0], text(p[1])+"/"+text(p[2]), p[3]
	case q == `DELETE FROM "t" WHERE p = ? AND s = ? AND st = ?` && len(p) == 3:
		key, from = text(p[0])+"/"+text(p[1]), p[2]
	default:
		return types.BatchStatementErrorCodeEnumValidationError, nil
	}
	answer := types.BatchStatementErrorCodeEnum("")
	if e.code != nil {
		var takesEffect bool
		if answer, takesEffect = e.code(e.calls, key); answer != "" && !takesEffect {
			return answer, nil
		}
	}
	old := e.items[key]
	switch {
	case fresh != nil && old != nil:
		return types.BatchStatementErrorCodeEnumDuplicateItem, old
	case fresh != nil:
		e.items[key] = fresh
	case old == nil && to == nil: // a DELETE of nothing succeeds
	case old == nil || text(old["st"]) != text(from):
		return types.BatchStatementErrorCodeEnumConditionalCheckFailed, old
	case to != nil:
		e.items[key] = maps.Clone(old)
		e.items[key]["st"] = to
	default:
		delete(e.items, key)
	}
	return answer, nil
}

func (e *engine) BatchGetItem(_ context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	e.reads++
	out := &dynamodb.BatchGetItemOutput{Responses: map[string][]item{}}
	ask := in.RequestItems["t"]
	if !aws.ToBool(ask.ConsistentRead) {
		return nil, errors.New("want a consistent read")
	}
	for _, k := range ask.Keys {
		if it := e.items[text(k["p"])+"/"+text(k["s"])]; it != nil {
			out.Responses["t"] = append(out.Responses["t"], it)
		}
	}
	return out, e.readErr
}

func newEngine(t *testing.T, opts Options) (*engine, *Store) {
	t.Helper()
	e := &engine{items: map[string]item{}}
	opts.API, opts.Table = e, "t"
	s, err := New(opts)
	require.NoError(t, err)
	return e, s
}

func apiError(code string) error { return &smithy.GenericAPIError{Code: code, Message: "injected"} }

// hold puts a row into the engine.
func (e *engine) hold(s *Store, r *store.Row) {
	e.items[r.Key().String()] = s.codec.item(r, r.Key())
}

func (e *engine) state(r *store.Row) trigger.State {
	it := e.items[r.Key().String()]
	if it == nil {
		return ""
	}
	return trigger.State(text(it["st"]))
}
