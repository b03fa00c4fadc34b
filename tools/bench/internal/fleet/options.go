// Package fleet measures the real inbound and scheduler processes over the null
// endpoint, which costs next to nothing: what is left is our own cost.
//
// It owns one installation on an endpoint of its own. Nothing is mocked: the
// processes are services/inbound and services/scheduler, each in an operating
// system process whose account is read. A run may be made once at a time.
package fleet

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/myosin-jobs/myosin/pkg/settings"
)

// Options configure [Run]. Bind sets the defaults.
type Options struct {
	Jobs       int           // default 100,000
	Rate       float64       // jobs due a second; default 5,000
	Services   int           // default 1
	Partitions int           // a lane; default 64
	Payload    int           // bytes; default 300
	Schedulers int           // processes; default 1
	Urgent     int           // jobs of the urgent lane, spread over the same time
	Overdue    time.Duration // how long before the start the first is due; 0: after it
	Rows       int           // further rows that are not due for a year
	Idle       time.Duration // instead of jobs: how long to watch with nothing due
	// Submit sends the jobs through an inbound process instead of laying them
	// into the table.
	Submit bool

	Linger time.Duration // of sends; default 5 ms
	// LatencyDynamoDB, LatencySQS and Limits are the endpoint's.
	LatencyDynamoDB, LatencySQS time.Duration
	Limits                      string
	// Patience is how long after the last due time jobs are waited for. Default 5 min.
	Patience time.Duration

	Profile  string    // file for a CPU profile of the first process measured; empty: none
	Progress io.Writer // nil: none
}

// Bind sets the defaults and adds the options to the settings of a command.
func (o *Options) Bind(s *settings.Set) {
	o.Jobs, o.Rate, o.Services, o.Partitions, o.Payload, o.Schedulers = 100_000, 5000, 1, 64, 300, 1
	o.Linger, o.Limits, o.Patience = 5*time.Millisecond, "none", 5*time.Minute
	s.IntVar(&o.Jobs, "jobs", "", "jobs of the standard lane")
	s.FloatVar(&o.Rate, "rate", "", "jobs due a second; as many as --jobs is a wave")
	s.IntVar(&o.Services, "services", "", "owning services")
	s.IntVar(&o.Partitions, "partitions", "", "partitions of each lane")
	s.IntVar(&o.Payload, "payload", "", "bytes of payload")
	s.IntVar(&o.Schedulers, "schedulers", "", "scheduler processes")
	s.IntVar(&o.Urgent, "urgent", "", "further jobs of the urgent lane, due in the same time")
	s.DurationVar(&o.Overdue, "overdue", "", "how long the first job is overdue when the schedulers start; 0 for due afterwards")
	s.IntVar(&o.Rows, "rows", "", "further rows in the table, due in a year")
	s.DurationVar(&o.Idle, "idle", "", "watch this long with nothing due, instead of jobs")
	s.BoolVar(&o.Submit, "submit", "", "send the jobs through an inbound process first, and measure it, instead of laying them into the table")
	s.DurationVar(&o.Linger, "linger", "", "how long a due message waits for company")
	s.DurationVar(&o.LatencyDynamoDB, "latency-dynamodb", "", "mean latency of the endpoint's tables")
	s.DurationVar(&o.LatencySQS, "latency-sqs", "", "mean latency of the endpoint's queues")
	s.StringVar(&o.Limits, "limits", "", "of the endpoint: none or aws")
	s.StringVar(&o.Profile, "cpuprofile", "", "write a CPU profile of the first scheduler (with --submit: of inbound too, at FILE.inbound)")
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
	within("jobs", o.Jobs, 1, 20_000_000)
	within("services", o.Services, 1, 200)
	within("partitions", o.Partitions, 1, 1000)
	within("payload", o.Payload, 1, 100_000)
	within("schedulers", o.Schedulers, 1, 16)
	within("urgent", o.Urgent, 0, 1_000_000)
	within("rows", o.Rows, 0, 50_000_000)
	if !(o.Rate > 0) || o.Rate > 2e7 {
		errs = append(errs, fmt.Errorf("--rate %g; want above 0, up to 20000000", o.Rate))
	}
	if o.Linger < 0 || o.Linger > time.Second || o.Overdue < 0 || o.Idle < 0 || o.Patience <= 0 {
		errs = append(errs, errors.New("--linger: want 0 to 1s; --overdue and --idle: 0 or more; --patience: more than 0"))
	}
	if o.Submit && (o.Overdue > 0 || o.Rate == float64(o.Jobs) && o.Jobs > 1000) {
		errs = append(errs, errors.New("--submit goes with neither --overdue nor a wave: lay such jobs into the table"))
	}
	return errors.Join(errs...)
}

// span is how long after the first the last job is due.
func (o *Options) span() time.Duration {
	return time.Duration(float64(o.Jobs) / o.Rate * float64(time.Second))
}
