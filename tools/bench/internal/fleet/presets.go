package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
)

// Result is what a command measured.
type Result interface {
	Flat() map[string]any
	WriteText(w io.Writer) error
	WriteJSON(w io.Writer) error
	// Failure says what went wrong with the jobs; nil if each arrived once, not early.
	Failure() error
}

// Preset is a command: a load that is worth a name.
type Preset struct {
	Summary string
	Options Options  // defaults; Command is its name
	Flags   []string // that it takes; nil: all
	measure func(context.Context, host.Facts, Options) (Result, error)
}

// Measure runs the command.
func (p *Preset) Measure(ctx context.Context, h host.Facts, o Options) (Result, error) {
	limits := "no limits"
	switch {
	case o.TableWrites > 0:
		limits = fmt.Sprintf("%g write units/s a table and 1,000 a physical partition, ", o.TableWrites)
		if limits += "hash keys spread by their hashes"; o.Even {
			limits += " but evenly, as after a split for heat"
		}
	case o.Limits != "none":
		limits = "limits " + o.Limits
	}
	h.Engine = fmt.Sprintf("null endpoint in a process of its own, latency %s (DynamoDB) and %s (SQS), %s", o.LatencyDynamoDB, o.LatencySQS, limits)
	return p.measure(ctx, h, o)
}

func once(ctx context.Context, h host.Facts, o Options) (Result, error) {
	r, err := Run(ctx, o)
	if err != nil {
		return nil, err
	}
	r.Host = h
	return r, nil
}

// wave makes all jobs due in one second.
func wave(ctx context.Context, h host.Facts, o Options) (Result, error) {
	o.Rate = float64(o.Jobs)
	return once(ctx, h, o)
}

// Presets are the commands, in the order they are told of.
func Presets() []Preset {
	of := func(change func(o *Options)) Options {
		o := Defaults()
		change(&o)
		return o
	}
	shape := []string{"jobs", "services", "partitions", "payload", "schedulers", "linger", "latency-dynamodb", "latency-sqs", "patience", "cpuprofile"}
	with := func(more ...string) []string { return append(more, shape...) }
	return []Preset{
		{
			Summary: "inbound and scheduler processes over an endpoint that costs next to nothing: our own cost and scaling",
			Options: Defaults(), measure: once,
		},
		{
			Summary: "jobs of the standard lane due in one second, with urgent ones among them, under AWS-like latency and limits",
			Options: of(func(o *Options) {
				o.Command, o.Jobs, o.Urgent, o.Services, o.Patience = "wave", 1_000_000, 1000, 10, 15*time.Minute
				o.LatencyDynamoDB, o.LatencySQS, o.Limits, o.TableWrites, o.Even = 5*time.Millisecond, 10*time.Millisecond, "aws", 10_000, true
				o.StandardWrites = 9000 // what an operator gives it of such a table, so that the urgent lane finds room
			}),
			Flags: with("urgent", "limits", "table-writes", "even", "standard-writes"), measure: wave,
		},
		{
			Summary: "jobs that were due an hour before the schedulers start: memory and throughput",
			Options: of(func(o *Options) {
				o.Command, o.Jobs, o.Rate, o.Overdue, o.Services, o.Patience = "overdue", 2_000_000, 2_000_000.0/600, time.Hour, 10, 15*time.Minute
			}),
			Flags: with("rate", "overdue"), measure: once,
		},
		{
			Summary: "what an hour with nothing due costs: inbound and schedulers watched for a while",
			Options: of(func(o *Options) { o.Command, o.Idle = "idle", time.Minute }),
			Flags:   []string{"idle", "partitions", "schedulers", "services", "rows", "cpuprofile"}, measure: once,
		},
		{
			Summary: "what a tick costs with 10 thousand, 1 and 10 million rows stored, the same load due",
			Options: of(func(o *Options) { o.Command, o.Jobs, o.Rate, o.Rows, o.Rounds = "table", 2000, 100, 10_000_000, 2 }),
			Flags:   with("rate", "rows", "rounds"), measure: func(ctx context.Context, h host.Facts, o Options) (Result, error) { return Table(ctx, h, o) },
		},
		{
			Summary: "throughput of 1, 2 and 4 scheduler processes where latency is the limit, not CPU",
			Options: of(func(o *Options) {
				o.Command, o.Jobs, o.Rate, o.Overdue, o.Services, o.Schedulers = "scale", 40_000, 2_000_000.0/600, time.Hour, 10, 4
				o.LatencyDynamoDB, o.LatencySQS = 100*time.Millisecond, 100*time.Millisecond
			}),
			Flags: shape, measure: func(ctx context.Context, h host.Facts, o Options) (Result, error) { return Scale(ctx, h, o) },
		},
	}
}

// failures joins those of several runs.
func failures(runs []*Report, name func(int) string) error {
	var errs []error
	for i, r := range runs {
		if err := r.Failure(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name(i), err))
		}
	}
	return errors.Join(errs...)
}
