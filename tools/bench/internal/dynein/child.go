package dynein

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/tools/bench/internal/child"
	"github.com/myosin-jobs/myosin/tools/bench/internal/endpoint"
)

// Command is the argument by which this program becomes a scheduler of the run.
const Command = "dynein-scheduler"

// Config is what a scheduler process is told.
type Config struct {
	Endpoint   string
	Partitions []int
	Workers    int
	Limit      int32
}

// Part returns the configuration of scheduler number index of count.
func (o *Options) Part(index, count int) Config {
	c := Config{Endpoint: o.Endpoint, Workers: o.Workers, Limit: int32(o.Limit)} //nolint:gosec // validated.
	for p := index; p < o.Partitions; p += count {
		c.Partitions = append(c.Partitions, p)
	}
	return c
}

// Scheduler makes the scheduler of a configuration. It takes the SDK's clients
// as the platform configures them.
func (c *Config) Scheduler(p *platform.Platform, report func(error)) (*Scheduler, error) {
	return NewScheduler(SchedulerOptions{
		Rows: p.Dynamo(), Queues: queuesOf(p), Table: Table, Partitions: c.Partitions, Workers: c.Workers, Limit: c.Limit, Report: report,
	})
}

// Serve is the scheduler process: it runs until in ends.
func Serve(config string, in io.Reader, out io.Writer, log *slog.Logger) error {
	var c Config
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return fmt.Errorf("dynein: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	// As our own processes begin: the same collector settings, memory limit, SDK
	// configuration and clock.
	own := platform.NewProcess("dynein", "")
	own.Endpoint, own.Region, own.Log = c.Endpoint, region, log
	st, err := own.Start(ctx, platform.Options{})
	if err != nil {
		return fmt.Errorf("dynein: %w", err)
	}
	s, err := c.Scheduler(st.Platform, func(err error) { log.WarnContext(ctx, "dynein", "error", err) })
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	defer running.Wait()
	defer stop()
	link := child.NewLink(in, out)
	if err := link.Ready(""); err != nil {
		return fmt.Errorf("dynein: %w", err)
	}
	return link.Serve(nil)
}

// process is a [Process] of its own.
type process struct{ *child.Process }

// Close implements Process.
func (p process) Close() error { return p.Stop() }

// start starts a scheduler in a process of its own: what Options.Start is outside
// tests.
func (o *Options) start(ctx context.Context, index, count int) (Process, error) {
	config, err := json.Marshal(o.Part(index, count))
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what it was.
	}
	p, err := child.Start(ctx, child.Options{Name: fmt.Sprintf("dynein scheduler %d", index), Args: []string{Command, string(config)}})
	if err != nil {
		return nil, err
	}
	return process{p}, nil
}

// Measure is [Run] with an endpoint and schedulers in processes of their own.
func Measure(ctx context.Context, o Options) (r *Report, err error) {
	e, err := endpoint.Start(ctx, "--latency-dynamodb", o.LatencyDynamoDB.String(), "--latency-sqs", o.LatencySQS.String())
	if err != nil {
		return nil, fmt.Errorf("dynein: %w", err)
	}
	defer func() { err = errors.Join(err, e.Stop()) }()
	o.Endpoint = e.Ready()
	o.Start = func(index, count int) (Process, error) { return o.start(ctx, index, count) }
	return Run(ctx, o)
}
