// Command peers runs the same delayed jobs through asynq, River, a relational
// baseline and Myosin on this machine. See peers --help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/tools/bench/internal/engine"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/load"
	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/role"
	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/run"
)

const usage = `peers runs the same delayed jobs through one system after the other.

  peers asynq       asynq on redis-server: its defaults, and tuned for lateness
  peers river       River on PostgreSQL: the same
  peers relational  4 SELECT and 3 INSERT a job on PostgreSQL, as Quartz locks:
                    our reading of what the first Dynein was built on
  peers myosin      client, inbound, scheduler and worker over the emulator
  peers all         all of them

Flags: peers <command> --help. Servers are started on free loopback ports, in
temporary directories, and stopped at the end. Progress goes to standard error,
the result to standard output. The exit code is 0 if every job was handled once,
1 if not, 2 for wrong flags.
`

func main() { os.Exit(start(os.Args[1:])) }

func start(args []string) int {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	switch {
	case command == engine.Command:
		return status(engine.Serve(os.Stdin, os.Stdout))
	case command == role.Command && len(args) == 2:
		return status(run.Child(args[0], args[1], os.Stdin, os.Stdout))
	case command == "help" || command == "--help" || command == "-h":
		_, _ = io.WriteString(os.Stdout, usage)
		return 0
	}
	variants := run.Variants(command)
	if len(variants) == 0 {
		_, _ = io.WriteString(os.Stderr, usage)
		return 2
	}
	l := load.Load{Rate: 100, Payload: 300, LeadMin: 10 * time.Second, LeadMax: 20 * time.Second, Patience: 30 * time.Second}
	set := settings.New("peers "+command, "delayed jobs of 300 bytes, due 10 to 20 s ahead")
	set.FloatVar(&l.Rate, "rate", "", "submissions per second")
	set.IntVar(&l.Jobs, "jobs", "", "jobs in all; 0: what rate and duration make")
	duration := set.Duration("duration", "", 45*time.Second, "how long jobs are submitted")
	only := set.String("only", "", "", "one variant, such as asynq_tuned; empty: all of the command")
	asJSON := set.Bool("json", "", false, "print one flat JSON object instead of a table")
	err := set.Parse(args, func(string) (string, bool) { return "", false }, os.Stdout)
	if errors.Is(err, settings.ErrHelp) {
		return 0
	}
	if l.Jobs == 0 {
		l.Jobs = int(l.Rate * duration.Seconds())
	}
	if err := errors.Join(err, l.Validate()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	// The first signal ends the run in good order, the second at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return status(measure(ctx, variants, *only, l, *asJSON))
}

// measure measures the variants and prints the report, also of runs that failed.
func measure(ctx context.Context, variants []run.Variant, only string, l load.Load, asJSON bool) error {
	// Whatever profile or endpoint the shell names, the load stays on this machine.
	if err := engine.Isolate(); err != nil {
		return err
	}
	report := &run.Report{Host: host.Look(ctx), Load: l}
	var failures []error
	for _, v := range variants {
		if only != "" && v.Name != only {
			continue
		}
		r, err := run.Measure(ctx, v, l, os.Stderr)
		if err != nil {
			failures = append(failures, err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		report.Results = append(report.Results, r)
		failures = append(failures, r.Failure())
	}
	if len(report.Results) == 0 && errors.Join(failures...) == nil {
		return fmt.Errorf("no variant %q", strings.TrimSpace(only))
	}
	write := report.WriteText
	if asJSON {
		write = report.WriteJSON
	}
	return errors.Join(append(failures, write(os.Stdout))...)
}

func status(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
