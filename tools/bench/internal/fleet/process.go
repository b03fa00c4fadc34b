package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/pprof"
	"time"

	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/settings"
	inbound "github.com/myosin-jobs/myosin/services/inbound/app"
	runner "github.com/myosin-jobs/myosin/services/runner/app"
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
		return errors.New("process: want a file for a CPU profile (or an empty argument), inbound, scheduler or runner, and its flags")
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
	case "runner":
		var o runner.Options
		o.Settings(set)
		run, process = func() error { return runner.Run(ctx, o) }, &o.Process
	default:
		return nil, nil, false, fmt.Errorf("process: %q; want inbound, scheduler or runner", args[0])
	}
	err = set.Parse(args[1:], func(string) (string, bool) { return "", false }, os.Stderr)
	return run, process, metered, err
}

// Ready waits until a service that has started says that it may be given work.
func Ready(ctx context.Context, p *child.Process, within time.Duration) error {
	var caller http.Client
	defer caller.CloseIdleConnections()
	for end := time.Now().Add(within); ; {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Ready()+"/readyz", http.NoBody)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name(), err)
		}
		resp, err := caller.Do(req)
		if err == nil {
			if err = resp.Body.Close(); err == nil && resp.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.Join(err, errors.New(resp.Status))
		}
		select {
		case <-p.Ended():
			return fmt.Errorf("%s is not ready: it ended", p.Name())
		default:
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s is not ready: %w", p.Name(), err)
		}
		if err := Pause(ctx, look/2); err != nil {
			return err
		}
	}
}

// Start starts one of the processes, with a file for its CPU profile or an empty
// text: see [Command].
func Start(ctx context.Context, name, profile string, args ...string) (*child.Process, error) {
	return child.Start(ctx, child.Options{Name: name, Args: append([]string{Command, profile}, args...)})
}
