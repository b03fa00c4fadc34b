package dynamostore

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// maxGet is what one BatchGetItem takes.
const maxGet = 100

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key trigger.Key) (*store.Row, error) {
	it, err := s.getItem(ctx, "get", keyItem(key))
	if err != nil || it == nil {
		return nil, wrapOp("get "+key.String(), err)
	}
	row, err := s.codec.row(it)
	return row, wrapOp("get", err)
}

func wrapOp(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", op, err)
}

// getItem reads one item, strongly consistent; nil if there is none.
func (s *Store) getItem(ctx context.Context, op string, key item) (item, error) {
	out, err := s.opts.API.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &s.opts.Table, Key: key, ConsistentRead: aws.Bool(true), ReturnConsumedCapacity: s.capacity(),
	})
	if err != nil {
		s.meterRead(op)
		return nil, s.wrap(classify(ctx, err), err)
	}
	s.meterRead(op, listOf(out.ConsumedCapacity)...)
	if len(out.Item) == 0 {
		return nil, nil
	}
	return out.Item, nil
}

// getAll reads items, strongly consistent; those that are missing are left out.
func (s *Store) getAll(ctx context.Context, keys []trigger.Key) (map[trigger.Key]item, error) {
	found := make(map[trigger.Key]item, len(keys))
	var ask []item
	for _, k := range keys {
		if _, twice := found[k]; !twice { // DynamoDB takes no key twice
			found[k] = nil
			ask = append(ask, keyItem(k))
		}
	}
	for chunk := range slices.Chunk(ask, maxGet) {
		if err := s.getChunk(ctx, chunk, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// getChunk reads until nothing is left unprocessed or the budget is spent.
func (s *Store) getChunk(ctx context.Context, keys []item, found map[trigger.Key]item) error {
	start := time.Now()
	for n := 1; len(keys) > 0; n++ {
		out, err := s.opts.API.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
			RequestItems:           map[string]types.KeysAndAttributes{s.opts.Table: {Keys: keys, ConsistentRead: aws.Bool(true)}},
			ReturnConsumedCapacity: s.capacity(),
		})
		if err != nil {
			s.meterRead("get")
			return s.wrap(classify(ctx, err), err)
		}
		s.meterRead("get", out.ConsumedCapacity...)
		for _, it := range out.Responses[s.opts.Table] {
			key, err := itemKey(it)
			if err != nil {
				return err
			}
			found[*key] = it
		}
		keys = out.UnprocessedKeys[s.opts.Table].Keys
		if len(keys) > 0 && (n >= s.opts.MaxTries || !pause(ctx, n, s.opts.RetryFor-time.Since(start))) {
			return fmt.Errorf("%w: %d keys were left unread", store.ErrThrottled, len(keys))
		}
	}
	return nil
}

// Range implements store.Store. Its bounds are in the key condition, the key
// after which it goes on included, so that no engine's cursor matters. A row
// that cannot be read is left out and logged: it must not block its partition.
func (s *Store) Range(ctx context.Context, r store.Range) (store.Page, error) {
	low, high := trigger.SortFrom(r.From), trigger.SortFrom(r.To)+"$" // '$' follows '#'
	if r.After != nil {
		low = max(low, r.After.S()+"!")
	}
	if r.To < 0 || r.From > r.To || low > high {
		return store.Page{}, nil // an engine would refuse the condition
	}
	in := &dynamodb.QueryInput{
		TableName:              &s.opts.Table,
		KeyConditionExpression: aws.String(attrP + " = :p AND " + attrS + " BETWEEN :low AND :high"),
		ExpressionAttributeValues: item{
			":p": str(trigger.PartitionKey(r.Lane, r.Partition)), ":low": str(low), ":high": str(high),
		},
		ConsistentRead:         &r.Consistent,
		Limit:                  limitOf(r.Limit),
		ReturnConsumedCapacity: s.capacity(),
	}
	if r.Service != "" {
		in.FilterExpression = aws.String(attrService + " = :v")
		in.ExpressionAttributeValues[":v"] = str(r.Service)
	}
	if r.Heads {
		in.ProjectionExpression = aws.String(headAttrs)
	}
	page, err := s.query(ctx, "range", in)
	return page, wrapOp("range of "+trigger.PartitionKey(r.Lane, r.Partition), err)
}

// Dead implements store.Store.
func (s *Store) Dead(ctx context.Context, service string, after *trigger.Key, limit int) (store.Page, error) {
	if limit <= 0 {
		limit = 100
	}
	in := &dynamodb.QueryInput{
		TableName:                 &s.opts.Table,
		IndexName:                 aws.String(deadIndex),
		KeyConditionExpression:    aws.String(attrDead + " = :ds"),
		ExpressionAttributeValues: item{":ds": str(service)},
		Limit:                     limitOf(limit),
		ReturnConsumedCapacity:    s.capacity(),
	}
	if after != nil {
		in.ExclusiveStartKey = keyItem(*after)
		in.ExclusiveStartKey[attrDead] = str(service)
	}
	page, err := s.query(ctx, "dead", in)
	return page, wrapOp("dead triggers of "+service, err)
}

func limitOf(n int) *int32 {
	if n <= 0 {
		return nil
	}
	return aws.Int32(int32(min(n, math.MaxInt32)))
}

func (s *Store) query(ctx context.Context, op string, in *dynamodb.QueryInput) (store.Page, error) {
	out, err := s.opts.API.Query(ctx, in)
	if err != nil {
		s.meterRead(op)
		return store.Page{}, s.wrap(classify(ctx, err), err)
	}
	s.meterRead(op, listOf(out.ConsumedCapacity)...)
	page := store.Page{Rows: make([]store.Row, 0, len(out.Items))}
	for _, it := range out.Items {
		row, err := s.codec.row(it)
		if err != nil {
			s.warnUnreadable(ctx, err)
			continue
		}
		page.Rows = append(page.Rows, *row)
	}
	if len(out.LastEvaluatedKey) > 0 {
		if page.Next, err = itemKey(out.LastEvaluatedKey); err != nil {
			return store.Page{}, err
		}
	}
	return page, nil
}

// warnUnreadable logs at most once a minute: ranges come around twice a second.
func (s *Store) warnUnreadable(ctx context.Context, err error) {
	now, last := time.Now().Unix(), s.warned.Load()
	if now-last >= 60 && s.warned.CompareAndSwap(last, now) {
		s.opts.Logger.ErrorContext(ctx, "a row cannot be read and is left alone", "table", s.opts.Table, "error", err)
	}
}
