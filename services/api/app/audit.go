package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/forecast"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
)

type auditInput struct {
	Tenant string `query:"tenant" maxLength:"64" doc:"The caller's own by default; * is what belongs to no tenant"`
	PageInput
}

type auditOutput struct {
	Body jobsapi.Page[jobsapi.AuditRecord]
}

func (m *managed) registerAudit(h huma.API) {
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "list-audit", Method: http.MethodGet, Path: jobsapi.AuditPath,
		Tags: []string{"audit"}, Summary: "List the changes made to a tenant's things, newest first",
	}, http.StatusNotFound), m.listAudit)
}

func (m *managed) listAudit(ctx context.Context, in *auditInput) (*auditOutput, error) {
	tenant, err := keyTenant(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	page, err := m.m.Audits.Audit(ctx, tenant, in.Cursor, in.Limit)
	if err != nil {
		return nil, m.failed(ctx, "list audit records", "record", err)
	}
	out := &auditOutput{Body: jobsapi.Page[jobsapi.AuditRecord]{
		Items: make([]jobsapi.AuditRecord, 0, len(page.Items)), NextCursor: page.Next,
	}}
	for i := range page.Items {
		out.Body.Items = append(out.Body.Items, jobsapi.AuditOf(&page.Items[i]))
	}
	return out, nil
}

type forecastInput struct {
	Service []string  `query:"service,explode" doc:"All services by default"`
	From    time.Time `query:"from" doc:"Now by default"`
	Minutes int       `query:"minutes" minimum:"1" maximum:"1440" default:"60"`
}

type forecastOutput struct{ Body jobsapi.Forecast }

func (m *managed) registerForecast(h huma.API) {
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "get-forecast", Method: http.MethodGet, Path: jobsapi.ForecastPath,
		Tags: []string{"forecast"}, Summary: "Tell what is due per minute of each owning service",
		Description: "Counted as it is stored. Runs of jobs are of the services runs and runs-urgent. For the platform's operators.",
	}), m.getForecast)
}

func (m *managed) getForecast(ctx context.Context, in *forecastInput) (*forecastOutput, error) {
	if err := may(ctx, access.Read, access.Platform, "forecast"); err != nil {
		return nil, err
	}
	services, from := in.Service, in.From
	if from.IsZero() {
		from = m.o.Now()
	}
	if from.Year() < 2000 || from.Year() > 2200 {
		return nil, problemOf(fieldError("query.from", "want a time of the years 2000 to 2200"))
	}
	if len(services) == 0 {
		list, err := m.o.Services.List(ctx)
		if err != nil && list == nil {
			return nil, m.failed(ctx, "list services", "service", err)
		}
		for i := range list {
			if !isSwitch(list[i].Name) {
				services = append(services, list[i].Name)
			}
		}
	}
	out := &forecastOutput{Body: jobsapi.Forecast{Items: []jobsapi.ForecastSeries{}}}
	if len(services) == 0 {
		return out, nil
	}
	points, err := m.m.Forecasts.Forecast(ctx, services, from, in.Minutes)
	switch {
	case errors.Is(err, forecast.ErrRange):
		return nil, problemOf(fieldError("query.service", "is no name of a service, or too many are given"))
	case err != nil:
		return nil, m.failed(ctx, "forecast", "forecast", err)
	}
	for _, s := range services {
		series := jobsapi.ForecastSeries{Service: s, Points: make([]jobsapi.ForecastPoint, 0, len(points[s]))}
		for _, p := range points[s] {
			series.Points = append(series.Points, jobsapi.ForecastPoint{Minute: p.Minute.UTC(), Jobs: p.Due})
		}
		out.Body.Items = append(out.Body.Items, series)
	}
	return out, nil
}
