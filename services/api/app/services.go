package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

// serviceView is an owning service as the API shows it.
type serviceView struct {
	Name           string    `json:"name"`
	QueueURL       string    `json:"queue_url"`
	UrgentQueueURL string    `json:"urgent_queue_url,omitempty"`
	DLQURL         string    `json:"dlq_url,omitempty"`
	Rate           float64   `json:"rate" doc:"Deliveries per second over the whole fleet; 0: no limit"`
	FIFO           bool      `json:"fifo"`
	Senders        []string  `json:"senders,omitempty" doc:"SQS SenderIds that may submit; none: everyone who may send to the buffer"`
	Owner          string    `json:"owner,omitempty"`
	Alert          string    `json:"alert,omitempty"`
	Paused         bool      `json:"paused" doc:"Submissions are stored, nothing is delivered"`
	Updated        time.Time `json:"updated,omitzero"`
}

func viewOf(s *registry.Service) serviceView {
	return serviceView{
		Name: s.Name, QueueURL: s.QueueURL, UrgentQueueURL: s.UrgentQueueURL, DLQURL: s.DLQURL, Rate: s.Rate,
		FIFO: s.FIFO, Senders: s.Senders, Owner: s.Owner, Alert: s.Alert, Paused: s.Paused, Updated: s.Updated,
	}
}

type servicesOutput struct {
	Body struct {
		Items      []serviceView `json:"items"`
		NextCursor string        `json:"next_cursor,omitempty" doc:"Where the list goes on; absent at its end"`
	}
}

type serviceInput struct {
	Name string `path:"name"`
}

type patchServiceInput struct {
	Name string `path:"name"`
	Body struct {
		Paused *bool    `json:"paused,omitempty" doc:"true holds deliveries back, false lets them go on, oldest first"`
		Rate   *float64 `json:"rate,omitempty" doc:"Deliveries per second over the whole fleet; 0: no limit"`
	}
}

type serviceOutput struct{ Body serviceView }

func (a *api) registerServices(h huma.API) {
	const all, one = "/v1/services", "/v1/services/{name}"
	huma.Register(h, operation(h, huma.Operation{
		OperationID: "list-services", Method: http.MethodGet, Path: all,
		Tags: []string{"services"}, Summary: "List the owning services",
	}), a.listServices)
	huma.Register(h, operation(h, huma.Operation{
		OperationID: "get-service", Method: http.MethodGet, Path: one,
		Tags: []string{"services"}, Summary: "Look an owning service up",
	}), a.getService)
	huma.Register(h, operation(h, huma.Operation{
		OperationID: "patch-service", Method: http.MethodPatch, Path: one,
		Tags: []string{"services"}, Summary: "Pause, resume or limit an owning service",
		Description: "Processes follow within 15 seconds.",
	}), a.patchService)
}

func (a *api) listServices(ctx context.Context, _ *struct{}) (*servicesOutput, error) {
	if err := may(ctx, access.Read, access.Platform, "service"); err != nil {
		return nil, err
	}
	list, err := a.o.Services.List(ctx)
	var partial *registry.PartialError
	switch {
	case errors.As(err, &partial):
		// What can be read is shown; the rest is told to the operators.
		a.log.WarnContext(ctx, "services that cannot be read", telemetry.KeyError, err)
	case err != nil:
		return nil, a.fail(ctx, "list services", err)
	}
	out := &servicesOutput{}
	out.Body.Items = make([]serviceView, 0, len(list))
	for i := range list {
		if !isSwitch(list[i].Name) {
			out.Body.Items = append(out.Body.Items, viewOf(&list[i]))
		}
	}
	return out, nil
}

func (a *api) getService(ctx context.Context, in *serviceInput) (*serviceOutput, error) {
	if err := may(ctx, access.Read, access.Platform, "service"); err != nil {
		return nil, err
	}
	if isSwitch(in.Name) {
		return nil, a.failService(ctx, "get service", registry.ErrUnknown)
	}
	s, err := a.o.Services.Get(ctx, in.Name)
	if err != nil {
		return nil, a.failService(ctx, "get service", err)
	}
	return &serviceOutput{Body: viewOf(&s)}, nil
}

func (a *api) patchService(ctx context.Context, in *patchServiceInput) (*serviceOutput, error) {
	if err := may(ctx, access.Admin, access.Platform, "service"); err != nil {
		return nil, err
	}
	b := &in.Body
	var err error
	switch {
	case b.Paused == nil && b.Rate == nil:
		err = fieldError("body", "nothing to change: give paused, rate or both")
	case b.Rate != nil:
		err = registry.ValidRate(*b.Rate) // before anything is written
	}
	if err != nil {
		return nil, problemOf(err)
	}
	if isSwitch(in.Name) {
		return nil, a.failService(ctx, "patch service", registry.ErrUnknown)
	}
	if b.Rate != nil {
		if err := a.o.Services.SetRate(ctx, in.Name, *b.Rate); err != nil {
			return nil, a.failService(ctx, "set rate", err)
		}
	}
	if b.Paused != nil {
		if err := a.o.Services.SetPaused(ctx, in.Name, *b.Paused); err != nil {
			return nil, a.failService(ctx, "pause service", err)
		}
	}
	a.changed(ctx, "service.patch", access.Platform, in.Name)
	return a.getService(ctx, &serviceInput{Name: in.Name})
}

// isSwitch reports the entry of the registry that is an operator's switch and no
// service: here it does not exist. The command line works it: myosin inbound pause.
func isSwitch(name string) bool { return name == platform.DrainSwitch }

// failService answers 404 where the unknown service is the resource itself.
func (a *api) failService(ctx context.Context, op string, err error) *problem {
	if errors.Is(err, registry.ErrUnknown) {
		return newProblem(http.StatusNotFound, client.CodeUnknownService, registry.ErrUnknown.Error())
	}
	return a.fail(ctx, op, err)
}
