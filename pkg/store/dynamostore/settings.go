package dynamostore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// The settings row lies beside the triggers, under a key no trigger can have.
const (
	settingsP = "settings"
	settingsS = "partitions"
)

func settingsKey() item { return item{attrP: str(settingsP), attrS: str(settingsS)} }

// Epochs implements store.Store.
func (s *Store) Epochs(ctx context.Context) (trigger.Epochs, error) {
	it, err := s.getItem(ctx, "epochs", settingsKey())
	if err != nil {
		return nil, wrapOp("epochs", err)
	}
	if it == nil {
		return trigger.Epochs{{N: trigger.DefaultPartitions}}, nil
	}
	r := reader{it: it}
	e, err := parseEpochs(r.str(attrEpochs))
	return e, wrapOp("epochs", err)
}

// SetEpochs implements store.Store.
func (s *Store) SetEpochs(ctx context.Context, old, next trigger.Epochs) error {
	if err := next.Validate(); err != nil {
		return fmt.Errorf("set epochs: %w: %w", store.ErrInvalid, err)
	}
	was, is := formatEpochs(old), formatEpochs(next)
	it := settingsKey()
	it[attrEpochs] = str(is)
	in := &dynamodb.PutItemInput{TableName: &s.opts.Table, Item: it, ReturnConsumedCapacity: s.capacity()}
	switch {
	case len(old) == 0:
		in.ConditionExpression = aws.String("attribute_not_exists(" + attrP + ")")
	case was == formatEpochs(trigger.Epochs{{N: trigger.DefaultPartitions}}): // what a table without settings answers
		in.ConditionExpression = aws.String("attribute_not_exists(" + attrP + ") OR " + attrEpochs + " = :was")
		in.ExpressionAttributeValues = item{":was": str(was)}
	default:
		in.ConditionExpression = aws.String(attrEpochs + " = :was")
		in.ExpressionAttributeValues = item{":was": str(was)}
	}
	var res store.Result
	t := &task{
		name: "set epochs", res: &res,
		call: func(ctx context.Context) error {
			out, err := s.opts.API.PutItem(ctx, in, once)
			if err != nil {
				s.meterWrite("setepochs")
				return err //nolint:wrapcheck // classified and wrapped by its task.
			}
			s.meterWrite("setepochs", listOf(out.ConsumedCapacity)...)
			return nil
		},
	}
	t.ours = func(*store.Row) bool {
		now, err := s.Epochs(ctx)
		return err == nil && formatEpochs(now) == is
	}
	s.one(ctx, t)
	return res.Err
}

// formatEpochs packs epochs into one text, so that one equality fences them:
// "64@0,128@1900000000000", a count and the epoch millisecond it holds from.
func formatEpochs(e trigger.Epochs) string {
	parts := make([]string, len(e))
	for i, ep := range e {
		var ms int64
		if !ep.From.IsZero() {
			ms = ep.From.UnixMilli()
		}
		parts[i] = fmt.Sprintf("%d@%d", ep.N, ms)
	}
	return strings.Join(parts, ",")
}

func parseEpochs(s string) (trigger.Epochs, error) {
	var e trigger.Epochs
	for part := range strings.SplitSeq(s, ",") {
		count, from, ok := strings.Cut(part, "@")
		n, err := strconv.Atoi(count)
		ms, err2 := strconv.ParseInt(from, 10, 64)
		if !ok || err != nil || err2 != nil {
			return nil, fmt.Errorf("settings row: %q is no list of partition epochs", s)
		}
		ep := trigger.Epoch{N: n}
		if ms != 0 {
			ep.From = time.UnixMilli(ms).UTC()
		}
		e = append(e, ep)
	}
	if err := e.Validate(); err != nil {
		return nil, fmt.Errorf("settings row: %w", err)
	}
	return e, nil
}
