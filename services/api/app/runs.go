package app

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/target"
)

type listRunsInput struct {
	ID     string `path:"id"`
	Status string `query:"status" enum:"SCHEDULED,QUEUED,RUNNING,RETRY,SUCCEEDED,DEAD,CANCELLED,SKIPPED"`
	PageInput
}

type runsOutput struct{ Body jobsapi.Page[jobsapi.Run] }

type runInput struct {
	ID string `path:"id"`
}

type heartbeatInput struct {
	ID   string `path:"id"`
	Body body[jobsapi.Heartbeat]
}

type heartbeatOutput struct{ Body jobsapi.HeartbeatAnswer }

type completeInput struct {
	ID   string `path:"id"`
	Body body[jobsapi.Complete]
}

func (m *managed) registerRuns(h huma.API) {
	const one = jobsapi.RunsPath + "/{id}"
	const callback = " For the target: Authorization: Bearer, or Myosin-Callback-Token, with the token that came with the call."
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "list-runs", Method: http.MethodGet, Path: jobsapi.JobsPath + "/{id}/runs",
		Tags: []string{"runs"}, Summary: "List a job's runs, newest first",
		Description: "The run that waits comes first.",
	}, http.StatusNotFound), m.listRuns)
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "get-run", Method: http.MethodGet, Path: one,
		Tags: []string{"runs"}, Summary: "Look a run up, with its attempts",
	}, http.StatusNotFound), m.getRun)
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "heartbeat", Method: http.MethodPost, Path: one + "/heartbeat",
		Tags: []string{"runs"}, Summary: "Keep an accepted run alive",
		Description: "Extends the lease of a run that was answered 202. 409: the attempt is not the present one." + callback,
	}, http.StatusNotFound, http.StatusConflict), m.heartbeat)
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "complete", Method: http.MethodPost, Path: one + "/complete",
		Tags: []string{"runs"}, Summary: "End an accepted run",
		Description: "Ends a run that was answered 202; a failure is tried again as the job says. 409: the attempt is not the present one." + callback,
	}, http.StatusNotFound, http.StatusConflict), m.complete)
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "cancel-run", Method: http.MethodPost, Path: one + "/cancel",
		Tags: []string{"runs"}, Summary: "Cancel a run",
		Description: "Ends a run that waits; asks a running one to stop at its next heartbeat, and does not try it again.",
	}, http.StatusNotFound, http.StatusConflict), m.cancelRun)
}

func (m *managed) runView(ctx context.Context, r *job.Run) jobsapi.Run {
	return jobsapi.RunOf(r, m.o.Now(), access.FromContext(ctx).MaySeePayloads())
}

// afterPending is the cursor of what follows the run that waits, which is not
// in the store's list before it begins.
const afterPending = "-"

func (m *managed) listRuns(ctx context.Context, in *listRunsInput) (*runsOutput, error) {
	j, err := m.job(ctx, access.Read, in.ID)
	if err != nil {
		return nil, err
	}
	out := &runsOutput{Body: jobsapi.Page[jobsapi.Run]{Items: []jobsapi.Run{}}}
	add := func(r *job.Run) {
		v := m.runView(ctx, r)
		v.TZ = j.Schedule.Zone
		if in.Status == "" || in.Status == v.Status {
			out.Body.Items = append(out.Body.Items, v)
		}
	}
	q := jobstore.RunQuery{Job: j.ID, State: job.State(in.Status), Cursor: in.Cursor, Limit: in.Limit}
	if in.Status == jobsapi.Queued {
		q.State = job.Scheduled
	}
	switch {
	case in.Cursor == afterPending:
		q.Cursor = ""
	case in.Cursor == "" && j.Status == job.JobIsActive && !j.Pending.IsZero() && (q.State == "" || q.State == job.Scheduled):
		r, err := m.m.Runs.Run(ctx, job.NewRunID(j.ID, j.Generation, j.Pending))
		if err != nil && !errors.Is(err, jobstore.ErrNotFound) {
			return nil, m.failed(ctx, "list runs", "job", err)
		}
		if err == nil && r.Version == 0 {
			add(&r)
			q.Limit -= len(out.Body.Items)
		}
		if q.Limit == 0 {
			out.Body.NextCursor = afterPending
			return out, nil
		}
	}
	page, err := m.m.Reads.Runs(ctx, q)
	if err != nil {
		return nil, m.failed(ctx, "list runs", "job", err)
	}
	for i := range page.Items {
		add(&page.Items[i])
	}
	out.Body.NextCursor = page.Next
	return out, nil
}

// run returns a run that the caller may use.
func (m *managed) run(ctx context.Context, need access.Role, id string) (job.Run, error) {
	parsed, _, err := job.ParseRunID(id)
	if err != nil {
		return job.Run{}, notFound("run")
	}
	r, err := m.m.Runs.Run(ctx, parsed)
	if err != nil {
		return job.Run{}, m.failed(ctx, "get run", "run", err)
	}
	return r, may(ctx, need, r.Tenant, "run")
}

func (m *managed) getRun(ctx context.Context, in *runInput) (*runOutput, error) {
	r, err := m.run(ctx, access.Read, in.ID)
	if err != nil {
		return nil, err
	}
	v := m.runView(ctx, &r)
	j, err := m.m.Reads.Job(ctx, r.Job)
	if err != nil && !errors.Is(err, jobstore.ErrNotFound) {
		return nil, m.failed(ctx, "get run", "run", err)
	}
	v.TZ = j.Schedule.Zone
	return &runOutput{Body: v}, nil
}

// called returns the id of a run whose target calls back, or of one that the
// caller may change.
func (m *managed) called(ctx context.Context, id string) (job.RunID, error) {
	token, ok := ctx.Value(tokenKey{}).(string)
	if !ok {
		r, err := m.run(ctx, access.Write, id)
		return r.ID, err
	}
	bad := newProblem(http.StatusUnauthorized, codeUnauthenticated, "the callback token is not valid for this run, or has expired")
	parsed, _, err := job.ParseRunID(id)
	if err != nil || m.m.Callbacks == nil || m.m.Callbacks.Verify(target.ReadToken(token), id, m.o.Now()) != nil {
		return "", bad
	}
	return parsed, nil
}

func (m *managed) heartbeat(ctx context.Context, in *heartbeatInput) (*heartbeatOutput, error) {
	id, err := m.called(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	b, err := in.Body.decode()
	if err != nil {
		return nil, err
	}
	r, err := m.m.Runs.Heartbeat(ctx, id, b.Attempt)
	if err != nil {
		return nil, m.failed(ctx, "heartbeat", "run", err)
	}
	return &heartbeatOutput{Body: jobsapi.HeartbeatAnswer{LeaseUntil: r.LeaseUntil.UTC(), CancelRequested: r.CancelRequested}}, nil
}

func (m *managed) complete(ctx context.Context, in *completeInput) (*runOutput, error) {
	id, err := m.called(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	b, err := in.Body.decode()
	if err != nil {
		return nil, err
	}
	r, err := m.m.Runs.Complete(ctx, id, b.Attempt, b.Outcome == "success", b.Message)
	if err != nil {
		return nil, m.failed(ctx, "complete run", "run", err)
	}
	m.changed(ctx, "run.complete", r.Tenant, string(r.ID))
	return &runOutput{Body: m.runView(ctx, &r)}, nil
}

func (m *managed) cancelRun(ctx context.Context, in *runInput) (*runOutput, error) {
	r, err := m.run(ctx, access.Write, in.ID)
	if err != nil {
		return nil, err
	}
	if r.State.Terminal() && r.State != job.Cancelled {
		p := newProblem(http.StatusConflict, client.CodeConflict, "the run has ended: it is "+string(r.State))
		p.State = string(r.State)
		return nil, p
	}
	r, err = m.m.Runs.CancelRun(ctx, actor(ctx, r.Tenant), r.ID)
	if err != nil {
		return nil, m.failed(ctx, "cancel run", "run", err)
	}
	m.changed(ctx, "run.cancel", r.Tenant, string(r.ID))
	return &runOutput{Body: m.runView(ctx, &r)}, nil
}
