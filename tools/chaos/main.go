// Command chaos runs the platform's real processes through faults and checks
// every promise from the outside. See chaos --help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/services/standalone/embedded"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/storm"
)

const summary = `kills, freezes, rolls and cuts off the platform's real processes under load, and accounts for every job.

Each process reaches the endpoint through a proxy of its own, which slows, cuts,
refuses, repeats and withholds its calls. The schedule of faults is the seed's.
At the end the faults stop, everything has to arrive, and the account is printed.
The schedule goes to standard error as it happens, the account to standard output.
The exit code is 0 if every promise was kept, 1 if not (with the history of each
job at fault), 2 for wrong flags.`

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) > 0 && strings.HasSuffix(args[0], "-process") {
		return status(child(args[0], args[1:]))
	}
	o := storm.Options{Duration: 3 * time.Minute, Rate: 40, Inbounds: 2, Schedulers: 3, Workers: 2, Runs: 3, Runners: 2, APIs: 2, Progress: os.Stderr}
	set := settings.New("chaos", summary)
	seed := set.Int("seed", "", 0, "of the schedule; 0 for a random one")
	set.DurationVar(&o.Duration, "duration", "", "of the run: load and faults, then a minute of calm; more if things are slow to arrive")
	set.StringVar(&o.Endpoint, "endpoint", "", "base URL of an AWS emulator; it must check no signatures. Empty: one of its own")
	set.StringVar(&o.Engine, "engine", "", "of its own: kumo, the embedded one; or null, that of tools/bench, which is faster. Empty: kumo up to "+storm.KumoFor.String()+", then null")
	set.FloatVar(&o.Rate, "rate", "", "submissions per second")
	set.IntVar(&o.Inbounds, "inbounds", "", "inbound processes")
	set.IntVar(&o.Schedulers, "schedulers", "", "scheduler processes")
	set.IntVar(&o.Workers, "workers", "", "processes of the owning services")
	set.FloatVar(&o.Runs, "runs", "", "jobs created a second over the API, each to run once; 0 leaves the managed layer out")
	set.IntVar(&o.Runners, "runners", "", "runner processes")
	set.IntVar(&o.APIs, "apis", "", "API processes")
	set.BoolVar(&o.Keep, "keep", "", "keep the logs of the processes and say where; they are kept too if a promise was broken")
	asJSON := set.Bool("json", "", false, "print the account as one flat JSON object instead of a table")
	err := set.Parse(args, func(string) (string, bool) { return "", false }, os.Stdout)
	if errors.Is(err, settings.ErrHelp) {
		return 0
	}
	if *seed < 0 {
		err = errors.Join(err, fmt.Errorf("seed is %d; want 0 or more", *seed))
	}
	if err := errors.Join(err, o.Validate()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if *seed == 0 {
		*seed = 1 + rand.N(1_000_000) //nolint:gosec // printed, to be repeated.
	}
	if err := isolate(); err != nil {
		return status(err)
	}
	o.Seed = uint64(*seed) //nolint:gosec // positive.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal ends it at once
	return status(storms(ctx, o, *asJSON, os.Stdout))
}

// storms makes one run and prints its report.
func storms(ctx context.Context, o storm.Options, asJSON bool, out io.Writer) error {
	r, err := storm.Run(ctx, o)
	if err != nil {
		return err
	}
	write := r.WriteText
	if asJSON {
		write = r.WriteJSON
	}
	return errors.Join(write(out), r.Failure())
}

// isolate sees to it that the load goes where it was told, whatever profile or
// endpoint the shell names. It is for once, before anything runs.
func isolate() error {
	clean := embedded.Environ(os.Environ(), "")
	os.Clearenv()
	for _, kv := range clean {
		name, value, _ := strings.Cut(kv, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

func status(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
