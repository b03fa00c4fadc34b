// Package settings reads the settings of a process: a flag beats an environment
// variable, which beats the default.
//
// It owns the reading and the help text, and refuses settings that cannot be
// read; what the values mean is checked by whoever uses them. A [Set] is made,
// filled and parsed by one goroutine.
package settings

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// ErrHelp is returned by [Set.Parse] when help was asked for and printed.
var ErrHelp = flag.ErrHelp

// Set is the settings of one process.
type Set struct {
	name, summary string
	fs            *flag.FlagSet
	all           []setting
}

type setting struct {
	name, env, usage, kind, def string
	secret                      bool
}

// New returns an empty set. Name and summary head the help text.
func New(name, summary string) *Set {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	return &Set{name: name, summary: summary, fs: fs}
}

// String adds a text setting: flag --name, environment variable env (empty: none).
func (s *Set) String(name, env, def, usage string) *string {
	p := &def
	s.StringVar(p, name, env, usage)
	return p
}

// Bool adds a yes-or-no setting; see [strconv.ParseBool] for what it reads.
func (s *Set) Bool(name, env string, def bool, usage string) *bool {
	p := &def
	s.BoolVar(p, name, env, usage)
	return p
}

// Int adds a whole number.
func (s *Set) Int(name, env string, def int, usage string) *int {
	p := &def
	s.IntVar(p, name, env, usage)
	return p
}

// Float adds a number.
func (s *Set) Float(name, env string, def float64, usage string) *float64 {
	p := &def
	s.FloatVar(p, name, env, usage)
	return p
}

// Duration adds a duration, such as 1m30s.
func (s *Set) Duration(name, env string, def time.Duration, usage string) *time.Duration {
	p := &def
	s.DurationVar(p, name, env, usage)
	return p
}

// StringVar is [Set.String] for a variable that holds the default already.
func (s *Set) StringVar(p *string, name, env, usage string) {
	s.fs.StringVar(p, name, *p, usage)
	s.add(name, env, "text", strconv.Quote(*p), usage)
}

// BoolVar is [Set.Bool] for a variable that holds the default already.
func (s *Set) BoolVar(p *bool, name, env, usage string) {
	s.fs.BoolVar(p, name, *p, usage)
	s.add(name, env, "", strconv.FormatBool(*p), usage)
}

// IntVar is [Set.Int] for a variable that holds the default already.
func (s *Set) IntVar(p *int, name, env, usage string) {
	s.fs.IntVar(p, name, *p, usage)
	s.add(name, env, "number", strconv.Itoa(*p), usage)
}

// FloatVar is [Set.Float] for a variable that holds the default already.
func (s *Set) FloatVar(p *float64, name, env, usage string) {
	s.fs.Float64Var(p, name, *p, usage)
	s.add(name, env, "number", strconv.FormatFloat(*p, 'g', -1, 64), usage)
}

// DurationVar is [Set.Duration] for a variable that holds the default already.
func (s *Set) DurationVar(p *time.Duration, name, env, usage string) {
	s.fs.DurationVar(p, name, *p, usage)
	s.add(name, env, "duration", p.String(), usage)
}

// Secret keeps the default of a setting out of the help text.
func (s *Set) Secret(name string) {
	for i := range s.all {
		if s.all[i].name == name {
			s.all[i].secret = true
		}
	}
}

func (s *Set) add(name, env, kind, def, usage string) {
	s.all = append(s.all, setting{name: name, env: env, usage: usage, kind: kind, def: def})
}

// Parse reads the environment through lookup ([os.LookupEnv]; an empty value
// counts as none) and then the arguments. With --help or -h among them it prints
// the help text to out and returns [ErrHelp]. Other errors are joined and name
// the flag or variable; arguments that are no flags are errors.
func (s *Set) Parse(args []string, lookup func(string) (string, bool), out io.Writer) error {
	given := make(map[string]bool)
	var errs []error
	if err := s.fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		s.Help(out)
		return ErrHelp
	} else if err != nil {
		errs = append(errs, err)
	}
	s.fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for _, one := range s.all {
		if one.env == "" || given[one.name] {
			continue
		}
		v, ok := lookup(one.env)
		if !ok || v == "" {
			continue
		}
		if err := s.fs.Set(one.name, v); err != nil {
			shown := strconv.Quote(v)
			if one.secret {
				shown = "its value"
			}
			errs = append(errs, fmt.Errorf("environment %s: %s is not a %s", one.env, shown, orText(one.kind, "yes or no (true, false)")))
		}
	}
	if s.fs.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", s.fs.Arg(0)))
	}
	return errors.Join(errs...)
}

// Help prints every setting with its environment variable and default, in the
// order they were added.
func (s *Set) Help(out io.Writer) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\nA flag beats its environment variable, which beats the default.\n\n", s.name, s.summary)
	for _, one := range s.all {
		fmt.Fprintf(&b, "  --%s", one.name)
		if one.kind != "" {
			fmt.Fprintf(&b, " %s", one.kind)
		}
		if one.env != "" {
			fmt.Fprintf(&b, "  (%s)", one.env)
		}
		fmt.Fprintf(&b, "\n        %s", one.usage)
		if !one.secret {
			fmt.Fprintf(&b, " [default %s]", one.def)
		}
		b.WriteByte('\n')
	}
	// Nothing can be done about a terminal that is gone.
	_, _ = io.WriteString(out, b.String())
}

func orText(s, def string) string {
	if s == "" {
		return def
	}
	return s
}
