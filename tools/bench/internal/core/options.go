// Package core measures the core path: jobs are submitted at a steady rate
// through the client, stored by the drain, sent by the scheduler, and taken off
// their services' queues by polling consumers, all with the adapters that ship.
//
// It owns the load, the accounting of every job and the report. Client, drain,
// scheduler and consumers run in the calling process, each with an SDK
// configuration, store and registry cache of its own, so that requests can be
// told apart. It refuses to call a run good that lost, repeated, refused or
// hurried a job: see [Report.Failure]. [Run] may run several times at once.
package core

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Options configure [Run]. Zero values take the default, except where noted.
type Options struct {
	// Endpoint is the base URL of the engine. Required; never AWS itself, since
	// nothing that a run creates is deleted.
	Endpoint string
	// EngineCPU is what the engine's process has used, if it has one; nil: none.
	EngineCPU func() (time.Duration, bool)

	Rate       float64       // jobs per second; default 100
	Duration   time.Duration // of submitting; default 60 s
	Services   int           // owning services; default 5
	Partitions int           // per lane; default 4: the emulator reads the whole table for a query
	Payload    int           // bytes; default 300
	Batch      int           // jobs in one submission; default 1
	// Lead bounds how far ahead jobs are due, evenly spread. Default 10 s to 20 s.
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

	Progress io.Writer    // nil: none is shown
	Log      *slog.Logger // of the loops; nil: warnings to Progress
}

// settled is how much longer than the look-ahead a job must have to count as
// stored in time.
const settled = 2 * time.Second

// Bind adds the options to the settings of a command.
func (o *Options) Bind(s *settings.Set) {
	o.setDefaults()
	o.Urgent = 0.1
	s.FloatVar(&o.Rate, "rate", "", "jobs per second")
	s.DurationVar(&o.Duration, "duration", "", "how long jobs are submitted")
	s.IntVar(&o.Services, "services", "", "owning services, each with a standard and an urgent queue")
	s.IntVar(&o.Partitions, "partitions", "", "partitions a lane")
	s.IntVar(&o.Payload, "payload", "", "bytes of payload: random letters and digits")
	s.IntVar(&o.Batch, "batch", "", "jobs in one submission; more than 1 uses ScheduleBatch")
	s.FloatVar(&o.Urgent, "urgent", "", "share of jobs in the urgent lane, 0 to 1")
	s.BoolVar(&o.Short, "short", "", "make every fifth job due within the look-ahead + 2 s, and report those apart")
	s.DurationVar(&o.LookAhead, "look-ahead", "", "of the scheduler")
	s.DurationVar(&o.Patience, "patience", "", "how long after the last due time jobs are waited for")
}

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
		o.Lead = Span{10 * time.Second, 20 * time.Second}
	}
	def(&o.Duration, time.Minute)
	def(&o.LookAhead, 4*time.Second)
	def(&o.Patience, 90*time.Second)
	num(&o.Services, 5)
	num(&o.Partitions, 4)
	num(&o.Payload, 300)
	num(&o.Batch, 1)
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(o.Progress, &slog.HandlerOptions{Level: slog.LevelWarn}))
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
	want(d.Rate > 0 && d.Rate <= maxRate, "--rate %g; want above 0, up to %d", d.Rate, maxRate)
	want(d.Duration >= time.Second && d.Rate*d.Duration.Seconds() <= maxJobs, "--duration %s; want at least 1s, and up to %d jobs in all", d.Duration, maxJobs)
	want(d.Services >= 1 && d.Services <= maxServices, "--services %d; want 1 to %d", d.Services, maxServices)
	want(d.Partitions >= 1 && d.Partitions <= trigger.MaxPartitions, "--partitions %d; want 1 to %d", d.Partitions, trigger.MaxPartitions)
	want(d.Payload >= 1 && d.Payload <= trigger.MaxPayload, "--payload %d; want 1 to %d", d.Payload, trigger.MaxPayload)
	want(d.Batch >= 1 && d.Batch <= 10*queue.MaxBatch, "--batch %d; want 1 to %d", d.Batch, 10*queue.MaxBatch)
	want(d.Urgent >= 0 && d.Urgent <= 1, "--urgent %g; want 0 to 1", d.Urgent)
	want(d.Lead.Min >= 0 && d.Lead.Max >= d.Lead.Min && d.Lead.Max <= trigger.MaxAhead, "--lead-time %s; want FROM..TO, such as 10s..20s", d.Lead)
	want(d.LookAhead > idleTick, "--look-ahead %s; want more than %s", d.LookAhead, idleTick)
	want(d.Patience > 0, "--patience %s; want more than 0", d.Patience)
	return errors.Join(errs...)
}

const (
	maxRate     = 20_000
	maxJobs     = 5_000_000 // each is kept in memory until it is accounted for
	maxServices = 200
)

// needs is the lead from which a job counts as stored in time.
func (o *Options) needs() time.Duration { return o.LookAhead + settled }
