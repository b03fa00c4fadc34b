package jobsapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// List says which page of a list is wanted. Empty fields narrow nothing.
type List struct {
	Tenant string // "": the caller's own
	Status string // of jobs or runs
	Label  string // of jobs: name or name=value
	Job    string // of dead letters
	From   time.Time
	Until  time.Time
	Cursor string // NextCursor of the page before
	Limit  int    // 1 to 100; 0: the API's default
}

func (l *List) query() url.Values {
	q := url.Values{}
	for name, v := range map[string]string{"tenant": l.Tenant, "status": l.Status, "label": l.Label, "job": l.Job, "cursor": l.Cursor} {
		if v != "" {
			q.Set(name, v)
		}
	}
	for name, t := range map[string]time.Time{"from": l.From, "until": l.Until} {
		if !t.IsZero() {
			q.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	if l.Limit != 0 {
		q.Set("limit", strconv.Itoa(l.Limit))
	}
	return q
}

func one(collection, id string, more ...string) string {
	return strings.Join(append([]string{collection, url.PathEscape(id)}, more...), "/")
}

func get[T any](ctx context.Context, c *Client, what, path string, query url.Values) (T, error) {
	return send[T](ctx, c, what, request{method: http.MethodGet, path: path, query: query, repeat: true})
}

func send[T any](ctx context.Context, c *Client, what string, r request) (T, error) {
	var out T
	if err := c.call(ctx, r, &out); err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", what, err)
	}
	return out, nil
}

func ifMatch(version int64) http.Header {
	if version == 0 {
		return nil
	}
	return http.Header{"If-Match": {strconv.Quote(strconv.FormatInt(version, 10))}}
}

// CreateJob creates a job. Repeats with the same key and body create one; with an
// empty key one is made, so that the client's own repeats do not create two.
func (c *Client) CreateJob(ctx context.Context, body *CreateJob, key string) (Job, error) {
	if key == "" {
		key = NewIdempotencyKey()
	}
	return send[Job](ctx, c, "create job", request{
		method: http.MethodPost, path: JobsPath, header: http.Header{"Idempotency-Key": {key}}, body: body, repeat: true,
	})
}

// Jobs lists a tenant's jobs, newest first.
func (c *Client) Jobs(ctx context.Context, l List) (Page[Job], error) {
	return get[Page[Job]](ctx, c, "list jobs", JobsPath, l.query())
}

// Job looks a job up.
func (c *Client) Job(ctx context.Context, id string) (Job, error) {
	return get[Job](ctx, c, "get job", one(JobsPath, id), nil)
}

// PatchJob changes a job, if its version is still ifVersion; 0: whatever it is.
// Without a version the call is repeated where no answer came.
func (c *Client) PatchJob(ctx context.Context, id string, ifVersion int64, body *PatchJob) (Job, error) {
	return send[Job](ctx, c, "change job", request{
		method: http.MethodPatch, path: one(JobsPath, id), header: ifMatch(ifVersion), body: body, repeat: ifVersion == 0,
	})
}

// DeleteJob deletes a job, if its version is still ifVersion; 0: whatever it is.
func (c *Client) DeleteJob(ctx context.Context, id string, ifVersion int64) (Job, error) {
	return send[Job](ctx, c, "delete job", request{
		method: http.MethodDelete, path: one(JobsPath, id), header: ifMatch(ifVersion), repeat: ifVersion == 0,
	})
}

// RunJob runs a job now, beside its schedule. It is not repeated: each call is a run.
func (c *Client) RunJob(ctx context.Context, id string) (Run, error) {
	return send[Run](ctx, c, "run job", request{method: http.MethodPost, path: one(JobsPath, id, "run")})
}

// Runs lists a job's runs, newest first.
func (c *Client) Runs(ctx context.Context, jobID string, l List) (Page[Run], error) {
	return get[Page[Run]](ctx, c, "list runs", one(JobsPath, jobID, "runs"), l.query())
}

// Run looks a run up.
func (c *Client) Run(ctx context.Context, id string) (Run, error) {
	return get[Run](ctx, c, "get run", one(RunsPath, id), nil)
}

// CancelRun ends a run that waits, or asks a running one to stop.
func (c *Client) CancelRun(ctx context.Context, id string) (Run, error) {
	return send[Run](ctx, c, "cancel run", request{method: http.MethodPost, path: one(RunsPath, id, "cancel"), repeat: true})
}

// Heartbeat extends the lease of a run that its target accepted with 202.
func (c *Client) Heartbeat(ctx context.Context, run string, attempt int) (HeartbeatAnswer, error) {
	return send[HeartbeatAnswer](ctx, c, "heartbeat", request{
		method: http.MethodPost, path: one(RunsPath, run, "heartbeat"), body: Heartbeat{Attempt: attempt}, repeat: true,
	})
}

// Complete ends a run that its target accepted with 202. It is not repeated: a
// repeat of what was done answers 409.
func (c *Client) Complete(ctx context.Context, run string, body Complete) (Run, error) {
	return send[Run](ctx, c, "complete run", request{method: http.MethodPost, path: one(RunsPath, run, "complete"), body: body})
}

// DeadLetters lists dead runs, newest death first.
func (c *Client) DeadLetters(ctx context.Context, l List) (Page[DeadLetter], error) {
	return get[Page[DeadLetter]](ctx, c, "list dead letters", DeadLettersPath, l.query())
}

// Redrive repeats dead runs. While the answer has a NextCursor there are more:
// call again with the same body and that cursor.
func (c *Client) Redrive(ctx context.Context, body *Redrive) (RedriveAnswer, error) {
	return send[RedriveAnswer](ctx, c, "redrive", request{method: http.MethodPost, path: RedrivePath, body: body, repeat: true})
}

// Preview returns a schedule's fire times; it creates nothing.
func (c *Client) Preview(ctx context.Context, body *Preview) (PreviewAnswer, error) {
	return send[PreviewAnswer](ctx, c, "preview", request{method: http.MethodPost, path: PreviewPath, body: body, repeat: true})
}

// Tenant looks a tenant's record up.
func (c *Client) Tenant(ctx context.Context, id string) (Tenant, error) {
	return get[Tenant](ctx, c, "get tenant", one(TenantsPath, id), nil)
}

// PutTenant creates or replaces a tenant's record, if its version is still
// ifVersion; 0: whatever it is.
func (c *Client) PutTenant(ctx context.Context, id string, ifVersion int64, body *PutTenant) (Tenant, error) {
	return send[Tenant](ctx, c, "put tenant", request{
		method: http.MethodPut, path: one(TenantsPath, id), header: ifMatch(ifVersion), body: body, repeat: ifVersion == 0,
	})
}

// CreateKey makes an API key. It is not repeated: each call makes one.
func (c *Client) CreateKey(ctx context.Context, body *CreateKey) (NewKey, error) {
	return send[NewKey](ctx, c, "create key", request{method: http.MethodPost, path: KeysPath, body: body})
}

// Keys lists a tenant's API keys; "": the caller's.
func (c *Client) Keys(ctx context.Context, tenant string) (Page[Key], error) {
	return get[Page[Key]](ctx, c, "list keys", KeysPath, (&List{Tenant: tenant}).query())
}

// RevokeKey ends an API key.
func (c *Client) RevokeKey(ctx context.Context, id string) (Key, error) {
	return send[Key](ctx, c, "revoke key", request{method: http.MethodDelete, path: one(KeysPath, id), repeat: true})
}

// CreateSecret makes a signing secret. It is not repeated: each call makes one.
func (c *Client) CreateSecret(ctx context.Context, body *CreateSecret) (NewSecret, error) {
	return send[NewSecret](ctx, c, "create secret", request{method: http.MethodPost, path: SecretsPath, body: body})
}

// Secrets lists a tenant's signing secrets; "": the caller's.
func (c *Client) Secrets(ctx context.Context, tenant string) (Page[Secret], error) {
	return get[Page[Secret]](ctx, c, "list secrets", SecretsPath, (&List{Tenant: tenant}).query())
}

// DeleteSecret removes a signing secret.
func (c *Client) DeleteSecret(ctx context.Context, tenant, id string) error {
	r := request{method: http.MethodDelete, path: one(SecretsPath, id), query: (&List{Tenant: tenant}).query(), repeat: true}
	if err := c.call(ctx, r, nil); err != nil {
		return fmt.Errorf("delete secret: %w", err)
	}
	return nil
}

// Audit lists the changes made to a tenant's things, newest first.
func (c *Client) Audit(ctx context.Context, l List) (Page[AuditRecord], error) {
	return get[Page[AuditRecord]](ctx, c, "list audit records", AuditPath, l.query())
}

// Forecast returns what is due by minute from a time on (zero: now); no services:
// all of them.
func (c *Client) Forecast(ctx context.Context, from time.Time, minutes int, services ...string) (Forecast, error) {
	q := (&List{From: from}).query()
	if minutes != 0 {
		q.Set("minutes", strconv.Itoa(minutes))
	}
	for _, s := range services {
		q.Add("service", s)
	}
	return get[Forecast](ctx, c, "forecast", ForecastPath, q)
}
