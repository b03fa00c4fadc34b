package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/myosin-jobs/myosin/services/standalone/embedded"
)

const (
	envRun       = "MYOSIN_E2E"
	envMinistack = "MYOSIN_MINISTACK_URL"
	envAWSCLI    = "MYOSIN_AWSCLI"
	envFuzzer    = "MYOSIN_SCHEMATHESIS"
	// What this program is to be, other than the tests.
	envKeeper = "MYOSIN_E2E_KEEPER"
	envWorker = "MYOSIN_E2E_WORKER"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(envKeeper); dir != "" {
		keep(os.Stdin, dir)
		return
	}
	if os.Getenv(envWorker) != "" {
		if err := record(os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv(envRun) == "" {
		return m.Run() // skips everything
	}
	// The SDK in this process must find an account as little as those in others.
	for _, kv := range embedded.Environ(os.Environ(), "") {
		if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "AWS_") {
			os.Setenv(name, value)
		}
	}
	os.Unsetenv("AWS_ENDPOINT_URL")
	dir, err := os.MkdirTemp("", "myosin-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	stop, err := startKeeper(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stop()
	if err := build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binaries = dir
	defer stopKumo()
	return m.Run()
}

// binaries is where the programs under test are.
var binaries string

// build makes the programs as a release would, once for all tests.
func build(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	root, err := filepath.Abs("../../..")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator),
		"./services/inbound", "./services/scheduler", "./services/standalone", "./tools/myosin")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return nil
}

// needsE2E skips a test outside make e2e.
func needsE2E(t *testing.T) {
	t.Helper()
	if os.Getenv(envRun) == "" {
		t.Skip("starts real processes for minutes: make e2e runs it (parts processes and foreign)")
	}
}

// kumo is the engine inside this process, started by the first test that asks.
var kumo struct {
	once sync.Once
	url  string
	err  error
	stop context.CancelFunc
	done chan struct{}
}

func kumoURL() (string, error) {
	kumo.once.Do(func() {
		ctx, stop := context.WithCancel(context.Background())
		engine, err := embedded.Listen(ctx, embedded.Options{Addr: "127.0.0.1:0"})
		if err != nil {
			stop()
			kumo.err = err
			return
		}
		kumo.url, kumo.stop, kumo.done = engine.URL(), stop, make(chan struct{})
		go func() {
			defer close(kumo.done)
			if err := engine.Run(ctx); err != nil {
				fmt.Fprintln(os.Stderr, "kumo:", err)
			}
		}()
	})
	return kumo.url, kumo.err
}

func stopKumo() {
	if kumo.stop != nil {
		kumo.stop()
		<-kumo.done
	}
}
