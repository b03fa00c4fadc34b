package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/services/standalone/app"
	"github.com/myosin-jobs/myosin/services/standalone/embedded"
)

// screen is what a newcomer sees.
type screen struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// alone are options that share nothing with other tests of the process.
func alone(t *testing.T) (app.Options, *screen) {
	t.Helper()
	for _, kv := range embedded.Environ(nil, "") {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	out := &screen{}
	return app.Options{
		APIAddr: "127.0.0.1:0", AWSAddr: "127.0.0.1:0", Prefix: fmt.Sprintf("t%x", time.Now().UnixNano()%1e12),
		Out: out, Log: slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}, out
}

// testLog fails a test for every line: nothing here is worth a warning.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Errorf("logged: %s", p)
	return len(p), nil
}

// start runs the process until the test ends, or stop is called.
func start(t *testing.T, o app.Options) (app.Addrs, func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, done := make(chan app.Addrs, 1), make(chan error, 1)
	o.Ready = func(a app.Addrs) { ready <- a }
	go func() { done <- app.Run(ctx, o) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { require.NoError(t, stop()) })
	select {
	case a := <-ready:
		return a, stop
	case err := <-done:
		done <- err
		require.NoError(t, err)
		panic("ended before it was ready")
	}
}

func TestTheDemoDeliversEveryJobOnTimeAndNotTheCancelledOne(t *testing.T) {
	o, out := alone(t)
	o.ExitAfterDemo = true
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent(),
		// Connections that the SDK keeps for its next call.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
	require.NoError(t, app.Run(t.Context(), o), out)
	text := out.String()
	for _, line := range []string{
		`submitted +now`, `cancel +cancelled +cancelled`, `rescheduled +moved`,
		`delivered +now`, `delivered +in-2s`, `delivered +urgent`, `delivered +moved`, `delivered +in-5s`,
		`Done: 5 delivered`, `called +webhook +attempt 1, answered 503`, `called +webhook +attempt 2, answered 200`,
		`the run SUCCEEDED after 2 attempts`, `Stopped cleanly`,
	} {
		require.Regexp(t, line, text)
	}
	require.NotRegexp(t, `delivered +cancelled`, text)
	require.NotContains(t, text, "EARLY")
	for _, m := range regexp.MustCompile(`delivered .* (\d+) ms late`).FindAllStringSubmatch(text, -1) {
		late, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		require.Less(t, late, 2000, m[0])
	}
}

func TestAJobOverHTTPArrivesAndACancelledOneDoesNot(t *testing.T) {
	o, out := alone(t)
	o.NoDemo = true
	addrs, stop := start(t, o)
	hc := &http.Client{Transport: &http.Transport{}}
	defer hc.CloseIdleConnections()
	call := func(method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addrs.API+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := hc.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(answer)
	}
	handle := func(body string) string {
		code, answer := call(http.MethodPost, "/v1/triggers", body)
		require.Equal(t, http.StatusCreated, code, answer)
		return regexp.MustCompile(`"handle":"([^"]+)"`).FindStringSubmatch(answer)[1]
	}
	require.Eventually(t, func() bool {
		code, _ := call(http.MethodGet, "/readyz", "")
		return code == http.StatusOK
	}, 10*time.Second, 20*time.Millisecond)

	doomed := handle(`{"service":"hello","delay":"1500ms","payload":"never","name":"doomed"}`)
	var view string
	require.Eventually(t, func() bool {
		var code int
		code, view = call(http.MethodGet, "/v1/triggers/"+doomed, "")
		return code == http.StatusOK
	}, 10*time.Second, 10*time.Millisecond, "the drain stores it")
	require.Contains(t, view, `"state":"scheduled"`)
	code, answer := call(http.MethodDelete, "/v1/triggers/"+doomed, "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, answer, `"outcome":"cancelled"`)

	api, err := client.NewHTTP("http://"+addrs.API, client.HTTPOptions{Client: hc})
	require.NoError(t, err)
	late, err := trigger.ParseHandle(handle(`{"service":"hello","delay":"1h","payload":{"n":2},"name":"moved"}`))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := api.Reschedule(t.Context(), late, time.Now().Add(1500*time.Millisecond))
		require.True(t, err == nil || errors.Is(err, client.ErrNotStored), err)
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	handle(`{"service":"hello","delay":"2s","payload":{"n":1},"name":"kept"}`)

	require.Eventually(t, func() bool { return strings.Contains(out.String(), `received kept: {"n":1}`) }, 20*time.Second, 20*time.Millisecond)
	require.Eventually(t, func() bool { return strings.Contains(out.String(), `received moved: {"n":2}`) }, 20*time.Second, 20*time.Millisecond)
	require.NotContains(t, out.String(), "doomed")

	_, services := call(http.MethodGet, "/v1/services", "")
	require.Contains(t, services, `"queue_url":"`+addrs.AWS+`/000000000000/`+o.Prefix+`-svc-hello"`)
	code, metrics := call(http.MethodGet, "/metrics", "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, metrics, `loop="scheduler"`)
	require.Contains(t, metrics, `loop="inbound"`)
	require.NoError(t, stop())
	require.Contains(t, out.String(), "hello received 2 jobs")
}

func TestOverAnEndpointOfOthersItMakesOnlyWhatItIsToldTo(t *testing.T) {
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	o, out := alone(t)
	t.Setenv("AWS_ENDPOINT_URL", srv.URL)
	o.External, o.NoDemo = true, true
	err := app.Run(t.Context(), o)
	require.ErrorContains(t, err, o.Prefix+"-triggers")
	require.ErrorContains(t, err, "--create")

	o.Create, o.Partitions = true, 2
	_, stop := start(t, o)
	require.NoError(t, stop())
	require.Contains(t, out.String(), "the endpoint of your environment")
	o.Create = false
	_, stop = start(t, o)
	require.NoError(t, stop(), "what is there is found")
}

func TestATakenPortNamesTheFlag(t *testing.T) {
	o, _ := alone(t)
	o.NoDemo = true
	addrs, _ := start(t, o)
	again, _ := alone(t)
	again.NoDemo, again.APIAddr = true, addrs.API
	require.ErrorContains(t, app.Run(t.Context(), again), "--api-addr "+addrs.API+" is in use")
	again.APIAddr, again.AWSAddr = "127.0.0.1:0", strings.TrimPrefix(addrs.AWS, "http://")
	require.ErrorContains(t, app.Run(t.Context(), again), "--aws-addr "+again.AWSAddr+" is in use")
}

func TestOptionsReportEveryFaultByItsFlag(t *testing.T) {
	err := (&app.Options{
		APIAddr: "0.0.0.0:1", AWSAddr: "10.0.0.1:1", Prefix: "_", Partitions: -1, ExitAfterDemo: true, NoDemo: true, LogLevel: "loud",
	}).Validate()
	for _, flag := range []string{"--api-addr", "--aws-addr", "--prefix", "--partitions", "--exit-after-demo", "loud"} {
		require.ErrorContains(t, err, flag)
	}
	require.ErrorContains(t, (&app.Options{External: true, DataDir: "x"}).Validate(), "--data-dir")
	require.NoError(t, (&app.Options{}).Validate())

	var o app.Options
	s := settings.New("standalone", "")
	o.Bind(s)
	require.NoError(t, s.Parse([]string{"--aws-addr", "127.0.0.1:2"}, func(k string) (string, bool) {
		v, ok := map[string]string{"MYOSIN_API_ADDR": "127.0.0.1:1", "MYOSIN_AWS_ADDR": "127.0.0.1:9"}[k]
		return v, ok
	}, io.Discard))
	require.Equal(t, "127.0.0.1:1", o.APIAddr)
	require.Equal(t, "127.0.0.1:2", o.AWSAddr)
}
