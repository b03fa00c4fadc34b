package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/worker"
)

// killAfter is how long a command has between being asked to end and its end.
const killAfter = 3 * time.Second

// command runs a program for each message.
type command struct {
	app     *app
	service string
	name    string
	args    []string
}

// check finds the program before the first message is received.
func (c *command) check() error {
	if _, err := exec.LookPath(c.name); err != nil {
		return fail(ExitUsage, "--exec: %w (no shell is involved; for one, use --exec sh -- -c '…')", err)
	}
	return nil
}

// run is the handler. The error of a program says nothing of the payload.
func (c *command) run(ctx context.Context, job worker.Job[[]byte]) error {
	cmd := exec.CommandContext(ctx, c.name, c.args...) //nolint:gosec // running it is the point of the flag.
	cmd.Stdin = bytes.NewReader(job.Payload)
	cmd.Stdout, cmd.Stderr = c.app.host.Out, c.app.host.Err
	cmd.Env = append(os.Environ(), environment(c.service, &job)...)
	cmd.WaitDelay = killAfter
	ownGroup(cmd)
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		err = nil // it ended well, and left a child with its output behind
	}
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	c.app.out.note("myosin: job %s attempt %d: %s: %v; it will be tried again", job.ID, job.Attempt, c.name, err)
	var exit *exec.ExitError
	if !errors.As(err, &exit) && ctx.Err() == nil {
		// It did not even start: the next message would fare no better.
		return &exitError{code: ExitFailed, err: fmt.Errorf("--exec: %w", err)}
	}
	return err
}

// environment is what a program is told of its message.
func environment(service string, job *worker.Job[[]byte]) []string {
	env := []string{
		"MYOSIN_ID=" + job.ID.String(),
		"MYOSIN_SERVICE=" + service,
		"MYOSIN_NAME=" + job.Name,
		"MYOSIN_TENANT=" + job.Tenant,
		"MYOSIN_GROUP=" + job.Group,
		"MYOSIN_LANE=" + laneOf(job).String(),
		"MYOSIN_DUE=" + stamp(job.Due),
		"MYOSIN_DUE_MS=" + strconv.FormatInt(job.Due.UnixMilli(), 10),
		"MYOSIN_LATENESS_MS=" + strconv.FormatInt(job.Lateness.Milliseconds(), 10),
		"MYOSIN_ATTEMPT=" + strconv.Itoa(job.Attempt),
	}
	if job.Traceparent != "" {
		env = append(env, "TRACEPARENT="+job.Traceparent)
	}
	for name, value := range job.Headers {
		env = append(env, "MYOSIN_HEADER_"+envName(name)+"="+value)
	}
	return env
}

// envName makes a header's name one of a variable: capitals, digits and '_'.
func envName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(s))
}
