package dynamostore_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/dynamostore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// losing loses the reply of the next write that was applied, once armed.
type losing struct {
	*counting
	armed atomic.Bool
}

var errReset = errors.New("connection reset by peer")

func lose[T any](l *losing, out T, err error) (T, error) {
	if err == nil && l.armed.CompareAndSwap(true, false) {
		var none T
		return none, errReset
	}
	return out, err
}

func (l *losing) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	out, err := l.counting.PutItem(ctx, in, o...)
	return lose(l, out, err)
}

func (l *losing) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	out, err := l.counting.UpdateItem(ctx, in, o...)
	return lose(l, out, err)
}

func (l *losing) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	out, err := l.counting.DeleteItem(ctx, in, o...)
	return lose(l, out, err)
}

func (l *losing) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	out, err := l.counting.TransactWriteItems(ctx, in, o...)
	return lose(l, out, err)
}

func row(state trigger.State) *store.Row {
	return &store.Row{
		Trigger: trigger.Trigger{ID: trigger.NewID(), Service: "svc", Due: time.UnixMilli(1_900_000_000_000).UTC(), N: 1, Payload: []byte("x")},
		State:   state, Created: time.UnixMilli(1_800_000_000_000).UTC(),
	}
}

func one(t *testing.T, s store.Store, op store.Op) error {
	t.Helper()
	return s.Write(t.Context(), []store.Op{op})[0].Err
}

func TestEverySingleWriteRecognisesItsOwnLostReply(t *testing.T) {
	api := &losing{counting: newKumo(t)}
	table := "triggers-" + trigger.NewID().String()
	require.NoError(t, dynamostore.CreateTable(t.Context(), api.Client, table))
	s, err := dynamostore.New(dynamostore.Options{API: api, Table: table})
	require.NoError(t, err)
	mine := trigger.AcquiredBy("me", time.UnixMilli(1_900_000_000_000))
	expires := time.Unix(4_000_000_000, 0)
	put := func(state trigger.State) *store.Row {
		r := row(state)
		require.NoError(t, one(t, s, store.Op{Kind: store.Insert, Key: r.Key(), Row: r}))
		return r
	}
	for name, do := range map[string]func(r *store.Row) error{
		"insert": func(*store.Row) error {
			r := row(trigger.StateScheduled)
			return one(t, s, store.Op{Kind: store.Insert, Key: r.Key(), Row: r})
		},
		"insert due": func(*store.Row) error {
			r := row(mine)
			return one(t, s, store.Op{Kind: store.Insert, Key: r.Key(), Row: r})
		},
		"insert due with absent keys": func(*store.Row) error {
			r := row(mine)
			other := r.Key()
			other.Partition = 5
			return one(t, s, store.Op{Kind: store.Insert, Key: r.Key(), Row: r, Absent: []trigger.Key{other}})
		},
		"acquire": func(r *store.Row) error {
			return one(t, s, store.Op{Kind: store.Transition, Key: r.Key(), From: r.State, To: mine})
		},
		"delete": func(r *store.Row) error { return one(t, s, store.Op{Kind: store.Delete, Key: r.Key(), From: r.State}) },
		"cancel": func(r *store.Row) error {
			return s.Cancel(t.Context(), r.Key(), r.State, trigger.StateCancelled, expires).Err
		},
		"set state": func(r *store.Row) error {
			return s.SetState(t.Context(), r.Key(), r.State, trigger.StateCancelledLate, expires).Err
		},
		"bury": func(r *store.Row) error { return s.Bury(t.Context(), r.Key(), r.State, "gone", expires).Err },
		"tombstone": func(*store.Row) error {
			r := row(mine)
			_, res := s.PutTombstone(t.Context(), r.Handle(), trigger.StateCancelled, expires)
			return res.Err
		},
		"move": func(r *store.Row) error {
			next := *r
			next.Due = r.Due.Add(time.Hour)
			return s.Move(t.Context(), r.Key(), r.State, &next, expires).Err
		},
		"set epochs": func(*store.Row) error { return s.SetEpochs(t.Context(), nil, trigger.Epochs{{N: 2}}) },
	} {
		r := put(trigger.StateScheduled)
		api.armed.Store(true)
		require.NoError(t, do(r), name)
		require.False(t, api.armed.Load(), "%s: no reply was lost", name)
	}
}

func TestPutTombstoneTellsTheServersDate(t *testing.T) {
	s := open(t, newKumo(t), dynamostore.Options{})
	before := time.Now().Truncate(time.Second)
	date, res := s.PutTombstone(t.Context(), row(trigger.StateScheduled).Handle(), trigger.StateCancelled, time.Unix(4_000_000_000, 0))
	require.NoError(t, res.Err)
	require.WithinRange(t, date, before, time.Now())
}

func TestInsertItemJoinsACallersTransaction(t *testing.T) {
	api := newKumo(t)
	s := open(t, api, dynamostore.Options{})
	r := row(trigger.StateScheduled)
	action, err := s.InsertItem(r)
	require.NoError(t, err)
	in := &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{action}}
	_, err = api.TransactWriteItems(t.Context(), in)
	require.NoError(t, err)
	got, err := s.Get(t.Context(), r.Key())
	require.NoError(t, err)
	require.Equal(t, r, got)
	_, err = api.TransactWriteItems(t.Context(), in)
	var cancelled *types.TransactionCanceledException
	require.ErrorAs(t, err, &cancelled)
	require.Equal(t, "ConditionalCheckFailed", *cancelled.CancellationReasons[0].Code)

	r.N = 0
	_, err = s.InsertItem(r)
	require.ErrorIs(t, err, store.ErrInvalid)
}

// logged counts log records.
type logged struct {
	slog.Handler
	n *atomic.Int64
}

func (l logged) Enabled(context.Context, slog.Level) bool      { return true }
func (l logged) Handle(_ context.Context, _ slog.Record) error { l.n.Add(1); return nil }
func (l logged) WithAttrs([]slog.Attr) slog.Handler            { return l }
func (l logged) WithGroup(string) slog.Handler                 { return l }
func newLogged() (logger *slog.Logger, n *atomic.Int64) {
	n = new(atomic.Int64)
	return slog.New(logged{n: n}), n
}

func TestAnEngineWithoutPartiQLIsFoundOutAndLoggedOnce(t *testing.T) {
	logger, logs := newLogged()
	s := open(t, newKumo(t), dynamostore.Options{Logger: logger})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var ops []store.Op
			for range 60 {
				r := row(trigger.StateScheduled)
				ops = append(ops, store.Op{Kind: store.Insert, Key: r.Key(), Row: r})
			}
			for _, res := range s.Write(t.Context(), ops) {
				if res.Err != nil {
					t.Error(res.Err)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, logs.Load())
}

func TestARowThatCannotBeReadBlocksNothing(t *testing.T) {
	logger, logs := newLogged()
	api := newKumo(t)
	s := open(t, api, dynamostore.Options{Logger: logger, SingleItems: true})
	bad, good := row(trigger.StateScheduled), row(trigger.StateScheduled)
	good.Due = good.Due.Add(time.Second)
	for _, r := range []*store.Row{bad, good} {
		require.NoError(t, one(t, s, store.Op{Kind: store.Insert, Key: r.Key(), Row: r}))
	}
	tables, err := api.ListTables(t.Context(), &dynamodb.ListTablesInput{})
	require.NoError(t, err)
	for _, name := range tables.TableNames { // kumo's servers share their tables
		_, _ = api.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: &name,
			Key: map[string]types.AttributeValue{
				"p": &types.AttributeValueMemberS{Value: bad.Key().P()}, "s": &types.AttributeValueMemberS{Value: bad.Key().S()},
			},
			UpdateExpression:          new("SET n = :n"),
			ConditionExpression:       new("attribute_exists(p)"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":n": &types.AttributeValueMemberS{Value: "many"}},
		})
	}
	for range 3 {
		page, err := s.Range(t.Context(), store.Range{To: 9_999_999_999_999, Consistent: true})
		require.NoError(t, err)
		require.Len(t, page.Rows, 1)
		require.Equal(t, good.ID, page.Rows[0].ID)
	}
	require.EqualValues(t, 1, logs.Load())
}

func TestTheSDKDoesNotRetryWrites(t *testing.T) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), "BatchExecuteStatement") {
			n.Add(1)
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()
	s, err := dynamostore.New(dynamostore.Options{API: client(server.URL), Table: "t", MaxTries: 2})
	require.NoError(t, err)
	r := row(trigger.StateScheduled)
	require.Error(t, one(t, s, store.Op{Kind: store.Insert, Key: r.Key(), Row: r}))
	require.EqualValues(t, 2, n.Load())
}

func TestAMissingTableIsNamed(t *testing.T) {
	s, err := dynamostore.New(dynamostore.Options{API: newKumo(t), Table: "nowhere"})
	require.NoError(t, err)
	_, err = s.Range(t.Context(), store.Range{To: 1})
	require.ErrorContains(t, err, `table "nowhere" does not exist`)
	r := row(trigger.StateScheduled)
	require.ErrorContains(t, one(t, s, store.Op{Kind: store.Insert, Key: r.Key(), Row: r}), `table "nowhere" does not exist`)
}

func TestWritesLeaveNoGoroutines(t *testing.T) {
	api := newKumo(t)
	s := open(t, api, dynamostore.Options{})
	ignore := goleak.IgnoreCurrent()
	var ops []store.Op
	for range 60 {
		r := row(trigger.StateScheduled)
		ops = append(ops, store.Op{Kind: store.Insert, Key: r.Key(), Row: r})
	}
	for _, res := range s.Write(t.Context(), ops) {
		require.NoError(t, res.Err)
	}
	goleak.VerifyNone(t, ignore, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"), goleak.IgnoreAnyFunction("net/http.(*conn).serve"),
		goleak.IgnoreAnyFunction("net/http.(*connReader).backgroundRead"))
}
