package app_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/services/api/app"
)

func TestServicesAreListedPausedAndLimited(t *testing.T) {
	r := newRig(t)
	code, _, body := r.call(http.MethodGet, "/v1/services", "")
	require.Equal(t, http.StatusOK, code)
	items := into[struct{ Items []map[string]any }](t, body).Items
	require.Len(t, items, 1)
	require.Equal(t, "hello", items[0]["name"])
	require.Equal(t, false, items[0]["paused"])

	code, _, body = r.call(http.MethodPatch, "/v1/services/hello", `{"paused":true,"rate":2.5}`)
	require.Equal(t, http.StatusOK, code, body)
	svc, err := r.services.Get(t.Context(), "hello")
	require.NoError(t, err)
	require.True(t, svc.Paused)
	require.InDelta(t, 2.5, svc.Rate, 0)
	code, _, body = r.call(http.MethodGet, "/v1/services/hello", "")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, true, into[map[string]any](t, body)["paused"])

	p := r.problem(http.StatusUnprocessableEntity, http.MethodPatch, "/v1/services/hello", `{"rate":-1,"paused":false}`)
	require.Equal(t, "rate", p.Errors[0].Location)
	svc, err = r.services.Get(t.Context(), "hello")
	require.NoError(t, err)
	require.True(t, svc.Paused, "half of a request at fault was done")
	r.problem(http.StatusUnprocessableEntity, http.MethodPatch, "/v1/services/hello", `{}`)
	p = r.problem(http.StatusNotFound, http.MethodGet, "/v1/services/nobody", "")
	require.Equal(t, client.CodeUnknownService, p.Code)
	r.problem(http.StatusNotFound, http.MethodPatch, "/v1/services/nobody", `{"paused":true}`)

	r.services.Fail(errors.New("table of account 123456789012 is gone"))
	p = r.problem(http.StatusInternalServerError, http.MethodGet, "/v1/services", "")
	require.Empty(t, p.Detail, "internals are logged, not answered")
	require.Contains(t, r.log.String(), "123456789012")
}

func TestTheSwitchOfTheDrainIsNoService(t *testing.T) {
	r := newRig(t)
	const path = "/v1/services/" + platform.DrainSwitch
	require.NoError(t, r.services.Put(t.Context(), registry.Service{
		Name: platform.DrainSwitch, QueueURL: "http://sqs/000000000000/myosin-inbound-dlq", Senders: []string{"nobody"}, Paused: true,
	}))
	_, _, body := r.call(http.MethodGet, "/v1/services", "")
	require.NotContains(t, body, platform.DrainSwitch)
	require.Contains(t, body, "hello")
	nobody := r.problem(http.StatusNotFound, http.MethodGet, "/v1/services/nobody", "")
	require.Equal(t, nobody, r.problem(http.StatusNotFound, http.MethodGet, path, ""), "as a service that there is not")
	require.Equal(t, nobody, r.problem(http.StatusNotFound, http.MethodPatch, path, `{"paused":false,"rate":1}`))
	svc, err := r.services.Get(t.Context(), platform.DrainSwitch)
	require.NoError(t, err)
	require.True(t, svc.Paused)
	require.Zero(t, svc.Rate)

	unknown := r.problem(http.StatusUnprocessableEntity, http.MethodPost, "/v1/triggers", `{"service":"nobody"}`)
	unknown.Errors[0].Message = `"` + platform.DrainSwitch + `" is not known`
	require.Equal(t, unknown, r.problem(http.StatusUnprocessableEntity, http.MethodPost, "/v1/triggers",
		`{"service":"`+platform.DrainSwitch+`"}`))
	require.Empty(t, must(r.queues.Receive(t.Context(), r.inbound, queue.ReceiveOptions{})))
}

func TestTheAPIDescribesItselfWithoutAnyOtherHost(t *testing.T) {
	r := newRig(t)
	code, _, body := r.call(http.MethodGet, "/openapi.json", "")
	require.Equal(t, http.StatusOK, code)
	doc := into[struct {
		OpenAPI    string
		Paths      map[string]map[string]struct{ OperationID string }
		Components struct{ Schemas map[string]any }
	}](t, body)
	require.Equal(t, "3.1.0", doc.OpenAPI)
	require.Equal(t, "schedule", doc.Paths["/v1/triggers"]["post"].OperationID)
	for _, method := range []string{"get", "patch", "delete"} {
		require.Contains(t, doc.Paths["/v1/triggers/{handle}"], method)
	}
	require.Contains(t, doc.Paths, "/v1/services")
	require.Contains(t, doc.Paths, "/v1/partitions")
	require.Contains(t, doc.Components.Schemas, "Problem")
	require.NotContains(t, body, "ErrorModel")

	code, head, page := r.call(http.MethodGet, "/docs", "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, head.Get("Content-Type"), "text/html")
	for _, want := range []string{"/v1/triggers/{handle}", "payload_base64", "RFC 3339 time", "Errors"} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "<script", "the page works without scripts")
	require.NotContains(t, page, "https://", "the page loads nothing from elsewhere")
}

func TestWebPagesOfOtherSitesAreKeptOut(t *testing.T) {
	r := newRig(t)
	p := r.problem(http.StatusForbidden, http.MethodPost, "/v1/triggers", `{"service":"hello"}`, "Sec-Fetch-Site", "cross-site")
	require.Equal(t, "cross_origin", p.Code)
	p = r.problem(http.StatusForbidden, http.MethodGet, "/v1/services", "", "Host", "evil.example:8080")
	require.Equal(t, "host", p.Code)
	code, _, _ := r.call(http.MethodGet, "/v1/services", "", "Host", "localhost:8080")
	require.Equal(t, http.StatusOK, code)
}

func TestTheLogHoldsNoPayloadAndTheMetricsNoPath(t *testing.T) {
	r := newRig(t)
	row := r.stored(time.Now().Add(time.Hour))
	r.call(http.MethodPost, "/v1/triggers", `{"service":"hello","payload":"hush","headers":{"h":"hush"}}`)
	r.call(http.MethodPost, "/v1/triggers", `{"payload":"hush"`)
	r.call(http.MethodGet, "/v1/triggers/"+row.Handle().String(), "")
	require.NotContains(t, r.log.String(), "hush")
	require.Contains(t, r.log.String(), "route=/v1/triggers status=201")
	require.Contains(t, r.log.String(), "trigger_id="+row.ID.String())
	require.NotContains(t, r.log.String(), row.Handle().String())
}

// broken fails every call with one error.
type broken struct {
	err error
	job client.Scheduled
}

func (b broken) Schedule(context.Context, string, any, ...client.Option) (client.Scheduled, error) {
	return b.job, b.err
}
func (b broken) Get(context.Context, string) (client.TriggerView, error) {
	if b.err == nil {
		panic("boom")
	}
	return client.TriggerView{}, b.err
}
func (b broken) Reschedule(context.Context, string, time.Time) (client.Scheduled, error) {
	return client.Scheduled{}, b.err
}
func (b broken) Cancel(context.Context, string) (client.CancelResult, error) {
	return client.CancelResult{}, b.err
}

func (b broken) Epochs(context.Context) (trigger.Epochs, error) { return nil, b.err }

func brokenRig(t *testing.T, b broken, reg prometheus.Registerer) *rig {
	t.Helper()
	h, err := app.NewHandler(app.HandlerOptions{Jobs: b, Services: registry.NewStatic(), Partitions: b, Metrics: reg})
	require.NoError(t, err)
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return &rig{t: t, url: srv.URL, http: srv.Client()}
}

func TestASubmissionOfUnknownOutcomeNamesTheJob(t *testing.T) {
	job := client.Scheduled{ID: trigger.NewID(), Handle: "h", Due: time.Now().UTC()}
	r := brokenRig(t, broken{err: client.ErrUncertain, job: job}, nil)
	code, head, body := r.call(http.MethodPost, "/v1/triggers", `{"service":"hello"}`)
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "1", head.Get("Retry-After"))
	got := into[map[string]any](t, body)
	require.Equal(t, client.CodeUncertain, got["code"])
	require.Equal(t, job.ID.String(), got["id"])
	require.Equal(t, "h", got["handle"])

	r = brokenRig(t, broken{err: queue.ErrThrottled}, nil)
	p := r.problem(http.StatusServiceUnavailable, http.MethodPost, "/v1/triggers", `{"service":"hello"}`)
	require.Equal(t, client.CodeUnavailable, p.Code)
}

func TestAPanicIsAnAnswerAndCountsAsOne(t *testing.T) {
	reg := prometheus.NewRegistry()
	r := brokenRig(t, broken{}, reg)
	p := r.problem(http.StatusInternalServerError, http.MethodGet, "/v1/triggers/x", "")
	require.Equal(t, client.CodeInternal, p.Code)
	r.call("BREW", "/nowhere", "")
	all, err := reg.Gather()
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "myosin_api_request_seconds", all[0].GetName())
	seen := make(map[string]bool)
	for _, m := range all[0].GetMetric() {
		labels := ""
		for _, l := range m.GetLabel() {
			labels += l.GetName() + "=" + l.GetValue() + " "
		}
		seen[labels] = true
	}
	require.Equal(t, map[string]bool{
		"method=GET route=/v1/triggers/{handle} status=500 ": true,
		"method=other route=/ status=404 ":                   true,
	}, seen)
}
