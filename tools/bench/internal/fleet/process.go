package fleet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/myosin-jobs/myosin/pkg/settings"
	inbound "github.com/myosin-jobs/myosin/services/inbound/app"
	scheduler "github.com/myosin-jobs/myosin/services/scheduler/app"
	"github.com/myosin-jobs/myosin/services/standalone/embedded"
)

// Command is the argument by which this program becomes one of the processes;
// a file for its CPU profile (or nothing), the service's name and its flags follow.
const Command = "process"

// Serve is the process: the service itself, until it is told to stop.
func Serve(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("process: want a file for a CPU profile (or an empty argument), inbound or scheduler, and its flags")
	}
	if file := args[0]; file != "" {
		f, err := os.Create(file)
		if err != nil {
			return fmt.Errorf("process: %w", err)
		}
		defer func() { _ = f.Close() }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return fmt.Errorf("process: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	args = args[1:]
	set := settings.New(args[0], "a process under measurement")
	var run func() error
	switch args[0] {
	case "inbound":
		var o inbound.Options
		o.Settings(set)
		run = func() error { return inbound.Run(ctx, o) }
	case "scheduler":
		var o scheduler.Options
		o.Settings(set)
		run = func() error { return scheduler.Run(ctx, o) }
	default:
		return fmt.Errorf("process: %q; want inbound or scheduler", args[0])
	}
	if err := set.Parse(args[1:], func(string) (string, bool) { return "", false }, os.Stderr); err != nil {
		return err
	}
	return run()
}

// process is this program again in another role.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Scanner
}

// start starts a process; it ends by SIGTERM, and dies with this program.
func start(ctx context.Context, name string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	// Not ctx: it is needed until the run has ended in good order.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, args...) //nolint:gosec // it is this program.
	cmd.Env, cmd.Stderr = embedded.Environ(os.Environ(), ""), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &process{name: name, cmd: cmd}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.stdin, p.out = in, bufio.NewScanner(out)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

const stopWait = 45 * time.Second

// stop ends the process and waits for it.
func (p *process) stop() error {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(stopWait, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// ticks are the units of /proc/<pid>/stat: USER_HZ, 100 on Linux.
const ticks = 10 * time.Millisecond

// cpu is the user and system time the process has used, by the operating
// system's account.
func (p *process) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the account of %s: %w", p.name, err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("read the account of %s: %d fields", p.name, len(fields))
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * ticks, errors.Join(err1, err2)
}

// peak is the largest resident memory so far, in bytes.
func (p *process) peak() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of %s: %w", p.name, err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("read the memory of %s: no VmHWM", p.name)
}

// used sums the processor time of processes and finds the largest peak.
func used(ps []*process) (sum time.Duration, peak int64, err error) {
	for _, p := range ps {
		c, err1 := p.cpu()
		m, err2 := p.peak()
		sum += c
		peak = max(peak, m)
		err = errors.Join(err, err1, err2)
	}
	return sum, peak, err
}
