package dynamostore

import (
	"context"
	"fmt"
	"net/http"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// change is one conditional update of one row, with its retries.
func (s *Store) change(ctx context.Context, name string, key trigger.Key, from trigger.State, expr string, values item, ours func(*store.Row) bool) store.Result {
	var res store.Result
	s.one(ctx, &task{
		name: name, res: &res, keys: []trigger.Key{key},
		call: func(ctx context.Context) error { return s.update(ctx, name, key, from, expr, values) },
		ours: func(found *store.Row) bool { return found != nil && ours(found) },
	})
	return res
}

const setStateAndExpiry = "SET " + attrState + " = :to, " + attrExpires + " = :x"

func stateAndExpiry(to trigger.State, expires time.Time) item {
	return item{":to": str(string(to)), ":x": num(expires.Unix())}
}

// Cancel implements store.Store.
func (s *Store) Cancel(ctx context.Context, key trigger.Key, from, to trigger.State, expires time.Time) store.Result {
	return s.change(ctx, "cancel", key, from, setStateAndExpiry+" REMOVE "+bodyAttrs, stateAndExpiry(to, expires),
		left(to, expires))
}

// SetState implements store.Store.
func (s *Store) SetState(ctx context.Context, key trigger.Key, from, to trigger.State, expires time.Time) store.Result {
	return s.change(ctx, "set state", key, from, setStateAndExpiry, stateAndExpiry(to, expires), left(to, expires))
}

// left recognises what a write with a lost reply left: the same state, to expire
// at the same second. Another writer's would mean the same.
func left(to trigger.State, expires time.Time) func(*store.Row) bool {
	return func(found *store.Row) bool { return found.State == to && found.Expires.Unix() == expires.Unix() }
}

// Bury implements store.Store.
func (s *Store) Bury(ctx context.Context, key trigger.Key, from trigger.State, reason string, expires time.Time) store.Result {
	// The index is by service. Not every engine copies an attribute in an update
	// (kumo ignores it), so the row is read first; its service never changes.
	row, err := s.Get(ctx, key)
	if err != nil {
		return store.Result{Err: fmt.Errorf("bury: %w", err)}
	}
	if row == nil || row.State != from {
		return store.Result{Err: fmt.Errorf("bury: %w", store.ErrConflict), Found: row}
	}
	values := stateAndExpiry(trigger.StateDead, expires)
	values[":r"], values[":ds"] = str(store.CutReason(reason)), str(row.Service)
	return s.change(ctx, "bury", key, from,
		setStateAndExpiry+", "+attrReason+" = :r, "+attrDead+" = :ds", values, left(trigger.StateDead, expires))
}

// PutTombstone implements store.Store. The time is the Date of the answer.
func (s *Store) PutTombstone(ctx context.Context, h trigger.Handle, state trigger.State, expires time.Time) (time.Time, store.Result) {
	row := store.Row{
		Trigger: trigger.Trigger{Service: h.Service, N: h.N},
		State:   state, Expires: expires, Created: time.Now(),
	}
	key := h.Key()
	it := s.codec.item(&row, key)
	var res store.Result
	var date time.Time
	s.one(ctx, &task{
		name: "tombstone", res: &res, keys: []trigger.Key{key},
		call: func(ctx context.Context) (err error) {
			date, err = s.put(ctx, "tombstone", it)
			return err
		},
		ours: func(found *store.Row) bool { return found != nil && left(state, expires)(found) },
	})
	return date, res
}

func dateIn(m middleware.Metadata) time.Time {
	if response, ok := awsmiddleware.GetRawResponse(m).(*smithyhttp.Response); ok {
		return dateOf(response)
	}
	return time.Time{}
}

func dateOf(r *smithyhttp.Response) time.Time {
	t, err := http.ParseTime(r.Header.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
