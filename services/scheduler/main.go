// Command scheduler delivers triggers when they are due.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/services/scheduler/app"
)

func main() {
	o := app.Options{}
	s := settings.New("scheduler", "delivers triggers when they are due")
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
		fmt.Fprintln(os.Stderr, "scheduler:", err)
		os.Exit(1)
	}
}
