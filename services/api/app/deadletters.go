package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

type listDeadInput struct {
	Tenant string    `query:"tenant" maxLength:"64" doc:"The caller's own by default"`
	Job    string    `query:"job" maxLength:"64" doc:"Of one job"`
	From   time.Time `query:"from" doc:"Died then or later"`
	Until  time.Time `query:"until" doc:"Died before"`
	PageInput
}

type deadOutput struct {
	Body jobsapi.Page[jobsapi.DeadLetter]
}

type redriveInput struct{ Body body[jobsapi.Redrive] }

type redriveOutput struct{ Body jobsapi.RedriveAnswer }

func (m *managed) registerDeadLetters(h huma.API) {
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "list-dead-letters", Method: http.MethodGet, Path: jobsapi.DeadLettersPath,
		Tags: []string{"dead letters"}, Summary: "List dead runs, newest death first",
		Description: "Those that were redriven are not among them any more.",
	}, http.StatusNotFound), m.listDead)
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "redrive", Method: http.MethodPost, Path: jobsapi.RedrivePath,
		Tags: []string{"dead letters"}, Summary: "Repeat dead runs: one, many, or those of a filter",
		Description: "Up to limit runs in one request. While the answer has next_cursor there are more: send the same body with it as cursor. " +
			"Redriving what was redriven answers the same run again.",
	}, http.StatusNotFound), m.redrive)
}

// deadQuery returns the query for a tenant's dead letters.
func (m *managed) deadQuery(ctx context.Context, tenant, jobID string, from, until time.Time) (jobstore.DeadQuery, error) {
	q := jobstore.DeadQuery{Tenant: tenant, From: from, Until: until}
	if jobID == "" {
		return q, nil
	}
	j, err := m.job(ctx, access.Read, jobID)
	if err != nil {
		return q, err
	}
	if j.Tenant != tenant {
		return q, notFound("job")
	}
	q.Job = j.ID
	return q, nil
}

func (m *managed) listDead(ctx context.Context, in *listDeadInput) (*deadOutput, error) {
	tenant, err := tenantFor(ctx, access.Read, in.Tenant)
	if err != nil {
		return nil, err
	}
	q, err := m.deadQuery(ctx, tenant, in.Job, in.From, in.Until)
	if err != nil {
		return nil, err
	}
	q.Cursor, q.Limit = in.Cursor, in.Limit
	page, err := m.m.Reads.Dead(ctx, q)
	if err != nil {
		return nil, m.failed(ctx, "list dead letters", "run", err)
	}
	out := &deadOutput{Body: jobsapi.Page[jobsapi.DeadLetter]{
		Items: make([]jobsapi.DeadLetter, 0, len(page.Items)), NextCursor: page.Next,
	}}
	payloads := access.FromContext(ctx).MaySeePayloads()
	for i := range page.Items {
		out.Body.Items = append(out.Body.Items, jobsapi.DeadLetterOf(&page.Items[i], m.o.Now(), payloads))
	}
	return out, nil
}

const maxRedrive = 100

func (m *managed) redrive(ctx context.Context, in *redriveInput) (*redriveOutput, error) {
	b, err := in.Body.decode()
	if err != nil {
		return nil, err
	}
	if err := checkRedrive(b); err != nil {
		return nil, problemOf(err)
	}
	out := &redriveOutput{Body: jobsapi.RedriveAnswer{Redriven: []jobsapi.Redriven{}, Failed: []jobsapi.Failed{}}}
	if len(b.Runs) > 0 {
		for _, id := range b.Runs {
			m.redriveOne(ctx, id, &out.Body)
		}
		return out, nil
	}
	tenant, err := tenantFor(ctx, access.Write, b.Tenant)
	if err != nil {
		return nil, err
	}
	q, err := m.deadQuery(ctx, tenant, b.Job, b.From, b.Until)
	if err != nil {
		return nil, err
	}
	q.Cursor, q.Limit = b.Cursor, b.Limit
	if q.Limit == 0 {
		q.Limit = maxRedrive
	}
	page, err := m.m.Reads.Dead(ctx, q)
	if err != nil {
		return nil, m.failed(ctx, "redrive", "run", err)
	}
	for i := range page.Items {
		m.redriveOne(ctx, string(page.Items[i].ID), &out.Body)
	}
	out.Body.NextCursor = page.Next
	return out, nil
}

// checkRedrive refuses a body that names runs and a filter, or neither: nobody
// repeats everything by leaving a field out.
func checkRedrive(b *jobsapi.Redrive) error {
	narrowed := b.Job != "" || !b.From.IsZero() || !b.Until.IsZero()
	switch {
	case len(b.Runs) > 0 && (narrowed || b.All || b.Cursor != "" || b.Limit != 0 || b.Tenant != ""):
		return fieldError("runs", "given beside a filter; give one of the two")
	case len(b.Runs) > 0, narrowed, b.All:
		return nil
	}
	return fieldError("runs", "missing: give runs, a filter (job, from, until), or all")
}

func (m *managed) redriveOne(ctx context.Context, id string, out *jobsapi.RedriveAnswer) {
	r, err := m.run(ctx, access.Write, id)
	if err == nil {
		dead := r
		if r, err = m.m.Runs.Redrive(ctx, actor(ctx, dead.Tenant), dead.ID); err == nil {
			m.changed(ctx, "run.redrive", dead.Tenant, id)
			out.Redriven = append(out.Redriven, jobsapi.Redriven{Run: id, As: string(r.ID)})
			return
		}
		err = m.failed(ctx, "redrive", "run", err)
	}
	f := jobsapi.Failed{Run: id, Message: err.Error()}
	if p, ok := errors.AsType[*problem](err); ok {
		f.Code = p.Code
	}
	out.Failed = append(out.Failed, f)
}
