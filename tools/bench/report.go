package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/tools/bench/internal/page"
)

// home is where bench lies, seen from the top of the tree.
const home = "tools/bench"

// makePage writes README.md, or checks it.
func makePage(args []string) int {
	set := settings.New("bench report", "write tools/bench/README.md from the results in tools/bench/results")
	dir := set.String("dir", "", home, "where README.md and results lie")
	check := set.Bool("check", "", false, "write nothing; fail if README.md is not what the results give")
	switch err := set.Parse(args, func(string) (string, bool) { return "", false }, os.Stdout); {
	case errors.Is(err, settings.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 2
	case *check:
		return status(page.Check(*dir))
	}
	return status(page.Write(*dir))
}

// all makes every result that the page shows, and the page.
func all(args []string) int {
	set := settings.New("bench all", "run every command whose result tools/bench/README.md shows, one after another, and write results and page")
	dir := set.String("dir", "", home, "where README.md and results lie")
	only := set.String("only", "", "", "run only these, by the names of their results: comma-separated")
	err := set.Parse(args, func(string) (string, bool) { return "", false }, os.Stdout)
	if errors.Is(err, settings.ErrHelp) {
		return 0
	}
	chosen, bad := choose(*only)
	if err := errors.Join(err, bad); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return status(makeAll(ctx, *dir, chosen, os.Stderr))
}

// choose gives the runs of the given names; all that this program makes if there
// are none.
func choose(names string) (chosen []page.Run, err error) {
	var wanted []string
	if names != "" {
		wanted = strings.Split(names, ",")
	}
	var known []string
	for _, run := range page.Runs() {
		if len(run.Args) == 0 {
			continue
		}
		known = append(known, run.Name)
		if len(wanted) == 0 || slices.Contains(wanted, run.Name) {
			chosen = append(chosen, run)
		}
	}
	for _, name := range wanted {
		if !slices.Contains(known, name) {
			err = errors.Join(err, fmt.Errorf("--only %q; want some of %s", name, strings.Join(known, ", ")))
		}
	}
	return chosen, err
}

func makeAll(ctx context.Context, dir string, chosen []page.Run, progress io.Writer) error {
	total := time.Duration(0)
	for i := range chosen {
		total += chosen[i].Takes
	}
	_, _ = fmt.Fprintf(progress, "bench: %d runs, about %s in all\n", len(chosen), total.Round(time.Minute))
	rev := revision(ctx)
	var errs []error
	for i := range chosen {
		run := &chosen[i]
		_, _ = fmt.Fprintf(progress, "bench: %d of %d: %s, about %s: %s\n", i+1, len(chosen), run.Name, run.Takes, run.Command())
		began := time.Now()
		if err := makeOne(ctx, dir, run, rev, progress); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", run.Name, err))
			_, _ = fmt.Fprintf(progress, "bench: %s: %v\n", run.Name, err)
		}
		if ctx.Err() != nil {
			return errors.Join(append(errs, ctx.Err())...)
		}
		_, _ = fmt.Fprintf(progress, "bench: %s took %s\n", run.Name, time.Since(began).Round(time.Second))
		if err := page.Write(dir); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	for _, run := range page.Runs() {
		if len(run.Args) == 0 {
			_, _ = fmt.Fprintf(progress, "bench: %s is made apart: %s\n", run.Name, run.Command())
		}
	}
	return errors.Join(errs...)
}

// makeOne runs one command in a process of its own and keeps its result, also of
// a run that failed if it gave one: the page tells.
func makeOne(ctx context.Context, dir string, run *page.Run, rev string, progress io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	// Whatever hangs must not hang those that follow.
	ctx, stop := context.WithTimeout(ctx, 4*run.Takes+10*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, self, append(slices.Clone(run.Args), "--json")...) //nolint:gosec // it is this program.
	var out bytes.Buffer
	last := &tail{to: progress}
	cmd.Stdout, cmd.Stderr = &out, last
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	failed := cmd.Run()
	result := make(map[string]any)
	if err := json.Unmarshal(out.Bytes(), &result); err != nil {
		return errors.Join(failed, fmt.Errorf("no result: %w", err))
	}
	result["git_revision"] = rev
	if failed != nil {
		result["failure"] = last.line()
	}
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return errors.Join(failed, err)
	}
	file := filepath.Join(dir, page.ResultsDir, run.Name+".json")
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil { //nolint:gosec // to be read.
		return errors.Join(failed, fmt.Errorf("keep the result: %w", err))
	}
	return failed
}

// tail passes on what is written and remembers the last line.
type tail struct {
	to  io.Writer
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if keep := 4096; len(t.buf) > keep {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-keep:]...)
	}
	n, err := t.to.Write(p)
	if err != nil {
		return n, fmt.Errorf("pass on: %w", err)
	}
	return n, nil
}

func (t *tail) line() string {
	lines := strings.Split(strings.TrimSpace(string(t.buf)), "\n")
	return lines[len(lines)-1]
}

// revision is that of the tree, with -dirty if anything is changed but what this
// program itself writes.
func revision(ctx context.Context) string {
	rev, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(rev))
	changed, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--", ":(top)",
		":(top,exclude)"+home+"/results", ":(top,exclude)"+home+"/README.md").Output()
	if err != nil || len(bytes.TrimSpace(changed)) > 0 {
		name += "-dirty"
	}
	return name
}
