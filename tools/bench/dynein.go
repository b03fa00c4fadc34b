package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/tools/bench/internal/dynein"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
)

// dyneinScheduler is the process that is measured.
func dyneinScheduler(args []string) int {
	if len(args) != 1 {
		_, _ = io.WriteString(os.Stderr, usage)
		return 2
	}
	return status(dynein.Serve(args[0], os.Stdin, os.Stdout, slog.New(slog.NewTextHandler(os.Stderr, nil))))
}

// dyneinBaseline measures the published algorithm, as we read it.
func dyneinBaseline(args []string) int {
	var o dynein.Options
	set := settings.New("bench dynein", "a baseline: the published Dynein algorithm as we read it, over the null endpoint in a process of its own")
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
	facts := host.Look(ctx)
	facts.Engine = fmt.Sprintf("null endpoint in a process of its own, latency %s (DynamoDB) and %s (SQS), no limits", o.LatencyDynamoDB, o.LatencySQS)
	o.Progress = os.Stderr
	report, err := dynein.Measure(ctx, o)
	if err != nil {
		return status(err)
	}
	report.Host = facts
	write := report.WriteText
	if *asJSON {
		write = report.WriteJSON
	}
	return status(errors.Join(write(os.Stdout), report.Failure()))
}
