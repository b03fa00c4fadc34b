// Command standalone runs everything in one process: for laptops and tests over
// an embedded AWS engine, or over real AWS for a product small enough for it.
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
	"github.com/myosin-jobs/myosin/services/standalone/app"
	"github.com/myosin-jobs/myosin/services/standalone/embedded"
)

func main() {
	o := app.Options{Out: os.Stdout}
	set := settings.New("standalone", "the whole platform in one process")
	o.Bind(set)
	own := set.Bool("embedded", "MYOSIN_EMBEDDED", true, "bring the AWS endpoint along; false: use AWS_ENDPOINT_URL, else AWS itself")
	if err := set.Parse(os.Args[1:], os.LookupEnv, os.Stdout); errors.Is(err, settings.ErrHelp) {
		return
	} else if err != nil {
		fail(err, 2)
	}
	o.External = !*own
	if err := o.Validate(); err != nil {
		fail(err, 2)
	}
	if !o.External {
		if err := again(&o); err != nil {
			fail(err, 1)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills
	if err := app.Run(ctx, o); err != nil {
		fail(err, 1)
	}
}

// again replaces the process by itself, once, where its environment is not the
// one the embedded engine needs; see [embedded.Environ].
func again(o *app.Options) error {
	want := embedded.Environ(os.Environ(), o.DataDir)
	if embedded.Same(os.Environ(), want) {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("standalone: find its own program: %w", err)
	}
	if err := syscall.Exec(self, os.Args, want); err != nil { //nolint:gosec // it is this program.
		return fmt.Errorf("standalone: start again with the embedded engine's environment: %w", err)
	}
	return nil
}

func fail(err error, code int) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(code)
}
