package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/myosin-jobs/myosin/tools/bench/internal/child"
	"github.com/myosin-jobs/myosin/tools/bench/internal/fleet"
)

// part is one process of a run.
type part struct {
	*child.Process
	component string
}

// idle is the schedulers' tick where nothing is due: their own, or as standalone
// sets it over kumo; always well below the look-ahead.
func (o *Options) idle() time.Duration {
	tick := idleTick
	if o.Emulator {
		tick = emulatorTick
	}
	return min(tick, o.LookAhead/2)
}

// start starts every process and waits until all may be used.
func (b *bench) start(ctx context.Context) error {
	b.say("starting %d processes", 3+b.o.Schedulers)
	inbound := []string{compInbound}
	if b.o.Emulator {
		inbound = append(inbound, "--wait", "1s", "--pollers", "2")
	}
	services := [][]string{inbound}
	for i := range b.o.Schedulers {
		scheduler := []string{
			compScheduler, "--member-index", strconv.Itoa(i), "--member-count", strconv.Itoa(b.o.Schedulers),
			"--look-ahead", b.o.LookAhead.String(), "--idle-tick", b.o.idle().String(), "--send-linger", max(b.o.Linger, 0).String(),
		}
		services = append(services, scheduler)
	}
	for i, args := range services {
		name := args[0]
		if i > 0 {
			name = schedulerName(i - 1)
		}
		p, err := child.Start(ctx, child.Options{Name: name, Args: append([]string{fleet.Command, "", args[0], "--metered",
			"--endpoint", b.o.Endpoint, "--region", region, "--prefix", b.prefix, "--addr", "127.0.0.1:0", "--log-level", "warn", "--log-format", "text"}, args[1:]...)})
		if err != nil {
			return err
		}
		b.parts = append(b.parts, part{p, args[0]})
	}
	for _, p := range b.parts {
		if err := fleet.Ready(ctx, p.Process, readyWait); err != nil {
			return err
		}
	}
	told := map[string]func(string){compConsumer: b.brought, compClient: b.heard}
	for _, name := range []string{compConsumer, compClient} {
		config, err := json.Marshal(role{Name: name, Prefix: b.prefix, Options: b.o})
		if err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
		p, err := child.Start(ctx, child.Options{Name: name, Args: []string{Command, string(config)}, Told: told[name]})
		if err != nil {
			return err
		}
		b.parts = append(b.parts, part{p, name})
	}
	return nil
}

// client is the process that submits.
func (b *bench) client() *child.Process {
	for _, p := range b.parts {
		if p.component == compClient {
			return p.Process
		}
	}
	return nil // start has made one
}

// stop stops every process.
func (b *bench) stop() error {
	var stopping errgroup.Group
	errs := make([]error, len(b.parts))
	for i, p := range b.parts {
		stopping.Go(func() error {
			errs[i] = p.Stop()
			return nil
		})
	}
	_ = stopping.Wait()
	b.parts = nil
	return errors.Join(errs...)
}
