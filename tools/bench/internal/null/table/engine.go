package table

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// Namespace is that of the types of error answers.
const Namespace = "com.amazonaws.dynamodb.v20120810"

// Engine holds tables.
type Engine struct {
	limits Limits

	mu     sync.RWMutex
	tables map[string]*Table

	tokens tokens
	texts  struct {
		conditions cache[*expr]
		changes    cache[*change]
		statements cache[*statement]
		lists      cache[[]string]
	}
	scratch sync.Pool // of *batch
	counts  counts
}

type counts struct {
	reads, writes                         atomic.Int64 // in tenths of a unit
	statements, conflicts, throttled      atomic.Int64
	transactions, throttledCalls, queried atomic.Int64
}

// Stats are totals since the start or the last reset.
type Stats struct {
	ReadUnits  float64 `json:"read_units"`
	WriteUnits float64 `json:"write_units"`
	// Written are the write units by table.
	Written map[string]float64 `json:"written"`
	// Statements are those of batches.
	Statements   int64 `json:"statements"`
	Transactions int64 `json:"transactions"`
	// Conflicts are conditions that did not hold, wherever they stood.
	Conflicts int64 `json:"conflicts"`
	// ThrottledStatements and ThrottledCalls are those refused for lack of capacity.
	ThrottledStatements int64 `json:"throttled_statements"`
	ThrottledCalls      int64 `json:"throttled_calls"`
	// ItemsQueried are the items that queries and scans read.
	ItemsQueried int64 `json:"items_queried"`
	// Rows are by table, now.
	Rows map[string]int `json:"rows"`
}

// New returns an engine whose tables each have the limits.
func New(limits Limits) *Engine {
	e := &Engine{limits: limits, tables: make(map[string]*Table)}
	e.scratch.New = func() any { return new(batch) }
	return e
}

// Reset drops all tables and sets the counts to zero.
func (e *Engine) Reset() {
	e.mu.Lock()
	e.tables = make(map[string]*Table)
	e.mu.Unlock()
	e.ResetStats()
}

// ResetStats sets the counts to zero.
func (e *Engine) ResetStats() {
	c := &e.counts
	for _, n := range []*atomic.Int64{&c.reads, &c.writes, &c.statements, &c.conflicts, &c.throttled, &c.transactions, &c.throttledCalls, &c.queried} {
		n.Store(0)
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, t := range e.tables {
		t.written.Store(0)
	}
}

// Stats returns the totals.
func (e *Engine) Stats() Stats {
	c := &e.counts
	s := Stats{
		ReadUnits: float64(c.reads.Load()) / 10, WriteUnits: float64(c.writes.Load()) / 10,
		Statements: c.statements.Load(), Transactions: c.transactions.Load(), Conflicts: c.conflicts.Load(),
		ThrottledStatements: c.throttled.Load(), ThrottledCalls: c.throttledCalls.Load(), ItemsQueried: c.queried.Load(),
		Rows: make(map[string]int), Written: make(map[string]float64),
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	for name, t := range e.tables {
		t.mu.Lock()
		s.Rows[name] = t.rows
		s.Written[name] = float64(t.written.Load()) / 10
		t.mu.Unlock()
	}
	return s
}

func (e *Engine) table(name string) *Table {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.tables[name]
}

// tableOf is table for a raw name.
func (e *Engine) tableOf(raw []byte) (*Table, error) {
	name := wire.Plain(raw)
	e.mu.RLock()
	t := e.tables[string(name)]
	e.mu.RUnlock()
	if t == nil {
		return nil, missing()
	}
	return t, nil
}

func missing() *wire.Error {
	return wire.Fault("ResourceNotFoundException", "Requested resource not found")
}

func invalid(format string, args ...any) *wire.Error {
	return wire.Fault("ValidationException", format, args...)
}

// Do answers one request, appending the answer to dst. It keeps nothing of body.
func (e *Engine) Do(op string, body, dst []byte) ([]byte, *wire.Error) {
	var err error
	n := len(dst)
	switch op {
	case "BatchExecuteStatement":
		dst, err = e.batchExecute(body, dst)
	case "Query":
		dst, err = e.query(body, dst, false)
	case "Scan":
		dst, err = e.query(body, dst, true)
	case "GetItem":
		dst, err = e.getItem(body, dst)
	case "BatchGetItem":
		dst, err = e.batchGet(body, dst)
	case "PutItem", "UpdateItem", "DeleteItem":
		dst, err = e.writeItem(op, body, dst)
	case "TransactWriteItems":
		dst, err = e.transact(body, dst)
	case "CreateTable", "DescribeTable", "DeleteTable", "ListTables", "DescribeTimeToLive", "UpdateTimeToLive":
		dst, err = e.admin(op, body, dst)
	default:
		return dst, wire.Fault("UnknownOperationException", "this endpoint does not know %s", op)
	}
	if err == nil {
		return dst, nil
	}
	answer, ok := errors.AsType[*wire.Error](err)
	if !ok { // what encoding/json has to say
		answer = wire.Fault("SerializationException", "%v", err)
	}
	if answer.Type == throttledCall {
		e.counts.throttledCalls.Add(1)
	}
	return dst[:n], answer
}

const throttledCall = "ProvisionedThroughputExceededException"

func throttled() *wire.Error {
	return wire.Fault(throttledCall, "The level of configured provisioned throughput for the table was exceeded.")
}

func (e *Engine) countRead(units float64) { e.counts.reads.Add(int64(units * 10)) }
func (e *Engine) countWrite(t *Table, units float64) {
	e.counts.writes.Add(int64(units * 10))
	t.written.Add(int64(units * 10))
}

// appendCapacity appends what a table consumed.
func appendCapacity(dst []byte, table string, units float64) []byte {
	dst = append(dst, `{"TableName":`...)
	dst = wire.AppendString(dst, table)
	dst = append(dst, `,"CapacityUnits":`...)
	dst = wire.AppendUnits(dst, units)
	return append(dst, '}')
}

// asked reports whether consumed capacity was asked for.
func asked(level string) bool { return level != "" && level != "NONE" }

// tokens remembers which transactions were made, for ten minutes.
type tokens struct {
	mu   sync.Mutex
	made map[string]struct{}
	old  []token
}

type token struct {
	at   time.Time
	name string
}

const tokenLife = 10 * time.Minute

// seen reports whether the transaction was made before.
func (k *tokens) seen(name string, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	gone := 0
	for gone < len(k.old) && now.Sub(k.old[gone].at) > tokenLife {
		delete(k.made, k.old[gone].name)
		gone++
	}
	k.old = slices.Delete(k.old, 0, gone)
	_, ok := k.made[name]
	return ok
}

func (k *tokens) add(name string, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.made == nil {
		k.made = make(map[string]struct{})
	}
	k.made[name] = struct{}{}
	k.old = append(k.old, token{now, name})
}
