package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"

	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/settings"
	inbound "github.com/myosin-jobs/myosin/services/inbound/app"
	scheduler "github.com/myosin-jobs/myosin/services/scheduler/app"
	"github.com/myosin-jobs/myosin/tools/bench/internal/child"
	"github.com/myosin-jobs/myosin/tools/bench/internal/meter"
)

// Command is the argument by which this program becomes one of the processes;
// a file for its CPU profile (or nothing), the service's name and its flags follow.
const Command = "process"

// Serve is the process: the service itself, until it is told to stop or its
// standard input ends. It is ready when it listens, and says where.
func Serve(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("process: want a file for a CPU profile (or an empty argument), inbound or scheduler, and its flags")
	}
	if file := args[0]; file != "" {
		f, err := os.Create(file)
		if err != nil {
			return fmt.Errorf("process: %w", err)
		}
		defer func() { _ = f.Close() }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return fmt.Errorf("process: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	link := child.NewLink(os.Stdin, os.Stdout)
	run, process, metered, err := service(ctx, args[1:])
	if err != nil {
		return err
	}
	process.OnListen = func(addr string) {
		if link.Ready(addr) != nil {
			stop() // nobody is there
		}
	}
	var answers map[string]func() (any, error)
	if metered {
		m := meter.New()
		process.Configure, answers = m.Attach, m.Answers()
	}
	go func() { // ends with standard input; nothing can wait for that
		_ = link.Serve(answers)
		stop()
	}()
	return run()
}

// service is one of the services, with the part of its options that all have.
// --metered has it count what it asks of AWS, and answer [meter.Ask].
func service(ctx context.Context, args []string) (run func() error, process *platform.Process, metered bool, err error) {
	set := settings.New(args[0], "a process under measurement")
	set.BoolVar(&metered, "metered", "", "count requests and writes, at some CPU")
	switch args[0] {
	case "inbound":
		var o inbound.Options
		o.Settings(set)
		run, process = func() error { return inbound.Run(ctx, o) }, &o.Process
	case "scheduler":
		var o scheduler.Options
		o.Settings(set)
		run, process = func() error { return scheduler.Run(ctx, o) }, &o.Process
	default:
		return nil, nil, false, fmt.Errorf("process: %q; want inbound or scheduler", args[0])
	}
	err = set.Parse(args[1:], func(string) (string, bool) { return "", false }, os.Stderr)
	return run, process, metered, err
}

// start starts one of the processes.
func start(ctx context.Context, name, profile string, args ...string) (*child.Process, error) {
	return child.Start(ctx, child.Options{Name: name, Args: append([]string{Command, profile}, args...)})
}
