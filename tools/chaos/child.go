package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/settings"
	inbound "github.com/myosin-jobs/myosin/services/inbound/app"
	runner "github.com/myosin-jobs/myosin/services/runner/app"
	scheduler "github.com/myosin-jobs/myosin/services/scheduler/app"
	"github.com/myosin-jobs/myosin/services/standalone/embedded"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/owner"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/procs"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/storm"
)

// child is this program as another process of a run.
func child(command string, args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch command {
	case storm.KeeperCommand:
		procs.Keep(os.Stdin, args[0])
		return nil
	case storm.EngineCommand:
		return engine(ctx, os.Stdin, os.Stdout)
	case storm.WorkerCommand:
		return owner.Run(ctx, os.Getenv("MYOSIN_PREFIX"), storm.Services(), os.Stdout)
	}
	// A scheduler, inbound or runner as its main would start it, but for its clock.
	offset, err := time.ParseDuration(os.Getenv(storm.OffsetEnv))
	if err != nil {
		return fmt.Errorf("%s: %w", storm.OffsetEnv, err)
	}
	steady := clock.Steady()
	local := func() time.Time { return steady().Add(offset) }
	set := settings.New(command, "with a clock that is off")
	var si scheduler.Options
	var in inbound.Options
	var ru runner.Options
	switch command {
	case storm.SchedulerCommand:
		si.Settings(set)
		si.Process.Local = local
	case storm.InboundCommand:
		in.Settings(set)
		in.Process.Local = local
	case storm.RunnerCommand:
		ru.Settings(set)
		ru.Process.Local = local
	default:
		return fmt.Errorf("no process is called %s", command)
	}
	if err := set.Parse(args, os.LookupEnv, os.Stdout); err != nil {
		return err
	}
	switch command {
	case storm.SchedulerCommand:
		return scheduler.Run(ctx, si)
	case storm.RunnerCommand:
		return runner.Run(ctx, ru)
	}
	return inbound.Run(ctx, in)
}

// engine serves until in ends.
func engine(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	e, err := embedded.Listen(ctx, embedded.Options{Addr: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "engine at %s\n", e.URL()); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in) // whatever ends it, ends us
		stop()
	}()
	return e.Run(ctx)
}
