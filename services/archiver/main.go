// Command archiver puts expired runs into a bucket: as a Lambda function on the
// runs table's stream, or outside Lambda from recorded events or the stream.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/services/archiver/app"
)

func main() {
	o := app.Options{Lambda: os.Getenv("AWS_LAMBDA_RUNTIME_API") != ""}
	s := settings.New("archiver", "puts expired runs into a bucket, as Parquet by day")
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
		fmt.Fprintln(os.Stderr, "archiver:", err)
		os.Exit(1)
	}
}
