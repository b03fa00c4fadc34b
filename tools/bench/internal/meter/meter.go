// Package meter counts what a process asks of AWS, at its SDK clients: HTTP
// attempts by operation, conditional writes of triggers' rows, and the units that
// DynamoDB would bill for them and for reads.
//
// It counts and changes nothing. Sizes are reckoned from the items, since the
// emulator reports no consumed capacity. Everything may be used concurrently.
package meter

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"

	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
)

// Counts are what one process used.
type Counts struct {
	// Requests are HTTP attempts, a retry counts again; by service and operation as
	// the SDK names them: "SQS.ReceiveMessage".
	Requests map[string]int `json:"requests"`
	// Writes are those of rows, by what they did.
	Writes map[Kind]Cost `json:"writes"`
	// ReadUnits are of every table; what a filter threw away is not known here.
	ReadUnits float64 `json:"read_units"`
	// CPU is the processor time of the process since it began, user and system; 0
	// where the system does not tell.
	CPU time.Duration `json:"cpu_ns"`
}

// Add adds what another process used.
func (c *Counts) Add(o *Counts) {
	if c.Requests == nil {
		c.Requests, c.Writes = make(map[string]int), make(map[Kind]Cost)
	}
	for name, n := range o.Requests {
		c.Requests[name] += n
	}
	for kind, cost := range o.Writes {
		c.Writes[kind] = c.Writes[kind].Plus(cost)
	}
	c.ReadUnits += o.ReadUnits
	c.CPU += o.CPU
}

// Meter counts for one process.
type Meter struct {
	mu    sync.Mutex
	sizes map[string]int // of rows without their state, by key
	c     Counts
}

// New returns a meter at zero.
func New() *Meter {
	m := &Meter{sizes: make(map[string]int)}
	m.Reset()
	return m
}

// Reset sets what was counted to zero.
func (m *Meter) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.c = Counts{Requests: make(map[string]int), Writes: make(map[Kind]Cost)}
}

// Counts returns what was counted since the last Reset.
func (m *Meter) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.c
	c.Requests, c.Writes = maps.Clone(c.Requests), maps.Clone(c.Writes)
	c.CPU, _ = host.CPU()
	return c
}

// Attach makes every client of a configuration count here: see
// platform.Options.Configure.
func (m *Meter) Attach(cfg *aws.Config) {
	cfg.APIOptions = append(cfg.APIOptions, func(s *middleware.Stack) error {
		if err := s.Initialize.Add(middleware.InitializeMiddlewareFunc("BenchMeterCall",
			func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				out, md, err := next.HandleInitialize(ctx, in)
				m.call(in.Parameters, out.Result, err)
				return out, md, err //nolint:wrapcheck // passed on as it is.
			}), middleware.After); err != nil {
			return err //nolint:wrapcheck // as above.
		}
		return s.Deserialize.Add(middleware.DeserializeMiddlewareFunc("BenchMeterAttempt",
			func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
				m.mu.Lock()
				m.c.Requests[awsmiddleware.GetServiceID(ctx)+"."+awsmiddleware.GetOperationName(ctx)]++
				m.mu.Unlock()
				return next.HandleDeserialize(ctx, in)
			}), middleware.Before)
	})
}

// Answers are those of a process to the questions that [Ask] and [Restart] put.
func (m *Meter) Answers() map[string]func() (any, error) {
	return map[string]func() (any, error){
		askCounts: func() (any, error) { return m.Counts(), nil },
		askReset:  func() (any, error) { m.Reset(); return m.Counts(), nil },
	}
}

const askCounts, askReset = "counts", "reset"

// Asker is a process that gives a meter's [Meter.Answers].
type Asker interface {
	Ask(question string, into any) error
}

// Restart sets a process's counts to zero. Its processor time goes on: what it
// answers is where it stands.
func Restart(p Asker) (c Counts, err error) { return c, p.Ask(askReset, &c) }

// Ask asks a process what it has counted.
func Ask(p Asker) (c Counts, err error) { return c, p.Ask(askCounts, &c) }
