// Package cli is the command tree of myosin: flags, output and exit codes around
// the public packages.
//
// It owns what people and scripts see, and refuses to know rules of its own:
// what may be cancelled, moved or grown is decided by the packages it calls. A
// payload is shown only where showing it is the point, and never logged. One
// [Run] serves one invocation; nothing is shared between two.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

// Host is what a command runs on.
type Host struct {
	In       io.Reader
	Out, Err io.Writer
	// Env looks environment variables up; nil: there are none.
	Env func(string) (string, bool)
	// InTerminal and ErrTerminal say that a person is there: questions are asked
	// and progress is shown.
	InTerminal, ErrTerminal bool
	// Transport carries the requests to the HTTP API; nil: the default one.
	Transport http.RoundTripper
}

// Run carries out one command line, without the program's name, and returns its
// exit code: see the Exit constants. It ends in good order when ctx does.
func Run(ctx context.Context, h Host, args []string) int {
	if h.Env == nil {
		h.Env = func(string) (string, bool) { return "", false }
	}
	a := &app{host: h, out: printer{out: h.Out, err: h.Err}}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(h.In)
	root.SetOut(h.Out)
	root.SetErr(h.Err)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !a.ran {
		err = &exitError{code: ExitUsage, err: fmt.Errorf("%w\nsee %s --help", err, cmd.CommandPath())}
	}
	return a.report(ctx, err)
}

// app is one invocation.
type app struct {
	host Host
	out  printer
	// ran says that a command began: errors before that are about its usage.
	ran bool

	prefix, endpoint, region string
	api, key                 string // of the HTTP API
	patience                 time.Duration
	verbose                  bool

	timer    *time.Timer // ends the command's context; nil: never
	platform *platform.Platform
}

const rootHelp = `Myosin delivers jobs to a service's SQS queue when they are due.

"jobs", "runs", "dlq", "keys", "secrets", "tenants", "audit" and "forecast" call the
HTTP API (--api, --key); the others work on AWS itself (--endpoint, --region,
--prefix); "cron" needs neither.

Output is for people; with --json (or -o json) it is for scripts: one object, for
lists one array, and for "work", the redrives and what follows a run (--wait,
"runs watch") one object per line as things happen.
Keys are snake_case and times are RFC 3339 in UTC. Errors go to standard error.

Exit codes:
` + exitHelp

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "myosin",
		Short:         "schedule jobs, look after them, and consume them",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Args:          cobra.NoArgs,
	}
	f := root.PersistentFlags()
	f.StringVar(&a.prefix, "prefix", a.env("MYOSIN_PREFIX", platform.DefaultPrefix), "prefix of the installation's resources (MYOSIN_PREFIX)")
	f.StringVar(&a.endpoint, "endpoint", "", "base URL of all AWS services (AWS_ENDPOINT_URL); default: AWS itself")
	f.StringVar(&a.region, "region", "", "AWS region (AWS_REGION); default: as the SDK finds it, else us-east-1")
	f.VarP(&outputFlag{&a.out.json}, "output", "o", "table, for people, or json, for scripts")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp)) // it exists
	f.BoolVar(&a.out.json, "json", false, "the same as -o json")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "log every call to AWS and the API to standard error")
	durationVar(f, &a.patience, "timeout", 30*time.Second, "give up after so long without progress; 0: never")
	root.AddCommand(
		a.scheduleCommand(), a.getCommand(), a.cancelCommand(), a.rescheduleCommand(), a.workCommand(),
		a.jobsCommand(), a.runsCommand(), a.deadLettersCommand(), a.cronCommand(),
		a.triggersCommand(), a.servicesCommand(), a.partitionsCommand(), a.inboundCommand(),
		a.keysCommand(), a.secretsCommand(), a.tenantsCommand(), a.auditCommand(), a.forecastCommand(),
		a.versionCommand(), docsCommand(),
	)
	return root
}

// env returns an environment variable, or def where it is unset or empty.
func (a *app) env(name, def string) string {
	if v, ok := a.host.Env(name); ok && v != "" {
		return v
	}
	return def
}

// group returns a command that only holds others.
func (a *app) group(use, short string, commands ...*cobra.Command) *cobra.Command {
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = c.Name()
	}
	g := &cobra.Command{
		Use: use, Short: short,
		// Without it an unknown word would print help and exit 0.
		Args: func(_ *cobra.Command, args []string) error {
			want := strings.Join(names, ", ")
			if len(args) == 0 {
				return fmt.Errorf("%s: one of %s is missing", use, want)
			}
			return fmt.Errorf("%s %s: no such command; want one of %s", use, args[0], want)
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	g.AddCommand(commands...)
	return g
}

// run makes a command's function: it marks the start, and bounds the context by
// the patience. An error of it is about what was done, not how it was called,
// unless it says so.
func (a *app) run(fn func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.ran = true
		ctx, cancel := context.WithCancelCause(cmd.Context())
		defer cancel(nil)
		if a.patience > 0 {
			a.timer = time.AfterFunc(a.patience, func() { cancel(errPatience) })
			defer a.timer.Stop()
		}
		err := fn(ctx, args)
		if err != nil && errors.Is(context.Cause(ctx), errPatience) {
			err = &exitError{code: ExitUnavailable, err: fmt.Errorf("no progress for %s (--timeout): %w", a.patience, a.readable(err))}
		}
		return err
	}
}

var errPatience = errors.New("timed out")

// progressed gives the command its patience anew.
func (a *app) progressed() {
	if a.timer != nil {
		a.timer.Reset(a.patience)
	}
}

// wait stops the clock of the patience while fn waits for a person.
func (a *app) wait(fn func()) {
	if a.timer != nil {
		a.timer.Stop()
		defer a.progressed()
	}
	fn()
}

// open prepares access to the installation. It calls no service.
func (a *app) open(ctx context.Context) (*platform.Platform, error) {
	if a.platform != nil {
		return a.platform, nil
	}
	log, err := a.logger()
	if err != nil {
		return nil, err
	}
	o := platform.Options{Prefix: a.prefix, Endpoint: a.endpoint, Region: a.region, Log: log}
	if a.verbose {
		o.Meter = func(service, operation string, attempt bool, err error, took time.Duration) {
			switch {
			case !attempt:
			case err != nil:
				log.Debug("call", "aws", service, "operation", operation, telemetry.KeyDuration, took, telemetry.KeyError, err)
			default:
				log.Debug("call", "aws", service, "operation", operation, telemetry.KeyDuration, took)
			}
		}
	}
	p, err := platform.Open(ctx, o)
	if err != nil {
		return nil, usage("%v", err)
	}
	a.platform = p
	return p, nil
}

func (a *app) logger() (*slog.Logger, error) {
	level := "warn"
	if a.verbose {
		level = "debug"
	}
	return telemetry.NewLogger(telemetry.LogOptions{Output: a.host.Err, Format: "text", Level: level})
}
