package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/tools/bench/internal/core"
	"github.com/myosin-jobs/myosin/tools/bench/internal/engine"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
)

// coreProcess is the client or the consumers of a run.
func coreProcess(args []string) int {
	if len(args) != 1 {
		_, _ = io.WriteString(os.Stderr, usage)
		return 2
	}
	return status(core.Serve(args[0], os.Stdin, os.Stdout))
}

// corePath measures the core path through real processes.
func corePath(args []string) int {
	var o core.Options
	set := settings.New("bench core", "the core path under load: client, inbound, schedulers and consumers as processes, over the embedded engine or any endpoint")
	o.Bind(set)
	lead := set.String("lead-time", "", o.Lead.String(), "how far ahead jobs are due, evenly spread")
	asJSON := set.Bool("json", "", false, "print one flat JSON object instead of a table")
	err := set.Parse(args, func(string) (string, bool) { return "", false }, os.Stdout)
	if errors.Is(err, settings.ErrHelp) {
		return 0
	}
	var bad error
	o.Lead, bad = core.ParseSpan(*lead)
	if err := errors.Join(err, bad, o.Validate()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	// The first signal ends the run in good order, the second at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return status(measure(ctx, o, *asJSON))
}

// measure runs the core path and prints the report, also of a run that failed.
func measure(ctx context.Context, o core.Options, asJSON bool) (err error) {
	// Whatever profile or endpoint the shell names, the load goes where the flags say.
	if err := engine.Isolate(); err != nil {
		return err
	}
	facts := host.Look(ctx)
	facts.Engine, o.Progress = o.Endpoint, os.Stderr
	if o.Endpoint == "" {
		e, err := engine.Start(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = e.Close() }() // its figures are taken
		o.Endpoint, o.EngineCPU, o.Emulator = e.URL(), e.CPU, true
		facts.Engine = engine.Describe() + ", in a process of its own, without standalone's front"
	}
	report, err := core.Run(ctx, o)
	if err != nil {
		return err
	}
	report.Host = facts
	write := report.WriteText
	if asJSON {
		write = report.WriteJSON
	}
	return errors.Join(write(os.Stdout), report.Failure())
}
