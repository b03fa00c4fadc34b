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

	"github.com/myosin-jobs/myosin/pkg/inbound"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/services/scheduler/app"
)

func TestASubmissionOverSQSArrivesOnItsServicesQueue(t *testing.T) {
	srv := kumo.NewServer()
	defer srv.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "any")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "any")
	prefix := fmt.Sprintf("s%x", time.Now().UnixNano()%1e9)
	p, err := platform.Open(t.Context(), platform.Options{Prefix: prefix, Endpoint: srv.URL})
	require.NoError(t, err)
	buffers, err := p.Ensure(t.Context(), 4)
	require.NoError(t, err)
	svc, err := p.EnsureService(t.Context(), registry.Service{Name: "hello"}, false)
	require.NoError(t, err)

	var o app.Options
	s := settings.New("scheduler", "")
	o.Settings(s)
	require.NoError(t, s.Parse([]string{"--endpoint", srv.URL, "--prefix", prefix, "--addr", "127.0.0.1:0"},
		func(string) (string, bool) { return "", false }, io.Discard))
	addr := make(chan string, 1)
	o.Process.Log = slog.New(slog.DiscardHandler)
	o.Process.OnListen = func(a string) { addr <- a }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 2)
	go func() { done <- app.Run(ctx, o) }()

	alone, err := membership.NewStatic(0, 1)
	require.NoError(t, err)
	drain, err := inbound.New(inbound.Options{
		Store: p.Store, Queue: p.Queues, Services: p.Services, Members: alone, Clock: p.Clock, Owner: platform.Owner(),
		URLs: inbound.URLs{Inbound: buffers.Inbound, DLQ: buffers.DLQ}, Wait: time.Second,
	})
	require.NoError(t, err)
	go func() { done <- drain.Run(ctx) }()

	base := "http://" + <-addr
	require.Eventually(t, func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/readyz", http.NoBody)
		if err != nil {
			return false
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	}, 15*time.Second, 50*time.Millisecond)

	want := map[string]time.Time{}
	for _, in := range []time.Duration{0, time.Second, 2 * time.Second} {
		tr := trigger.Trigger{
			ID: trigger.NewID(), Service: "hello", Due: time.Now().Add(in).UTC().Truncate(time.Millisecond), N: 4, Payload: []byte(`{"n":1}`),
		}
		msg, err := trigger.EncodeInbound(&tr, time.Now())
		require.NoError(t, err)
		require.NoError(t, p.Queues.SendBatch(t.Context(), buffers.Inbound[0], []queue.Message{{Body: string(msg), Group: "hello"}})[0])
		want[tr.ID.String()] = tr.Due
	}
	for deadline := time.Now().Add(15 * time.Second); len(want) > 0 && time.Now().Before(deadline); {
		got, err := p.Queues.Receive(t.Context(), svc.QueueURL, queue.ReceiveOptions{Wait: time.Second})
		require.NoError(t, err)
		for _, m := range got {
			tr, err := trigger.ReadDelivered(m.Body, m.Attributes)
			require.NoError(t, err)
			require.Contains(t, want, tr.ID.String(), "delivered once")
			require.False(t, time.Now().Before(tr.Due), "never early")
			require.JSONEq(t, `{"n":1}`, string(tr.Payload))
			delete(want, tr.ID.String())
		}
	}
	require.Empty(t, want)
	cancel()
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}

func TestHelpNamesEveryEnvironmentVariable(t *testing.T) {
	var o app.Options
	s := settings.New("scheduler", "")
	o.Settings(s)
	var out bytes.Buffer
	s.Help(&out)
	for line := range strings.SplitSeq(out.String(), "\n") {
		if strings.HasPrefix(line, "  --") {
			require.Regexp(t, `\((MYOSIN|AWS)_[A-Z_]+\)$`, line)
		}
	}
	require.Contains(t, out.String(), "MYOSIN_SCHEDULER_LOOK_AHEAD")
}
