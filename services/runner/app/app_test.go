package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/services/runner/app"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

// The process is there before the installation and the services of runs are;
// then a message on their queue becomes a call and a record.
func TestAMessageOfARunBecomesACall(t *testing.T) {
	srv := kumo.NewServer()
	defer srv.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "any")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "any")
	prefix := fmt.Sprintf("r%x", time.Now().UnixNano()%1e9)
	var o app.Options
	s := settings.New("runner", "")
	o.Settings(s)
	require.NoError(t, s.Parse([]string{
		"--endpoint", srv.URL, "--prefix", prefix, "--addr", "127.0.0.1:0", "--wait", "1s", "--allow-loopback-targets",
	}, func(string) (string, bool) { return "", false }, io.Discard))
	addr := make(chan string, 1)
	o.Process.Log = slog.New(slog.DiscardHandler)
	o.Process.OnListen = func(a string) { addr <- a }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, o) }()
	base := "http://" + <-addr
	code, _ := get(t, base+"/healthz")
	require.Equal(t, http.StatusOK, code)
	code, body := get(t, base+"/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "cannot be reached yet")

	p, err := platform.Open(t.Context(), platform.Options{Prefix: prefix, Endpoint: srv.URL})
	require.NoError(t, err)
	buffers, err := p.Ensure(t.Context(), 4)
	require.NoError(t, err)
	require.NoError(t, p.Reach(t.Context()))
	svc, err := p.EnsureRuns(t.Context(), jobcontrol.Service)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		code, _ := get(t, base+"/readyz")
		return code == http.StatusOK
	}, 40*time.Second, 100*time.Millisecond)

	calls := make(chan string, 1)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { calls <- r.Header.Get("Idempotency-Key") }))
	defer target.Close()
	control, err := app.NewControl(p, buffers, nil)
	require.NoError(t, err)
	spec := job.Spec{
		Tenant: "t", Schedule: job.Timing{At: time.Now().UTC().Truncate(time.Millisecond)},
		Target: job.Target{Type: job.TargetHTTP, URL: target.URL},
	}.WithDefaults()
	j, err := control.Create(t.Context(), jobcontrol.Actor{}, spec, nil)
	require.NoError(t, err)
	id := job.NewRunID(j.ID, 1, spec.Schedule.At)
	payload, err := json.Marshal(jobcontrol.Message{Run: id})
	require.NoError(t, err)
	d := trigger.Deliver(&trigger.Trigger{
		ID: trigger.NewID(), Service: jobcontrol.Service, Due: spec.Schedule.At, Name: jobcontrol.MessageName, Payload: payload, Tenant: "t",
	}, false)
	errs := p.Queues.SendBatch(t.Context(), svc.QueueURL, []queue.Message{{Body: d.Body, Attributes: d.Attributes, Group: d.Group}})
	require.NoError(t, errs[0])
	require.Equal(t, string(id), <-calls)
	require.Eventually(t, func() bool {
		run, err := p.Jobs.Run(t.Context(), id)
		return err == nil && run.State == job.Succeeded
	}, 10*time.Second, 20*time.Millisecond)
	_, metrics := get(t, base+"/metrics")
	require.Contains(t, metrics, `myosin_runner_messages_total{outcome="SUCCEEDED"} 1`)
	cancel()
	require.NoError(t, <-done)
}

func TestDamagedKeysAreNamedNotShown(t *testing.T) {
	_, err := app.Signer("whsec_c2hvcnQ=")
	require.ErrorContains(t, err, "callback key 1")
	require.NotContains(t, err.Error(), "c2hvcnQ")
	signer, err := app.Signer(" ")
	require.NoError(t, err)
	require.Nil(t, signer)
}
