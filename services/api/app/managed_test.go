package app_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/forecast"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/jobstore/dynamojobs"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store/dynamostore"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/services/api/app"
)

// watch is a clock that tests set.
type watch struct {
	mu sync.Mutex
	t  time.Time
}

func (c *watch) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *watch) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// noon is when these tests begin: a Monday.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// office is the API with the managed layer, over real tables of an emulator.
type office struct {
	rig
	clock      *watch
	partitions app.Partitions
	jobs       jobstore.Store
	control    *jobcontrol.Control
	signer     *target.Signer
}

type due map[string][]forecast.Point

func (d due) Forecast(_ context.Context, services []string, _ time.Time, minutes int) (map[string][]forecast.Point, error) {
	if minutes > 1440 || len(services) > 1000 {
		return nil, forecast.ErrRange
	}
	return d, nil
}

// newOffice serves the API; without keys it is the local one.
func newOffice(t *testing.T, keys bool) *office {
	t.Helper()
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	db := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &srv.URL, Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
	})
	prefix := "api" + trigger.NewID().String()
	require.NoError(t, dynamojobs.EnsureTables(t.Context(), db, prefix+"-jobs", prefix+"-runs"))
	require.NoError(t, dynamostore.CreateTable(t.Context(), db, prefix+"-triggers"))
	triggers, err := dynamostore.New(dynamostore.Options{API: db, Table: prefix + "-triggers"})
	require.NoError(t, err)
	require.NoError(t, triggers.SetEpochs(t.Context(), nil, trigger.Epochs{{N: 2}}))

	o := &office{rig: rig{t: t, log: &strings.Builder{}}, clock: &watch{t: noon}, partitions: triggers}
	o.jobs, err = dynamojobs.New(dynamojobs.Options{Client: db, Jobs: prefix + "-jobs", Runs: prefix + "-runs", Triggers: triggers, Now: o.clock.now})
	require.NoError(t, err)
	queues := memqueue.New(memqueue.Options{})
	inbound, err := queues.Create(t.Context(), queue.Spec{Name: "myosin-inbound"})
	require.NoError(t, err)
	o.services = registry.NewStatic(
		registry.Service{Name: "hello", QueueURL: "http://sqs/0/hello"}, registry.Service{Name: "payments", QueueURL: "http://sqs/0/payments"},
		registry.Service{Name: "runs", QueueURL: "http://sqs/0/runs"}, registry.Service{Name: "runs-urgent", QueueURL: "http://sqs/0/runs-urgent"},
	)
	core, err := client.New(client.Options{
		Sender: queues, InboundURL: inbound, Services: lookup{o.services}, Partitions: triggers, Now: o.clock.now,
	})
	require.NoError(t, err)
	o.control, err = jobcontrol.New(jobcontrol.Options{Store: o.jobs, Triggers: core, Now: o.clock.now})
	require.NoError(t, err)
	o.signer, err = target.NewSigner(target.NewSecret())
	require.NoError(t, err)
	options := app.HandlerOptions{
		Jobs: core, Services: o.services, Partitions: triggers, Now: o.clock.now, Log: slog.New(slog.NewTextHandler(o.log, nil)),
		Managed: &app.Managed{
			Jobs: o.control, Runs: o.control, Reads: o.jobs, Records: o.jobs, Audits: o.jobs,
			Guard: target.NewGuard(target.GuardOptions{AllowLoopback: !keys}), Callbacks: o.signer,
			Seal: func(_ context.Context, tenant, id string, secret []byte) ([]byte, error) {
				return []byte("sealed:" + tenant + id + string(secret[:0])), nil
			},
			Forecasts: due{"hello": {{Minute: noon, Due: 7}}},
		},
	}
	if keys {
		options.Auth, err = access.NewAuthenticator(access.Options{Keys: app.KeyStore{Records: o.jobs}, Now: o.clock.now})
		require.NoError(t, err)
	}
	h, err := app.NewHandler(options)
	require.NoError(t, err)
	api := httptest.NewServer(h)
	t.Cleanup(api.Close)
	o.url, o.http = api.URL, api.Client()
	return o
}

// key returns an API key made behind the API's back.
func (o *office) key(tenant string, role access.Role) string {
	o.t.Helper()
	k, plain, err := access.NewKey(access.Grant{Tenant: tenant, Role: role}, o.clock.now())
	require.NoError(o.t, err)
	require.NoError(o.t, o.jobs.PutKey(o.t.Context(), jobstore.Key{
		ID: k.ID, Hash: k.Hash, Tenant: tenant, Role: role.String(), Created: k.Created,
	}))
	return "Bearer " + plain.Reveal()
}

// ok makes a request that must be answered with the status, and decodes it.
func ok[T any](o *office, status int, method, path, body string, headers ...string) T {
	o.t.Helper()
	code, _, answer := o.call(method, path, body, headers...)
	require.Equal(o.t, status, code, answer)
	return into[T](o.t, answer)
}

const (
	cronBody = `{"name":"report","schedule":{"type":"cron","expr":"0 9 * * 1-5","tz":"Asia/Ho_Chi_Minh"},
		"target":{"type":"http","url":"https://example.com/x","headers":{"X-Token":"hush"}},"payload":{"a": 1}}`
	onceBody = `{"schedule":{"type":"once","runAt":"2026-11-30T12:01:00Z"},"target":{"type":"queue","service":"payments"},"payload":"hush"}`
)

// accepted puts a job's run where its target answered 202.
func (o *office) accepted(id string) job.Run {
	o.t.Helper()
	now := o.clock.now()
	r := ok[jobsapi.Run](o, http.StatusAccepted, http.MethodPost, "/v1/jobs/"+id+"/run", "")
	stored, err := o.jobs.Run(o.t.Context(), job.RunID(r.ID))
	require.NoError(o.t, err)
	stored, err = stored.Lease(now, job.Claim{Generation: stored.Generation, JobGeneration: stored.Generation, JobStatus: job.JobIsActive})
	require.NoError(o.t, err)
	stored, err = stored.Accept(now, 1)
	require.NoError(o.t, err)
	require.NoError(o.t, o.jobs.Commit(o.t.Context(), jobstore.Tx{Runs: []job.Run{stored}}))
	return stored
}

// dead puts a run of a job into the dead letters.
func (o *office) dead(id string) string {
	o.t.Helper()
	now := o.clock.now()
	r := ok[jobsapi.Run](o, http.StatusAccepted, http.MethodPost, "/v1/jobs/"+id+"/run", "")
	stored, err := o.jobs.Run(o.t.Context(), job.RunID(r.ID))
	require.NoError(o.t, err)
	stored, err = stored.Lease(now, job.Claim{Generation: stored.Generation, JobGeneration: stored.Generation, JobStatus: job.JobIsActive})
	require.NoError(o.t, err)
	stored, err = stored.Finish(now, 1, false, job.Ending{Verdict: job.VerdictDead, Reason: "answered 404", StatusCode: 404, Excerpt: "nothing here"}, job.DefaultRetry())
	require.NoError(o.t, err)
	stored.Payload = []byte(`{"a":1}`)
	require.NoError(o.t, o.jobs.Commit(o.t.Context(), jobstore.Tx{Runs: []job.Run{stored}}))
	return string(stored.ID)
}

func TestTheWalkThrough(t *testing.T) {
	o := newOffice(t, false)
	code, head, body := o.call(http.MethodPost, "/v1/jobs", cronBody, "Idempotency-Key", `"k1"`)
	require.Equal(t, http.StatusCreated, code, body)
	j := into[jobsapi.Job](t, body)
	require.Equal(t, `"1"`, head.Get("ETag"))
	require.Equal(t, "/v1/jobs/"+j.ID, head.Get("Location"))
	require.Equal(t, "active", j.Status)
	require.Equal(t, "default", j.Tenant)
	require.Equal(t, "Asia/Ho_Chi_Minh", j.Schedule.TZ)
	require.Equal(t, time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC), *j.NextRunAt)
	require.Len(t, j.FireTimes, 5)
	require.Equal(t, *j.NextRunAt, j.FireTimes[0])
	require.Contains(t, body, `"code":"no_contact"`)

	code, head, again := o.call(http.MethodPost, "/v1/jobs", cronBody, "Idempotency-Key", "k1")
	require.Equal(t, http.StatusCreated, code)
	require.Equal(t, body, again, "the stored answer, byte for byte")
	require.Equal(t, "true", head.Get("Idempotency-Replayed"))
	require.Equal(t, `"1"`, head.Get("ETag"))
	p := o.problem(http.StatusUnprocessableEntity, http.MethodPost, "/v1/jobs", onceBody, "Idempotency-Key", "k1")
	require.Equal(t, "idempotency_key_reused", p.Code)

	once := ok[jobsapi.Job](o, http.StatusCreated, http.MethodPost, "/v1/jobs", onceBody)
	require.Len(t, once.FireTimes, 1)

	v := ok[jobsapi.PreviewAnswer](o, http.StatusOK, http.MethodPost, "/v1/schedules/preview",
		`{"schedule":{"type":"cron","expr":"30 2 * * *","tz":"Europe/Berlin"},"from":"2027-03-27T12:00:00Z","count":2}`)
	require.Equal(t, []time.Time{time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC), time.Date(2027, 3, 29, 0, 30, 0, 0, time.UTC)}, v.FireTimes)
	require.NotEmpty(t, v.Warnings)

	one := "/v1/jobs/" + j.ID
	code, head, body = o.call(http.MethodGet, one, "")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, `"1"`, head.Get("ETag"))
	require.Equal(t, `{"a":1}`, string(into[jobsapi.Job](t, body).Payload))
	stored, err := o.jobs.Job(t.Context(), must(trigger.ParseID(j.ID)))
	require.NoError(t, err)
	require.Equal(t, `{"a": 1}`, string(stored.Payload), "delivered byte for byte")

	paused := ok[jobsapi.Job](o, http.StatusOK, http.MethodPatch, one, `{"status":"paused"}`, "If-Match", `"1"`)
	require.Equal(t, "paused", paused.Status)
	require.Nil(t, paused.NextRunAt)
	p = o.problem(http.StatusPreconditionFailed, http.MethodPatch, one, `{"status":"active"}`, "If-Match", `"1"`)
	require.Equal(t, "version_mismatch", p.Code)
	edited := ok[jobsapi.Job](o, http.StatusOK, http.MethodPatch, one, `{"status":"active","schedule":{"type":"cron","expr":"@hourly"}}`, "If-Match", `"2"`)
	require.Equal(t, int64(3), edited.Version)
	require.Equal(t, noon.Add(time.Hour), *edited.NextRunAt)

	manual := ok[jobsapi.Run](o, http.StatusAccepted, http.MethodPost, one+"/run", "")
	require.Equal(t, "QUEUED", manual.Status, "due, and nobody has begun it")
	page := ok[jobsapi.Page[jobsapi.Run]](o, http.StatusOK, http.MethodGet, one+"/runs?limit=1", "")
	require.Len(t, page.Items, 1)
	require.Equal(t, edited.NextRunID, page.Items[0].ID, "the run that waits comes first")
	require.Equal(t, "SCHEDULED", page.Items[0].Status)
	var seen []string
	for cursor := page.NextCursor; cursor != ""; {
		next := ok[jobsapi.Page[jobsapi.Run]](o, http.StatusOK, http.MethodGet, one+"/runs?limit=1&cursor="+cursor, "")
		for _, r := range next.Items {
			seen = append(seen, r.ID+" "+r.Status)
		}
		cursor = next.NextCursor
	}
	require.Equal(t, []string{j.NextRunID + " SKIPPED", manual.ID + " QUEUED"}, seen, "what the pause skipped, and the manual run")

	deleted := ok[jobsapi.Job](o, http.StatusOK, http.MethodDelete, one, "")
	require.Equal(t, "deleted", deleted.Status)
	p = o.problem(http.StatusConflict, http.MethodPatch, one, `{"status":"active"}`)
	require.Equal(t, "deleted", p.Code)
	require.Equal(t, "deleted", ok[jobsapi.Job](o, http.StatusOK, http.MethodGet, one, "").Status)
	listed := ok[jobsapi.Page[jobsapi.Job]](o, http.StatusOK, http.MethodGet, "/v1/jobs", "")
	require.Len(t, listed.Items, 1)
	require.Equal(t, once.ID, listed.Items[0].ID)
	require.Empty(t, listed.Items[0].Payload)

	audit := ok[jobsapi.Page[jobsapi.AuditRecord]](o, http.StatusOK, http.MethodGet, "/v1/audit", "")
	var actions []string
	for _, a := range audit.Items {
		require.Equal(t, "local", a.Subject)
		actions = append(actions, a.Action)
	}
	require.ElementsMatch(t, []string{"job.create", "job.create", "job.pause", "job.resume", "job.run", "job.delete"}, actions)
	require.Contains(t, o.log.String(), "msg=changed action=job.create tenant=default object="+j.ID)
	require.NotContains(t, o.log.String(), "hush")
}

func TestTheTargetOfARunKeepsItAliveAndEndsIt(t *testing.T) {
	o := newOffice(t, true)
	admin := o.key(access.Platform, access.Admin)
	ok[jobsapi.Tenant](o, http.StatusOK, http.MethodPut, "/v1/tenants/acme", `{"contact":{"webhook":"https://example.com/hook"}}`, "Authorization", admin)
	write := o.key("acme", access.Write)
	j := ok[jobsapi.Job](o, http.StatusCreated, http.MethodPost, "/v1/jobs", cronBody, "Authorization", write)
	o.http.Transport = bearer{write}
	r := o.accepted(j.ID)
	o.http.Transport = nil
	token := o.signer.Token(string(r.ID), noon.Add(time.Hour)).Reveal()
	one := "/v1/runs/" + string(r.ID)

	o.problem(http.StatusUnauthorized, http.MethodPost, one+"/heartbeat", `{"attempt":1}`)
	o.problem(http.StatusUnauthorized, http.MethodPost, one+"/heartbeat", `{"attempt":1}`, "Myosin-Callback-Token", token+"x")
	o.problem(http.StatusUnauthorized, http.MethodGet, one, "", "Myosin-Callback-Token", token)
	o.problem(http.StatusUnauthorized, http.MethodPost, one+"/cancel", "", "Authorization", "Bearer "+token)

	o.clock.add(10 * time.Second)
	beat := ok[jobsapi.HeartbeatAnswer](o, http.StatusOK, http.MethodPost, one+"/heartbeat", `{"attempt":1}`, "Myosin-Callback-Token", token)
	require.Equal(t, noon.Add(40*time.Second), beat.LeaseUntil)
	require.False(t, beat.CancelRequested)
	p := o.problem(http.StatusConflict, http.MethodPost, one+"/heartbeat", `{"attempt":2}`, "Authorization", "Bearer "+token)
	require.Equal(t, "conflict", p.Code)
	require.Equal(t, "RUNNING", p.State)

	asked := ok[jobsapi.Run](o, http.StatusOK, http.MethodPost, one+"/cancel", "", "Authorization", write)
	require.True(t, asked.CancelRequested)
	beat = ok[jobsapi.HeartbeatAnswer](o, http.StatusOK, http.MethodPost, one+"/heartbeat", `{"attempt":1}`, "Authorization", "Bearer "+token)
	require.True(t, beat.CancelRequested)

	p = o.problem(http.StatusUnprocessableEntity, http.MethodPost, one+"/complete", `{"attempt":1,"outcome":"fine"}`, "Myosin-Callback-Token", token)
	require.Equal(t, "outcome", p.Errors[0].Location)
	done := ok[jobsapi.Run](o, http.StatusOK, http.MethodPost, one+"/complete", `{"attempt":1,"outcome":"success","message":"42 rows"}`, "Myosin-Callback-Token", token)
	require.Equal(t, "SUCCEEDED", done.Status)
	require.Empty(t, done.Attempts[0].Response, "the token is no role that sees payloads")
	o.problem(http.StatusConflict, http.MethodPost, one+"/complete", `{"attempt":1,"outcome":"success"}`, "Myosin-Callback-Token", token)
	got := ok[jobsapi.Run](o, http.StatusOK, http.MethodGet, one, "", "Authorization", write)
	require.Equal(t, "42 rows", got.Attempts[0].Response)
	require.Equal(t, "Asia/Ho_Chi_Minh", got.TZ)
}

// bearer adds a credential.
type bearer struct{ credential string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", b.credential)
	return http.DefaultTransport.RoundTrip(r)
}

func TestRequestsUnderOneIdempotencyKeyMakeOneJob(t *testing.T) {
	o := newOffice(t, false)
	type answer struct {
		code int
		body string
	}
	answers := make([]answer, 8)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			code, _, body := o.call(http.MethodPost, "/v1/jobs", cronBody, "Idempotency-Key", "together")
			answers[i] = answer{code, body}
		})
	}
	wg.Wait()
	bodies := map[string]int{}
	for _, a := range answers {
		if a.code != http.StatusConflict {
			require.Equal(t, http.StatusCreated, a.code, a.body)
			bodies[a.body]++
		}
	}
	require.Len(t, bodies, 1, "every answer is the same")
	require.Len(t, ok[jobsapi.Page[jobsapi.Job]](o, http.StatusOK, http.MethodGet, "/v1/jobs", "").Items, 1)

	o.clock.add(25 * time.Hour)
	later := ok[jobsapi.Job](o, http.StatusCreated, http.MethodPost, "/v1/jobs", cronBody, "Idempotency-Key", "together")
	for body := range bodies {
		require.NotContains(t, body, later.ID, "a key is kept for a day")
	}
	require.Len(t, ok[jobsapi.Page[jobsapi.Job]](o, http.StatusOK, http.MethodGet, "/v1/jobs", "").Items, 2)

	o.problem(http.StatusUnprocessableEntity, http.MethodPost, "/v1/jobs", `{}`, "Idempotency-Key", "mended")
	ok[jobsapi.Job](o, http.StatusCreated, http.MethodPost, "/v1/jobs", cronBody, "Idempotency-Key", "mended")
	o.problem(http.StatusUnprocessableEntity, http.MethodPost, "/v1/jobs", cronBody, "Idempotency-Key", strings.Repeat("k", 256))
}

func TestListsGoOnAndFilter(t *testing.T) {
	o := newOffice(t, false)
	var ids []string
	for _, label := range []string{"red", "blue", "red", "red"} {
		o.clock.add(time.Second)
		j := ok[jobsapi.Job](o, http.StatusCreated, http.MethodPost, "/v1/jobs", `{"labels":{"colour":"`+label+`"},`+cronBody[1:])
		ids = append(ids, j.ID)
	}
	all := func(query string) []string {
		var out []string
		for cursor, n := "", 0; n == 0 || cursor != ""; n++ {
			require.Less(t, n, 20)
			page := ok[jobsapi.Page[jobsapi.Job]](o, http.StatusOK, http.MethodGet, "/v1/jobs?limit=2&"+query+"&cursor="+cursor, "")
			for _, j := range page.Items {
				out = append(out, j.ID)
			}
			cursor = page.NextCursor
		}
		return out
	}
	require.Equal(t, []string{ids[3], ids[2], ids[1], ids[0]}, all("status="), "newest first")
	require.Equal(t, []string{ids[3], ids[2], ids[0]}, all("label=colour%3Dred"))
	ok[jobsapi.Job](o, http.StatusOK, http.MethodDelete, "/v1/jobs/"+ids[2], "")
	require.Equal(t, []string{ids[3], ids[0]}, all("label=colour%3Dred"))
	require.Equal(t, []string{ids[2]}, all("status=deleted"))
	p := o.problem(http.StatusUnprocessableEntity, http.MethodGet, "/v1/jobs?cursor=nonsense", "")
	require.Equal(t, "query.cursor", p.Errors[0].Location)
	o.problem(http.StatusUnprocessableEntity, http.MethodGet, "/v1/jobs?limit=101", "")
	o.problem(http.StatusUnprocessableEntity, http.MethodGet, "/v1/jobs?staus=active", "")

	run := ok[jobsapi.Run](o, http.StatusAccepted, http.MethodPost, "/v1/jobs/"+ids[3]+"/run", "")
	states := func(status string) []string {
		var out []string
		for _, r := range ok[jobsapi.Page[jobsapi.Run]](o, http.StatusOK, http.MethodGet, "/v1/jobs/"+ids[3]+"/runs?status="+status, "").Items {
			out = append(out, r.ID)
		}
		return out
	}
	require.Equal(t, []string{run.ID}, states("QUEUED"))
	require.Len(t, states("SCHEDULED"), 1)
	require.Empty(t, states("DEAD"))
	cancelled := ok[jobsapi.Run](o, http.StatusOK, http.MethodPost, "/v1/runs/"+run.ID+"/cancel", "")
	require.Equal(t, "CANCELLED", cancelled.Status)
	require.Equal(t, []string{run.ID}, states("CANCELLED"))
	waiting := states("SCHEDULED")[0]
	next := ok[jobsapi.Run](o, http.StatusOK, http.MethodPost, "/v1/runs/"+waiting+"/cancel", "")
	require.Equal(t, waiting, next.ID)
	require.NotEqual(t, waiting, states("SCHEDULED")[0], "cancelling the run that waits leaves the one after it")
}
