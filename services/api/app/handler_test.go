package app_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/services/api/app"
)

// rig is the API over engines in memory. Nothing drains: the inbound buffer and
// the table show what the API did to them.
type rig struct {
	t        *testing.T
	store    *memstore.Store
	queues   *memqueue.Engine
	services *registry.Static
	inbound  string
	urgent   string
	url      string
	http     *http.Client
	log      *strings.Builder
}

type lookup struct{ *registry.Static }

func (l lookup) Lookup(ctx context.Context, name string) (registry.Service, error) {
	return l.Get(ctx, name)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, store: memstore.New(memstore.Options{}), queues: memqueue.New(memqueue.Options{}), log: &strings.Builder{}}
	var err error
	r.inbound, err = r.queues.Create(t.Context(), queue.Spec{Name: "myosin-inbound"})
	require.NoError(t, err)
	r.urgent, err = r.queues.Create(t.Context(), queue.Spec{Name: "myosin-inbound-urgent"})
	require.NoError(t, err)
	require.NoError(t, r.store.SetEpochs(t.Context(), nil, trigger.Epochs{{N: 4}}))
	r.services = registry.NewStatic(registry.Service{Name: "hello", QueueURL: "http://sqs/000000000000/myosin-svc-hello"})
	table, err := client.NewTable(client.TableOptions{Store: r.store})
	require.NoError(t, err)
	jobs, err := client.New(client.Options{
		Sender: r.queues, InboundURL: r.inbound, UrgentInboundURL: r.urgent, Services: lookup{r.services}, Triggers: table,
		Attempts: 1,
	})
	require.NoError(t, err)
	h, err := app.NewHandler(app.HandlerOptions{
		Jobs: jobs, Services: r.services, Partitions: r.store, Log: slog.New(slog.NewTextHandler(r.log, nil)),
	})
	require.NoError(t, err)
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	r.url, r.http = srv.URL, srv.Client()
	return r
}

// call makes a request; headers are name, value, ….
func (r *rig) call(method, path, body string, headers ...string) (int, http.Header, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	require.NoError(r.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := r.http.Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return resp.StatusCode, resp.Header, string(answer)
}

func into[T any](t *testing.T, body string) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(body), &v), body)
	return v
}

func (r *rig) problem(status int, method, path, body string, headers ...string) client.Problem {
	r.t.Helper()
	code, head, answer := r.call(method, path, body, headers...)
	require.Equal(r.t, status, code, answer)
	require.Equal(r.t, client.ProblemType, head.Get("Content-Type"))
	p := into[client.Problem](r.t, answer)
	require.Equal(r.t, status, p.Status)
	require.NotEmpty(r.t, p.Code)
	return p
}

// submitted is the one submission in the standard buffer.
func (r *rig) submitted() trigger.Trigger {
	r.t.Helper()
	got, err := r.queues.Receive(r.t.Context(), r.inbound, queue.ReceiveOptions{})
	require.NoError(r.t, err)
	require.Len(r.t, got, 1)
	tr, err := trigger.DecodeInbound([]byte(got[0].Body), got[0].SentAt, func(time.Time) int { return 4 })
	require.NoError(r.t, err)
	return tr
}

// stored puts a row into the table as the drain would.
func (r *rig) stored(due time.Time) *store.Row {
	r.t.Helper()
	row := &store.Row{
		Trigger: trigger.Trigger{
			ID: trigger.NewID(), Service: "hello", Due: due.UTC().Truncate(time.Millisecond), N: 4, Payload: []byte(`{"n":1}`),
		},
		State: trigger.StateScheduled, Created: time.Now().UTC().Truncate(time.Millisecond),
	}
	res := r.store.Write(r.t.Context(), []store.Op{{Kind: store.Insert, Key: row.Key(), Row: row}})
	require.NoError(r.t, res[0].Err)
	return row
}

func TestASubmissionReachesTheInboundBuffer(t *testing.T) {
	r := newRig(t)
	before := time.Now().Add(5 * time.Minute)
	code, head, body := r.call(http.MethodPost, "/v1/triggers",
		`{"service":"hello","delay":"5m","payload":{"n": 1},"name":"greet","tenant":"t1","group":"g","headers":{"x":"y"}}`,
		"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	require.Equal(t, http.StatusCreated, code, body)
	got := into[map[string]any](t, body)
	require.Equal(t, "hello", got["service"])
	require.Equal(t, "standard", got["lane"])
	require.Equal(t, "/v1/triggers/"+got["handle"].(string), head.Get("Location"))
	tr := r.submitted()
	require.Equal(t, got["id"], tr.ID.String())
	require.Equal(t, got["handle"], tr.Handle().String())
	require.JSONEq(t, `{"n":1}`, string(tr.Payload))
	require.Equal(t, `{"n": 1}`, string(tr.Payload), "the payload is delivered as it stands")
	require.Equal(t, "greet", tr.Name)
	require.Equal(t, "t1", tr.Tenant)
	require.Equal(t, "g", tr.Group)
	require.Equal(t, map[string]string{"x": "y"}, tr.Headers)
	require.Equal(t, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", tr.Traceparent)
	require.WithinDuration(t, before, tr.Due, 10*time.Second)
	require.False(t, tr.Due.Before(before), "rounding made it early")
}

func TestBytesAndTheUrgentLaneAndMomentsAreTaken(t *testing.T) {
	r := newRig(t)
	due := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	raw := "\x00\xff"
	body, err := json.Marshal(map[string]any{
		"service": "hello", "due": due, "payload_base64": base64.StdEncoding.EncodeToString([]byte(raw)),
	})
	require.NoError(t, err)
	code, _, answer := r.call(http.MethodPost, "/v1/triggers", string(body))
	require.Equal(t, http.StatusCreated, code, answer)
	tr := r.submitted()
	require.Equal(t, raw, string(tr.Payload))
	require.Equal(t, due, tr.Due)

	code, _, answer = r.call(http.MethodPost, "/v1/triggers", `{"service":"hello","lane":"urgent"}`)
	require.Equal(t, http.StatusCreated, code, answer)
	require.Equal(t, "urgent", into[map[string]any](t, answer)["lane"])
	require.Empty(t, must(r.queues.Receive(t.Context(), r.inbound, queue.ReceiveOptions{})))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestARepeatWithTheSameKeyIsTheSameJob(t *testing.T) {
	r := newRig(t)
	const body = `{"service":"hello","due":"2030-01-01T00:00:00Z"}`
	_, _, first := r.call(http.MethodPost, "/v1/triggers", body, "Idempotency-Key", `"order-42"`)
	_, _, again := r.call(http.MethodPost, "/v1/triggers", `{"service":"hello","due":"2030-01-01T00:00:00Z","key":"order-42"}`)
	require.Equal(t, first, again)
	_, _, other := r.call(http.MethodPost, "/v1/triggers", body, "Idempotency-Key", "order-43")
	require.NotEqual(t, first, other)

	p := r.problem(http.StatusUnprocessableEntity, http.MethodPost, "/v1/triggers", `{"service":"hello","delay":"5s","key":"a"}`)
	require.Equal(t, "submitted", p.Errors[0].Location, "a repeat would have another due time")
	p = r.problem(http.StatusUnprocessableEntity, http.MethodPost, "/v1/triggers",
		`{"service":"hello","due":"2030-01-01T00:00:00Z","key":"a"}`, "Idempotency-Key", "b")
	require.Equal(t, "key", p.Errors[0].Location)
}

func TestEveryFieldAtFaultIsNamed(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]struct{ body, field, code string }{
		"no service":        {`{"delay":"5s"}`, "service", client.CodeInvalid},
		"unknown service":   {`{"service":"nobody","delay":"5s"}`, "service", client.CodeUnknownService},
		"bad service":       {`{"service":"No Body"}`, "service", client.CodeInvalid},
		"two times":         {`{"service":"hello","due":"2030-01-01T00:00:00Z","delay":"5s"}`, "delay", client.CodeInvalid},
		"two delays":        {`{"service":"hello","delay_ms":1,"delay":"5s"}`, "delay_ms", client.CodeInvalid},
		"no duration":       {`{"service":"hello","delay":"soon"}`, "delay", client.CodeInvalid},
		"negative":          {`{"service":"hello","delay":"-5s"}`, "delay", client.CodeInvalid},
		"negative ms":       {`{"service":"hello","delay_ms":-5}`, "delay_ms", client.CodeInvalid},
		"no time":           {`{"service":"hello","due":"tomorrow"}`, "due", client.CodeInvalid},
		"too far":           {`{"service":"hello","due":"2100-01-01T00:00:00Z"}`, "due", client.CodeInvalid},
		"long ago":          {`{"service":"hello","due":"2020-01-01T00:00:00Z"}`, "due", client.CodeInvalid},
		"two payloads":      {`{"service":"hello","payload":1,"payload_base64":"AA=="}`, "payload_base64", client.CodeInvalid},
		"no base64":         {`{"service":"hello","payload_base64":"?"}`, "payload_base64", client.CodeInvalid},
		"payload too large": {`{"service":"hello","payload":"` + strings.Repeat("x", 256<<10) + `"}`, "payload", client.CodeInvalid},
		"lane":              {`{"service":"hello","lane":"slow"}`, "lane", client.CodeInvalid},
		"fifth header":      {`{"service":"hello","headers":{"a":"1","b":"2","c":"3","d":"4","e":"5"}}`, "headers", client.CodeInvalid},
		"header":            {`{"service":"hello","headers":{"AWS.x":"1"}}`, "headers.AWS.x", client.CodeInvalid},
		"trace context":     {`{"service":"hello","traceparent":"nonsense"}`, "traceparent", client.CodeInvalid},
		"unknown field":     {`{"service":"hello","dealy":"5s"}`, "dealy", client.CodeInvalid},
		"type":              {`{"service":7}`, "service", client.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			r := *r
			r.t = t
			p := r.problem(http.StatusUnprocessableEntity, http.MethodPost, "/v1/triggers", c.body)
			require.Equal(t, c.code, p.Code)
			require.NotEmpty(t, p.Errors)
			require.Equal(t, c.field, p.Errors[0].Location, "%+v", p)
			require.NotEmpty(t, p.Errors[0].Message)
		})
	}
	require.Empty(t, must(r.queues.Receive(t.Context(), r.inbound, queue.ReceiveOptions{})), "something invalid was sent")
}

func TestAnInvalidTraceHeaderIsIgnored(t *testing.T) {
	r := newRig(t)
	code, _, body := r.call(http.MethodPost, "/v1/triggers", `{"service":"hello"}`, "traceparent", "nonsense")
	require.Equal(t, http.StatusCreated, code, body)
	require.Empty(t, r.submitted().Traceparent)
}

func TestBodiesThatCannotBeReadAreRefused(t *testing.T) {
	r := newRig(t)
	p := r.problem(http.StatusRequestEntityTooLarge, http.MethodPost, "/v1/triggers", `{"service":"hello","payload":"`+strings.Repeat("x", app.MaxBody)+`"}`)
	require.Equal(t, "payload", p.Errors[0].Location)
	require.Contains(t, p.Errors[0].Message, "262144")
	p = r.problem(http.StatusBadRequest, http.MethodPost, "/v1/triggers", `{"service":`)
	require.Equal(t, "malformed", p.Code)
	p = r.problem(http.StatusUnsupportedMediaType, http.MethodPost, "/v1/triggers", "service: hello", "Content-Type", "text/yaml")
	require.Equal(t, "malformed", p.Code)
	r.problem(http.StatusBadRequest, http.MethodPost, "/v1/triggers", "")
	r.problem(http.StatusNotFound, http.MethodGet, "/v2/triggers", "")
	code, head, _ := r.call(http.MethodPut, "/v1/triggers", "{}")
	require.Equal(t, http.StatusMethodNotAllowed, code)
	require.Equal(t, "POST", head.Get("Allow"))
}

func TestThePublicClientUsesTheAPI(t *testing.T) {
	r := newRig(t)
	api, err := client.NewHTTP(r.url, client.HTTPOptions{Client: r.http})
	require.NoError(t, err)
	row := r.stored(time.Now().Add(time.Hour))

	view, err := api.Get(t.Context(), row.Handle())
	require.NoError(t, err)
	require.Equal(t, client.ViewOf(row), view)

	moved, err := api.Reschedule(t.Context(), row.Handle(), row.Due.Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, row.Due.Add(time.Minute), moved.Due)
	now, err := trigger.ParseHandle(moved.Handle)
	require.NoError(t, err)
	_, err = api.Reschedule(t.Context(), now, row.Due.AddDate(20, 0, 0))
	var field *trigger.FieldError
	require.ErrorAs(t, err, &field)
	require.Equal(t, "due", field.Field)

	result, err := api.Cancel(t.Context(), now)
	require.NoError(t, err)
	require.Equal(t, client.CancelResult{Outcome: client.OutcomeCancelled, State: "cancelled", Due: moved.Due}, result)
	_, err = api.Reschedule(t.Context(), now, row.Due)
	var conflict *client.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, "cancelled", conflict.State)

	never := trigger.Handle{N: 4, Due: time.Now().Add(time.Hour), ID: trigger.NewID(), Service: "hello"}
	_, err = api.Get(t.Context(), never)
	require.ErrorIs(t, err, client.ErrNotFound)
	_, err = api.Reschedule(t.Context(), never, never.Due)
	require.ErrorIs(t, err, client.ErrNotStored)
}

func TestTheBodyOfThePublicClientIsTaken(t *testing.T) {
	r := newRig(t)
	body, err := json.Marshal(client.SubmitBody{
		Service: "hello", DelayMs: new(int64), Submitted: time.Now(), PayloadB64: []byte("x"), Key: "k", Lane: trigger.Standard,
		Name: "n", Tenant: "t", Group: "g", Headers: map[string]string{"a": "b"},
	})
	require.NoError(t, err)
	code, _, answer := r.call(http.MethodPost, client.TriggersPath, string(body))
	require.Equal(t, http.StatusCreated, code, answer)
	tr := r.submitted()
	require.Equal(t, tr.Handle().String(), into[client.Scheduled](t, answer).Handle)
}

func TestLookUpMoveAndCancelByHand(t *testing.T) {
	r := newRig(t)
	row := r.stored(time.Now().Add(time.Hour))
	path := "/v1/triggers/" + row.Handle().String()
	code, _, body := r.call(http.MethodGet, path, "")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "scheduled", into[map[string]any](t, body)["state"])

	code, _, body = r.call(http.MethodPatch, path, `{"delay":"2h"}`)
	require.Equal(t, http.StatusOK, code, body)
	moved := into[client.Scheduled](t, body)
	require.WithinDuration(t, time.Now().Add(2*time.Hour), moved.Due, 10*time.Second)
	path = "/v1/triggers/" + moved.Handle
	code, _, body = r.call(http.MethodPatch, path, `{"delay_ms":3600000}`)
	require.Equal(t, http.StatusOK, code, body)
	path = "/v1/triggers/" + into[client.Scheduled](t, body).Handle
	p := r.problem(http.StatusUnprocessableEntity, http.MethodPatch, path, `{}`)
	require.Equal(t, "due", p.Errors[0].Location)
	p = r.problem(http.StatusUnprocessableEntity, http.MethodPatch, path, `{"delay":"1h","due":"2030-01-01T00:00:00Z"}`)
	require.Equal(t, "delay", p.Errors[0].Location)

	code, _, body = r.call(http.MethodDelete, path, "")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "cancelled", into[map[string]any](t, body)["outcome"])
	p = r.problem(http.StatusConflict, http.MethodPatch, path, `{"delay":"1h"}`)
	require.Equal(t, "cancelled", p.State)

	p = r.problem(http.StatusNotFound, http.MethodGet, "/v1/triggers/"+
		trigger.Handle{N: 4, Due: time.Now(), ID: trigger.NewID(), Service: "hello"}.String(), "")
	require.Contains(t, p.Detail, "not stored yet")
	p = r.problem(http.StatusBadRequest, http.MethodGet, "/v1/triggers/nonsense", "")
	require.Equal(t, client.CodeBadHandle, p.Code)
}
