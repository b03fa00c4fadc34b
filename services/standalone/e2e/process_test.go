package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// keeper is told of every process that lives. It kills them should the test's
// own process end without having done so, by a panic, a timeout or a signal, and
// removes the programs.
var keeper struct {
	mu sync.Mutex
	in io.Writer
}

func startKeeper(dir string) (stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envKeeper+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal to the group must not end it
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the keeper of processes: %w", err)
	}
	keeper.in = in
	return func() {
		in.Close()
		cmd.Wait()
	}, nil
}

// keep is the keeper's work: it reads "+pid" and "-pid", and at the end of its
// input kills what is left.
func keep(in io.Reader, dir string) {
	alive := make(map[int]bool)
	for s := bufio.NewScanner(in); s.Scan(); {
		var sign rune
		var pid int
		if _, err := fmt.Sscanf(s.Text(), "%c%d", &sign, &pid); err != nil {
			continue
		}
		if sign == '+' {
			alive[pid] = true
		} else {
			delete(alive, pid)
		}
	}
	for pid := range alive {
		syscall.Kill(-pid, syscall.SIGKILL)
	}
	os.RemoveAll(dir)
}

func tellKeeper(sign string, pid int) {
	keeper.mu.Lock()
	defer keeper.mu.Unlock()
	fmt.Fprintf(keeper.in, "%s%d\n", sign, pid)
}

// process is a program under test, in a process group of its own.
type process struct {
	t        *testing.T
	name     string
	cmd      *exec.Cmd
	out, log string // files of standard output and standard error
	ended    chan struct{}
	err      error // of Wait; read after ended
	once     sync.Once
}

// start runs one of the built programs, or the one at a path. Its output is kept, and the end of it is
// printed if the test fails; whatever happens, it does not outlive the test.
func start(t *testing.T, dir, name, program string, env []string, args ...string) *process {
	t.Helper()
	p := &process{
		t: t, name: name, ended: make(chan struct{}),
		out: filepath.Join(dir, name+".out"), log: filepath.Join(dir, name+".log"),
	}
	files := make([]*os.File, 2)
	for i, path := range []string{p.out, p.log} {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		defer f.Close() // the process has its own
		files[i] = f
	}
	if !filepath.IsAbs(program) {
		program = filepath.Join(binaries, program)
	}
	p.cmd = exec.Command(program, args...)
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = files[0], files[1]
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, p.cmd.Start())
	tellKeeper("+", p.cmd.Process.Pid)
	go func() {
		p.err = p.cmd.Wait()
		tellKeeper("-", p.cmd.Process.Pid)
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("--- %s (%s), the end of its output:\n%s%s", name, p.state(), tail(p.out, 15), tail(p.log, 40))
		}
	})
	return p
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *process) state() string {
	if p.running() {
		return "running"
	}
	return fmt.Sprint("ended: ", p.cmd.ProcessState)
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	require.True(p.t, p.running(), "%s: %s", p.name, p.state())
	require.NoError(p.t, p.cmd.Process.Signal(sig))
}

// kill ends the process's group at once and waits for it.
func (p *process) kill() {
	p.once.Do(func() {
		if p.running() {
			syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		}
	})
	<-p.ended
}

// stop asks the process to end and demands a clean end within its grace.
func (p *process) stop(grace time.Duration) time.Duration {
	p.t.Helper()
	began := time.Now()
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		require.Failf(p.t, "did not stop in time", "%s still runs %s after SIGTERM", p.name, grace)
	}
	require.Equal(p.t, 0, p.cmd.ProcessState.ExitCode(), "%s: %s", p.name, p.cmd.ProcessState)
	return time.Since(began)
}

// sees waits for text in a file of output and returns what the expression
// caught in it last.
func (p *process) sees(path, expr string, within time.Duration) string {
	p.t.Helper()
	re := regexp.MustCompile(expr)
	var found string
	eventually(p.t, within, 20*time.Millisecond, p.name+" prints "+expr, func() error {
		if !p.running() {
			return finalError{fmt.Errorf("%s: %s", p.name, p.state())}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		m := re.FindSubmatch(text)
		if m == nil {
			return errors.New("not seen")
		}
		found = string(m[len(m)-1])
		return nil
	})
	return found
}

// readyz asks a process whether it is ready: nil, or the reasons it gives.
func readyz(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	answer := unreadyError{code: resp.StatusCode}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%d: %s", resp.StatusCode, body)
	}
	return answer
}

// unreadyError is an answer of /readyz other than 200.
type unreadyError struct {
	code    int
	Failing []struct{ Check, Reason string }
}

func (u unreadyError) Error() string { return fmt.Sprintf("%d %v", u.code, u.Failing) }

// finalError ends an eventually before its time.
type finalError struct{ error }

// eventually tries until there is no error, every so often, for so long.
func eventually(t *testing.T, within, every time.Duration, what string, try func() error) {
	t.Helper()
	tick := time.NewTicker(every)
	defer tick.Stop()
	end := time.Now().Add(within)
	for {
		err := try()
		if err == nil {
			return
		}
		var final finalError
		if errors.As(err, &final) || time.Now().After(end) {
			require.NoError(t, err, "within %s: %s", within, what)
		}
		<-tick.C
	}
}

// pause waits for a moment of real time; false if ctx ended before.
func pause(ctx context.Context, until time.Time) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func tail(path string, n int) string {
	text, _ := os.ReadFile(path)
	lines := strings.SplitAfter(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n-1):], "")
}
