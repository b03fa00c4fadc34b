package app_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/forecast"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/services/inbound/app"
)

// options are those of a process started without flags, but for what a test needs.
func options(t *testing.T, endpoint, prefix string) (o app.Options, addr chan string) {
	t.Helper()
	s := settings.New("inbound", "")
	o.Settings(s)
	require.NoError(t, s.Parse([]string{"--endpoint", endpoint, "--prefix", prefix, "--addr", "127.0.0.1:0", "--wait", "1s"},
		func(string) (string, bool) { return "", false }, io.Discard))
	addr = make(chan string, 1)
	o.Process.Log = slog.New(slog.DiscardHandler)
	o.Process.OnListen = func(a string) { addr <- a }
	return o, addr
}

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

func TestASubmissionOverSQSBecomesARow(t *testing.T) {
	srv := kumo.NewServer()
	defer srv.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "any")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "any")
	prefix := fmt.Sprintf("i%x", time.Now().UnixNano()%1e9)
	o, addr := options(t, srv.URL, prefix)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, o) }()
	base := "http://" + <-addr

	// The process is there before the installation is.
	code, _ := get(t, base+"/healthz")
	require.Equal(t, http.StatusOK, code)
	code, body := get(t, base+"/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, body, "not reached yet")

	p, err := platform.Open(t.Context(), platform.Options{Prefix: prefix, Endpoint: srv.URL})
	require.NoError(t, err)
	buffers, err := p.Ensure(t.Context(), 4)
	require.NoError(t, err)
	_, err = p.EnsureService(t.Context(), registry.Service{Name: "hello"}, false)
	require.NoError(t, err)
	tr := trigger.Trigger{
		ID: trigger.NewID(), Service: "hello", Due: time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond), N: 4, Payload: []byte(`{"n":1}`),
	}
	msg, err := trigger.EncodeInbound(&tr, time.Now())
	require.NoError(t, err)
	for _, lane := range trigger.Lanes {
		errs := p.Queues.SendBatch(t.Context(), buffers.Inbound[lane], []queue.Message{{Body: string(msg), Group: "hello"}, {Body: "poison"}})
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
	}
	require.Eventually(t, func() bool {
		row, err := p.Store.Get(t.Context(), tr.Key())
		return err == nil && row != nil && row.State == trigger.StateScheduled && string(row.Payload) == `{"n":1}`
	}, 10*time.Second, 20*time.Millisecond)
	require.Eventually(t, func() bool {
		d, err := p.Queues.Depth(t.Context(), buffers.DLQ)
		return err == nil && d.Visible == 2
	}, 10*time.Second, 20*time.Millisecond)
	require.Eventually(t, func() bool {
		code, _ := get(t, base+"/readyz")
		return code == http.StatusOK
	}, 10*time.Second, 20*time.Millisecond)
	_, metrics := get(t, base+"/metrics")
	require.Contains(t, metrics, `myosin_inbound_dead_letters_total{field="body",lane="urgent",reason="invalid"} 1`)
	cancel()
	require.NoError(t, <-done)
	minute := tr.Due.Truncate(time.Minute)
	points, err := p.Forecast.Range(t.Context(), "hello", minute.Add(-time.Hour), minute.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, []forecast.Point{{Minute: minute, Due: 1}}, points, "the same trigger came over both lanes and is one row")
	for _, url := range buffers.Inbound {
		d, err := p.Queues.Depth(t.Context(), url)
		require.NoError(t, err)
		require.Equal(t, queue.Depth{}, d)
	}
}

func TestFaultyOptionsStopTheProcessBeforeItStarts(t *testing.T) {
	o, _ := options(t, "http://127.0.0.1:1", "p")
	o.Process.Count = 0
	o.Process.Grace = 0
	err := app.Run(t.Context(), o)
	require.ErrorContains(t, err, "member count")
	require.ErrorContains(t, err, "grace")
}

func TestHelpNamesEveryEnvironmentVariable(t *testing.T) {
	var o app.Options
	s := settings.New("inbound", "")
	o.Settings(s)
	var out bytes.Buffer
	s.Help(&out)
	for line := range strings.SplitSeq(out.String(), "\n") {
		if strings.HasPrefix(line, "  --") {
			require.Regexp(t, `\((MYOSIN|AWS)_[A-Z_]+\)$`, line)
		}
	}
	require.Contains(t, out.String(), "MYOSIN_INBOUND_RATE")
}
