package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/myosin-jobs/myosin/pkg/awsclient"
	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// The exit codes. Scripts branch on them: they never change their meaning.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitConflict    = 4
	ExitRefused     = 5
	ExitUnavailable = 6
	ExitDenied      = 7
	ExitNotRun      = 8
	ExitInterrupted = 130
)

const exitHelp = `    0  done
    1  failed, for a reason none of the others names; the run that was waited for
       is dead
    2  wrong usage: flags, arguments, or a confirmation that was not given
    3  not found: the trigger, job, run, service, queue or table does not exist
    4  conflict: the state of the thing does not allow it, it was too late to be
       sure, or somebody else changed the same thing
    5  refused: the input is outside a limit; the message names the field
    6  unavailable: the endpoint cannot be reached, is throttled, or timed out;
       try again
    7  denied: no right, or no valid credentials
    8  not run: the run that was waited for was cancelled or skipped
  130  interrupted`

// exitError is an error with its exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usage returns an error about how a command was called.
func usage(format string, args ...any) error {
	return &exitError{code: ExitUsage, err: fmt.Errorf(format, args...)}
}

// fail returns an error with its exit code.
func fail(code int, format string, args ...any) error {
	return &exitError{code: code, err: fmt.Errorf(format, args...)}
}

// report prints an error and returns the exit code.
func (a *app) report(ctx context.Context, err error) int {
	if err == nil {
		return ExitOK
	}
	code, text := a.explain(err)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		code, text = ExitInterrupted, "interrupted"
	}
	fmt.Fprintln(a.host.Err, "myosin: "+text)
	return code
}

// readable is an error as [app.explain] words it.
func (a *app) readable(err error) error {
	_, text := a.explain(err)
	return errors.New(text)
}

// explain says what an error means to whoever called the command, and what to
// do about it.
func (a *app) explain(err error) (int, string) {
	var exit *exitError
	var conflict *client.ConflictError
	switch {
	case errors.As(err, &exit):
		return exit.code, exit.Error()
	case errors.As(err, &conflict):
		return ExitConflict, conflictText(conflict)
	case errors.Is(err, trigger.ErrHandle):
		return ExitRefused, err.Error() + "; a handle is what schedule printed"
	case errors.Is(err, client.ErrNotFound):
		return ExitNotFound, "trigger not found: it was delivered already, or is not stored yet (submissions are stored within seconds, unless the inbound drain is paused)"
	case errors.Is(err, client.ErrNotStored):
		return ExitNotFound, client.ErrNotStored.Error() + "; try again in a moment"
	case errors.Is(err, registry.ErrUnknown):
		return ExitNotFound, "service is not in the registry: " + err.Error()
	}
	if fields := client.ProblemOf(err).Errors; len(fields) > 0 {
		lines := make([]string, len(fields))
		for i, f := range fields {
			lines[i] = flagOf(f.Location) + ": " + f.Message
		}
		return ExitRefused, strings.Join(lines, "\nmyosin: ")
	}
	return a.explainAWS(err)
}

func (a *app) explainAWS(err error) (int, string) {
	var unsent *url.Error
	switch {
	case errors.Is(err, queue.ErrMissing) || awsclient.IsMissing(err):
		return ExitNotFound, fmt.Sprintf("%v\nmyosin: is %q the prefix of this installation (--prefix, MYOSIN_PREFIX), and is this its region and endpoint?", err, a.prefix)
	case errors.Is(err, queue.ErrDenied) || awsclient.IsAccessDenied(err):
		return ExitDenied, err.Error()
	case errors.As(err, &unsent) && !errors.Is(err, context.Canceled):
		return ExitUnavailable, fmt.Sprintf("cannot reach %s: %v (--endpoint or AWS_ENDPOINT_URL says where AWS is)", origin(unsent.URL), innermost(unsent.Err))
	case errors.Is(err, client.ErrUncertain), errors.Is(err, queue.ErrThrottled), errors.Is(err, store.ErrThrottled),
		errors.Is(err, context.DeadlineExceeded), awsclient.IsThrottle(err):
		return ExitUnavailable, err.Error()
	case errors.Is(err, store.ErrConflict):
		return ExitConflict, err.Error()
	case errors.Is(err, store.ErrInvalid), errors.Is(err, queue.ErrRejected):
		return ExitRefused, err.Error()
	}
	return ExitFailed, err.Error()
}

// unknownService says what to do about a service that is not there.
func unknownService(name string, err error) error {
	if !errors.Is(err, registry.ErrUnknown) {
		return err
	}
	return fail(ExitNotFound, "service %q is not in the registry: myosin services add %s", name, name)
}

func conflictText(c *client.ConflictError) string {
	switch {
	case c.Taken:
		return c.Error()
	case c.State == trigger.Acquired.String():
		return "trigger is being delivered right now"
	case c.State == trigger.Dead.String():
		return "trigger is dead (it could not be delivered): myosin triggers redrive HANDLE"
	case c.State == trigger.MaybeSent.String():
		return "trigger waits for another attempt and may have been delivered already: it can be cancelled, not moved"
	}
	return c.Error()
}

// flagOf names a field of a submission as the command line does.
func flagOf(field string) string {
	switch field {
	case "due":
		return "due time (--at, --in)"
	case "delay_ms":
		return "--in"
	case "submitted", "service", "payload", "name", "lane", "tenant", "group", "key":
		return "--" + field
	case "headers":
		return "--header"
	}
	if name, ok := strings.CutPrefix(field, "headers."); ok {
		return "--header " + name
	}
	return field
}

func origin(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return s
	}
	return u.Scheme + "://" + u.Host
}

func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
