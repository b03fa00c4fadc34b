// Command runner calls the targets of jobs.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // schedules are evaluated here, and images carry no zone database

	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/services/runner/app"
)

func main() {
	o := app.Options{}
	s := settings.New("runner", "calls the targets of jobs when they are due, and records what became of it")
	o.Settings(s)
	switch err := s.Parse(os.Args[1:], os.LookupEnv, os.Stdout); {
	case errors.Is(err, settings.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := app.Run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(1)
	}
}
