// Package child starts this program again in another role, in a process of its
// own, so that what it uses is told apart by the operating system's account.
//
// The two talk in lines over the child's standard input and output: the child
// says that it is ready, may tell its parent things at any time, and answers
// questions. It ends when its standard input does, so it never outlives its
// parent. A [Process] is the parent's side, a [Link] the child's; both may be
// used concurrently. What the roles do is no concern of this package.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/myosin-jobs/myosin/services/standalone/embedded"
)

// The beginnings of the lines that a child writes.
const (
	markReady  = "bench-ready "
	markAnswer = "bench-answer "
	markTold   = "bench-told "
)

// maxLine is the longest line either side reads.
const maxLine = 1 << 20

// endWait is how long a child has to end. It covers the grace of a service.
const endWait = 45 * time.Second

// Options say what to start.
type Options struct {
	// Name is for errors; Args make this program take the role.
	Name string
	Args []string
	// Ready is what the line begins with by which the child says that it is ready.
	// Empty: as [Link.Ready] writes it.
	Ready string
	// Told gets what the child tells, line by line, from one goroutine; nil: it is
	// dropped.
	Told func(line string)
}

// Process is a running child.
type Process struct {
	name, ready string
	cmd         *exec.Cmd
	answers     chan string
	ended       chan struct{} // its standard output has ended

	asks sync.Mutex // a question and its answer
	in   io.WriteCloser
}

// Start starts a child, with an environment that names no AWS account, and waits
// until it is ready.
func Start(ctx context.Context, o Options) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: find this program: %w", o.Name, err)
	}
	// Not ctx: it is needed until the run has ended in good order.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, o.Args...) //nolint:gosec // it is this program.
	cmd.Env, cmd.Stderr = embedded.Environ(os.Environ(), ""), os.Stderr
	// A Ctrl-C is for the parent, which still needs its children then.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &Process{name: o.Name, cmd: cmd, answers: make(chan string, 1), ended: make(chan struct{})}
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Name, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Name, err)
	}
	ready := make(chan string, 1)
	go p.read(out, &o, ready) // waited for by Stop
	select {
	case p.ready = <-ready:
		return p, nil
	case <-p.ended:
		err = io.ErrUnexpectedEOF
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(fmt.Errorf("start %s: %w", o.Name, err), p.Stop())
}

// read sorts the child's lines until they end.
func (p *Process) read(out io.Reader, o *Options, ready chan<- string) {
	defer close(p.ended)
	mark := o.Ready
	if mark == "" {
		mark = markReady
	}
	lines := scanner(out)
	for lines.Scan() {
		line := lines.Text()
		if text, ok := strings.CutPrefix(line, mark); ok {
			select {
			case ready <- text:
			default: // it is ready already
			}
		} else if text, ok := strings.CutPrefix(line, markAnswer); ok {
			select {
			case p.answers <- text:
			default: // nobody asked
			}
		} else if text, ok := strings.CutPrefix(line, markTold); ok && o.Told != nil {
			o.Told(text)
		}
	}
	_, _ = io.Copy(io.Discard, out) // a line was too long; the child must not block
}

// Name is what the child was started as.
func (p *Process) Name() string { return p.name }

// Ready is what the child said when it was ready.
func (p *Process) Ready() string { return p.ready }

// answer is what a child answers.
type answer struct {
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
}

// Ask asks a child that is served by a [Link], and waits for the answer.
func (p *Process) Ask(question string, into any) error {
	p.asks.Lock()
	defer p.asks.Unlock()
	if _, err := io.WriteString(p.in, question+"\n"); err != nil {
		return fmt.Errorf("ask %s: %w", p.name, err)
	}
	var a answer
	select {
	case text := <-p.answers:
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			return fmt.Errorf("ask %s: %w", p.name, err)
		}
	case <-p.ended:
		return fmt.Errorf("ask %s: it ended: %w", p.name, io.ErrUnexpectedEOF)
	}
	if a.Error != "" {
		return fmt.Errorf("%s: %s", p.name, a.Error)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(a.Value, into); err != nil {
		return fmt.Errorf("ask %s: %w", p.name, err)
	}
	return nil
}

// Ended is closed once the child has said its last.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Stop ends the child and waits for it. A second call returns the error that
// there is nothing left to wait for.
func (p *Process) Stop() error {
	_ = p.in.Close() // the child may be gone
	late := time.AfterFunc(endWait, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	<-p.ended
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// scanner reads lines.
func scanner(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	return s
}
