package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// newClient returns the client for submissions.
func (a *app) newClient(ctx context.Context) (*client.Client, error) {
	p, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	return p.Client(ctx)
}

type scheduleFlags struct {
	service, payload, name, tenant, group, key string
	headers                                    []string
	lane                                       laneFlag
	due                                        dueFlags
	submitted                                  timeFlag
}

func (a *app) scheduleCommand() *cobra.Command {
	var f scheduleFlags
	cmd := &cobra.Command{
		Use:   "schedule --service NAME (--in DURATION | --at TIME)",
		Short: "hand over a job that is due later",
		Long: `Hand over a job. At its due time the payload lands in the service's queue, at
least once, byte for byte. Prints the job's handle, which moves or cancels it.

--payload is the text itself, @FILE for the contents of a file, @- or - for
standard input, or @@TEXT for text that starts with an at sign.

With --key, a repeat of the same service, tenant, key and due time is the same
job: give --at, or --in with the same --submitted each time.`,
		Example: `  myosin schedule --service hello --in 5s --payload '{"n":1}'
  myosin schedule --service payments --at 2027-01-01T09:00:00Z --name remind --payload @body.json --json`,
		Args: cobra.NoArgs,
	}
	f.due.add(cmd)
	a.serviceFlag(cmd, &f.service, true)
	a.laneVar(cmd, &f.lane, "standard or urgent")
	fl := cmd.Flags()
	fl.StringVarP(&f.payload, "payload", "p", "", "TEXT, @FILE, or - for standard input")
	fl.StringVar(&f.name, "name", "", "name of the job, by which workers find a handler")
	fl.StringVar(&f.tenant, "tenant", "", "for whom the job is: keeps tenants apart on fair queues")
	fl.StringVar(&f.group, "group", "", "message group: the unit of order on a FIFO queue")
	fl.StringArrayVarP(&f.headers, "header", "H", nil, "name=value, a message attribute; up to four times")
	fl.StringVar(&f.key, "key", "", "idempotency key")
	fl.Var(&f.submitted, "submitted", "time from which --in counts, where --key is given")
	cmd.RunE = a.run(func(ctx context.Context, _ []string) error { return a.schedule(ctx, &f) })
	return cmd
}

func (a *app) schedule(ctx context.Context, f *scheduleFlags) error {
	if f.key != "" && f.due.isIn && f.submitted.text == "" {
		return usage("--key: a repeat must give the same due time: give --at, or --in with --submitted")
	}
	payload, err := a.readPayload(f.payload)
	if err != nil {
		return err
	}
	headers, err := headerFlag(f.headers)
	if err != nil {
		return err
	}
	c, err := a.newClient(ctx)
	if err != nil {
		return err
	}
	now := a.platform.Clock.Now()
	opts := []client.Option{
		client.Lane(f.lane.lane), client.Name(f.name), client.Tenant(f.tenant), client.Group(f.group), client.Headers(headers),
	}
	if f.due.isIn {
		opts = append(opts, client.In(f.due.in))
	} else {
		opts = append(opts, client.At(f.due.at.at(now, now)))
	}
	if f.submitted.text != "" {
		opts = append(opts, client.Submitted(f.submitted.at(now, now)))
	}
	if f.key != "" {
		opts = append(opts, client.Key(f.key))
	}
	job, err := c.Schedule(ctx, f.service, payload, opts...)
	switch {
	case errors.Is(err, registry.ErrUnknown):
		return unknownService(f.service, err)
	case errors.Is(err, client.ErrUncertain):
		return fail(ExitUnavailable, "%w; if it was, its handle is %s", a.readable(err), job.Handle)
	case err != nil:
		return err
	}
	return a.printScheduled("scheduled", job)
}

func (a *app) printScheduled(what string, job client.Scheduled) error {
	return a.out.object(job, "%s %s\ndue %s\nhandle %s",
		what, job.ID, stampUntil(job.Due, a.platform.Clock.Now()), job.Handle)
}

// readPayload reads the bytes that --payload means, up to one above the limit:
// enough to be refused.
func (a *app) readPayload(s string) ([]byte, error) {
	read := func(r io.Reader, name string) ([]byte, error) {
		b, err := io.ReadAll(io.LimitReader(r, trigger.MaxPayload+1))
		if err != nil {
			return nil, fail(ExitRefused, "--payload: %w", err)
		}
		if len(b) > trigger.MaxPayload {
			return nil, fail(ExitRefused, "--payload: %s has more than %d bytes", name, trigger.MaxPayload)
		}
		return b, nil
	}
	switch path, isFile := strings.CutPrefix(s, "@"); {
	case s == "-", s == "@-":
		return read(a.host.In, "standard input")
	case isFile && strings.HasPrefix(path, "@"):
		return []byte(path), nil
	case isFile:
		f, err := os.Open(path)
		if err != nil {
			return nil, fail(ExitRefused, "--payload: %w", err)
		}
		defer f.Close()
		return read(f, path)
	}
	if len(s) == 0 {
		return nil, nil
	}
	return []byte(s), nil
}

// reach makes a call, so that the clock is known before times are counted from it.
func (a *app) reach(ctx context.Context) error {
	p, err := a.open(ctx)
	if err != nil {
		return err
	}
	return p.Reach(ctx)
}
