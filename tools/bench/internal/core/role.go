package core

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/bench/internal/child"
	"github.com/myosin-jobs/myosin/tools/bench/internal/meter"
)

// Command is the argument by which this program becomes the load's client or its
// consumers; their configuration follows.
const Command = "core-process"

const region = "us-east-1" // any: no engine looks

// role is what such a process is told.
type role struct {
	Name    string // compClient or compConsumer
	Prefix  string
	Options Options
}

// Serve is such a process: it runs until in ends.
func Serve(config string, in io.Reader, out io.Writer) error {
	var r role
	if err := json.Unmarshal([]byte(config), &r); err != nil {
		return fmt.Errorf("core process: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	m := meter.New()
	p, err := platform.Open(ctx, platform.Options{
		Prefix: r.Prefix, Endpoint: r.Options.Endpoint, Region: region, Configure: m.Attach,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	if err := p.Reach(ctx); err != nil { // the first answer sets the clock
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	if _, err := p.Services.Refresh(ctx); err != nil {
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	running.Go(func() { _ = p.Services.Run(ctx) }) // its errors are the next submission's
	link, answers := child.NewLink(in, out), m.Answers()
	if r.Name == compClient {
		err = r.client(ctx, p, link, answers, &running)
	} else {
		err = r.consumers(ctx, p, link, &running)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	if err := link.Ready(""); err != nil {
		return err
	}
	return link.Serve(answers)
}

// client makes the load, which begins when it is asked to.
func (r *role) client(ctx context.Context, p *platform.Platform, link *child.Link, answers map[string]func() (any, error), running *sync.WaitGroup) error {
	c, err := p.Client(ctx)
	if err != nil {
		return err
	}
	// A parent that does not listen has ended, and so will standard input.
	l := &load{o: r.Options, client: c, tell: func(s submission) { _ = link.Tell(line(s)) }}
	answers[askStart] = func() (any, error) {
		running.Go(func() {
			l.submit(ctx)
			_ = link.Tell(toldDone) // as above
		})
		return nil, nil
	}
	return nil
}

// consumers makes the owning services' side: every queue is polled.
func (r *role) consumers(ctx context.Context, p *platform.Platform, link *child.Link, running *sync.WaitGroup) error {
	polls := 1
	if r.Options.Services <= fewServices {
		polls = 2
	}
	for i := range r.Options.Services {
		svc, err := p.Services.Lookup(ctx, serviceName(i))
		if err != nil {
			return err
		}
		for _, lane := range trigger.Lanes {
			if lane == trigger.Urgent && r.Options.Urgent == 0 {
				continue
			}
			c, err := newConsumer(svc.Queue(lane), p.Queues, func(told receipt) { _ = link.Tell(line(told)) }) // as in client
			if err != nil {
				return err
			}
			running.Go(func() { c.run(ctx, polls) })
		}
	}
	return nil
}
