// Command bench measures what the platform does on this machine: lateness,
// requests, writes and CPU. See bench --help.
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
	"github.com/myosin-jobs/myosin/tools/bench/internal/dynein"
	"github.com/myosin-jobs/myosin/tools/bench/internal/engine"
	"github.com/myosin-jobs/myosin/tools/bench/internal/fleet"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null"
	"github.com/myosin-jobs/myosin/tools/bench/internal/runs"
)

const usage = `bench measures what the platform does on this machine.

  bench core     submit at a rate or in a wave through real processes, and account for every job
  bench dynein   the published Dynein algorithm as we read it, as a baseline
  bench null     the processes over an endpoint that costs next to nothing: CPU and requests
  bench wave     the same: a million jobs due in one second, a thousand urgent ones among them
  bench overdue  the same: two million jobs an hour overdue
  bench idle     the same: an hour with nothing due
  bench table    the same: ever more rows stored, the same load due
  bench scale    the same: 1, 2 and 4 schedulers
  bench runs     the managed layer: from nominal time to the target (runs load), what a cron run costs
                 (runs cron), a midnight wave (runs wave), calls in parallel (runs calls)
  bench all      every run that README.md shows, one after another, then README.md
  bench report   README.md from the results that there are
  bench endpoint an AWS endpoint that costs next to nothing, to measure over
  bench help     this text; bench <command> --help lists its flags

Progress goes to standard error, the result to standard output. The exit code is
0 if every job arrived once and not early, 1 if not, 2 for wrong flags.
`

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	if p := preset(command); p != nil {
		return overNull(p, args)
	}
	switch command {
	case engine.Command:
		return status(engine.Serve(os.Stdin, os.Stdout))
	case fleet.Command:
		return process(args)
	case "all":
		return all(args)
	case "report":
		return makePage(args)
	case "endpoint":
		return endpoint(args)
	case "dynein":
		return dyneinBaseline(args)
	case dynein.Command:
		return dyneinScheduler(args)
	case "core":
		return corePath(args)
	case core.Command:
		return coreProcess(args)
	case "runs":
		return runsPath(args)
	case runs.Command:
		return status(runs.Serve(args, os.Stdin, os.Stdout))
	case "help", "--help", "-h":
		_, _ = io.WriteString(os.Stdout, usage)
		return 0
	default:
		_, _ = io.WriteString(os.Stderr, usage)
		return 2
	}
}

// endpoint serves until a signal, or the end of standard input if asked.
func endpoint(args []string) int {
	var c null.Command
	set := settings.New("bench endpoint", "an AWS endpoint (DynamoDB and SQS as far as the platform uses them) that costs next to nothing; GET /_stats, POST /_reset, POST /_fill")
	c.Bind(set)
	err := set.Parse(args, func(string) (string, bool) { return "", false }, os.Stdout)
	if errors.Is(err, settings.ErrHelp) {
		return 0
	}
	if err := errors.Join(err, c.Resolve()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return status(c.Serve(ctx, os.Stdin, os.Stdout))
}

func status(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
