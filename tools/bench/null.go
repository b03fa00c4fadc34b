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

// preset returns the command of a name that measures real processes over the
// null endpoint; nil: there is none.
func preset(name string) *fleet.Preset {
	for _, p := range fleet.Presets() {
		if p.Options.Command == name {
			return &p
		}
	}
	return nil
}

// overNull runs such a command.
func overNull(p *fleet.Preset, args []string) int {
	o := p.Options
	set := settings.New("bench "+o.Command, p.Summary)
	o.Settings(set, p.Flags...)
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
	o.Progress = os.Stderr
	report, err := p.Measure(ctx, host.Look(ctx), o)
	if err != nil {
		return status(err)
	}
	write := report.WriteText
	if *asJSON {
		write = report.WriteJSON
	}
	return status(errors.Join(write(os.Stdout), report.Failure()))
}
