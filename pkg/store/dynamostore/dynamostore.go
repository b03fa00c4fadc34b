// Package dynamostore is the trigger table in DynamoDB.
//
// It owns the items of one table: their names and encoding (see item.go), the
// batches of conditional writes, and their retries. Batches go out as PartiQL
// statements, 25 to a request; on an engine that knows no PartiQL they become
// single conditional calls, decided once per Store and logged. It refuses rows
// the table cannot hold, and it never writes without a condition.
//
// The SDK's own retries are switched off for writes: a retry inside the SDK would
// hide that the first try may have been applied. This package retries within a
// bounded budget instead, and recognises what an earlier try of its own left.
//
// A Store may be used concurrently. Its goroutines end before the call that
// started them returns.
package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/store"
)

// API is what is used of the SDK's client.
type API interface {
	BatchExecuteStatement(context.Context, *dynamodb.BatchExecuteStatementInput, ...func(*dynamodb.Options)) (*dynamodb.BatchExecuteStatementOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

var _ API = (*dynamodb.Client)(nil)

// Defaults of [Options].
const (
	DefaultParallel       = 4
	DefaultSingleParallel = 16
	DefaultMaxTries       = 6
	DefaultRetryFor       = 3 * time.Second
)

// Meter receives what a request cost. Units are zero where the engine reports
// none: for requests that failed, and for any request to an emulator that does
// not count (kumo).
type Meter func(op string, requests int, readUnits, writeUnits float64)

// Options configures a Store.
type Options struct {
	// API is the SDK's client. Required.
	API API
	// Table is the table's name. Required.
	Table string
	// Logger gets the choice of protocol and rows that cannot be read. Default: none.
	Logger *slog.Logger
	// Parallel bounds the requests one Write has out at once. Default: DefaultParallel.
	Parallel int
	// SingleParallel bounds the single-item calls of all Writes together, where the
	// engine knows no PartiQL. Default: DefaultSingleParallel.
	SingleParallel int
	// SingleItems makes single-item calls from the start. Default: try PartiQL.
	SingleItems bool
	// MaxTries bounds how often a write is tried. Default: DefaultMaxTries.
	MaxTries int
	// RetryFor bounds the time from the first try of a write to the last. Default:
	// DefaultRetryFor.
	RetryFor time.Duration
	// Meter, if set, receives the cost of each request. The SDK's retries of reads
	// count as one request.
	Meter Meter
}

// Validate reports everything that is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	if o.API == nil {
		errs = append(errs, errors.New("dynamostore: API is missing"))
	}
	if o.Table == "" {
		errs = append(errs, errors.New("dynamostore: Table is missing"))
	}
	for name, n := range map[string]int{"Parallel": o.Parallel, "SingleParallel": o.SingleParallel, "MaxTries": o.MaxTries, "RetryFor": int(o.RetryFor)} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("dynamostore: %s is negative", name))
		}
	}
	return errors.Join(errs...)
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	setDefault(&o.Parallel, DefaultParallel)
	setDefault(&o.SingleParallel, DefaultSingleParallel)
	setDefault(&o.MaxTries, DefaultMaxTries)
	setDefault(&o.RetryFor, DefaultRetryFor)
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Store implements store.Store.
type Store struct {
	opts    Options
	codec   *codec
	stmts   statements
	single  atomic.Bool   // the engine knows no PartiQL
	singles chan struct{} // bounds single-item calls
	warned  atomic.Int64  // unix second of the last warning about an unreadable row
}

var _ store.Store = (*Store)(nil)

// New returns a Store over an existing table; see [CreateTable].
func New(opts Options) (*Store, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.setDefaults()
	c, err := newCodec()
	if err != nil {
		return nil, fmt.Errorf("dynamostore: %w", err)
	}
	s := &Store{
		opts: opts, codec: c, stmts: newStatements(opts.Table),
		singles: make(chan struct{}, opts.SingleParallel),
	}
	s.single.Store(opts.SingleItems)
	return s, nil
}

// once switches the SDK's retries off.
func once(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// capacity is what to ask of the engine.
func (s *Store) capacity() types.ReturnConsumedCapacity {
	if s.opts.Meter == nil {
		return ""
	}
	return types.ReturnConsumedCapacityTotal
}

func (s *Store) meterRead(op string, used ...types.ConsumedCapacity) {
	if s.opts.Meter != nil {
		s.opts.Meter(op, 1, units(used), 0)
	}
}

func (s *Store) meterWrite(op string, used ...types.ConsumedCapacity) {
	if s.opts.Meter != nil {
		s.opts.Meter(op, 1, 0, units(used))
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
