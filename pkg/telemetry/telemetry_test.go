package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/myosin-jobs/myosin/pkg/lifecycle/lifecycletest"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

const local = "127.0.0.1:0"

func get(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func page(t *testing.T, s *telemetry.Server, path string) (int, string) {
	t.Helper()
	rec := httptest.NewRecorder()
	s.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return rec.Code, rec.Body.String()
}

func open(t *testing.T, o telemetry.ServerOptions) *telemetry.Server {
	t.Helper()
	o.Addr = local
	s, err := telemetry.NewServer(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestServerServesOnTheBoundPortUntilItsContextEnds(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, err := telemetry.NewServer(telemetry.ServerOptions{Addr: local, Gatherer: telemetry.NewRegistry("scheduler")})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()

	client := &http.Client{Transport: &http.Transport{}}
	code, body := get(t, client, "http://"+s.Addr()+"/healthz")
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{"healthy":true}`, body)
	code, body = get(t, client, "http://"+s.Addr()+"/metrics")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `myosin_build_info{go="go1.`)
	require.Contains(t, body, `process="scheduler"`)
	require.Contains(t, body, "go_goroutines")
	require.Contains(t, body, "process_open_fds")

	_, err = telemetry.NewServer(telemetry.ServerOptions{Addr: s.Addr()})
	require.ErrorContains(t, err, "address already in use")

	cancel()
	require.NoError(t, <-done)
	client.CloseIdleConnections()
	again, err := telemetry.NewServer(telemetry.ServerOptions{Addr: s.Addr()})
	require.NoError(t, err, "the address was not freed")
	require.NoError(t, again.Close())
}

func TestReadinessNamesEveryFailingCheck(t *testing.T) {
	var sick atomic.Bool
	s := open(t, telemetry.ServerOptions{Checks: []telemetry.Check{
		{Name: "clock", Func: func() error {
			if sick.Load() {
				return errors.New("45s from AWS time")
			}
			return nil
		}},
		{Name: "store", Func: func() error { return nil }},
		{Name: "registry", Func: func() error {
			if sick.Load() {
				return errors.New("never read")
			}
			return nil
		}},
	}})
	code, body := page(t, s, "/readyz")
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{"ready":true}`, body)

	sick.Store(true)
	code, body = page(t, s, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.JSONEq(t, `{"ready":false,"failing":[
		{"check":"clock","reason":"45s from AWS time"},{"check":"registry","reason":"never read"}]}`, body)
	code, _ = page(t, s, "/healthz")
	require.Equal(t, http.StatusOK, code, "not ready is not dead")
}

func TestADrainingProcessIsNotReady(t *testing.T) {
	s := open(t, telemetry.ServerOptions{})
	code, _ := page(t, s, "/readyz")
	require.Equal(t, http.StatusOK, code)
	s.Drain()
	code, body := page(t, s, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "stopping")
}

func TestOtherPathsGoToTheMountedHandler(t *testing.T) {
	code, _ := page(t, open(t, telemetry.ServerOptions{}), "/v1/x")
	require.Equal(t, http.StatusNotFound, code)
	code, _ = page(t, open(t, telemetry.ServerOptions{}), "/metrics")
	require.Equal(t, http.StatusNotFound, code)

	s := open(t, telemetry.ServerOptions{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	})})
	code, _ = page(t, s, "/v1/x")
	require.Equal(t, http.StatusTeapot, code)
	code, _ = page(t, s, "/readyz")
	require.Equal(t, http.StatusOK, code)
}

type brokenCollector struct{}

func (brokenCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- prometheus.NewDesc("broken", "h", nil, nil)
}

func (brokenCollector) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "h", nil, nil), errors.New("no reading"))
}

func TestABrokenCollectorDoesNotHideTheOtherMetrics(t *testing.T) {
	reg := telemetry.NewRegistry("api")
	reg.MustRegister(brokenCollector{})
	var logs bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logs, nil))
	code, body := page(t, open(t, telemetry.ServerOptions{Gatherer: reg, Log: log}), "/metrics")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "myosin_build_info")
	require.Contains(t, logs.String(), "no reading")
}

func TestServerKeepsTheLifecycleContract(t *testing.T) {
	lifecycletest.Check(t, func() lifecycletest.Runner {
		s, err := telemetry.NewServer(telemetry.ServerOptions{Addr: local})
		require.NoError(t, err)
		return s.Run
	})
}

func TestServerOptionsReportEveryFault(t *testing.T) {
	_, err := telemetry.NewServer(telemetry.ServerOptions{Addr: "nowhere", Checks: []telemetry.Check{{Name: "x"}}})
	require.ErrorContains(t, err, "address")
	require.ErrorContains(t, err, "checks[0]")
}

func TestLogLinesAreReadableInBothFormats(t *testing.T) {
	for format, want := range map[string]string{
		"json": `"msg":"m","process":"api","service":"payments","after":"1.5s","due":"2027-01-01T09:00:00.000Z","error":"broken"}`,
		"text": `msg=m process=api service=payments after=1.5s due=2027-01-01T09:00:00.000Z error=broken`,
	} {
		var out bytes.Buffer
		log, err := telemetry.NewLogger(telemetry.LogOptions{Output: &out, Format: format, Process: "api"})
		require.NoError(t, err)
		log.Debug("hidden")
		log.Info("m", telemetry.KeyService, "payments", "after", 1500*time.Millisecond,
			telemetry.KeyDue, time.Date(2027, 1, 1, 10, 0, 0, 0, time.FixedZone("CET", 3600)), telemetry.KeyError, errors.New("broken"))
		require.Equal(t, 1, strings.Count(out.String(), "\n"))
		require.Contains(t, out.String(), want)
	}
}

func TestLogOptionsReportEveryFault(t *testing.T) {
	_, err := telemetry.NewLogger(telemetry.LogOptions{Format: "xml", Level: "loud"})
	require.ErrorContains(t, err, `"xml"`)
	require.ErrorContains(t, err, `"loud"`)
	for _, level := range []string{"", "debug", "info", "warn", "error"} {
		_, err := telemetry.NewLogger(telemetry.LogOptions{Output: io.Discard, Level: level})
		require.NoError(t, err)
	}
}
