// Command myosin is the command line of Myosin: it schedules jobs, looks after
// them and their services, and consumes a service's queue. See myosin --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // cron preview knows every zone on any machine

	"golang.org/x/term"

	"github.com/myosin-jobs/myosin/tools/myosin/internal/cli"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal ends the command in good order, the second at once.
	context.AfterFunc(ctx, stop)
	return cli.Run(ctx, cli.Host{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Env:         os.LookupEnv,
		InTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
	}, os.Args[1:])
}
