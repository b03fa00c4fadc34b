package app

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
)

type patchJobInput struct {
	ID      string `path:"id"`
	IfMatch string `header:"If-Match" doc:"The ETag that was read; without it the last writer wins"`
	Body    body[jobsapi.PatchJob]
}

type deleteJobInput struct {
	ID      string `path:"id"`
	IfMatch string `header:"If-Match" doc:"The ETag that was read"`
}

type runOutput struct{ Body jobsapi.Run }

func (m *managed) registerJobChanges(h huma.API, one string) {
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "patch-job", Method: http.MethodPatch, Path: one,
		Tags: []string{"jobs"}, Summary: "Change, pause or resume a job",
		Description: "What is given replaces what was. A run that has begun goes on; its further attempts use the new target.",
	}, http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed), m.patchJob)
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "delete-job", Method: http.MethodDelete, Path: one,
		Tags: []string{"jobs"}, Summary: "Delete a job",
		Description: "Nothing of it starts any more: the run that waits and those in RETRY become CANCELLED. It can still be looked up.",
	}, http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed), m.deleteJob)
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "run-job", Method: http.MethodPost, Path: one + "/run", DefaultStatus: http.StatusAccepted,
		Tags: []string{"jobs"}, Summary: "Run a job now, beside its schedule",
	}, http.StatusNotFound, http.StatusConflict), m.runJob)
}

func (m *managed) patchJob(ctx context.Context, in *patchJobInput) (*jobOutput, error) {
	p, err := in.Body.decode()
	if err != nil {
		return nil, err
	}
	if p.Empty() {
		return nil, problemOf(fieldError("body", "nothing to change"))
	}
	before, err := m.job(ctx, access.Write, in.ID)
	if err != nil {
		return nil, err
	}
	ifVersion, err := version(in.IfMatch)
	if err != nil {
		return nil, err
	}
	var warnings []jobsapi.Warning
	j, err := m.m.Jobs.Edit(ctx, actor(ctx, before.Tenant), before.ID, ifVersion, func(j *job.Job) error {
		err := p.Apply(j)
		warnings, err = m.check(ctx, &j.Spec, parts{target: p.Target != nil, notify: p.Notify != nil}, err)
		return err
	})
	if err != nil {
		return nil, m.failed(ctx, "change job", "job", err)
	}
	if j.Version != before.Version {
		m.changed(ctx, "job.edit", j.Tenant, j.ID.String())
	}
	return &jobOutput{ETag: etag(j.Version), Body: m.answerTo(ctx, &j, warnings)}, nil
}

func (m *managed) deleteJob(ctx context.Context, in *deleteJobInput) (*jobOutput, error) {
	before, err := m.job(ctx, access.Write, in.ID)
	if err != nil {
		return nil, err
	}
	ifVersion, err := version(in.IfMatch)
	if err != nil {
		return nil, err
	}
	j, err := m.m.Jobs.Delete(ctx, actor(ctx, before.Tenant), before.ID, ifVersion)
	if err != nil {
		return nil, m.failed(ctx, "delete job", "job", err)
	}
	m.changed(ctx, "job.delete", j.Tenant, j.ID.String())
	return &jobOutput{ETag: etag(j.Version), Body: m.answerTo(ctx, &j, nil)}, nil
}

func (m *managed) runJob(ctx context.Context, in *jobInput) (*runOutput, error) {
	j, err := m.job(ctx, access.Write, in.ID)
	if err != nil {
		return nil, err
	}
	r, err := m.m.Jobs.RunNow(ctx, actor(ctx, j.Tenant), j.ID)
	if err != nil {
		return nil, m.failed(ctx, "run job", "job", err)
	}
	m.changed(ctx, "job.run", j.Tenant, string(r.ID))
	return &runOutput{Body: m.runView(ctx, &r)}, nil
}
