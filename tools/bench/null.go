package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/tools/bench/internal/fleet"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
)

// process is one of the processes under measurement.
func process(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return status(fleet.Serve(ctx, args))
}

// overNull measures real processes over the null endpoint.
func overNull(args []string) int {
	var o fleet.Options
	set := settings.New("bench null", "inbound and scheduler processes over an endpoint that costs next to nothing: our own cost and scaling")
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
	facts.Engine = fmt.Sprintf("null endpoint in a process of its own, latency %s (DynamoDB) and %s (SQS), limits %s", o.LatencyDynamoDB, o.LatencySQS, o.Limits)
	o.Progress = os.Stderr
	report, err := fleet.Run(ctx, o)
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
