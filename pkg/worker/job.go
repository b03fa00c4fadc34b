package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Job is one delivery as a handler sees it.
type Job[T any] struct {
	ID          trigger.ID        // the trigger's id: deduplicate on it
	Due         time.Time         // UTC, whole milliseconds
	Name        string            // may be empty
	Tenant      string            // may be empty
	Group       string            // message group; may be empty
	Headers     map[string]string // the caller's headers; not to be changed
	Traceparent string            // W3C trace context of the submission; may be empty
	Urgent      bool              // came from the urgent queue
	Attempt     int               // the queue's receive count, from 1
	Lateness    time.Duration     // from the due time to the start of the handler
	Payload     T
}

// Handler handles one job; its error decides what becomes of the message, see
// the package comment. The context ends with a cause ([context.Cause]):
// [ErrTimeout], [ErrLost], [ErrTooOld] or [ErrStopping].
type Handler func(ctx context.Context, job Job[[]byte]) error

// Middleware wraps a handler.
type Middleware func(next Handler) Handler

// Handle registers the handler of a job name. The payload is decoded from JSON
// into T, except for []byte, string and json.RawMessage, which take it as it is;
// an empty payload leaves T zero. A mistake (no name, no function, a name taken) is
// reported by [Worker.Run]; once that runs, a handler is ignored with an error in the log.
func Handle[T any](w *Worker, name string, fn func(ctx context.Context, job Job[T]) error) {
	if fn == nil {
		w.register(name, nil)
		return
	}
	w.register(name, func(ctx context.Context, raw Job[[]byte]) error {
		payload, err := decode[T](raw.Payload)
		if err != nil {
			return &PayloadError{Err: err}
		}
		return fn(ctx, Job[T]{
			ID: raw.ID, Due: raw.Due, Name: raw.Name, Tenant: raw.Tenant, Group: raw.Group, Headers: raw.Headers,
			Traceparent: raw.Traceparent, Urgent: raw.Urgent, Attempt: raw.Attempt, Lateness: raw.Lateness, Payload: payload,
		})
	})
}

// HandleDefault registers the handler of jobs whose name has no other,
// unnamed ones included.
func (w *Worker) HandleDefault(fn func(ctx context.Context, job Job[[]byte]) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.started:
		w.log.Error("default handler ignored: the worker has started")
	case fn == nil:
		w.mistakes = append(w.mistakes, fmt.Errorf("default handler is nil"))
	case w.fallback != nil:
		w.mistakes = append(w.mistakes, fmt.Errorf("default handler is set twice"))
	default:
		w.fallback = fn
	}
}

// Use adds middleware around every handler. The first added is the outermost.
// It sees a panic of the handler as a [*PanicError].
func (w *Worker) Use(mw ...Middleware) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.middleware = append(w.middleware, mw...)
}

func (w *Worker) register(name string, h Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.started:
		w.log.Error("handler ignored: the worker has started", "name", name)
	case name == "":
		w.mistakes = append(w.mistakes, fmt.Errorf("handler without a job name; see HandleDefault"))
	case h == nil:
		w.mistakes = append(w.mistakes, fmt.Errorf("handler of %q is nil", name))
	case w.handlers[name] != nil:
		w.mistakes = append(w.mistakes, fmt.Errorf("handler of %q is set twice", name))
	default:
		w.handlers[name] = h
	}
}

func decode[T any](p []byte) (T, error) {
	var v T
	switch d := any(&v).(type) {
	case *[]byte:
		*d = p
	case *string:
		*d = string(p)
	case *json.RawMessage:
		*d = p
	default:
		if len(p) == 0 {
			return v, nil
		}
		if err := json.Unmarshal(p, d); err != nil {
			return v, err
		}
	}
	return v, nil
}
