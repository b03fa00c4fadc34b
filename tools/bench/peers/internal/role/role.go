// Package role runs parts of a measurement in processes of their own, which are
// this program again, so that the operating system accounts for each.
//
// A child writes a line when it is ready and one with its result at its end; it
// ends when its work is done or its standard input ends, so it never outlives
// its parent. A [Process] belongs to one goroutine.
package role

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
)

// Command is the first argument of a child.
const Command = "role-process"

const (
	mark    = "bench-peers "
	ready   = "ready"
	result  = "result "
	endWait = 40 * time.Second
)

// Meter tells the processor time used since it was made.
type Meter struct{ from time.Duration }

// NewMeter begins to measure.
func NewMeter() Meter {
	used, _ := host.CPU()
	return Meter{used}
}

// Used is the processor time since.
func (m Meter) Used() time.Duration {
	used, _ := host.CPU()
	return used - m.from
}

// Serve runs work as a child: its context ends with in; it calls ready once it
// is, and returns its result.
func Serve(in io.Reader, out io.Writer, work func(ctx context.Context, ready func()) (any, error)) error {
	// A Ctrl-C reaches the whole group; the parent ends this in good order.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { // ends with standard input; nothing can wait for that
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	res, err := work(ctx, func() { fmt.Fprintln(out, mark+ready) })
	if err != nil {
		return err
	}
	text, err := json.Marshal(res)
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	_, err = fmt.Fprintln(out, mark+result+string(text))
	return err
}

// Process is a child.
type Process struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	done bool
}

// Start starts a child in a role, with a configuration, and waits until it is
// ready.
func Start(ctx context.Context, name string, config any, environ []string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	// Not ctx: it ends in good order, or is killed by Close.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, Command, name, string(text)) //nolint:gosec // it is this program.
	cmd.Env, cmd.Stderr = environ, os.Stderr
	p := &Process{name: name, cmd: cmd}
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.out = bufio.NewScanner(out)
	p.out.Buffer(nil, 1<<20)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if _, err := p.answer(ready); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Process) answer(kind string) (string, error) {
	for p.out.Scan() {
		if text, ok := strings.CutPrefix(p.out.Text(), mark+kind); ok {
			return text, nil
		}
	}
	return "", fmt.Errorf("%s: it ended: %w", p.name, errors.Join(io.ErrUnexpectedEOF, p.out.Err()))
}

// Result waits for the child's result. If ctx ends, the child is asked to end.
func (p *Process) Result(ctx context.Context, into any) error {
	stop := context.AfterFunc(ctx, func() { _ = p.in.Close() })
	defer stop()
	text, err := p.answer(result)
	if err == nil {
		err = json.Unmarshal([]byte(text), into)
	}
	return errors.Join(err, p.Close(), ctx.Err())
}

// End asks the child to end, and waits for its result.
func (p *Process) End(ctx context.Context, into any) error {
	_ = p.in.Close()
	return p.Result(ctx, into)
}

// Close ends the child and waits for it.
func (p *Process) Close() error {
	if p.done {
		return nil
	}
	p.done = true
	_ = p.in.Close() // the child may be gone
	late := time.AfterFunc(endWait, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}
