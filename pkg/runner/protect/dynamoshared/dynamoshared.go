// Package dynamoshared keeps what a fleet of runners knows of its targets in a
// DynamoDB table whose keys are p (S) and s (S): one item a target, in which
// every runner has one attribute for its own counts.
//
// An exchange of a target with something to tell is one UpdateItem that writes
// and reads (one write unit while the item is below 1 KiB, which is some ten
// runners); one without is one consistent GetItem. A proposal that loses costs a
// second UpdateItem, as does the first sight of a dead runner's counts. TTL, on x, removes the item ten minutes after the last write.
//
// It owns the items under "B#" and touches no others. Safe for concurrent use.
// IAM actions: UpdateItem, GetItem.
package dynamoshared

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/myosin-jobs/myosin/pkg/runner/protect"
)

// API is what is called of *dynamodb.Client.
type API interface {
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
}

// Options configure a [Shared].
type Options struct {
	// Client calls DynamoDB. Required.
	Client API
	// Table is the table's name. Required.
	Table string
	// Parallel is how many targets are exchanged at a time. Default 16.
	Parallel int
	// Keep is how long an item outlives its last write. Default 10 min; at least
	// the longest pause of a breaker, which would else be forgotten.
	Keep time.Duration
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
	if o.Parallel < 0 {
		errs = append(errs, fmt.Errorf("parallel: %d is negative", o.Parallel))
	}
	if o.Keep < 0 {
		errs = append(errs, fmt.Errorf("keep: %v is negative", o.Keep))
	}
	return errors.Join(errs...)
}

// Shared is a [protect.Shared].
type Shared struct{ o Options }

// New returns what is shared through a table that exists.
func New(o Options) (*Shared, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("dynamoshared: %w", err)
	}
	if o.Parallel == 0 {
		o.Parallel = 16
	}
	if o.Keep == 0 {
		o.Keep = 10 * time.Minute
	}
	return &Shared{o: o}, nil
}

// Exchange implements [protect.Shared]. It goes on after a target that failed;
// the first error is returned.
func (s *Shared) Exchange(ctx context.Context, runner string, reports []protect.Report) ([]protect.Record, error) {
	var mu sync.Mutex
	records := make([]protect.Record, 0, len(reports))
	var group errgroup.Group
	group.SetLimit(s.o.Parallel)
	for _, r := range reports {
		group.Go(func() error {
			rec, err := s.exchange(ctx, runner, r)
			if err != nil {
				return fmt.Errorf("exchange counts of %q: %w", r.Target, err)
			}
			mu.Lock()
			defer mu.Unlock()
			records = append(records, rec)
			return nil
		})
	}
	err := group.Wait()
	return records, err
}

func (s *Shared) exchange(ctx context.Context, runner string, r protect.Report) (protect.Record, error) {
	it, err := s.put(ctx, runner, r)
	if _, lost := errors.AsType[*types.ConditionalCheckFailedException](err); lost {
		r.Next = nil
		it, err = s.put(ctx, runner, r)
	}
	if err != nil {
		return protect.Record{}, err
	}
	rec, gone, err := decode(r, runner, it)
	if err != nil {
		return rec, err
	}
	if len(gone) > 0 {
		if err := s.remove(ctx, r, gone); err != nil {
			return rec, err
		}
	}
	return rec, nil
}

// put writes what a report has, and returns the item as it is afterwards.
//
// With a proposal: state before, g is the report's generation (or both none);
// after, g, u, w, h and l are the proposal's. The loser changes nothing and
// makes the call again without. Counts need no condition: no one else writes them.
func (s *Shared) put(ctx context.Context, runner string, r protect.Report) (item, error) {
	if r.Next == nil && len(r.Counts.Buckets) == 0 {
		out, err := s.o.Client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: &s.o.Table, Key: key(r.Target), ConsistentRead: aws.Bool(true),
		})
		if err != nil {
			return nil, err
		}
		return out.Item, nil
	}
	in := &dynamodb.UpdateItemInput{
		TableName: &s.o.Table, Key: key(r.Target), ReturnValues: types.ReturnValueAllNew,
		ExpressionAttributeNames:  map[string]string{"#x": attrTTL},
		ExpressionAttributeValues: item{":x": num(r.At.Add(s.o.Keep).Unix())},
	}
	expr := "SET #x = :x"
	set := func(name, attr string, v types.AttributeValue) {
		in.ExpressionAttributeNames["#"+name], in.ExpressionAttributeValues[":"+name] = attr, v
		expr += ", #" + name + " = :" + name
	}
	if len(r.Counts.Buckets) > 0 {
		counts := encodeCounts(stored{Counts: r.Counts, at: protect.BucketAt(r.At)})
		set("c", attrCounts(runner), &types.AttributeValueMemberB{Value: counts})
	}
	if n := r.Next; n != nil {
		set("t", attrTarget, str(r.Target))
		set("g", attrGen, gen(n.Gen))
		set("u", attrUntil, num(millis(n.Until)))
		set("w", attrPause, num(n.Pause.Milliseconds()))
		set("h", attrHolder, str(n.Holder))
		set("l", attrLease, num(millis(n.Lease)))
		if r.Counts.Gen == 0 {
			in.ConditionExpression = aws.String("attribute_not_exists(#g)")
		} else {
			in.ConditionExpression = aws.String("#g = :before")
			in.ExpressionAttributeValues[":before"] = gen(r.Counts.Gen)
		}
	}
	in.UpdateExpression = &expr
	out, err := s.o.Client.UpdateItem(ctx, in)
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

// remove drops the counts of runners that have written nothing for long. It is
// not conditional: one that lives after all writes its whole minute with its next
// report.
func (s *Shared) remove(ctx context.Context, r protect.Report, gone []string) error {
	in := &dynamodb.UpdateItemInput{
		TableName: &s.o.Table, Key: key(r.Target),
		ExpressionAttributeNames:  map[string]string{"#x": attrTTL},
		ExpressionAttributeValues: item{":x": num(r.At.Add(s.o.Keep).Unix())},
	}
	var names []string
	for i, name := range gone {
		placeholder := fmt.Sprint("#c", i)
		in.ExpressionAttributeNames[placeholder] = name
		names = append(names, placeholder)
	}
	in.UpdateExpression = aws.String("SET #x = :x REMOVE " + strings.Join(names, ", "))
	_, err := s.o.Client.UpdateItem(ctx, in)
	return err
}
