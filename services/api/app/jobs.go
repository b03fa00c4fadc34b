package app

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

type createJobInput struct {
	IdempotencyKey string `header:"Idempotency-Key" doc:"Repeats with the same key and body, for 24 hours, answer what the first did. Quotes around it are ignored"`
	Body           body[jobsapi.CreateJob]
}

type createJobOutput struct {
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Replayed string `header:"Idempotency-Replayed" doc:"true: the kept answer of an earlier request"`
	Body     rendered[jobsapi.Job]
}

type listJobsInput struct {
	Tenant string `query:"tenant" maxLength:"64" doc:"The caller's own by default"`
	Status string `query:"status" enum:"active,paused,deleted" doc:"Active and paused ones by default"`
	Label  string `query:"label" maxLength:"200" pattern:"^([A-Za-z0-9._-]{1,64}(=.*)?)?$" doc:"name, or name=value"`
	PageInput
}

type jobsOutput struct{ Body jobsapi.Page[jobsapi.Job] }

type jobInput struct {
	ID string `path:"id"`
}

type jobOutput struct {
	ETag string `header:"ETag"`
	Body jobsapi.Job
}

func (m *managed) registerJobs(h huma.API) {
	const one = jobsapi.JobsPath + "/{id}"
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "create-job", Method: http.MethodPost, Path: jobsapi.JobsPath, DefaultStatus: http.StatusCreated,
		Tags: []string{"jobs"}, Summary: "Create a job",
		Description: "Answered after the transaction that stores the job and its first run.",
	}, http.StatusNotFound, http.StatusConflict), m.createJob)
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "list-jobs", Method: http.MethodGet, Path: jobsapi.JobsPath,
		Tags: []string{"jobs"}, Summary: "List a tenant's jobs, newest first",
	}, http.StatusNotFound), m.listJobs)
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "get-job", Method: http.MethodGet, Path: one,
		Tags: []string{"jobs"}, Summary: "Look a job up",
	}, http.StatusNotFound), m.getJob)
	m.registerJobChanges(h, one)
}

func etag(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }

// version reads If-Match; 0: any. What cannot be a version matches none.
func version(ifMatch string) (int64, error) {
	s := strings.TrimPrefix(strings.TrimSpace(ifMatch), "W/")
	if s == "" || s == "*" {
		return 0, nil
	}
	n, err := strconv.ParseInt(unquote(s), 10, 64)
	if err != nil || n < 1 {
		return 0, newProblem(http.StatusPreconditionFailed, codeVersion, "If-Match is none of the versions this API tells")
	}
	return n, nil
}

func (m *managed) createJob(ctx context.Context, in *createJobInput) (*createJobOutput, error) {
	c, err := in.Body.decode()
	if err != nil {
		return nil, err
	}
	tenant, err := tenantFor(ctx, access.Write, c.Tenant)
	if err != nil {
		return nil, err
	}
	c.Tenant = tenant
	idem, err := idempotency(in)
	if err != nil {
		return nil, err
	}
	if idem != nil {
		if out, err := m.kept(ctx, tenant, idem); out != nil || err != nil {
			return out, err
		}
	}
	spec, specErr := c.Spec()
	warnings, err := m.check(ctx, &spec, parts{target: true, notify: true}, specErr)
	if err != nil {
		return nil, err
	}
	answer := func(j job.Job) []byte {
		v := m.answerTo(ctx, &j, warnings)
		raw, err := json.Marshal(v)
		if err != nil { // nothing in it can fail to be encoded
			panic(err)
		}
		return raw
	}
	if idem != nil {
		idem.Answer = func(j job.Job) (int, []byte) { return http.StatusCreated, answer(j) }
	}
	j, err := m.m.Jobs.Create(ctx, actor(ctx, tenant), spec, idem)
	switch {
	case jobstore.Conflict(err, jobstore.PartIdempotency) && idem != nil:
		out, err := m.kept(ctx, tenant, idem)
		if out == nil && err == nil {
			p := newProblem(http.StatusConflict, codeInProgress, "a request with this Idempotency-Key is under way; try again")
			p.retryAfter = 1
			return nil, p
		}
		return out, err
	case err != nil:
		return nil, m.failed(ctx, "create job", "job", err)
	}
	m.changed(ctx, "job.create", tenant, j.ID.String())
	return created(j.ID.String(), j.Version, answer(j)), nil
}

func created(id string, version int64, raw []byte) *createJobOutput {
	return &createJobOutput{
		ETag: etag(version), Location: jobsapi.JobsPath + "/" + id, Body: rendered[jobsapi.Job]{raw},
	}
}

const maxIdempotencyKey = 255

func idempotency(in *createJobInput) (*jobcontrol.IdempotencyRequest, error) {
	key := unquote(in.IdempotencyKey)
	if key == "" {
		return nil, nil //nolint:nilnil // none was given.
	}
	if len(key) > maxIdempotencyKey || strings.ContainsFunc(key, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
		return nil, problemOf(fieldError("header.Idempotency-Key", "want 1 to %d printable ASCII characters", maxIdempotencyKey))
	}
	return &jobcontrol.IdempotencyRequest{Key: key, BodyHash: sha256.Sum256(in.Body.raw)}, nil
}

// kept returns the kept answer to a request with the key; nil: there is none.
func (m *managed) kept(ctx context.Context, tenant string, idem *jobcontrol.IdempotencyRequest) (*createJobOutput, error) {
	k, err := m.m.Reads.Idempotency(ctx, tenant, idem.Key)
	switch {
	case errors.Is(err, jobstore.ErrNotFound):
		return nil, nil //nolint:nilnil // so says the comment.
	case err != nil:
		return nil, m.failed(ctx, "read idempotency key", "key", err)
	case k.BodyHash != idem.BodyHash:
		p := newProblem(http.StatusUnprocessableEntity, codeKeyReused, "this Idempotency-Key was used with another body")
		return nil, p
	}
	var j struct {
		ID      string `json:"id"`
		Version int64  `json:"version"`
	}
	if err := json.Unmarshal(k.Answer, &j); err != nil {
		return nil, m.failed(ctx, "read kept answer", "key", err)
	}
	out := created(j.ID, j.Version, k.Answer)
	out.Replayed = "true"
	return out, nil
}

// answerTo returns a job as an answer to its creation or change: with the next
// fire times and warnings, without the payload.
func (m *managed) answerTo(ctx context.Context, j *job.Job, warnings []jobsapi.Warning) jobsapi.Job {
	v := view(ctx, j)
	v.PayloadBytes = len(j.Payload)
	v.Warnings = warnings
	if v.NextRunAt != nil {
		v.FireTimes = fireTimes(&j.Schedule, v.NextRunAt.Add(-1), 5)
	}
	return v
}

const hidden = "[hidden]"

// view returns a job as the caller may see it: who may not see payloads sees no
// values of headers and no webhook either, as they hold credentials.
func view(ctx context.Context, j *job.Job) jobsapi.Job {
	v := jobsapi.JobOf(j)
	if access.FromContext(ctx).MaySeePayloads() {
		return v
	}
	if v.Target.Headers != nil {
		headers := make(map[string]string, len(v.Target.Headers))
		for name := range v.Target.Headers {
			headers[name] = hidden
		}
		v.Target.Headers = headers
	}
	if v.Notify != nil && v.Notify.Webhook != "" {
		v.Notify.Webhook = hidden
	}
	return v
}

func (m *managed) listJobs(ctx context.Context, in *listJobsInput) (*jobsOutput, error) {
	tenant, err := tenantFor(ctx, access.Read, in.Tenant)
	if err != nil {
		return nil, err
	}
	page, err := m.m.Reads.Jobs(ctx, jobstore.JobQuery{
		Tenant: tenant, Status: job.JobStatus(in.Status), Label: in.Label, Cursor: in.Cursor, Limit: in.Limit,
	})
	if err != nil {
		return nil, m.failed(ctx, "list jobs", "job", err)
	}
	out := &jobsOutput{Body: jobsapi.Page[jobsapi.Job]{Items: make([]jobsapi.Job, 0, len(page.Items)), NextCursor: page.Next}}
	for i := range page.Items {
		out.Body.Items = append(out.Body.Items, view(ctx, &page.Items[i]))
	}
	return out, nil
}

// job returns a job that the caller may use.
func (m *managed) job(ctx context.Context, need access.Role, id string) (job.Job, error) {
	parsed, err := trigger.ParseID(id)
	if err != nil {
		return job.Job{}, notFound("job")
	}
	j, err := m.m.Reads.Job(ctx, parsed)
	if err != nil {
		return job.Job{}, m.failed(ctx, "get job", "job", err)
	}
	return j, may(ctx, need, j.Tenant, "job")
}

func (m *managed) getJob(ctx context.Context, in *jobInput) (*jobOutput, error) {
	j, err := m.job(ctx, access.Read, in.ID)
	if err != nil {
		return nil, err
	}
	v := view(ctx, &j)
	v.PayloadBytes = len(j.Payload)
	if access.FromContext(ctx).MaySeePayloads() {
		v.Payload, v.PayloadBase64 = jobsapi.SplitPayload(j.Payload)
	}
	last, err := m.m.Reads.Runs(ctx, jobstore.RunQuery{Job: j.ID, Limit: 10})
	if err != nil {
		return nil, m.failed(ctx, "get job", "job", err)
	}
	now := m.o.Now()
	begun := func(r job.Run) bool { // what an edit ended before its time never was
		return r.Kind != job.Notice && (r.Attempt > 0 || r.State.Terminal() && !r.Nominal.After(now))
	}
	if i := slices.IndexFunc(last.Items, begun); i >= 0 {
		r := last.Items[i]
		v.LastRun = &jobsapi.RunBrief{ID: string(r.ID), Status: string(r.State), ScheduledAt: r.Nominal.UTC()}
	}
	return &jobOutput{ETag: etag(j.Version), Body: v}, nil
}
