// Package runs measures the managed layer: jobs are created, schedulers and
// runners are services/scheduler and services/runner in processes of their own,
// and a target in another notes when each run reached it.
//
// Time is told from a run's nominal time (its Myosin-Scheduled-At) to the moment
// the target's handler began, which is when the head of the request was there.
// The package owns the load, the target and the report. It refuses to call a run
// good of which an occurrence did not come, came twice or came early: see
// [Report.Failure]. One run at a time.
package runs

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/myosin-jobs/myosin/pkg/settings"
)

// Options configure [Run]; [Shapes] have defaults.
type Options struct {
	Shape  string
	Engine string // kumo or null
	Jobs   int    // without those of Urgent
	Urgent int    // jobs whose tolerance is zero
	// Rate is how many jobs a second are created, each due Lead later; 0: all are
	// created first, and fall due at one instant.
	Rate float64
	Lead time.Duration
	// Cron makes jobs recur: every minute where Minutes are given, else once a day.
	Cron bool
	// Minutes is how many minutes of minutely jobs are measured, after their first.
	Minutes   int
	Tolerance time.Duration // that jobs declare; 0: none is declared
	Payload   int           // bytes
	Delay     time.Duration // before the target answers
	// Backlog starts the runners once every run is on its queue.
	Backlog bool

	Schedulers, Runners int
	Concurrency         int // of a runner
	UrgentSlots         int // of Concurrency
	Partitions          int // of each lane
	// Metered counts requests by process, at some CPU.
	Metered bool
	// Settle is how long processes get to start and to read what is due soon.
	Settle time.Duration
	// Patience is how long after the last due time runs are waited for.
	Patience time.Duration
	Profile  string    // file for a CPU profile of the first runner; empty: none
	Progress io.Writer // nil: none
}

// The engines.
const (
	kumo = "kumo"
	null = "null"
)

// Shape is a load that is worth a name.
type Shape struct {
	Summary string
	Options Options // its defaults; Shape is its name
}

// Shapes are the loads, the first of them the one that is meant where none is named.
func Shapes() []Shape {
	of := func(name, summary string, change func(o *Options)) Shape {
		o := Options{
			Shape: name, Engine: null, Payload: 300, Schedulers: 1, Runners: 1, Concurrency: 200, UrgentSlots: 50, Partitions: 64, Patience: 2 * time.Minute, Settle: 8 * time.Second,
		}
		change(&o)
		return Shape{summary, o}
	}
	return []Shape{
		of("load", "jobs that run once, created at a steady rate: from nominal time to the target's first byte", func(o *Options) {
			o.Engine, o.Jobs, o.Rate, o.Lead, o.Metered = kumo, 3000, 50, 8*time.Second, true
		}),
		of("cron", "minutely jobs: write units and requests of a run", func(o *Options) {
			o.Jobs, o.Cron, o.Minutes, o.Tolerance, o.Metered = 1500, true, 2, time.Minute, true
		}),
		of("wave", "daily jobs of one instant that declare a tolerance, and urgent ones among them", func(o *Options) {
			o.Jobs, o.Urgent, o.Cron, o.Tolerance = 200_000, 1000, true, 10*time.Minute
		}),
		of("calls", "one runner with a backlog: 200 calls of 200 ms at a time", func(o *Options) {
			o.Jobs, o.Delay, o.Backlog, o.Concurrency, o.UrgentSlots = 20_000, 200*time.Millisecond, true, 201, 1
		}),
	}
}

// Bind adds the options to the settings of a command, their values as defaults.
func (o *Options) Bind(s *settings.Set) {
	s.StringVar(&o.Engine, "engine", "", "kumo, the embedded one, or null, the endpoint that costs next to nothing")
	s.IntVar(&o.Jobs, "jobs", "", "jobs that are not urgent")
	s.IntVar(&o.Urgent, "urgent", "", "further jobs that are urgent")
	s.FloatVar(&o.Rate, "rate", "", "jobs created a second, each due --lead later; 0: all are created first and fall due at one instant")
	s.DurationVar(&o.Lead, "lead", "", "see --rate")
	s.BoolVar(&o.Cron, "cron", "", "jobs recur: every minute with --minutes, else daily")
	s.IntVar(&o.Minutes, "minutes", "", "minutes measured of minutely jobs, after their first")
	s.DurationVar(&o.Tolerance, "tolerance", "", "that jobs declare, over which they are spread; 0 for none")
	s.IntVar(&o.Payload, "payload", "", "bytes of payload")
	s.DurationVar(&o.Delay, "delay", "", "how long the target takes to answer")
	s.BoolVar(&o.Backlog, "backlog", "", "start the runners when every run is on its queue")
	s.IntVar(&o.Schedulers, "schedulers", "", "scheduler processes")
	s.IntVar(&o.Runners, "runners", "", "runner processes")
	s.IntVar(&o.Concurrency, "concurrency", "", "calls at a time of each runner")
	s.IntVar(&o.UrgentSlots, "urgent-slots", "", "how many of them only urgent runs may use")
	s.IntVar(&o.Partitions, "partitions", "", "partitions of each lane")
	s.BoolVar(&o.Metered, "metered", "", "count requests by process, at some CPU")
	s.DurationVar(&o.Settle, "settle", "", "how long processes get to start before jobs of one instant are due")
	s.DurationVar(&o.Patience, "patience", "", "how long after the last due time runs are waited for")
	s.StringVar(&o.Profile, "cpuprofile", "", "write a CPU profile of the first runner")
}

// Validate reports every option out of range, joined.
func (o *Options) Validate() error {
	var errs []error
	within := func(flag string, n, least, most int) {
		if n < least || n > most {
			errs = append(errs, fmt.Errorf("--%s %d; want %d to %d", flag, n, least, most))
		}
	}
	within("jobs", o.Jobs, 1, 1_000_000)
	within("urgent", o.Urgent, 0, 100_000)
	within("minutes", o.Minutes, 0, 60)
	within("payload", o.Payload, 1, 100_000)
	within("schedulers", o.Schedulers, 1, 16)
	within("runners", o.Runners, 1, 16)
	within("concurrency", o.Concurrency, 2, 10_000)
	within("urgent-slots", o.UrgentSlots, 1, max(o.Concurrency-1, 1))
	within("partitions", o.Partitions, 1, 1000)
	if o.Engine != kumo && o.Engine != null {
		errs = append(errs, fmt.Errorf("--engine %q; want kumo or null", o.Engine))
	}
	if !(o.Rate >= 0) || o.Rate > 10_000 || o.Rate > 0 && (o.Cron || o.Backlog || o.Urgent > 0 || o.Tolerance > 0) {
		errs = append(errs, errors.New("--rate: want 0 to 10000, and above 0 only for jobs that run once, undeclared"))
	}
	if o.Lead < 0 || o.Tolerance < 0 || o.Tolerance > 24*time.Hour || o.Delay < 0 || o.Delay > 20*time.Second || o.Settle <= 0 || o.Patience <= 0 {
		errs = append(errs, errors.New("--lead: want 0 or more; --tolerance: 0 to 24h; --delay: 0 to 20s; --settle and --patience: more than 0"))
	}
	if o.Minutes > 0 && (!o.Cron || o.Urgent > 0 || o.Backlog) {
		errs = append(errs, errors.New("--minutes goes with --cron, without --urgent and --backlog"))
	}
	return errors.Join(errs...)
}

// period is that of jobs that recur; 0: they run once.
func (o *Options) period() time.Duration {
	switch {
	case !o.Cron:
		return 0
	case o.Minutes > 0:
		return time.Minute
	}
	return 24 * time.Hour
}

// spread is how long after the nominal time the last run may be due.
func (o *Options) spread() time.Duration {
	if p := o.period(); p > 0 {
		return min(o.Tolerance, p/2)
	}
	return o.Tolerance
}
