package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// streamPoll is the wait between two passes over a stream.
const streamPoll = time.Second

// streamAPI is what is used of *dynamodbstreams.Client.
type streamAPI interface {
	DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error)
	GetShardIterator(context.Context, *dynamodbstreams.GetShardIteratorInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error)
	GetRecords(context.Context, *dynamodbstreams.GetRecordsInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error)
}

var _ streamAPI = (*dynamodbstreams.Client)(nil)

// stream hands a table's stream to an archiver, from its oldest record, in the
// place of Lambda: for laptops and tests. It keeps no position over a restart.
type stream struct {
	client   streamAPI
	arn      string
	archiver *Archiver
	// shards holds the iterator of each shard; nil: read to its end. A removal
	// needs no order between shards, so parents do not come first.
	shards map[string]*string
}

// run makes passes until ctx ends.
func (s *stream) run(ctx context.Context) error {
	tick := time.NewTicker(streamPoll)
	defer tick.Stop()
	for {
		if _, err := s.runOnce(ctx); err != nil {
			if ctx.Err() != nil {
				return nil // stopped: the next start reads it again
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// runOnce reads every shard up to what is there and returns how many records it saw.
func (s *stream) runOnce(ctx context.Context) (int, error) {
	if err := s.discover(ctx); err != nil {
		return 0, err
	}
	seen := 0
	for id := range s.shards {
		for s.shards[id] != nil {
			out, err := s.client.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: s.shards[id]})
			if err != nil {
				return seen, fmt.Errorf("get records of %s: %w", id, err)
			}
			if err := s.hand(ctx, out.Records); err != nil {
				return seen, err
			}
			seen += len(out.Records)
			s.shards[id] = out.NextShardIterator
			if len(out.Records) == 0 {
				break
			}
		}
	}
	return seen, nil
}

// discover takes up the shards that are new.
func (s *stream) discover(ctx context.Context) error {
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &s.arn}
	for {
		out, err := s.client.DescribeStream(ctx, in)
		if err != nil {
			return fmt.Errorf("describe stream: %w", err)
		}
		for _, shard := range out.StreamDescription.Shards {
			id := *shard.ShardId
			if _, known := s.shards[id]; known {
				continue
			}
			it, err := s.client.GetShardIterator(ctx, &dynamodbstreams.GetShardIteratorInput{
				StreamArn: &s.arn, ShardId: &id, ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
			})
			if err != nil {
				return fmt.Errorf("shard iterator of %s: %w", id, err)
			}
			s.shards[id] = it.ShardIterator
		}
		if in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId; in.ExclusiveStartShardId == nil {
			return nil
		}
	}
}

func (s *stream) hand(ctx context.Context, records []types.Record) error {
	if len(records) == 0 {
		return nil
	}
	var e Event
	for _, r := range records {
		raw, err := toEvent(r)
		if err != nil {
			return err
		}
		e.Records = append(e.Records, raw)
	}
	return handle(ctx, s.archiver, e)
}

// handle archives a batch that nobody will send again.
func handle(ctx context.Context, a *Archiver, e Event) error {
	res, err := a.Handle(ctx, e)
	if err == nil && len(res.BatchItemFailures) > 0 {
		err = fmt.Errorf("not archived from record %s on", res.BatchItemFailures[0].ItemIdentifier)
	}
	return err
}

// toEvent returns a record as Lambda would hand it over.
func toEvent(r types.Record) (json.RawMessage, error) {
	if r.Dynamodb == nil {
		return nil, errors.New("stream record without a change")
	}
	e := events.DynamoDBEventRecord{
		AWSRegion: deref(r.AwsRegion), EventID: deref(r.EventID), EventName: string(r.EventName),
		EventSource: deref(r.EventSource), EventVersion: deref(r.EventVersion),
		Change: events.DynamoDBStreamRecord{
			Keys: fromItem(r.Dynamodb.Keys), OldImage: fromItem(r.Dynamodb.OldImage),
			SequenceNumber: deref(r.Dynamodb.SequenceNumber), StreamViewType: string(r.Dynamodb.StreamViewType),
		},
	}
	if at := r.Dynamodb.ApproximateCreationDateTime; at != nil {
		e.Change.ApproximateCreationDateTime = events.SecondsEpochTime{Time: *at}
	}
	if r.UserIdentity != nil {
		e.UserIdentity = &events.DynamoDBUserIdentity{Type: deref(r.UserIdentity.Type), PrincipalID: deref(r.UserIdentity.PrincipalId)}
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", e.Change.SequenceNumber, err)
	}
	return raw, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func fromItem(item map[string]types.AttributeValue) map[string]events.DynamoDBAttributeValue {
	out := make(map[string]events.DynamoDBAttributeValue, len(item))
	for k, v := range item {
		out[k] = fromValue(v)
	}
	return out
}

func fromValue(v types.AttributeValue) events.DynamoDBAttributeValue {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return events.NewStringAttribute(v.Value)
	case *types.AttributeValueMemberN:
		return events.NewNumberAttribute(v.Value)
	case *types.AttributeValueMemberB:
		return events.NewBinaryAttribute(v.Value)
	case *types.AttributeValueMemberBOOL:
		return events.NewBooleanAttribute(v.Value)
	case *types.AttributeValueMemberSS:
		return events.NewStringSetAttribute(v.Value)
	case *types.AttributeValueMemberNS:
		return events.NewNumberSetAttribute(v.Value)
	case *types.AttributeValueMemberBS:
		return events.NewBinarySetAttribute(v.Value)
	case *types.AttributeValueMemberM:
		return events.NewMapAttribute(fromItem(v.Value))
	case *types.AttributeValueMemberL:
		list := make([]events.DynamoDBAttributeValue, len(v.Value))
		for i, e := range v.Value {
			list[i] = fromValue(e)
		}
		return events.NewListAttribute(list)
	default:
		return events.NewNullAttribute()
	}
}
