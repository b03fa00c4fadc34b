// Package dynamoregistry keeps the service registry in a DynamoDB table, one
// item per service with readable attribute names, because Terraform and people
// write them too.
//
// It refuses to fight other writers: attributes that it does not know survive
// every write, and only [Registry.Put] may create an item. Safe for concurrent
// use. IAM actions: Scan, GetItem, UpdateItem, DeleteItem.
package dynamoregistry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/registry"
)

// API is what the registry calls of *dynamodb.Client.
type API interface {
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
}

// TableName returns the name of the table of an installation.
func TableName(prefix string) string { return prefix + "-services" }

// Options configure a [Registry].
type Options struct {
	// Client calls DynamoDB. Required.
	Client API
	// Table is the table's name; see [TableName]. Required.
	Table string
	// Now is the clock that stamps writes; nil: time.Now.
	Now func() time.Time
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

// Registry is a [registry.Source].
type Registry struct{ o Options }

// New returns the registry in a table that exists.
func New(o Options) (*Registry, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("dynamoregistry: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Registry{o: o}, nil
}

// List implements [registry.Source]: an eventually consistent Scan, sorted by
// name.
func (r *Registry) List(ctx context.Context) ([]registry.Service, error) {
	var all []registry.Service
	bad := make(map[string]error)
	in := &dynamodb.ScanInput{TableName: &r.o.Table}
	for {
		out, err := r.o.Client.Scan(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("list services in %s: %w", r.o.Table, err)
		}
		for _, it := range out.Items {
			svc, err := decode(it)
			if err != nil {
				bad[svc.Name] = err
				continue
			}
			all = append(all, svc)
		}
		if len(out.LastEvaluatedKey) == 0 {
			break
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
	slices.SortFunc(all, func(a, b registry.Service) int { return strings.Compare(a.Name, b.Name) })
	if len(bad) > 0 {
		return all, &registry.PartialError{Bad: bad}
	}
	return all, nil
}

// Get implements [registry.Source].
func (r *Registry) Get(ctx context.Context, name string) (registry.Service, error) {
	out, err := r.o.Client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &r.o.Table, Key: key(name), ConsistentRead: aws.Bool(true),
	})
	switch {
	case err != nil:
		return registry.Service{}, fmt.Errorf("get service %q: %w", name, err)
	case len(out.Item) == 0:
		return registry.Service{}, fmt.Errorf("get service %q: %w", name, registry.ErrUnknown)
	}
	svc, err := decode(out.Item)
	if err != nil {
		return registry.Service{}, fmt.Errorf("get service %q: %w", name, err)
	}
	return svc, nil
}

// Put implements [registry.Source]. Attributes of the item that this release
// does not know stay as they are.
//
// State before: any. State after: every known attribute is as given, empty ones
// are removed. It is not conditional: the last of two Puts wins.
func (r *Registry) Put(ctx context.Context, svc registry.Service) error {
	if err := svc.Validate(); err != nil {
		return fmt.Errorf("put service %q: %w", svc.Name, err)
	}
	if len(svc.Senders) == 0 {
		svc.Senders = nil
	}
	svc.Updated = r.o.Now()
	if err := r.update(ctx, svc.Name, item(svc), ""); err != nil {
		return fmt.Errorf("put service %q: %w", svc.Name, err)
	}
	return nil
}

// SetPaused implements [registry.Source].
//
// State before: the item exists. State after: only paused and updated changed.
// The loser, whose item is gone, gets [registry.ErrUnknown].
func (r *Registry) SetPaused(ctx context.Context, name string, paused bool) error {
	if err := r.update(ctx, name, change{Paused: &paused, Updated: r.o.Now()}, exists); err != nil {
		return fmt.Errorf("pause service %q: %w", name, err)
	}
	return nil
}

// SetRate implements [registry.Source]; its condition is that of SetPaused.
func (r *Registry) SetRate(ctx context.Context, name string, rate float64) error {
	if err := registry.ValidRate(rate); err != nil {
		return fmt.Errorf("set rate of service %q: %w", name, err)
	}
	if err := r.update(ctx, name, change{Rate: &rate, Updated: r.o.Now()}, exists); err != nil {
		return fmt.Errorf("set rate of service %q: %w", name, err)
	}
	return nil
}

// Delete implements [registry.Source].
//
// State before: the item exists. State after: it does not. The loser gets
// [registry.ErrUnknown].
func (r *Registry) Delete(ctx context.Context, name string) error {
	_, err := r.o.Client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &r.o.Table, Key: key(name), ConditionExpression: aws.String(exists),
		ExpressionAttributeNames: map[string]string{"#name": attrName},
	})
	if err != nil {
		return fmt.Errorf("delete service %q: %w", name, unknown(err))
	}
	return nil
}

// exists is the condition under which an item is changed: UpdateItem creates
// what is missing.
const exists = "attribute_exists(#name)"

// update writes the attributes of an item or a change, and removes those that
// are empty, in one UpdateItem. An empty condition creates the item where there
// is none.
func (r *Registry) update(ctx context.Context, name string, v any, condition string) error {
	set, err := encode(v)
	if err != nil {
		return err
	}
	delete(set, attrName)
	in := &dynamodb.UpdateItemInput{
		TableName: &r.o.Table, Key: key(name),
		ExpressionAttributeNames:  map[string]string{},
		ExpressionAttributeValues: attributes{},
	}
	var sets, removes []string
	for _, attr := range slices.Sorted(maps.Keys(set)) {
		in.ExpressionAttributeNames["#"+attr] = attr
		if _, empty := set[attr].(*types.AttributeValueMemberNULL); empty {
			removes = append(removes, "#"+attr)
			continue
		}
		in.ExpressionAttributeValues[":"+attr] = set[attr]
		sets = append(sets, "#"+attr+" = :"+attr)
	}
	expr := "SET " + strings.Join(sets, ", ") // there is always a time
	if len(removes) > 0 {
		expr += " REMOVE " + strings.Join(removes, ", ")
	}
	in.UpdateExpression = &expr
	if condition != "" {
		in.ConditionExpression = &condition
		in.ExpressionAttributeNames["#name"] = attrName
	}
	_, err = r.o.Client.UpdateItem(ctx, in)
	return unknown(err)
}

// unknown turns a failed condition, always [exists], into ErrUnknown.
func unknown(err error) error {
	if _, failed := errors.AsType[*types.ConditionalCheckFailedException](err); failed {
		return registry.ErrUnknown
	}
	return err
}
