package app

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
)

// body is a request body that is described as T and decoded by [jobsapi.Decode].
type body[T any] struct{ raw []byte }

// Schema describes T.
func (body[T]) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, reflect.TypeFor[T]().Name())
}

func (b *body[T]) take(raw []byte) { b.raw = slices.Clone(raw) }

func (b *body[T]) decode() (*T, error) {
	v := new(T)
	err := jobsapi.Decode(b.raw, v)
	if errors.Is(err, jobsapi.ErrNotJSON) {
		return nil, newProblem(http.StatusBadRequest, codeMalformed, "the body is not a JSON object")
	}
	if err != nil {
		return nil, problemOf(err)
	}
	return v, nil
}

// jsonFormat hands bodies over as they came, where they are decoded later.
func jsonFormat() huma.Format {
	f := huma.DefaultJSONFormat
	unmarshal := f.Unmarshal
	f.Unmarshal = func(data []byte, v any) error {
		if b, ok := v.(interface{ take(raw []byte) }); ok {
			b.take(data)
			return nil
		}
		return unmarshal(data, v)
	}
	return f
}

// rendered is an answer that is described as T and was encoded before.
type rendered[T any] struct{ raw []byte }

// Schema describes T.
func (rendered[T]) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, reflect.TypeFor[T]().Name())
}

// MarshalJSON returns what was encoded.
func (r rendered[T]) MarshalJSON() ([]byte, error) { return r.raw, nil }

// managedOperation fills in what the operations of the managed layer share, and
// the statuses each may answer beside its own.
func managedOperation(h huma.API, op huma.Operation, statuses ...int) huma.Operation {
	op = operation(h, op)
	op.SkipValidateParams, op.SkipValidateBody, op.RejectUnknownQueryParameters = false, true, true
	statuses = append(statuses, http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusServiceUnavailable)
	if op.Method != http.MethodGet && op.Method != http.MethodDelete {
		statuses = append(statuses, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	for _, status := range statuses {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status), Content: op.Responses["default"].Content,
		}
	}
	return op
}

// Problems that several operations answer.
const (
	codeForbidden       = "forbidden"
	codeUnauthenticated = "unauthenticated"
	codeDeleted         = "deleted"
	codeVersion         = "version_mismatch"
	codeKeyReused       = "idempotency_key_reused"
	codeInProgress      = "in_progress"
)

func notFound(what string) *problem {
	return newProblem(http.StatusNotFound, client.CodeNotFound, "no such "+what)
}

// PageInput are the parameters of every list. It is exported for huma to see
// through it.
type PageInput struct {
	Cursor string `query:"cursor" maxLength:"2048" doc:"next_cursor of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"Items of a page"`
}
