// Package dynamoforecast keeps the forecast in a DynamoDB table of its own, one
// item per service and minute, gone a day after its minute.
//
// A count is only ever added to, so writers need no conditions and no order. It
// refuses to guess: an item that it cannot read fails the range. Safe for
// concurrent use. IAM actions: UpdateItem to count, Query to read.
package dynamoforecast

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/forecast"
)

// Attributes of an item; testdata/item.v1.json holds one.
const (
	attrService = "s" // partition key
	attrMinute  = "m" // sort key, N: minutes since 1970
	attrCount   = "c" // N
	attrExpires = "x" // N: epoch seconds, the table's time to live
)

// keep is how long after its minute an item expires.
const keep = 24 * time.Hour

// API is what a table calls of *dynamodb.Client.
type API interface {
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

// Options configure a [Table].
type Options struct {
	// Client calls DynamoDB. Required.
	Client API
	// Table is the table's name; platform.Names.Forecast has it. Required.
	Table string
}

// Validate reports every option at fault, joined.
func (o *Options) Validate() error {
	var errs []error
	if o.Client == nil {
		errs = append(errs, errors.New("client: missing"))
	}
	if o.Table == "" {
		errs = append(errs, errors.New("table: missing"))
	}
	return errors.Join(errs...)
}

// Table is a [forecast.Store].
type Table struct{ o Options }

// New returns the forecast in a table that exists.
func New(o Options) (*Table, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("dynamoforecast: %w", err)
	}
	return &Table{o: o}, nil
}

// Add implements [forecast.Store]: one UpdateItem, one write unit.
//
// State before: any. State after: the count is n more, and the item expires a
// day after its minute. It is not conditional: nobody loses.
func (t *Table) Add(ctx context.Context, service string, minute time.Time, n int64) error {
	m := floor(minute)
	_, err := t.o.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &t.o.Table,
		Key: map[string]types.AttributeValue{
			attrService: &types.AttributeValueMemberS{Value: service},
			attrMinute:  number(m),
		},
		UpdateExpression:         aws.String("SET #x = :x ADD #c :n"),
		ExpressionAttributeNames: map[string]string{"#x": attrExpires, "#c": attrCount},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":n": number(n), ":x": number(m*60 + int64(keep/time.Second)),
		},
	})
	if err != nil {
		return fmt.Errorf("add to forecast of %s: %w", service, err)
	}
	return nil
}

// Range implements [forecast.Store]: one Query a page of 1 MB, which is tens of
// thousands of minutes.
func (t *Table) Range(ctx context.Context, service string, from, to time.Time) ([]forecast.Point, error) {
	first, last := ceil(from), ceil(to)-1
	if first > last {
		return nil, nil
	}
	in := &dynamodb.QueryInput{
		TableName:                &t.o.Table,
		KeyConditionExpression:   aws.String("#s = :s AND #m BETWEEN :from AND :to"),
		ProjectionExpression:     aws.String("#m, #c"),
		ExpressionAttributeNames: map[string]string{"#s": attrService, "#m": attrMinute, "#c": attrCount},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":s": &types.AttributeValueMemberS{Value: service}, ":from": number(first), ":to": number(last),
		},
	}
	var points []forecast.Point
	for {
		out, err := t.o.Client.Query(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("read forecast of %s: %w", service, err)
		}
		for _, it := range out.Items {
			p, err := point(it)
			if err != nil {
				return nil, fmt.Errorf("read forecast of %s: %w", service, err)
			}
			points = append(points, p)
		}
		if len(out.LastEvaluatedKey) == 0 {
			return points, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

func point(it map[string]types.AttributeValue) (forecast.Point, error) {
	m, err := parse(it, attrMinute)
	n, err2 := parse(it, attrCount)
	if err := errors.Join(err, err2); err != nil {
		return forecast.Point{}, err
	}
	return forecast.Point{Minute: time.Unix(m*60, 0).UTC(), Due: n}, nil
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func parse(it map[string]types.AttributeValue, attr string) (int64, error) {
	v, ok := it[attr].(*types.AttributeValueMemberN)
	if !ok {
		return 0, fmt.Errorf("attribute %s: %T; want N", attr, it[attr])
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("attribute %s: %w", attr, err)
	}
	return n, nil
}

// floor is the number of the minute that t lies in.
func floor(t time.Time) int64 { return t.Truncate(time.Minute).Unix() / 60 }

// ceil is the number of the first minute that starts at or after t.
func ceil(t time.Time) int64 { return floor(t.Add(time.Minute - 1)) }

var _ forecast.Store = (*Table)(nil)
