package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/platform"
	runs "github.com/myosin-jobs/myosin/services/runner/app"
)

func TestAJobCallsItsTargetAndItsFailureIsTriedAgain(t *testing.T) {
	o, _ := alone(t)
	o.NoDemo = true
	addrs, _ := start(t, o)
	p, err := platform.Open(t.Context(), platform.Options{Prefix: o.Prefix, Endpoint: addrs.AWS})
	require.NoError(t, err)
	require.NoError(t, p.Reach(t.Context()))
	b, err := p.Buffers(t.Context())
	require.NoError(t, err)
	control, err := runs.NewControl(p, b, nil)
	require.NoError(t, err)

	type call struct {
		header http.Header
		body   string
		at     time.Time
	}
	calls := make(chan call, 10)
	fails := 1
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls <- call{r.Header, string(body), time.Now()}
		if fails > 0 {
			fails--
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(srv.Close)
	at := time.Now().Add(1500 * time.Millisecond).Truncate(time.Millisecond)
	spec := job.Spec{
		Tenant: "default", Schedule: job.Timing{At: at}, Target: job.Target{Type: job.TargetHTTP, URL: srv.URL + "/hook"},
		Payload: []byte(`{"n":1}`), Retry: job.Retry{MaxAttempts: 3, Base: 50 * time.Millisecond, Max: time.Second},
	}.WithDefaults()
	require.NoError(t, spec.Validate(time.Now()))
	j, err := control.Create(t.Context(), jobcontrol.Actor{Tenant: "default", Subject: "test"}, spec, nil)
	require.NoError(t, err)
	next := func() call {
		select {
		case c := <-calls:
			return c
		case <-time.After(20 * time.Second):
			require.Fail(t, "the target was not called")
			panic("unreachable")
		}
	}
	first, second := next(), next()
	require.False(t, first.at.Before(at))
	require.Less(t, first.at.Sub(at), 3*time.Second)
	require.Equal(t, `{"n":1}`, first.body)
	id := job.NewRunID(j.ID, 1, at)
	for i, c := range []call{first, second} {
		require.Equal(t, string(id), c.header.Get("Idempotency-Key"))
		require.Equal(t, []string{"1", "2"}[i], c.header.Get("Myosin-Attempt"))
		require.NotEmpty(t, c.header.Get("Myosin-Callback-Token"))
	}
	var run job.Run
	require.Eventually(t, func() bool {
		run, err = p.Jobs.Run(context.WithoutCancel(t.Context()), id)
		return err == nil && run.State.Terminal()
	}, 10*time.Second, 50*time.Millisecond)
	require.Equal(t, job.Succeeded, run.State)
	require.Len(t, run.Attempts, 2)
	require.Equal(t, http.StatusServiceUnavailable, run.Attempts[0].StatusCode)
	got, err := p.Jobs.Job(t.Context(), j.ID)
	require.NoError(t, err)
	require.True(t, got.Pending.IsZero())
	page, err := p.Jobs.Runs(t.Context(), jobstore.RunQuery{Job: j.ID, Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
}

func TestCallsAreSignedWithTheTenantsSecret(t *testing.T) {
	o, _ := alone(t)
	o.NoDemo = true
	addrs, _ := start(t, o)
	api := "http://" + addrs.API
	post := func(path, body string) map[string]any {
		t.Helper()
		res, err := http.Post(api+path, "application/json", strings.NewReader(body))
		require.NoError(t, err)
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, res.StatusCode, string(b))
		var out map[string]any
		require.NoError(t, json.Unmarshal(b, &out))
		return out
	}
	secret, ok := post("/v1/secrets", "{}")["secret"].(string)
	require.True(t, ok)
	hook, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	verified := make(chan error, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		verified <- hook.Verify(body, r.Header)
	}))
	t.Cleanup(srv.Close)
	post("/v1/jobs", fmt.Sprintf(`{"schedule":{"type":"once","run_at":%q},"target":{"type":"http","url":%q},"payload":{"n":1}}`,
		time.Now().UTC().Format(time.RFC3339), srv.URL))
	select {
	case err := <-verified:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		require.Fail(t, "the target was not called")
	}
}
