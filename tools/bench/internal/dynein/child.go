package dynein

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/myosin-jobs/myosin/services/standalone/embedded"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
)

// Command is the argument by which this program becomes a scheduler of the run.
const Command = "dynein-scheduler"

const (
	mark    = "bench-dynein "
	endWait = 10 * time.Second
)

// Config is what a scheduler process is told.
type Config struct {
	Endpoint   string
	Partitions []int
	Workers    int
	Limit      int32
}

// Part returns the configuration of scheduler number index of count.
func (o *Options) Part(index, count int) Config {
	c := Config{Endpoint: o.Endpoint, Workers: o.Workers, Limit: int32(o.Limit)} //nolint:gosec // validated.
	for p := index; p < o.Partitions; p += count {
		c.Partitions = append(c.Partitions, p)
	}
	return c
}

// Scheduler makes the scheduler of a configuration.
func (c *Config) Scheduler(ctx context.Context, report func(error)) (*Scheduler, error) {
	rows, queues, err := Clients(ctx, c.Endpoint)
	if err != nil {
		return nil, err
	}
	return NewScheduler(SchedulerOptions{
		Rows: rows, Queues: queues, Table: Table, Partitions: c.Partitions, Workers: c.Workers, Limit: c.Limit, Report: report,
	})
}

// Serve is the scheduler process: it runs until in ends, and answers each line
// with the processor time used.
func Serve(config string, in io.Reader, out io.Writer, log *slog.Logger) error {
	// A Ctrl-C reaches the whole group; the parent ends this in good order.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	var c Config
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return fmt.Errorf("dynein: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	s, err := c.Scheduler(ctx, func(err error) { log.WarnContext(ctx, "dynein", "error", err) })
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	defer running.Wait()
	defer stop()
	if _, err := fmt.Fprintln(out, mark+"ready"); err != nil {
		return fmt.Errorf("dynein: %w", err)
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		used, _ := host.CPU()
		if _, err := fmt.Fprintf(out, "%s%d\n", mark, used); err != nil {
			return fmt.Errorf("dynein: %w", err)
		}
	}
	return lines.Err()
}

// child is this program again, in another role; it ends with its standard input.
type child struct {
	cmd *exec.Cmd

	mu  sync.Mutex
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(ctx context.Context, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	// Not ctx: it is needed until the run has ended in good order.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, args...) //nolint:gosec // it is this program.
	cmd.Env, cmd.Stderr = embedded.Environ(os.Environ(), ""), os.Stderr
	c := &child{cmd: cmd}
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, err //nolint:wrapcheck // the caller says what it was.
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err //nolint:wrapcheck // as above.
	}
	c.out = bufio.NewScanner(out)
	return c, cmd.Start()
}

// answer reads the next line that begins with a mark, without it.
func (c *child) answer(mark string) (string, error) {
	for c.out.Scan() {
		if text, ok := strings.CutPrefix(c.out.Text(), mark); ok {
			return text, nil
		}
	}
	return "", errors.Join(io.ErrUnexpectedEOF, c.out.Err())
}

// CPU implements Process.
func (c *child) CPU() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := io.WriteString(c.in, "cpu\n"); err != nil {
		return 0, false
	}
	text, err := c.answer(mark)
	if err != nil {
		return 0, false
	}
	ns, err := strconv.ParseInt(text, 10, 64)
	return time.Duration(ns), err == nil && ns > 0
}

// Close implements Process.
func (c *child) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.in.Close() // the child may be gone
	late := time.AfterFunc(endWait, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", c.cmd.Args[1], err)
	}
	return nil
}

// start starts a scheduler in a process of its own: what Options.Start is outside
// tests.
func (o *Options) start(ctx context.Context, index, count int) (Process, error) {
	config, err := json.Marshal(o.Part(index, count))
	if err != nil {
		return nil, err //nolint:wrapcheck // as above.
	}
	c, err := start(ctx, Command, string(config))
	if err != nil {
		return nil, err
	}
	if _, err := c.answer(mark); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Measure is [Run] with an endpoint and schedulers in processes of their own.
// endpoint is the argument by which this program serves the null endpoint.
func Measure(ctx context.Context, o Options, endpoint string) (r *Report, err error) {
	e, err := start(ctx, endpoint, "--addr", "127.0.0.1:0", "--stdin", "--sink",
		"--latency-dynamodb", o.LatencyDynamoDB.String(), "--latency-sqs", o.LatencySQS.String())
	if err != nil {
		return nil, fmt.Errorf("dynein: start the endpoint: %w", err)
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if o.Endpoint, err = e.answer("bench-endpoint "); err != nil {
		return nil, fmt.Errorf("dynein: start the endpoint: %w", err)
	}
	o.Start = func(index, count int) (Process, error) { return o.start(ctx, index, count) }
	return Run(ctx, o)
}
