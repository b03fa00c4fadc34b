package app_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/access/seal"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/services/api/app"
)

func TestWithoutKeysItRefusesAddressesOthersCanReach(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:8080", ":8080", "[::]:8080", "192.168.1.2:8080", "example.com:8080", "8080"} {
		err := app.Run(t.Context(), app.Options{Addr: addr})
		require.ErrorContains(t, err, addr)
	}
	require.ErrorContains(t, app.CheckAddr("0.0.0.0:8080"), "without keys")
	for _, addr := range []string{"127.0.0.1:8080", "localhost:0", "[::1]:8080", "127.9.9.9:1"} {
		require.NoError(t, app.CheckAddr(addr))
	}
}

func TestOptionsAreReadFromTheEnvironmentAndAllFaultsReported(t *testing.T) {
	var o app.Options
	s := settings.New("api", "")
	o.Bind(s)
	require.NoError(t, s.Parse([]string{"--prefix", "x"}, func(k string) (string, bool) {
		v, ok := map[string]string{"MYOSIN_API_ADDR": "127.0.0.1:1", "MYOSIN_PREFIX": "y"}[k]
		return v, ok
	}, io.Discard))
	require.Equal(t, "127.0.0.1:1", o.Addr)
	require.Equal(t, "x", o.Prefix)
	require.NoError(t, o.Validate())

	require.NoError(t, (&app.Options{Addr: "0.0.0.0:1", Keys: true, Issuer: "https://id.example", Audience: "myosin"}).Validate())
	err := (&app.Options{
		Addr: "0.0.0.0:1", Prefix: "no_good", LogLevel: "loud", Audience: "myosin", AllowTargets: "8.8.8.0/24", CallbackKeys: "hush",
	}).Validate()
	for _, want := range []string{"oidc: needs keys", "oidc: issuer", "allow targets", "callback key 1"} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), "hush")
	require.ErrorContains(t, err, "0.0.0.0:1")
	require.ErrorContains(t, err, "no_good")
	require.ErrorContains(t, err, "loud")
}

func TestTheProcessServesAnInstallation(t *testing.T) {
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	t.Setenv("AWS_ENDPOINT_URL", srv.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "any")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "any")
	prefix := fmt.Sprintf("a%x", time.Now().UnixNano()%1e9)
	o := app.Options{
		Addr: "127.0.0.1:0", Prefix: prefix, Log: slog.New(slog.DiscardHandler),
		Secrets: seal.Settings{Keys: "k1:" + base64.StdEncoding.EncodeToString(make([]byte, 32))},
	}
	early, giveUp := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer giveUp()
	o.Ready = func(string) { t.Error("it serves an installation that is not there") }
	require.NoError(t, app.Run(early, o), "it waits until it is stopped")
	ctx, cancel := context.WithCancel(t.Context())
	done, ready := make(chan error, 1), make(chan string, 1)
	o.Ready = func(addr string) { ready <- addr }
	go func() { done <- app.Run(ctx, o) }()

	p, err := platform.Open(t.Context(), platform.Options{Prefix: prefix})
	require.NoError(t, err)
	_, err = p.Ensure(t.Context(), 4)
	require.NoError(t, err)
	_, err = p.EnsureService(t.Context(), registry.Service{Name: "hello"}, false)
	require.NoError(t, err)
	for _, name := range []string{"runs", "runs-urgent"} {
		_, err = p.EnsureRuns(t.Context(), name)
		require.NoError(t, err)
	}

	var base string
	select {
	case addr := <-ready:
		base = "http://" + addr
	case err := <-done:
		require.NoError(t, err)
	}
	r := &rig{t: t, url: base, http: &http.Client{Transport: &http.Transport{}}}
	defer r.http.CloseIdleConnections()
	code, _, _ := r.call(http.MethodGet, "/healthz", "")
	require.Equal(t, http.StatusOK, code)
	require.Eventually(t, func() bool {
		code, _, _ := r.call(http.MethodGet, "/readyz", "")
		return code == http.StatusOK
	}, 5*time.Second, 10*time.Millisecond)
	code, _, body := r.call(http.MethodPost, "/v1/triggers", `{"service":"hello","delay":"1h","payload":{"n":1}}`)
	require.Equal(t, http.StatusCreated, code, body)
	handle := into[map[string]any](t, body)["handle"].(string)
	code, _, body = r.call(http.MethodDelete, "/v1/triggers/"+handle, "")
	require.Equal(t, http.StatusOK, code, body)
	require.Equal(t, "cancelled", into[map[string]any](t, body)["outcome"], "a cancel holds before the drain")
	jobs, err := jobsapi.NewClient(base, jobsapi.ClientOptions{HTTP: r.http})
	require.NoError(t, err)
	j, err := jobs.CreateJob(t.Context(), &jobsapi.CreateJob{
		Schedule: jobsapi.Schedule{Type: "cron", Expr: "@hourly"}, Target: jobsapi.Target{Type: "queue", Service: "hello"},
	}, "")
	require.NoError(t, err)
	runs, err := jobs.Runs(t.Context(), j.ID, jobsapi.List{})
	require.NoError(t, err)
	require.Equal(t, j.NextRunID, runs.Items[0].ID)
	_, err = jobs.Forecast(t.Context(), time.Time{}, 60)
	require.NoError(t, err)
	secret, err := jobs.CreateSecret(t.Context(), &jobsapi.CreateSecret{})
	require.NoError(t, err)
	kept, err := p.Jobs.Secrets(t.Context(), "default")
	require.NoError(t, err)
	plain, err := must(o.Secrets.Open(p.Config, nil)).Open(t.Context(), kept[0].Sealed, map[string]string{"tenant": "default", "secret": secret.ID})
	require.NoError(t, err)
	require.Equal(t, secret.Value, string(plain), "as the runners open it")
	_, err = jobs.Run(t.Context(), "nonsense")
	var problem *jobsapi.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, http.StatusNotFound, problem.Status)
	_, _, body = r.call(http.MethodGet, "/metrics", "")
	require.Contains(t, body, `myosin_api_request_seconds_count{method="POST",route="/v1/triggers",status="201"} 1`)
	r.http.CloseIdleConnections()
	cancel()
	require.NoError(t, <-done)
}
