package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/myosin/internal/when"
)

// durationFlag is a duration with days and weeks.
type durationFlag struct{ p *time.Duration }

func durationVar(f *pflag.FlagSet, p *time.Duration, name string, def time.Duration, usage string) {
	*p = def
	f.Var(durationFlag{p}, name, usage)
}

// String implements pflag.Value.
func (d durationFlag) String() string {
	if d.p == nil || *d.p == 0 {
		return ""
	}
	return strings.ReplaceAll(when.Short(*d.p), " ", "")
}

// Set implements pflag.Value.
func (d durationFlag) Set(s string) (err error) {
	v, err := when.Duration(s)
	if err == nil && v < 0 {
		err = errors.New("want 0 or more")
	}
	if err == nil {
		*d.p = v
	}
	return err
}

// Type implements pflag.Value.
func (durationFlag) Type() string { return "duration" }

// timeFlag keeps a time as typed: it is read against a clock that is known later.
type timeFlag struct{ text string }

// String implements pflag.Value.
func (t *timeFlag) String() string { return t.text }

// Set implements pflag.Value.
func (t *timeFlag) Set(s string) error {
	if _, err := when.Time(s, time.Now()); err != nil {
		return err
	}
	t.text = s
	return nil
}

// Type implements pflag.Value.
func (*timeFlag) Type() string { return "time" }

// at returns the time meant; def where none was given.
func (t *timeFlag) at(now, def time.Time) time.Time {
	if t.text == "" {
		return def
	}
	v, err := when.Time(t.text, now)
	if err != nil { // Set has read it before
		return def
	}
	return v
}

// outputFlag chooses between table and json.
type outputFlag struct{ json *bool }

// String implements pflag.Value.
func (o *outputFlag) String() string {
	if o.json != nil && *o.json {
		return "json"
	}
	return "table"
}

// Set implements pflag.Value.
func (o *outputFlag) Set(s string) error {
	if s != "table" && s != "json" {
		return errors.New("want table or json")
	}
	*o.json = s == "json"
	return nil
}

// Type implements pflag.Value.
func (*outputFlag) Type() string { return "format" }

// laneFlag is a lane.
type laneFlag struct{ lane trigger.Lane }

// String implements pflag.Value.
func (l *laneFlag) String() string { return l.lane.String() }

// Set implements pflag.Value.
func (l *laneFlag) Set(s string) (err error) {
	l.lane, err = trigger.ParseLane(s)
	return err
}

// Type implements pflag.Value.
func (*laneFlag) Type() string { return "lane" }

// dueFlags are --in and --at, of which one must be given.
type dueFlags struct {
	in   time.Duration
	at   timeFlag
	isIn bool
}

func (d *dueFlags) add(cmd *cobra.Command) {
	durationVar(cmd.Flags(), &d.in, "in", 0, "delay until it is due, such as 5s, 90m or 3d12h")
	cmd.Flags().Var(&d.at, "at", "time it is due, such as 2027-01-01T09:00:00Z")
	cmd.MarkFlagsMutuallyExclusive("in", "at")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		d.isIn = cmd.Flags().Changed("in")
		if !d.isIn && !cmd.Flags().Changed("at") {
			return errors.New("the due time is missing: give --in or --at")
		}
		return nil
	}
}

// serviceFlag adds --service with completion.
func (a *app) serviceFlag(cmd *cobra.Command, p *string, required bool) {
	cmd.Flags().StringVarP(p, "service", "s", "", "owning service")
	if required {
		_ = cmd.MarkFlagRequired("service") // it exists
	}
	_ = cmd.RegisterFlagCompletionFunc("service", a.completeServices)
}

func (a *app) laneVar(cmd *cobra.Command, l *laneFlag, usage string) {
	cmd.Flags().Var(l, "lane", usage)
	_ = cmd.RegisterFlagCompletionFunc("lane", cobra.FixedCompletions([]string{"standard", "urgent"}, cobra.ShellCompDirectiveNoFileComp))
}

// completeServices offers the names in the registry to the shell.
func (a *app) completeServices(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	p, err := a.open(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, _ := listServices(ctx, p.Source)
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// headerFlag reads name=value pairs.
func headerFlag(pairs []string) (map[string]string, error) {
	h := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if _, twice := h[name]; !ok || twice {
			return nil, usage("--header %q: want name=value, each name once", pair)
		}
		h[name] = value
	}
	return h, nil
}

// atLeast checks a number given by flag.
func atLeast(flag string, n, least int) error {
	if n < least {
		return usage("--%s %d: want %d or more", flag, n, least)
	}
	return nil
}

// exactly names the arguments that a command takes.
func exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%s is missing", strings.Join(names[len(args):], " and "))
		}
		if len(args) > len(names) {
			return fmt.Errorf("unexpected argument %q", args[len(names)])
		}
		if i := slices.Index(args, ""); i >= 0 {
			return fmt.Errorf("%s is empty", names[i])
		}
		return nil
	}
}
