package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Codes beside those of package client.
const (
	codeMalformed = "malformed" // the body is no JSON, or not of the right media type
	codeTooLarge  = "too_large"
)

// problem is an error answer. A submission whose outcome is unknown names the
// job that may exist.
type problem struct {
	client.Problem
	ID     string `json:"id,omitempty"`
	Handle string `json:"handle,omitempty"`

	retryAfter int    // seconds; 0: not said
	challenge  string // WWW-Authenticate
}

//nolint:gochecknoglobals // a constant in all but name.
var problemSchemaType = reflect.TypeFor[problem]()

// GetStatus, ContentType and GetHeaders are what huma asks of an error.
func (p *problem) GetStatus() int { return p.Status }

func (p *problem) ContentType(string) string { return client.ProblemType }

func (p *problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	if p.challenge != "" {
		h.Set("WWW-Authenticate", p.challenge)
	}
	return h
}

func newProblem(status int, code, detail string) *problem {
	return &problem{Problem: client.Problem{Status: status, Code: code, Title: http.StatusText(status), Detail: detail}}
}

// problemOf turns an error of the packages below into an answer.
func problemOf(err error) *problem {
	p := &problem{Problem: *client.ProblemOf(err)}
	switch {
	case p.Code == client.CodeInternal && (errors.Is(err, queue.ErrThrottled) || errors.Is(err, queue.ErrNotSent)):
		p = newProblem(http.StatusServiceUnavailable, client.CodeUnavailable, "busy; try again")
	case p.Code == client.CodeNotFound:
		p.Detail = "no trigger is stored under this handle: it was delivered, or it is still in the inbound buffer and not stored yet"
	}
	if p.Status == http.StatusServiceUnavailable {
		p.retryAfter = 1
	}
	return p
}

// transformProblem turns huma's own errors into problems as this API writes
// them, without the values at fault: those may be payloads.
func transformProblem(_ huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := newProblem(m.Status, client.CodeInvalid, "the request is not valid")
	for _, e := range m.Errors {
		f := client.ProblemField{Message: e.Message, Location: strings.TrimPrefix(e.Location, "body.")}
		if name, ok := strings.CutPrefix(e.Message, "expected required property "); ok { // said of the object around it
			f = client.ProblemField{Message: "missing", Location: strings.TrimSuffix(name, " to be present")}
		}
		p.Errors = append(p.Errors, f)
	}
	switch m.Status {
	case http.StatusUnprocessableEntity:
	case http.StatusRequestEntityTooLarge:
		p.Code = codeTooLarge
		p.Detail = fmt.Sprintf("the body is too large: at most %d bytes, for a payload of at most %d", MaxBody, trigger.MaxPayload)
		p.Errors = []client.ProblemField{{Location: "payload", Message: fmt.Sprintf("at most %d bytes", trigger.MaxPayload)}}
	case http.StatusUnsupportedMediaType:
		p.Code, p.Detail = codeMalformed, "want Content-Type application/json"
	case http.StatusBadRequest:
		p.Code, p.Detail = codeMalformed, "the body is not a JSON object"
	default:
		p.Code, p.Detail = client.CodeInternal, ""
		if m.Status < http.StatusInternalServerError {
			p.Code, p.Detail = codeMalformed, m.Detail
		}
		p.Errors = nil
	}
	return p, nil
}

func writeProblem(w http.ResponseWriter, p *problem) {
	maps.Copy(w.Header(), p.GetHeaders())
	w.Header().Set("Content-Type", client.ProblemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the caller has gone if it fails
}

// fieldError names a field at fault.
func fieldError(field, format string, args ...any) error {
	return &trigger.FieldError{Field: field, Msg: fmt.Sprintf(format, args...)}
}
