package app

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// failed returns the answer to an error of the packages below about a thing.
func (m *managed) failed(ctx context.Context, op, what string, err error) error {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if conflict, ok := errors.AsType[*job.ConflictError](err); ok {
		p := newProblem(http.StatusConflict, client.CodeConflict, conflict.Error())
		p.State = string(conflict.State)
		return p
	}
	if _, ok := errors.AsType[*jobcontrol.VersionError](err); ok {
		return newProblem(http.StatusPreconditionFailed, codeVersion, "it has changed since: read it again; ETag is its version")
	}
	_, conflict := errors.AsType[*jobstore.ConflictError](err)
	switch {
	case errors.Is(err, jobstore.ErrNotFound), errors.Is(err, jobcontrol.ErrNotPending):
		return notFound(what)
	case errors.Is(err, jobcontrol.ErrDeleted):
		return newProblem(http.StatusConflict, codeDeleted, "the job is deleted")
	case errors.Is(err, jobstore.ErrCursor):
		return problemOf(fieldError("query.cursor", "is not one of this list"))
	case errors.Is(err, jobstore.ErrTooLarge):
		p := newProblem(http.StatusRequestEntityTooLarge, codeTooLarge, "the definition is too large to be stored")
		p.Errors = []client.ProblemField{{Location: "payload", Message: "too large together with the rest"}}
		return p
	case conflict, errors.Is(err, jobstore.ErrBusy):
		p := newProblem(http.StatusServiceUnavailable, client.CodeUnavailable, "busy; try again")
		p.retryAfter = 1
		return p
	}
	return m.fail(ctx, op, err)
}

// faults returns what a definition gets wrong, each a field error, joined. What
// the rules of jobs report as plain text begins with the field's name.
func faults(err error) error {
	var errs []error
	for _, e := range leaves(err) {
		if _, ok := errors.AsType[*trigger.FieldError](e); !ok {
			field, text, found := strings.Cut(e.Error(), ": ")
			if !found {
				field, text = "body", e.Error()
			}
			e = fieldError(field, "%s", text)
		}
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// leaves takes joined errors apart, at any depth. What says no more than the
// first of its causes is that cause.
func leaves(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		if e.Error() == err.Error() {
			return leaves(e)
		}
		out = append(out, leaves(e)...)
	}
	return out
}
