package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
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

	"github.com/myosin-jobs/myosin/services/standalone/embedded"
)

// asMain makes the test's own program behave as the command.
const asMain = "STANDALONE_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// command is a standalone running as a process of its own.
type command struct {
	t     *testing.T
	cmd   *exec.Cmd
	mu    sync.Mutex
	lines []string
	read  chan struct{} // closed at the end of the output
	api   string
	aws   string
}

func run(t *testing.T, args ...string) *command {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := &command{t: t, read: make(chan struct{})}
	c.cmd = exec.CommandContext(t.Context(), self, append([]string{"--api-addr=127.0.0.1:0", "--aws-addr=127.0.0.1:0", "--no-demo"}, args...)...)
	c.cmd.Env = append(os.Environ(), asMain+"=1", "AWS_PROFILE=a-real-account")
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	go func() {
		defer close(c.read)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.mu.Lock()
			c.lines = append(c.lines, s.Text())
			c.mu.Unlock()
		}
	}()
	t.Cleanup(func() { _ = c.end(syscall.SIGKILL) })
	c.api = c.sees(`API  (http://\S+)`)
	c.aws = c.sees(`AWS  (http://\S+)`)
	return c
}

// sees waits for a line and returns what the expression caught in it.
func (c *command) sees(expr string) string {
	c.t.Helper()
	re := regexp.MustCompile(expr)
	var found string
	require.Eventually(c.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		m := re.FindStringSubmatch(strings.Join(c.lines, "\n"))
		if m == nil {
			return false
		}
		found = m[len(m)-1]
		return true
	}, 30*time.Second, 10*time.Millisecond, expr)
	return found
}

// end signals the process and waits for it.
func (c *command) end(sig syscall.Signal) error {
	_ = c.cmd.Process.Signal(sig) // an error says that it has ended
	<-c.read
	return c.cmd.Wait()
}

func (c *command) post(body string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.api+"/v1/triggers", strings.NewReader(body))
	require.NoError(c.t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{}).Do(req)
	require.NoError(c.t, err)
	defer resp.Body.Close()
	require.Equal(c.t, http.StatusCreated, resp.StatusCode)
}

func TestWithADataDirectoryAJobSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := run(t, "--data-dir", dir)
	first.post(`{"service":"hello","delay":"4s","name":"survivor","payload":{"n":1}}`)
	require.NoError(t, first.end(syscall.SIGTERM))
	require.Contains(t, strings.Join(first.lines, "\n"), "Stopped cleanly")
	require.NotContains(t, strings.Join(first.lines, "\n"), "survivor")

	second := run(t, "--data-dir", dir)
	require.Equal(t, `{"n":1}`, second.sees(`hello received survivor: (\S+)`))
	require.NoError(t, second.end(syscall.SIGINT))
}

func TestTheGoOfTheREADMERunsAgainstIt(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)
	require.NotNil(t, block, "README.md has no Go")
	require.LessOrEqual(t, bytes.Count(block[1], []byte("\n")), 16, "about ten lines are promised")

	// The block is the body of a function; the imports are not what it is about.
	src := fmt.Sprintf(`package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func main() {
	if err := remind(context.Background()); err != nil {
		log.Fatal(err)
	}
}

%s

var _ = fmt.Sprint(client.New, platform.Open, trigger.Standard, time.Second)
`, block[1])
	dir := t.TempDir()
	file, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "readme")
	require.NoError(t, os.WriteFile(file, []byte(src), 0o600))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, file)
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	c := run(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(embedded.Environ(os.Environ(), ""), "AWS_ENDPOINT_URL="+c.aws)
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	c.sees(`hello received remind: \{"order":42\}`)
	require.NoError(t, c.end(syscall.SIGTERM))
}
