// Command api serves the HTTP API: jobs and runs; submissions for callers without
// SQS access; look-up, move and cancel for owning services.
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
	"github.com/myosin-jobs/myosin/services/api/app"
)

func main() {
	var o app.Options
	set := settings.New("api", "the HTTP API of an installation, on loopback unless it asks for keys")
	o.Bind(set)
	if err := set.Parse(os.Args[1:], os.LookupEnv, os.Stdout); errors.Is(err, settings.ErrHelp) {
		return
	} else if err != nil {
		fail(err, 2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills
	if err := app.Run(ctx, o); err != nil {
		fail(err, 1)
	}
}

func fail(err error, code int) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(code)
}
