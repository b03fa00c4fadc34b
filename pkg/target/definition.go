package target

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Limits of an HTTP target's definition.
const (
	MinTimeout = time.Second
	MaxTimeout = 5 * time.Minute
)

// HTTP is the definition of an HTTP target, as a job carries it.
type HTTP struct {
	URL     string
	Method  string            // "": POST
	Headers map[string]string // the job's own
	Timeout time.Duration     // 0: the default of the caller
}

// CheckHTTP reports everything for which the definition must be refused, joined.
// Each is a [*trigger.FieldError] by the name of the field in the API:
// target.url, target.method, target.headers, target.headers.<name>,
// target.timeout. None repeats a header's value, nor the URL's query. allow
// opens private ranges, as in [Guard.Check].
//
// A URL refused by policy, rather than malformed, wraps [ErrRefused] as well.
func (g *Guard) CheckHTTP(h HTTP, allow []netip.Prefix) error {
	var errs []error
	bad := func(field, msg string) error { return &trigger.FieldError{Field: "target." + field, Msg: msg} }
	if _, err := g.Check(h.URL, allow); err != nil {
		fault := bad("url", strings.TrimPrefix(err.Error(), "target url: "))
		if errors.Is(err, ErrRefused) {
			fault = &refusedFieldError{fault, err}
		}
		errs = append(errs, fault)
	}
	if err := CheckMethod(h.Method); err != nil {
		errs = append(errs, bad("method", strings.TrimPrefix(err.Error(), "method: ")))
	}
	for _, err := range parts(CheckHeaders(h.Headers)) {
		if he, ok := errors.AsType[*HeaderError](err); ok {
			errs = append(errs, bad("headers."+he.Name, he.Reason))
		} else {
			errs = append(errs, bad("headers", strings.TrimPrefix(err.Error(), "headers: ")))
		}
	}
	if h.Timeout != 0 && (h.Timeout < MinTimeout || h.Timeout > MaxTimeout) {
		errs = append(errs, bad("timeout", fmt.Sprintf("%s; want %s to %s", h.Timeout, MinTimeout, MaxTimeout)))
	}
	return errors.Join(errs...)
}

// parts returns what errors.Join joined.
func parts(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return nil
}

// refusedFieldError is the fault of a field that is also a refusal by policy.
type refusedFieldError struct{ field, cause error }

func (e *refusedFieldError) Error() string   { return e.field.Error() }
func (e *refusedFieldError) Unwrap() []error { return []error{e.field, e.cause} }
