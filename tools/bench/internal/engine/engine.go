// Package engine owns the AWS engine of a benchmark: kumo in a child process,
// which is this program again, so that what it uses is not counted as ours.
//
// The child answers on its standard output: first its address, then, to every
// line it is sent, the processor time it has used. It ends when its standard
// input does, so it never outlives the benchmark. An [Engine] may be used
// concurrently.
package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sivchari/kumo"

	"github.com/myosin-jobs/myosin/services/standalone/embedded"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
)

// Command is the argument by which this program becomes the engine.
const Command = "engine-process"

// mark begins every line meant for the parent.
const mark = "bench-engine "

// endWait is how long the child has to end.
const endWait = 5 * time.Second

// Describe names the engine and its version.
func Describe() string { return "kumo " + host.Module("github.com/sivchari/kumo") }

// Isolate takes every profile, credential and endpoint of AWS out of this
// process's environment; see embedded.Environ.
func Isolate() error {
	clean := embedded.Environ(os.Environ(), "")
	os.Clearenv()
	for _, kv := range clean {
		name, value, _ := strings.Cut(kv, "=")
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("engine: environment: %w", err)
		}
	}
	return nil
}

// Serve is the child: it serves until in ends.
func Serve(in io.Reader, out io.Writer) error {
	// A Ctrl-C reaches the whole group; the parent still needs its engine then.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	srv := kumo.NewServer()
	// Not Close: it would wait for connections that the parent has let go of.
	if _, err := fmt.Fprintf(out, "%s%s\n", mark, srv.URL); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		used, _ := host.CPU()
		if _, err := fmt.Fprintf(out, "%s%d\n", mark, used); err != nil {
			return fmt.Errorf("engine: %w", err)
		}
	}
	return lines.Err()
}

// Engine is a running child.
type Engine struct {
	cmd *exec.Cmd
	url string

	mu  sync.Mutex
	in  io.WriteCloser
	out *bufio.Scanner
}

// Start starts the child, with an environment that names no AWS account.
func Start(ctx context.Context) (*Engine, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("engine: find this program: %w", err)
	}
	// Not ctx: the engine is needed until the run has ended in good order.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, Command) //nolint:gosec // it is this program.
	cmd.Env, cmd.Stderr = embedded.Environ(os.Environ(), ""), os.Stderr
	e := &Engine{cmd: cmd}
	if e.in, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	e.out = bufio.NewScanner(out)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	if e.url, err = e.answer(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// answer reads the child's next line for us.
func (e *Engine) answer() (string, error) {
	for e.out.Scan() {
		if text, ok := strings.CutPrefix(e.out.Text(), mark); ok {
			return text, nil
		}
	}
	return "", fmt.Errorf("engine: it ended: %w", errors.Join(io.ErrUnexpectedEOF, e.out.Err()))
}

// URL is the base URL of all services.
func (e *Engine) URL() string { return e.url }

// CPU is the processor time the child has used; false if it does not tell.
func (e *Engine) CPU() (time.Duration, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := io.WriteString(e.in, "cpu\n"); err != nil {
		return 0, false
	}
	text, err := e.answer()
	if err != nil {
		return 0, false
	}
	ns, err := strconv.ParseInt(text, 10, 64)
	return time.Duration(ns), err == nil && ns > 0
}

// Close ends the child and waits for it.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.in.Close() // the child may be gone
	late := time.AfterFunc(endWait, func() { _ = e.cmd.Process.Kill() })
	defer late.Stop()
	if err := e.cmd.Wait(); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}
