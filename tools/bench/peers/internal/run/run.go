// Package run measures one peer after the other: it starts the store, the
// worker and the client, each in a process of its own, and puts together what
// they found.
//
// It refuses to call a run good in which a job was lost, repeated or refused.
// Runs belong to one goroutine: two at once would measure each other.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/myosin-jobs/myosin/services/standalone/embedded"
	"github.com/myosin-jobs/myosin/tools/bench/internal/engine"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/load"
	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/peer"
	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/role"
	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/stores"
)

// The roles of child processes.
const (
	roleClient = "client"
	roleWorker = "worker"
)

// Variant is a peer with a choice of settings.
type Variant struct {
	Name     string // begins every key: asynq_default
	Peer     string
	Tuned    bool
	Settings string
	Title    string
}

// Variants lists what there is to measure of a peer; "all": of every one.
func Variants(of string) []Variant {
	var chosen []Variant
	for _, v := range []Variant{
		{"asynq_default", peer.Asynq, false, peer.AsynqSettings(false), "asynq, defaults"},
		{"asynq_tuned", peer.Asynq, true, peer.AsynqSettings(true), "asynq, tuned for lateness"},
		{"river_default", peer.River, false, peer.RiverSettings(false), "River, defaults"},
		{"river_tuned", peer.River, true, peer.RiverSettings(true), "River, tuned for lateness"},
		{"relational", peer.Relational, false, peer.RelationalSettings(), "relational baseline: our reading of the first Dynein (Quartz)"},
		{"myosin", peer.Myosin, false, peer.MyosinSettings(), "Myosin"},
	} {
		if of == "all" || of == v.Peer {
			chosen = append(chosen, v)
		}
	}
	return chosen
}

// Result is what was measured of a variant.
type Result struct {
	Variant
	Store, Durability string
	// LoadBefore and LoadAfter are the machine's load averages of a minute: above its
	// cores, lateness is the other work's as well.
	LoadBefore, LoadAfter string
	Client                peer.Client
	Worker                peer.Worker
	Platform              map[string]time.Duration // CPU of Myosin's own processes
	Server                time.Duration            // CPU of the store's processes
	// Commands are what the store counted: commands of redis, commits of
	// PostgreSQL; 0 where it counts none.
	Commands int64
}

// Failure says what went wrong with the jobs; nil if each was handled once.
func (r *Result) Failure() error {
	var errs []error
	bad := func(n int, what string) {
		if n > 0 {
			errs = append(errs, fmt.Errorf("%s: %d %s", r.Name, n, what))
		}
	}
	bad(r.Client.Refused, "submissions refused: "+r.Client.Trouble)
	bad(r.Client.Accepted-r.Worker.Jobs, "jobs lost")
	bad(r.Worker.Repeated, "duplicates")
	bad(r.Worker.Strange, "payloads of no job")
	return errors.Join(errs...)
}

// Child runs a role; see [role.Command].
func Child(name, config string, in io.Reader, out io.Writer) error {
	c, err := configOf(config)
	if err != nil {
		return err
	}
	return role.Serve(in, out, func(ctx context.Context, ready func()) (any, error) {
		switch name {
		case roleClient:
			return peer.Submit(ctx, c, ready)
		case roleWorker:
			return peer.Handle(ctx, c, ready)
		default:
			return peer.Serve(ctx, name, c, ready)
		}
	})
}

// Measure measures one variant. The error is of a run that could not be made.
func Measure(ctx context.Context, v Variant, l load.Load, progress io.Writer) (r *Result, err error) {
	fmt.Fprintf(progress, "peers: %s: %d jobs at %g a second\n", v.Name, l.Jobs, l.Rate)
	r = &Result{Variant: v, Platform: map[string]time.Duration{}, LoadBefore: host.Look(ctx).Load}
	c := peer.Config{Peer: v.Peer, Tuned: v.Tuned, Load: l}
	s, err := openStore(ctx, &c, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.Name, err)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := r.measure(ctx, &c, s); err != nil {
		return nil, fmt.Errorf("%s: %w", v.Name, err)
	}
	return r, nil
}

func (r *Result) measure(ctx context.Context, c *peer.Config, s *store) (err error) {
	if err := peer.Prepare(ctx, c); err != nil {
		return err
	}
	environ := embedded.Environ(os.Environ(), "")
	var open []*role.Process
	defer func() {
		for _, p := range open {
			err = errors.Join(err, p.Close())
		}
	}()
	begin := func(name string) (*role.Process, error) {
		p, err := role.Start(ctx, name, c, environ)
		if err == nil {
			open = append(open, p)
		}
		return p, err
	}
	platform := map[string]*role.Process{}
	if c.Peer == peer.Myosin {
		for _, name := range []string{peer.Inbound, peer.Scheduler} {
			if platform[name], err = begin(name); err != nil {
				return err
			}
		}
	}
	worker, err := begin(roleWorker)
	if err != nil {
		return err
	}
	commands, err := s.commands(ctx)
	if err != nil {
		return err
	}
	cpu := s.cpu()
	client, err := begin(roleClient)
	if err != nil {
		return err
	}
	if err := client.Result(ctx, &r.Client); err != nil {
		return err
	}
	if err := worker.Result(ctx, &r.Worker); err != nil {
		return err
	}
	for name, p := range platform {
		var own peer.Platform
		if err := p.End(ctx, &own); err != nil {
			return err
		}
		r.Platform[name] = own.CPU
	}
	r.Server, r.LoadAfter = s.cpu()-cpu, host.Look(ctx).Load
	after, err := s.commands(ctx)
	r.Commands = after - commands
	return err
}

// store is what a peer keeps its jobs in, whichever it is.
type store struct {
	cpu      func() time.Duration
	commands func(context.Context) (int64, error)
	close    func() error
}

func openStore(ctx context.Context, c *peer.Config, r *Result) (*store, error) {
	switch c.Peer {
	case peer.Asynq:
		s, err := stores.Redis(ctx)
		if err != nil {
			return nil, err
		}
		c.Addr, r.Store, r.Durability = s.Addr, s.Version, s.Durability
		return &store{s.CPU, func(ctx context.Context) (int64, error) { return redisCommands(ctx, s.Addr) }, s.Close}, nil
	case peer.River, peer.Relational:
		s, err := stores.Postgres(ctx)
		if err != nil {
			return nil, err
		}
		c.Addr, r.Store, r.Durability = s.Addr, s.Version, s.Durability
		return &store{s.CPU, func(ctx context.Context) (int64, error) { return peer.Transactions(ctx, s.Addr) }, s.Close}, nil
	}
	e, err := engine.Start(ctx)
	if err != nil {
		return nil, err
	}
	c.Addr, r.Store, r.Durability = e.URL(), engine.Describe(), "none: the emulator keeps everything in memory; DynamoDB and SQS keep three copies"
	return &store{
		func() time.Duration { used, _ := e.CPU(); return used },
		func(context.Context) (int64, error) { return 0, nil },
		e.Close,
	}, nil
}

// redisCommands is how many commands the server has processed.
func redisCommands(ctx context.Context, addr string) (int64, error) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	text, err := client.Info(ctx, "stats").Result()
	if err = errors.Join(err, client.Close()); err != nil {
		return 0, fmt.Errorf("ask redis: %w", err)
	}
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(line, "total_commands_processed:"); ok {
			return strconv.ParseInt(strings.TrimSpace(n), 10, 64)
		}
	}
	return 0, errors.New("ask redis: it counts no commands")
}

// Versions are those of the peers' modules.
func Versions() map[string]string {
	return map[string]string{
		"asynq_version": host.Module("github.com/hibiken/asynq"), "river_version": host.Module("github.com/riverqueue/river"),
		"pgx_version": host.Module("github.com/jackc/pgx/v5"), "kumo_version": host.Module("github.com/sivchari/kumo"),
	}
}
