// Package core measures the core path: jobs are submitted at a steady rate, or
// all due in one second, stored by inbound, sent by schedulers, and taken off
// their services' queues by polling consumers.
//
// Nothing is mocked: inbound and schedulers are services/inbound and
// services/scheduler, and client, consumers and each of those have a process of
// their own, which counts at its SDK clients and is read by the operating system's
// account. This package owns the load, the accounting of every job and the
// report. It refuses to call a run good that lost, repeated, refused or hurried a
// job: see [Report.Failure]. [Run] may run several times at once.
package core

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Options configure [Run]. Zero values take the default, except where noted.
type Options struct {
	// Endpoint is the base URL of the engine. Required by [Run]; never AWS itself,
	// since nothing that a run creates is deleted.
	Endpoint string
	// Emulator says that the engine is kumo, over which the loops are set as
	// standalone sets them.
	Emulator bool
	// EngineCPU is what the engine's process has used, if it is ours; nil: not told.
	EngineCPU func() (time.Duration, error) `json:"-"`

	Jobs int // default 6,000
	// Rate is how many jobs a second are submitted, each due its lead later; default
	// 100. As many as Jobs, or more, is a wave: all are submitted first and fall due
	// in one second.
	Rate       float64
	Services   int // owning services; default 50
	Partitions int // per lane; default 64
	Payload    int // bytes; default 300
	Batch      int // jobs in one submission; default 1
	Schedulers int // processes; default 1
	// Linger is how long a due message waits for company; default 5 ms, below 0 none.
	Linger time.Duration
	// Lead bounds how far ahead jobs are due, evenly spread. Default 7 s to 9 s: few
	// rows are stored at a time, since the emulator reads the whole table for a query.
	Lead Span
	// Urgent is the share of jobs in the urgent lane, 0 to 1. Zero means none; Bind
	// sets 0.1.
	Urgent float64
	// Short makes every fifth job due within LookAhead + 2 s. Such jobs are always
	// reported apart.
	Short bool
	// LookAhead is the scheduler's; default 4 s.
	LookAhead time.Duration
	// Patience is how long after the last due time jobs are waited for. Default
	// 90 s: claims of the dead are recovered after 60 s.
	Patience time.Duration

	Progress io.Writer `json:"-"` // nil: none is shown
}

// settled is how much longer than the look-ahead a job must have to count as
// stored in time.
const settled = 2 * time.Second

const (
	idleTick     = 2 * time.Second
	emulatorTick = time.Second
	minLookAhead = time.Second
)

// Bind adds the options to the settings of a command.
func (o *Options) Bind(s *settings.Set) {
	o.setDefaults()
	o.Urgent = 0.1
	s.StringVar(&o.Endpoint, "endpoint", "", "base URL of an engine to measure over, such as a running `bench endpoint` (without --sink); empty for the embedded engine in a process of its own. Never AWS: nothing is deleted")
	s.IntVar(&o.Jobs, "jobs", "", "jobs in all")
	s.FloatVar(&o.Rate, "rate", "", "jobs submitted a second; as many as --jobs is a wave: all due in one second")
	s.IntVar(&o.Services, "services", "", "owning services")
	s.IntVar(&o.Partitions, "partitions", "", "partitions of each lane")
	s.IntVar(&o.Payload, "payload", "", "bytes of payload: random letters and digits")
	s.IntVar(&o.Batch, "batch", "", "jobs in one submission; more than 1 uses ScheduleBatch")
	s.IntVar(&o.Schedulers, "schedulers", "", "scheduler processes")
	s.DurationVar(&o.Linger, "linger", "", "how long a due message waits for company")
	s.FloatVar(&o.Urgent, "urgent", "", "share of jobs in the urgent lane, 0 to 1")
	s.BoolVar(&o.Short, "short", "", "make every fifth job due within the look-ahead + 2 s, and report those apart")
	s.DurationVar(&o.LookAhead, "look-ahead", "", "of the schedulers")
	s.DurationVar(&o.Patience, "patience", "", "how long after the last due time jobs are waited for")
}

// wave says whether all jobs fall due in one second.
func (o *Options) wave() bool { return o.Rate >= float64(o.Jobs) }

// Span is a range of durations, both ends included.
type Span struct{ Min, Max time.Duration }

// ParseSpan reads "10s..20s", or "10s" for both ends.
func ParseSpan(text string) (Span, error) {
	from, to, ranged := strings.Cut(text, "..")
	if !ranged {
		to = from
	}
	least, err1 := time.ParseDuration(from)
	most, err2 := time.ParseDuration(to)
	if err1 != nil || err2 != nil {
		return Span{}, fmt.Errorf("%q; want FROM..TO, such as 10s..20s", text)
	}
	return Span{least, most}, nil
}

// String is what ParseSpan reads.
func (s Span) String() string {
	if s.Min == s.Max {
		return s.Min.String()
	}
	return s.Min.String() + ".." + s.Max.String()
}

func (o *Options) setDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	num := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	if o.Rate == 0 {
		o.Rate = 100
	}
	if o.Lead == (Span{}) {
		o.Lead = Span{7 * time.Second, 9 * time.Second}
	}
	def(&o.Linger, 5*time.Millisecond)
	def(&o.LookAhead, 4*time.Second)
	def(&o.Patience, 90*time.Second)
	num(&o.Jobs, 6000)
	num(&o.Services, 50)
	num(&o.Partitions, 64)
	num(&o.Payload, 300)
	num(&o.Batch, 1)
	num(&o.Schedulers, 1)
	if o.Progress == nil {
		o.Progress = io.Discard
	}
}

// Validate reports every option outside its range, joined. It does not ask for
// the endpoint, which a command sets later.
func (o *Options) Validate() error {
	d := *o
	d.setDefaults()
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	want(d.Jobs >= 1 && d.Jobs <= maxJobs, "--jobs %d; want 1 to %d", d.Jobs, maxJobs)
	want(d.Rate > 0 && d.Rate <= maxJobs, "--rate %g; want above 0, up to %d", d.Rate, maxJobs)
	want(d.Services >= 1 && d.Services <= maxServices, "--services %d; want 1 to %d", d.Services, maxServices)
	want(d.Partitions >= 1 && d.Partitions <= trigger.MaxPartitions, "--partitions %d; want 1 to %d", d.Partitions, trigger.MaxPartitions)
	want(d.Payload >= 1 && d.Payload <= trigger.MaxPayload, "--payload %d; want 1 to %d", d.Payload, trigger.MaxPayload)
	want(d.Batch >= 1 && d.Batch <= 10*queue.MaxBatch, "--batch %d; want 1 to %d", d.Batch, 10*queue.MaxBatch)
	want(d.Schedulers >= 1 && d.Schedulers <= maxSchedulers, "--schedulers %d; want 1 to %d", d.Schedulers, maxSchedulers)
	want(d.Linger <= time.Second, "--linger %s; want 0 to 1s", d.Linger)
	want(!d.Short || !d.wave(), "--short goes with a rate, not with a wave")
	want(d.Urgent >= 0 && d.Urgent <= 1, "--urgent %g; want 0 to 1", d.Urgent)
	want(d.Lead.Min >= 0 && d.Lead.Max >= d.Lead.Min && d.Lead.Max <= trigger.MaxAhead, "--lead-time %s; want FROM..TO, such as 10s..20s", d.Lead)
	want(d.LookAhead >= minLookAhead, "--look-ahead %s; want at least %s", d.LookAhead, minLookAhead)
	want(d.Patience > 0, "--patience %s; want more than 0", d.Patience)
	return errors.Join(errs...)
}

const (
	maxJobs       = 5_000_000 // each is kept in memory until it is accounted for
	maxServices   = 200
	maxSchedulers = 16
)

// needs is the lead from which a job counts as stored in time.
func (o *Options) needs() time.Duration { return o.LookAhead + settled }
