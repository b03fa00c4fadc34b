package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// MaxBody bounds the body of a request, in bytes: the largest payload in
// base64 (350 KiB) and everything else a trigger holds.
const MaxBody = 400 << 10

// Jobs schedules, looks up, moves and cancels; [client.Client] is one.
type Jobs interface {
	Schedule(ctx context.Context, service string, payload any, opts ...client.Option) (client.Scheduled, error)
	Get(ctx context.Context, handle string) (client.TriggerView, error)
	Reschedule(ctx context.Context, handle string, due time.Time) (client.Scheduled, error)
	Cancel(ctx context.Context, handle string) (client.CancelResult, error)
}

// Services is the registry of owning services; every [registry.Source] is one.
type Services interface {
	List(ctx context.Context) ([]registry.Service, error)
	Get(ctx context.Context, name string) (registry.Service, error)
	SetPaused(ctx context.Context, name string, paused bool) error
	SetRate(ctx context.Context, name string, rate float64) error
}

// Partitions reads the partition counts of the trigger table.
type Partitions interface {
	Epochs(ctx context.Context) (trigger.Epochs, error)
}

// HandlerOptions configure [NewHandler].
type HandlerOptions struct {
	// Jobs, Services and Partitions do the work. Required.
	Jobs       Jobs
	Services   Services
	Partitions Partitions
	// Managed adds the operations of the managed layer; nil: there are triggers and
	// services alone.
	Managed *Managed
	// Auth tells who makes a request. nil: everybody is [access.Local], and only
	// this machine is answered.
	Auth Auth
	// Now is the clock relative due times count from. Default time.Now.
	Now func() time.Time
	// Log takes one line per request, and failures; never payloads. nil: none.
	Log *slog.Logger
	// Metrics takes the request metrics; nil: none.
	Metrics prometheus.Registerer
}

// Validate reports every option at fault, joined.
func (o *HandlerOptions) Validate() error {
	var errs []error
	if o.Jobs == nil {
		errs = append(errs, errors.New("jobs: missing"))
	}
	if o.Services == nil {
		errs = append(errs, errors.New("services: missing"))
	}
	if o.Partitions == nil {
		errs = append(errs, errors.New("partitions: missing"))
	}
	if o.Managed != nil {
		errs = append(errs, o.Managed.Validate())
	}
	return errors.Join(errs...)
}

// api holds what the operations need. Its methods are the operations.
type api struct {
	o   HandlerOptions
	log *slog.Logger
}

// NewHandler returns the handler of everything but the probes: /v1,
// /openapi.json and /docs.
func NewHandler(o HandlerOptions) (http.Handler, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("api handler: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &api{o: o, log: o.Log}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, fmt.Errorf("api handler: %w", err)
	}

	mux := http.NewServeMux()
	h := humago.New(mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Myosin", Version: "1",
				Description: "Delayed jobs: hand over a payload and a time; at that time it lands in the queue of the service that owns it.",
			},
			Components: &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)},
		},
		Formats:       map[string]huma.Format{"application/json": jsonFormat(), "json": jsonFormat()},
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{transformProblem},
	})
	a.registerTriggers(h)
	a.registerServices(h)
	a.registerPartitions(h)
	a.registerManaged(h)
	doc := h.OpenAPI()
	// Errors are described by problems alone; huma's own model is turned into one.
	delete(doc.Components.Schemas.Map(), "ErrorModel")
	delete(doc.Components.Schemas.Map(), "ErrorDetail")
	if err := addDocs(mux, doc); err != nil {
		return nil, fmt.Errorf("api handler: %w", err)
	}
	addFallbacks(mux, doc)
	return a.observe(m, guard(o.Auth == nil, a.identify(mux))), nil
}

// operation fills in what all operations share.
func operation(h huma.API, op huma.Operation) huma.Operation {
	op.MaxBodyBytes = MaxBody
	op.SkipValidateParams = true // they are strings, checked where they are used
	op.Responses = map[string]*huma.Response{"default": {
		Description: "A problem; code says which, errors name the fields at fault",
		Content: map[string]*huma.MediaType{client.ProblemType: {
			Schema: h.OpenAPI().Components.Schemas.Schema(problemSchemaType, true, "Problem"),
		}},
	}}
	return op
}

// addFallbacks answers unknown paths and methods with problems too.
func addFallbacks(mux *http.ServeMux, doc *huma.OpenAPI) {
	for path, item := range doc.Paths {
		var allowed []string
		for method, op := range operations(item) {
			if op != nil {
				allowed = append(allowed, method)
			}
		}
		slices.Sort(allowed)
		allow := strings.Join(allowed, ", ")
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", allow)
			writeProblem(w, newProblem(http.StatusMethodNotAllowed, "method_not_allowed",
				fmt.Sprintf("%s is not supported here; %s are", r.Method, allow)))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, newProblem(http.StatusNotFound, client.CodeNotFound, "no such path; see /docs"))
	})
}

func operations(item *huma.PathItem) map[string]*huma.Operation {
	return map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put,
		http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
	}
}
