package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/tools/bench/internal/engine"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
	"github.com/myosin-jobs/myosin/tools/bench/internal/runs"
)

// runsPath measures the managed layer through real processes.
func runsPath(args []string) int {
	shapes := runs.Shapes()
	shape := shapes[0]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		found := false
		for _, s := range shapes {
			if s.Options.Shape == args[0] {
				shape, found = s, true
			}
		}
		if !found {
			fmt.Fprintf(os.Stderr, "bench runs %s: no such shape\n", args[0])
			return 2
		}
		args = args[1:]
	}
	o := shape.Options
	set := settings.New("bench runs "+o.Shape, shape.Summary)
	o.Bind(set)
	asJSON := set.Bool("json", "", false, "print one flat JSON object instead of a table")
	err := set.Parse(args, func(string) (string, bool) { return "", false }, os.Stdout)
	if errors.Is(err, settings.ErrHelp) {
		return 0
	}
	if err := errors.Join(err, o.Validate()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return status(measureRuns(ctx, o, *asJSON))
}

// measureRuns measures and prints the report, also of runs that failed.
func measureRuns(ctx context.Context, o runs.Options, asJSON bool) error {
	if err := engine.Isolate(); err != nil {
		return err
	}
	facts := host.Look(ctx)
	facts.Engine = "null endpoint in a process of its own, no latency, no limits"
	if o.Engine == "kumo" {
		facts.Engine = engine.Describe() + ", in a process of its own, without standalone's front"
	}
	o.Progress = os.Stderr
	report, err := runs.Run(ctx, o)
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
