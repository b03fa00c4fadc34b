// Package procs owns the processes of a run: each in a process group of its own,
// its output in files, and a keeper beside them that kills what is left should
// the run's own process end without having done so.
//
// Processes may be used concurrently; a [Keeper] must outlive them.
package procs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Keeper is told of every process that lives.
type Keeper struct {
	mu  sync.Mutex
	in  io.WriteCloser
	cmd *exec.Cmd
}

// StartKeeper starts this program again with the given arguments; they must lead
// to [Keep].
func StartKeeper(env []string, args ...string) (*Keeper, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("keeper: %w", err)
	}
	k := &Keeper{cmd: exec.Command(self, args...)} //nolint:gosec,noctx // this program; it ends with its input.
	k.cmd.Env = env
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal to the group must not end it
	if k.in, err = k.cmd.StdinPipe(); err == nil {
		err = k.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("keeper: %w", err)
	}
	return k, nil
}

// Spare has the keeper leave the directory be.
func (k *Keeper) Spare() { k.tell("=", 0) }

// Keep is the keeper's work: it reads "+pid" and "-pid", and at the end of its
// input kills the groups that are left and removes dir, unless it read "=0".
func Keep(in io.Reader, dir string) {
	alive := make(map[int]bool)
	for s := bufio.NewScanner(in); s.Scan(); {
		var sign rune
		var pid int
		switch _, err := fmt.Sscanf(s.Text(), "%c%d", &sign, &pid); {
		case err != nil:
		case sign == '=':
			dir = ""
		default:
			alive[pid] = sign == '+'
		}
	}
	for pid, lives := range alive {
		if lives {
			_ = syscall.Kill(-pid, syscall.SIGKILL) // gone already: fine
		}
	}
	if dir != "" {
		_ = os.RemoveAll(dir)
	}
}

func (k *Keeper) tell(sign string, pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, _ = fmt.Fprintf(k.in, "%s%d\n", sign, pid) // without a keeper the run itself ends them
}

// Close ends the keeper, which kills what still runs.
func (k *Keeper) Close() {
	_ = k.in.Close()
	_ = k.cmd.Wait()
}

// Process is one start of a program.
type Process struct {
	Name     string
	Out, Log string // files of standard output and standard error
	cmd      *exec.Cmd
	in       io.WriteCloser
	ended    chan struct{}
}

// Spec says what to start.
type Spec struct {
	Name    string // of the start; names its files
	Dir     string // of the files
	Program string
	Args    []string
	Env     []string
}

// Start starts a process. Its standard input ends with ours.
func (k *Keeper) Start(s Spec) (*Process, error) {
	p := &Process{
		Name: s.Name, Out: filepath.Join(s.Dir, s.Name+".out"), Log: filepath.Join(s.Dir, s.Name+".log"), ended: make(chan struct{}),
	}
	p.cmd = exec.Command(s.Program, s.Args...) //nolint:gosec,noctx // a program of this run; ended by signals.
	p.cmd.Env = s.Env
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	for path, to := range map[string]*io.Writer{p.Out: &p.cmd.Stdout, p.Log: &p.cmd.Stderr} {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", s.Name, err)
		}
		defer func() { _ = f.Close() }() // the process has its own
		*to = f
	}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	pid := p.cmd.Process.Pid
	k.tell("+", pid)
	go func() {
		_ = p.cmd.Wait() // its state is read below
		k.tell("-", pid)
		close(p.ended)
	}()
	return p, nil
}

// Running reports whether the process lives, be it frozen.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// State describes how it is.
func (p *Process) State() string {
	if p.Running() {
		return "running"
	}
	return fmt.Sprint("ended: ", p.cmd.ProcessState)
}

// Signal sends a signal to the process alone.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("%s to %s: %w", sig, p.Name, err)
	}
	return nil
}

// Kill ends the process's group and waits for it. It may have ended before.
func (p *Process) Kill() {
	if p.Running() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
	<-p.ended
}

// Stop asks the process to end, and wants a clean end within its grace.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.ended:
	case <-t.C:
		p.Kill()
		return fmt.Errorf("%s still ran %s after SIGTERM, and was killed", p.Name, grace)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s: %s", p.Name, p.cmd.ProcessState)
	}
	return nil
}

var errNotSeen = errors.New("not seen")

// Sees waits for text in a file and returns what the expression caught last.
func (p *Process) Sees(ctx context.Context, path string, re *regexp.Regexp) (string, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(path)
		if m := re.FindSubmatch(text); m != nil {
			return string(m[len(m)-1]), nil
		}
		if err == nil {
			err = errNotSeen
		}
		select {
		case <-tick.C:
		case <-p.ended:
			return "", fmt.Errorf("%s %s: %s\n%s", p.Name, re, p.State(), p.Tail(10))
		case <-ctx.Done():
			return "", fmt.Errorf("%s %s: %w: %w\n%s", p.Name, re, err, ctx.Err(), p.Tail(10))
		}
	}
}

// Tail is the end of what it logged.
func (p *Process) Tail(n int) string {
	text, _ := os.ReadFile(p.Log)
	lines := strings.SplitAfter(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n-1):], "")
}
