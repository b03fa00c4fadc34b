package jobsapi_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/jobsapi"
)

type seen struct{ method, uri, key, match, auth, body string }

// serve answers requests with the answers in turn and notes them.
func serve(t *testing.T, answers ...func(http.ResponseWriter)) (*jobsapi.Client, *[]seen, *[]time.Duration) {
	t.Helper()
	var requests []seen
	var waits []time.Duration
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests = append(requests, seen{
			r.Method, r.URL.RequestURI(), r.Header.Get("Idempotency-Key"), r.Header.Get("If-Match"), r.Header.Get("Authorization"), string(body),
		})
		answers[min(len(requests), len(answers))-1](w)
	}))
	t.Cleanup(srv.Close)
	c, err := jobsapi.NewClient(srv.URL, jobsapi.ClientOptions{
		Authorize: func(r *http.Request) error { r.Header.Set("Authorization", "Bearer k"); return nil },
		Wait:      func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil },
	})
	require.NoError(t, err)
	return c, &requests, &waits
}

func answer(status int, kind, body string, more ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", kind)
		for i := 0; i+1 < len(more); i += 2 {
			w.Header().Set(more[i], more[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestACreateIsRepeatedUnderOneKey(t *testing.T) {
	c, requests, waits := serve(t,
		answer(503, "text/plain", "", "Retry-After", "2"), answer(201, "application/json", `{"id":"x","status":"active"}`))
	j, err := c.CreateJob(t.Context(), &jobsapi.CreateJob{
		Schedule: jobsapi.Schedule{Type: "cron", Expr: "@daily"}, Target: jobsapi.Target{Type: "queue", Service: "s"},
		Payload: json.RawMessage(`{"n":1}`),
	}, "")
	require.NoError(t, err)
	require.Equal(t, "x", j.ID)
	require.Len(t, *requests, 2)
	require.NotEmpty(t, (*requests)[0].key)
	require.Equal(t, (*requests)[0], (*requests)[1])
	require.Equal(t, "Bearer k", (*requests)[0].auth)
	require.Equal(t, []time.Duration{2 * time.Second}, *waits, "as long as Retry-After says")
	require.JSONEq(t, `{"schedule":{"type":"cron","expr":"@daily"},"target":{"type":"queue","service":"s"},"payload":{"n":1}}`, (*requests)[0].body)
}

func TestWhatMakesSomethingEachTimeIsNotRepeated(t *testing.T) {
	c, requests, _ := serve(t, answer(503, "text/plain", ""))
	_, err := c.RunJob(t.Context(), "j")
	require.Error(t, err)
	_, err = c.CreateKey(t.Context(), &jobsapi.CreateKey{Role: "read"})
	require.Error(t, err)
	_, err = c.PatchJob(t.Context(), "j", 3, &jobsapi.PatchJob{})
	require.Error(t, err)
	require.Len(t, *requests, 3)
	require.Equal(t, `"3"`, (*requests)[2].match)

	_, err = c.Job(t.Context(), "a/b")
	require.Error(t, err)
	require.Len(t, *requests, 7, "four attempts at a look-up")
	require.Equal(t, "/v1/jobs/a%2Fb", (*requests)[6].uri)
}

func TestAnErrorTellsTheFieldsAtFault(t *testing.T) {
	c, _, _ := serve(t, answer(422, "application/problem+json",
		`{"status":422,"code":"invalid","detail":"the request is not valid","errors":[{"location":"schedule.expr","message":"missing"}]}`))
	_, err := c.Preview(t.Context(), &jobsapi.Preview{})
	var p *jobsapi.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, 422, p.Status)
	require.Equal(t, "invalid", p.Code)
	require.EqualError(t, err, "preview: 422 the request is not valid: schedule.expr: missing")
}

func TestAListIsAskedForByItsPage(t *testing.T) {
	c, requests, _ := serve(t, answer(200, "application/json", `{"items":[{"id":"1"}],"next_cursor":"n"}`))
	page, err := c.Jobs(t.Context(), jobsapi.List{Tenant: "t", Label: "a=b c", Cursor: "x", Limit: 7})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	require.Equal(t, "n", page.NextCursor)
	require.Equal(t, "/v1/jobs?cursor=x&label=a%3Db+c&limit=7&tenant=t", (*requests)[0].uri)
	_, err = jobsapi.NewClient("ftp://x", jobsapi.ClientOptions{})
	require.ErrorContains(t, err, "want http(s)://host")
}
