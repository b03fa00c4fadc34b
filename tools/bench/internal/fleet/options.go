// Package fleet measures the real inbound and scheduler processes over the null
// endpoint, which costs next to nothing: what is left is our own cost.
//
// It owns one installation on an endpoint of its own. Nothing is mocked: the
// processes are services/inbound and services/scheduler, each in an operating
// system process whose account is read. [Run] measures one shape of load, [Table]
// and [Scale] several in turn; [Presets] are the commands. One run at a time.
package fleet

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/myosin-jobs/myosin/pkg/settings"
)

// Options configure [Run], [Table] and [Scale]. [Defaults] are those of a plain run.
type Options struct {
	Command    string        // the name under which a report goes; default null
	Jobs       int           // default 100,000
	Rate       float64       // jobs due a second; default 5,000
	Services   int           // default 1
	Partitions int           // a lane; default 64
	Payload    int           // bytes; default 300
	Schedulers int           // processes; default 1; of Scale: at most
	Urgent     int           // jobs of the urgent lane, spread over the same time
	Overdue    time.Duration // how long before the start the first is due; 0: after it
	Rows       int           // further rows that are not due for a year; of Table: at most
	Rounds     int           // of Table: how often each size is measured
	Idle       time.Duration // instead of jobs: how long to watch with nothing due
	// Submit sends the jobs through an inbound process instead of laying them
	// into the table.
	Submit bool

	Linger time.Duration // of sends; default 5 ms
	// StandardWrites is what the standard lanes of all schedulers may write a
	// second, divided among them; 0: no limit.
	StandardWrites float64

	// LatencyDynamoDB, LatencySQS, Limits, TableWrites (units a second; 0: as
	// Limits says) and Even are the endpoint's.
	LatencyDynamoDB, LatencySQS time.Duration
	Limits                      string
	TableWrites                 float64
	Even                        bool
	// Patience is how long after the last due time jobs are waited for. Default 5 min.
	Patience time.Duration

	Profile  string    // file for a CPU profile of the first process measured; empty: none
	Progress io.Writer // nil: none
}

// Defaults are those of bench null.
func Defaults() Options {
	return Options{
		Command: "null", Jobs: 100_000, Rate: 5000, Services: 1, Partitions: 64, Payload: 300, Schedulers: 1, Rounds: 1,
		Linger: 5 * time.Millisecond, Limits: "none", Patience: 5 * time.Minute,
	}
}

// Settings adds the options of the given flags (none given: all) to those of a
// command, their values as defaults.
func (o *Options) Settings(s *settings.Set, flags ...string) {
	count := func(p *int, name, usage string) func() { return func() { s.IntVar(p, name, "", usage) } }
	rate := func(p *float64, name, usage string) func() { return func() { s.FloatVar(p, name, "", usage) } }
	span := func(p *time.Duration, name, usage string) func() {
		return func() { s.DurationVar(p, name, "", usage) }
	}
	yes := func(p *bool, name, usage string) func() { return func() { s.BoolVar(p, name, "", usage) } }
	text := func(p *string, name, usage string) func() { return func() { s.StringVar(p, name, "", usage) } }
	for _, f := range []struct {
		name string
		add  func()
	}{
		{"jobs", count(&o.Jobs, "jobs", "jobs of the standard lane; in scale: for each scheduler")},
		{"rate", rate(&o.Rate, "rate", "jobs due a second; as many as --jobs is a wave")},
		{"services", count(&o.Services, "services", "owning services")},
		{"partitions", count(&o.Partitions, "partitions", "partitions of each lane")},
		{"payload", count(&o.Payload, "payload", "bytes of payload")},
		{"schedulers", count(&o.Schedulers, "schedulers", "scheduler processes; in scale: at most, from 1 and doubling")},
		{"urgent", count(&o.Urgent, "urgent", "further jobs of the urgent lane, due in the same time")},
		{"overdue", span(&o.Overdue, "overdue", "how long the first job is overdue when the schedulers start; 0 for due afterwards")},
		{"rows", count(&o.Rows, "rows", "further rows in the table, due in a year; in table: at most, after a thousandth and a tenth of it")},
		{"rounds", count(&o.Rounds, "rounds", "how often each size is measured, in turn")},
		{"idle", span(&o.Idle, "idle", "watch this long with nothing due, instead of jobs")},
		{"submit", yes(&o.Submit, "submit", "send the jobs through an inbound process first, and measure it, instead of laying them into the table")},
		{"linger", span(&o.Linger, "linger", "how long a due message waits for company")},
		{"standard-writes", rate(&o.StandardWrites, "standard-writes", "table writes a second of the standard lane, of all schedulers together; 0 for no limit")},
		{"latency-dynamodb", span(&o.LatencyDynamoDB, "latency-dynamodb", "mean latency of the endpoint's tables")},
		{"latency-sqs", span(&o.LatencySQS, "latency-sqs", "mean latency of the endpoint's queues")},
		{"limits", text(&o.Limits, "limits", "of the endpoint: none or aws")},
		{"table-writes", rate(&o.TableWrites, "table-writes", "write units a second of the whole table; 0 for what --limits says")},
		{"even", yes(&o.Even, "even", "spread hash keys evenly over the endpoint's physical partitions, as a table is that was split for heat, instead of by their hashes")},
		{"cpuprofile", text(&o.Profile, "cpuprofile", "write a CPU profile of the first scheduler (with --submit: of inbound too, at FILE.inbound)")},
		{"patience", span(&o.Patience, "patience", "how long after the last due time jobs are waited for")},
	} {
		if len(flags) == 0 || slices.Contains(flags, f.name) {
			f.add()
		}
	}
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
	within("rounds", o.Rounds, 1, 10)
	if !(o.StandardWrites >= 0) || !(o.TableWrites >= 0) {
		errs = append(errs, fmt.Errorf("--standard-writes %g, --table-writes %g: want 0 or more", o.StandardWrites, o.TableWrites))
	}
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
