// Package dynamojobs keeps the managed layer's jobs and runs in two DynamoDB
// tables. Both have the keys p and s (S), the TTL attribute x (epoch seconds)
// and on-demand billing:
//
//	table  p                        s                       what lies there
//	jobs   J#<job>                  def                     definition, with the payload
//	jobs   J#<job>                  now                     status, generation, seq, progress; w and t while Wake is set
//	jobs   T#<tenant>               J#<created, ms>#<job>   list item: definition without the payload, status
//	jobs   T#<tenant>               t                       tenant
//	jobs   T#<tenant>               K#<id>                  list item: copy of an API key
//	jobs   T#<tenant>               S#<id>                  signing secret
//	jobs   I#<tenant>#<hash>        i                       kept answer of an Idempotency-Key, by the key's SHA-256
//	jobs   K#<id>                   k                       API key
//	jobs   A#<tenant>               <at, ms>#<id>           audit record
//	runs   <job>                    [job.RunID.Sort]        run; w and t while Wake is set; d and dt while a dead letter
//
// A p that begins with "B#" is another package's. Milliseconds in a key have 15
// digits. The indexes hold keys only: "wake" of both tables by w (a shard of
// [jobstore.Wakes]) and t (when), "dead" of runs by d (tenant) and dt (when it
// died). Times are an N of epoch milliseconds, with decimals where a time has
// them; durations are an N of nanoseconds.
//
// A finished run goes Options.Retention after its end and a deleted job 30 days
// after; what has not finished never goes. Kept answers and audit records go by
// their Expires.
//
// Every write is on the condition that jobstore states. The SDK's retries are
// off for single writes: a retry inside it would take its own first try for
// another's. Transactions carry a token under which a repeat is harmless.
//
// A Store starts no goroutines and may be used concurrently. IAM actions:
// GetItem, BatchGetItem, Query, PutItem, UpdateItem, DeleteItem,
// ConditionCheckItem on both tables and their indexes, PutItem on the triggers'.
package dynamojobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/store"
)

// API is what is used of the SDK's client.
type API interface {
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

var _ API = (*dynamodb.Client)(nil)

// Triggers makes the action that inserts a trigger; *dynamostore.Store does.
type Triggers interface {
	InsertItem(row *store.Row) (types.TransactWriteItem, error)
}

// Meter receives what a request cost. Units are zero where the engine reports
// none: for requests that failed, and on an emulator that does not count (kumo).
type Meter func(op string, requests int, readUnits, writeUnits float64)

// Defaults of [Options].
const (
	DefaultRetention = 30 * 24 * time.Hour
	DefaultMaxTries  = 6
)

// keepDeleted is how long what is left of a deleted job stays.
const keepDeleted = 30 * 24 * time.Hour

// Options configure a [Store].
type Options struct {
	// Client calls DynamoDB. Required.
	Client API
	// Jobs and Runs are the tables' names; platform.Names has them. Required.
	Jobs, Runs string
	// Triggers is the table that triggers go to. Required to commit any.
	Triggers Triggers
	// Retention is how long a run stays after its end. Default: DefaultRetention.
	Retention time.Duration
	// MaxTries bounds how often a write is tried while the tables are busy, with
	// waits of 25 ms to 0.8 s between. Default: DefaultMaxTries.
	MaxTries int
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Meter, if set, receives the cost of each request. The SDK's retries of reads
	// count as one request.
	Meter Meter
}

// Validate reports every option at fault, joined.
func (o *Options) Validate() error {
	var errs []error
	for name, missing := range map[string]bool{"client": o.Client == nil, "jobs": o.Jobs == "", "runs": o.Runs == ""} {
		if missing {
			errs = append(errs, errors.New(name+": missing"))
		}
	}
	if o.Jobs != "" && o.Jobs == o.Runs {
		errs = append(errs, errors.New("jobs and runs: one table for both"))
	}
	if o.Retention < 0 {
		errs = append(errs, fmt.Errorf("retention: %s is negative", o.Retention))
	}
	if o.MaxTries < 0 {
		errs = append(errs, fmt.Errorf("max tries: %d is negative", o.MaxTries))
	}
	return errors.Join(errs...)
}

// Store is a [jobstore.Store].
type Store struct{ o Options }

var _ jobstore.Store = (*Store)(nil)

// New returns the store in two tables that exist; see [EnsureTables].
func New(o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("dynamojobs: %w", err)
	}
	if o.Retention == 0 {
		o.Retention = DefaultRetention
	}
	if o.MaxTries == 0 {
		o.MaxTries = DefaultMaxTries
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Store{o: o}, nil
}

// capacity is what to ask of the engine.
func (s *Store) capacity() types.ReturnConsumedCapacity {
	if s.o.Meter == nil {
		return ""
	}
	return types.ReturnConsumedCapacityTotal
}

func (s *Store) meterRead(op string, used ...types.ConsumedCapacity) {
	if s.o.Meter != nil {
		s.o.Meter(op, 1, units(used), 0)
	}
}

func (s *Store) meterWrite(op string, used ...types.ConsumedCapacity) {
	if s.o.Meter != nil {
		s.o.Meter(op, 1, 0, units(used))
	}
}

func units(used []types.ConsumedCapacity) float64 {
	sum := 0.0
	for _, c := range used {
		sum += aws.ToFloat64(c.CapacityUnits)
	}
	return sum
}

func listOf(c *types.ConsumedCapacity) []types.ConsumedCapacity {
	if c == nil {
		return nil
	}
	return []types.ConsumedCapacity{*c}
}
