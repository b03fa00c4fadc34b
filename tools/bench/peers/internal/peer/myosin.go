package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/queue/sqsqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/pkg/worker"
	inbound "github.com/myosin-jobs/myosin/services/inbound/app"
	scheduler "github.com/myosin-jobs/myosin/services/scheduler/app"
	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/load"
	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/role"
)

const (
	service = "bench"
	// enginePartitions is small since the engine reads its whole table for a query.
	enginePartitions = 4
	// enginePoll is short since the engine does not wake a poll when a delay ends.
	enginePoll = time.Second
	readyWait  = 30 * time.Second
)

// The processes of the platform.
const (
	Inbound   = "inbound"
	Scheduler = "scheduler"
)

// MyosinSettings tells what it runs with.
func MyosinSettings() string {
	return fmt.Sprintf("defaults, but for %d partitions and polls of %s, which suit the engine", enginePartitions, enginePoll)
}

func openMyosin(ctx context.Context, c *Config) (*platform.Platform, error) {
	return platform.Open(ctx, platform.Options{Prefix: c.Prefix, Endpoint: c.Addr, Region: "us-east-1", SQS: sqsqueue.Options{MaxPoll: enginePoll}})
}

// prepareMyosin makes tables and queues, and sets the queue of the configuration.
func prepareMyosin(ctx context.Context, c *Config) error {
	c.Prefix = "peers"
	p, err := openMyosin(ctx, c)
	if err != nil {
		return err
	}
	if _, err := p.Ensure(ctx, enginePartitions); err != nil {
		return err
	}
	svc, err := p.EnsureService(ctx, registry.Service{Name: service, Owner: "bench"}, false)
	if err != nil {
		return err
	}
	c.Queue = svc.QueueURL
	return nil
}

// myosinSender submits one job a call.
func myosinSender(ctx context.Context, c *Config) (*sender, error) {
	p, err := openMyosin(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := p.Reach(ctx); err != nil {
		return nil, err
	}
	jobs, err := p.Client(ctx)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- p.Services.Run(ctx) }()
	if _, err := p.Services.Refresh(ctx); err != nil {
		stop()
		return nil, errors.Join(err, <-ended)
	}
	return &sender{
		send: func(ctx context.Context, due time.Time, payload []byte) error {
			_, err := jobs.Schedule(ctx, service, payload, client.At(due))
			return err
		},
		close: func() error {
			stop()
			return <-ended
		},
	}, nil
}

func myosinRunner(ctx context.Context, c *Config, start func([]byte)) (*runner, error) {
	p, err := openMyosin(ctx, c)
	if err != nil {
		return nil, err
	}
	w, err := worker.New(worker.Options{
		Receiver: p.Queues, QueueURL: c.Queue, Concurrency: handlers, Wait: enginePoll, Log: warnings(),
	})
	if err != nil {
		return nil, err
	}
	w.HandleDefault(func(_ context.Context, job worker.Job[[]byte]) error {
		start(job.Payload)
		return nil
	})
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return &runner{close: func() error {
		stop()
		return <-ended
	}}, nil
}

// Platform is what a process of the platform found.
type Platform struct {
	CPU time.Duration // from when it was ready until it was asked to end
}

// Serve is a process of the platform, Inbound or Scheduler: what ships, with
// its defaults. It runs until ctx ends.
func Serve(ctx context.Context, name string, c Config, ready func()) (*Platform, error) {
	var (
		set   = settings.New(name, "")
		addr  = make(chan string, 1)
		run   func(context.Context) error
		flags = []string{"--endpoint", c.Addr, "--prefix", c.Prefix, "--region", "us-east-1", "--addr", "127.0.0.1:0", "--log-level", "warn"}
	)
	switch name {
	case Inbound:
		var o inbound.Options
		o.Settings(set)
		flags = append(flags, "--wait", enginePoll.String())
		o.Process.OnListen = func(a string) { addr <- a }
		run = func(ctx context.Context) error { return inbound.Run(ctx, o) }
		if err := parse(set, flags); err != nil {
			return nil, err
		}
	case Scheduler:
		var o scheduler.Options
		o.Settings(set)
		o.Process.OnListen = func(a string) { addr <- a }
		run = func(ctx context.Context) error { return scheduler.Run(ctx, o) }
		if err := parse(set, flags); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("no process %q", name)
	}
	var (
		running sync.WaitGroup
		failed  error
	)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	running.Go(func() {
		defer stop()
		failed = run(ctx)
	})
	err := awaitReady(ctx, addr)
	cpu := role.NewMeter()
	if err == nil {
		ready()
		<-ctx.Done()
	}
	res := &Platform{CPU: cpu.Used()}
	stop()
	running.Wait()
	return res, errors.Join(err, failed)
}

func parse(set *settings.Set, flags []string) error {
	return set.Parse(flags, func(string) (string, bool) { return "", false }, io.Discard)
}

// awaitReady waits until the process says that it is ready.
func awaitReady(ctx context.Context, addr <-chan string) error {
	var base string
	select {
	case a := <-addr:
		base = "http://" + a + "/readyz"
	case <-ctx.Done():
		return ctx.Err()
	}
	var plain http.Client
	for end := time.Now().Add(readyWait); time.Now().Before(end); {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base, http.NoBody)
		if err != nil {
			return err
		}
		if resp, err := plain.Do(req); err == nil {
			if resp.Body.Close() == nil && resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		if err := load.Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("not ready in time")
}
