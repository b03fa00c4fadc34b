package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/pkg/worker"
	"github.com/myosin-jobs/myosin/tools/myosin/internal/when"
)

type workFlags struct {
	service, exec      string
	max, concurrency   int
	timeout            time.Duration
	jobTimeout, grace  time.Duration
	visibility, polled time.Duration
}

func (a *app) workCommand() *cobra.Command {
	var f workFlags
	cmd := &cobra.Command{
		Use:   "work --service NAME [--exec COMMAND [-- ARGUMENT…]]",
		Short: "consume a service's queue: print each message, or run a command for it",
		Long: `Consume the queue of a service, its urgent queue first where it has one.

Without --exec each message is printed, payload included, and is done. With it
the command runs once per message, the payload on its standard input. Exit
status 0 means done; anything else means: again, after a backoff, until the
queue's redrive policy moves the message to the dead-letter queue. No shell is
involved; for one, use --exec sh -- -c '…'. The command's environment has

  MYOSIN_ID  MYOSIN_SERVICE  MYOSIN_NAME  MYOSIN_TENANT  MYOSIN_GROUP  MYOSIN_LANE
  MYOSIN_DUE (RFC 3339)  MYOSIN_DUE_MS  MYOSIN_LATENESS_MS  MYOSIN_ATTEMPT
  MYOSIN_HEADER_<NAME> for each header, and TRACEPARENT

Delivery is at least once: deduplicate on MYOSIN_ID.

Ctrl-C stops receiving, lets running commands finish for --grace, then ends them;
messages not finished are given back. A second Ctrl-C ends it at once. If --max
messages did not come within --timeout, the exit code is 6.`,
		Example: `  myosin work --service hello
  myosin work --service hello --max 1 --timeout 1m --json
  myosin work --service hello --exec ./handle.sh --concurrency 4`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && f.exec == "" {
				return fmt.Errorf("unexpected argument %q; arguments are those of --exec", args[0])
			}
			return nil
		},
	}
	a.serviceFlag(cmd, &f.service, true)
	fl := cmd.Flags()
	fl.StringVar(&f.exec, "exec", "", "command to run for each message; its arguments follow after --")
	fl.IntVarP(&f.max, "max", "n", 0, "stop after so many messages; 0: never")
	fl.IntVar(&f.concurrency, "concurrency", 1, "messages handled at once")
	durationVar(fl, &f.timeout, "timeout", 0, "stop after so long; 0: never")
	durationVar(fl, &f.jobTimeout, "job-timeout", 0, "end a command after so long, and try again; 0: never")
	durationVar(fl, &f.grace, "grace", 27*time.Second, "how long a stop may take")
	durationVar(fl, &f.visibility, "visibility", 30*time.Second, "how late a message comes again if this process dies; whole seconds")
	durationVar(fl, &f.polled, "wait", 2*time.Second, "length of a poll, and so of an idle stop; whole seconds up to 20s")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.ran = true
		return a.work(cmd.Context(), &f, args)
	}
	return cmd
}

func (a *app) work(ctx context.Context, f *workFlags, args []string) error {
	if err := errors.Join(atLeast("max", f.max, 0), atLeast("concurrency", f.concurrency, 1)); err != nil {
		return err
	}
	for flag, d := range map[string]time.Duration{"grace": f.grace, "visibility": f.visibility, "wait": f.polled} {
		if d == 0 {
			return usage("--%s: want more than 0", flag)
		}
	}
	svc, err := a.workService(ctx, f.service)
	if err != nil {
		return err
	}
	log, err := a.logger()
	if err != nil {
		return err
	}
	if f.max > 0 {
		f.concurrency = min(f.concurrency, f.max)
	}
	w, err := worker.New(worker.Options{
		Receiver: a.platform.Queues, QueueURL: svc.QueueURL, UrgentQueueURL: svc.UrgentQueueURL,
		Concurrency: f.concurrency, Prefetch: -1, Visibility: f.visibility, Wait: f.polled,
		Timeout: f.jobTimeout, Grace: f.grace, Log: log, Now: a.platform.Clock.Now,
	})
	if err != nil {
		return usage("%v", err)
	}
	do := a.printJob
	if f.exec != "" {
		c := command{app: a, service: svc.Name, name: f.exec, args: args}
		if err := c.check(); err != nil {
			return err
		}
		do = c.run
	}
	c := &counter{max: f.max, do: do, stop: func() { _ = w.Stop(canceled()) }}
	w.HandleDefault(c.handle)
	run := ctx
	if f.timeout > 0 {
		var cancel context.CancelFunc
		run, cancel = context.WithTimeout(ctx, f.timeout)
		defer cancel()
	}
	if err := w.Run(run); err != nil {
		return err
	}
	done, failed := c.counts()
	a.out.note("%d done, %d to be tried again", done, failed)
	if f.max > 0 && done+failed < f.max && ctx.Err() == nil {
		return fail(ExitUnavailable, "only %d of %d messages came within %s (--timeout)", done+failed, f.max, when.Short(f.timeout))
	}
	return c.broken()
}

// canceled is a context that has ended: to begin a stop and not wait for it.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// workService looks up what to consume, within the patience of short commands.
func (a *app) workService(ctx context.Context, name string) (registry.Service, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	p, err := a.open(ctx)
	if err != nil {
		return registry.Service{}, err
	}
	svc, err := p.Source.Get(ctx, name)
	if err != nil {
		return svc, unknownService(name, err)
	}
	// A missing queue shows here, and not as an endless retry.
	if _, err := p.Queues.Depth(ctx, svc.QueueURL); err != nil {
		return svc, err
	}
	return svc, nil
}

// counter lets a number of messages through, then stops the worker.
type counter struct {
	max  int // 0: no end
	do   worker.Handler
	stop func()

	mu                    sync.Mutex
	started, done, failed int
	fatal                 error
}

var errEnough = errors.New("enough messages were handled")

func (c *counter) handle(ctx context.Context, job worker.Job[[]byte]) error {
	c.mu.Lock()
	if c.max > 0 && c.started >= c.max || c.fatal != nil {
		c.mu.Unlock()
		return worker.RetryAfter(0, errEnough) // for others, at once
	}
	c.started++
	c.mu.Unlock()
	err := c.do(ctx, job)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.done++
	} else {
		c.failed++
	}
	var exit *exitError
	if errors.As(err, &exit) && c.fatal == nil {
		c.fatal = err
	}
	if c.fatal != nil || c.max > 0 && c.done+c.failed >= c.max {
		c.stop()
	}
	return err
}

func (c *counter) counts() (done, failed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done, c.failed
}

// broken is an error that ended the work: no message is to blame for it.
func (c *counter) broken() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fatal
}

// jobJSON is a message as JSON shows it.
type jobJSON struct {
	ID          trigger.ID        `json:"id"`
	Due         time.Time         `json:"due"`
	LatenessMs  int64             `json:"lateness_ms"`
	Lane        trigger.Lane      `json:"lane"`
	Attempt     int               `json:"attempt"`
	Name        string            `json:"name,omitempty"`
	Tenant      string            `json:"tenant,omitempty"`
	Group       string            `json:"group,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Traceparent string            `json:"traceparent,omitempty"`
	body
}

func laneOf(job *worker.Job[[]byte]) trigger.Lane {
	if job.Urgent {
		return trigger.Urgent
	}
	return trigger.Standard
}

// printJob prints a message. A message that could not be printed is not done.
func (a *app) printJob(_ context.Context, job worker.Job[[]byte]) error {
	v := jobJSON{
		ID: job.ID, Due: job.Due, LatenessMs: job.Lateness.Milliseconds(), Lane: laneOf(&job), Attempt: job.Attempt, Name: job.Name,
		Tenant: job.Tenant, Group: job.Group, Headers: job.Headers, Traceparent: job.Traceparent, body: bodyOf(job.Payload),
	}
	name := job.Name
	if name == "" {
		name = "-"
	}
	err := a.out.object(v, "%s %s late %s attempt %d %s %s",
		stamp(job.Due), job.ID, when.Short(job.Lateness), job.Attempt, visible(name), visible(string(job.Payload)))
	if err != nil {
		return &exitError{code: ExitFailed, err: err}
	}
	return nil
}
