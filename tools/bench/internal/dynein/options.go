package dynein

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/myosin-jobs/myosin/pkg/settings"
)

// Options configure [Run]. Bind sets the defaults.
type Options struct {
	// Endpoint is the base URL of the null endpoint, its sinks on. Required.
	Endpoint string
	// Start starts the scheduler process number index of count. Required.
	Start func(index, count int) (Process, error)

	Jobs       int     // default 20,000
	Rate       float64 // jobs due a second; default 5,000
	Services   int     // default 1
	Partitions int     // default 64
	Payload    int     // bytes; default 300
	Schedulers int     // processes; default 1
	Workers    int     // in each; default 1, as in the published example
	Limit      int     // rows a query reads; default 10, as published
	// LatencyDynamoDB and LatencySQS are the endpoint's, for the report.
	LatencyDynamoDB, LatencySQS time.Duration
	// Patience is how long after the last due time jobs are waited for. Default 5 min.
	Patience time.Duration

	Progress io.Writer // nil: none
}

// Process is a scheduler that runs in a process of its own.
type Process interface {
	// CPU is the processor time it has used, by the operating system's account.
	CPU() (time.Duration, error)
	Close() error
}

// Bind sets the defaults and adds the options to the settings of a command.
func (o *Options) Bind(s *settings.Set) {
	o.Jobs, o.Rate, o.Services, o.Partitions, o.Payload = 20_000, 5000, 1, 64, 300
	o.Schedulers, o.Workers, o.Limit, o.Patience = 1, 1, 10, 5*time.Minute
	s.IntVar(&o.Jobs, "jobs", "", "jobs in all")
	s.FloatVar(&o.Rate, "rate", "", "jobs due a second; more than it can do shows what it can")
	s.IntVar(&o.Services, "services", "", "owning services")
	s.IntVar(&o.Partitions, "partitions", "", "partitions")
	s.IntVar(&o.Payload, "payload", "", "bytes of payload")
	s.IntVar(&o.Schedulers, "schedulers", "", "scheduler processes; they share the partitions")
	s.IntVar(&o.Workers, "workers", "", "workers in a process, each scanning its partitions in turn; 1 is the published example's")
	s.IntVar(&o.Limit, "limit", "", "rows a query reads; 10 is the published default")
	s.DurationVar(&o.LatencyDynamoDB, "latency-dynamodb", "", "mean latency of the endpoint's tables")
	s.DurationVar(&o.LatencySQS, "latency-sqs", "", "mean latency of the endpoint's queues")
	s.DurationVar(&o.Patience, "patience", "", "how long after the last due time jobs are waited for")
}

// Validate reports every option out of range, joined.
func (o *Options) Validate() error {
	var errs []error
	within := func(flag string, n, least, most int) {
		if n < least || n > most {
			errs = append(errs, fmt.Errorf("--%s %d; want %d to %d", flag, n, least, most))
		}
	}
	within("jobs", o.Jobs, 1, 5_000_000)
	within("services", o.Services, 1, 200)
	within("partitions", o.Partitions, 1, 1024)
	within("payload", o.Payload, 1, 100_000)
	within("schedulers", o.Schedulers, 1, 64)
	within("workers", o.Workers, 1, 1024)
	within("limit", o.Limit, 1, 1000)
	if !(o.Rate > 0) || o.Rate > 1e6 {
		errs = append(errs, fmt.Errorf("--rate %g; want above 0, up to 1000000", o.Rate))
	}
	if o.LatencyDynamoDB < 0 || o.LatencySQS < 0 || o.Patience <= 0 {
		errs = append(errs, errors.New("--latency-dynamodb, --latency-sqs: want 0 or more; --patience: more than 0"))
	}
	return errors.Join(errs...)
}
