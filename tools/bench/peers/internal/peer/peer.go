// Package peer holds what is measured side by side: asynq, River, a relational
// baseline and Myosin, each as one client that submits delayed jobs and one
// worker that handles them. The handlers do nothing but note when they began.
//
// It owns the choice of every peer's settings, and refuses to tune one beyond
// what its public options allow. The functions may be called concurrently.
package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/load"
	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/role"
)

// Config is what a client or worker process is told.
type Config struct {
	Peer string // a name in Names
	// Tuned chooses the settings that favour lateness over cost.
	Tuned bool
	Load  load.Load
	// Addr is the store's; see stores.Server. For Myosin, the engine's base URL.
	Addr string
	// Prefix and Queue are Myosin's: its installation and the service's queue.
	Prefix, Queue string
}

// The peers.
const (
	Asynq      = "asynq"
	River      = "river"
	Relational = "relational"
	Myosin     = "myosin"
)

// handlers is how many may run at once, with every peer.
const handlers = 100

// settle is how long a worker goes on after the last job, for copies of it, and
// so that what it owes its store is written.
const settle = 1500 * time.Millisecond

// Operations counts what was asked of a store, by kind, where the peer's code
// is ours; see the relational baseline.
type Operations map[string]int64

// Client is what a client process found.
type Client struct {
	load.Submitted
	CPU        time.Duration // from the first submission to the last answer
	Operations Operations
}

// Worker is what a worker process found.
type Worker struct {
	load.Handled
	CPU        time.Duration // from when it was ready until everything was handled
	Operations Operations
}

// sender submits jobs; its functions may be called concurrently.
type sender struct {
	send       func(ctx context.Context, due time.Time, payload []byte) error
	operations func() Operations // nil: not counted
	close      func() error
}

// runner handles jobs until it is closed.
type runner struct {
	operations func() Operations // nil: not counted
	close      func() error
}

// Submit is the client process: it submits the load.
func Submit(ctx context.Context, c Config, ready func()) (*Client, error) {
	open := map[string]func(context.Context, *Config) (*sender, error){
		Asynq: asynqSender, River: riverSender, Relational: relationalSender, Myosin: myosinSender,
	}[c.Peer]
	if open == nil {
		return nil, fmt.Errorf("no peer %q", c.Peer)
	}
	s, err := open(ctx, &c)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", c.Peer, err)
	}
	ready()
	cpu := role.NewMeter()
	res := &Client{Submitted: c.Load.Submit(ctx, s.send)}
	res.CPU = cpu.Used()
	if s.operations != nil {
		res.Operations = s.operations()
	}
	return res, s.close()
}

// Handle is the worker process: it handles jobs until all were, or time is up.
func Handle(ctx context.Context, c Config, ready func()) (*Worker, error) {
	open := map[string]func(context.Context, *Config, func([]byte)) (*runner, error){
		Asynq: asynqRunner, River: riverRunner, Relational: relationalRunner, Myosin: myosinRunner,
	}[c.Peer]
	if open == nil {
		return nil, fmt.Errorf("no peer %q", c.Peer)
	}
	jobs := load.NewLedger(c.Load.Jobs)
	r, err := open(ctx, &c, jobs.Start)
	if err != nil {
		return nil, fmt.Errorf("worker of %s: %w", c.Peer, err)
	}
	ready()
	cpu := role.NewMeter()
	wait, cancel := context.WithTimeout(ctx, c.Load.Spent())
	defer cancel()
	select {
	case <-jobs.All():
	case <-wait.Done(): // what is missing stands in the account
	}
	_ = load.Pause(ctx, settle)
	res := &Worker{CPU: cpu.Used()}
	if r.operations != nil {
		res.Operations = r.operations()
	}
	err = r.close()
	res.Handled = jobs.Handled()
	return res, err
}

// Prepare makes what a peer needs in its store before its processes start.
func Prepare(ctx context.Context, c *Config) error {
	var err error
	switch c.Peer {
	case River:
		err = prepareRiver(ctx, c)
	case Relational:
		err = prepareRelational(ctx, c)
	case Myosin:
		err = prepareMyosin(ctx, c)
	case Asynq:
	default:
		err = errors.New("it is unknown")
	}
	if err != nil {
		return fmt.Errorf("prepare %s: %w", c.Peer, err)
	}
	return nil
}

// warnings is a logger of what goes wrong.
func warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
