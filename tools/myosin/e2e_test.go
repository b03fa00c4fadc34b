package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/jobsapi"
	"github.com/myosin-jobs/myosin/services/standalone/app"
	"github.com/myosin-jobs/myosin/services/standalone/embedded"
	"github.com/myosin-jobs/myosin/tools/myosin/internal/cli"
)

// shell runs the command line against an API.
type shell struct {
	t        *testing.T
	api, key string
}

// run runs a command that must end with the code, and returns what it printed.
func (s *shell) run(code int, args ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	got := cli.Run(ctx, cli.Host{In: strings.NewReader(""), Out: &out, Err: &errs, Env: func(name string) (string, bool) {
		v, ok := map[string]string{"MYOSIN_API": s.api, "MYOSIN_API_KEY": s.key}[name]
		return v, ok
	}}, args)
	require.Equal(s.t, code, got, "%v\nstdout: %s\nstderr: %s", args, out.String(), errs.String())
	return out.String()
}

// read runs a command with -o json that must succeed, and decodes its last line.
func read[T any](s *shell, args ...string) T {
	s.t.Helper()
	lines := strings.Split(strings.TrimSpace(s.run(cli.ExitOK, append(args, "-o", "json")...)), "\n")
	var v T
	require.NoError(s.t, json.Unmarshal([]byte(lines[len(lines)-1]), &v), lines)
	return v
}

// platform runs everything in this process: API, runner, scheduler and engine.
func platform(t *testing.T) *shell {
	t.Helper()
	for _, kv := range embedded.Environ(nil, "") {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, done := make(chan app.Addrs, 1), make(chan error, 1)
	go func() {
		done <- app.Run(ctx, app.Options{
			APIAddr: "127.0.0.1:0", AWSAddr: "127.0.0.1:0", NoDemo: true,
			Prefix: fmt.Sprintf("cli%x", time.Now().UnixNano()%1e12), // engines of one process share their data
			Log:    slog.New(slog.DiscardHandler),
			Ready:  func(a app.Addrs) { ready <- a },
		})
	}()
	select {
	case a := <-ready:
		t.Cleanup(func() {
			cancel()
			require.NoError(t, <-done)
		})
		return &shell{t: t, api: "http://" + a.API}
	case err := <-done:
		cancel()
		require.NoError(t, err)
		panic("it ended before it was ready")
	}
}

func TestAJobLivesFromTheCommandLine(t *testing.T) {
	s := platform(t)
	var broken atomic.Bool
	bodies := make(chan string, 20)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies <- string(b)
		if broken.Load() {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "nothing here")
		}
	}))
	t.Cleanup(target.Close)

	// Once, and its outcome.
	run := read[jobsapi.Run](s, "jobs", "create", "--in", "300ms", "--url", target.URL, "--payload", `{"n": 1}`, "--wait")
	require.Equal(t, "SUCCEEDED", run.Status)
	require.Equal(t, `{"n": 1}`, <-bodies, "byte for byte")

	// By cron: a repeat under the same key is the same job, and the preview here is the API's.
	create := []string{
		"jobs", "create", "--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--url", target.URL, "--payload", `"x"`, "--label", "team=pay",
		"--name", "report", "--idempotency-key", "k1",
	}
	j := read[jobsapi.Job](s, create...)
	require.Equal(t, j.ID, read[jobsapi.Job](s, create...).ID)
	preview := read[struct{ Fires []struct{ At time.Time } }](s, "cron", "preview", "30 2 * * *", "--tz", "Europe/Berlin", "--gap", "skip",
		"--from", j.NextRunAt.Add(-time.Second).Format(time.RFC3339))
	require.Equal(t, *j.NextRunAt, preview.Fires[0].At)
	s.run(cli.ExitRefused, "jobs", "create", "--cron", "@hourly", "--url", target.URL, "--idempotency-key", "k1")
	listed := read[[]jobsapi.Job](s, "jobs", "list", "--label", "team=pay")
	require.Len(t, listed, 1)
	require.Equal(t, j.ID, listed[0].ID)
	require.Contains(t, s.run(cli.ExitOK, "jobs", "get", j.ID, "--show-payload"), `"x"`)

	// A run that dies, is looked at, and repeated.
	broken.Store(true)
	s.run(cli.ExitFailed, "jobs", "run", j.ID, "--wait")
	dead := read[[]jobsapi.DeadLetter](s, "dlq", "list", "--job", j.ID, "--from", "5m ago")
	require.Len(t, dead, 1)
	require.Empty(t, dead[0].Payload, "not asked for")
	require.Contains(t, s.run(cli.ExitOK, "runs", "get", dead[0].ID), "status 404")
	require.Contains(t, s.run(cli.ExitOK, "dlq", "redrive", "--job", j.ID, "--dry-run"), dead[0].ID)
	broken.Store(false)
	again := read[struct {
		Redriven bool
		As       string `json:"redriven_as"`
	}](s, "dlq", "redrive", "--job", j.ID, "--yes")
	require.True(t, again.Redriven)
	require.Equal(t, "SUCCEEDED", read[jobsapi.Run](s, "runs", "watch", again.As).Status)
	require.Empty(t, read[[]jobsapi.DeadLetter](s, "dlq", "list", "--job", j.ID))
	s.run(cli.ExitConflict, "dlq", "redrive", dead[0].ID, "--dry-run")
	require.Len(t, read[[]jobsapi.Run](s, "runs", "list", j.ID, "--status", "succeeded"), 1)

	// Changes, and who loses a race for one.
	edited := read[jobsapi.Job](s, "jobs", "edit", j.ID, "--retry-max", "9", "--header", "X-A=1", "--remove-label", "team")
	require.Equal(t, 9, edited.Retry.MaxAttempts)
	require.Equal(t, "30 2 * * *", edited.Schedule.Expr)
	require.Empty(t, edited.Labels)
	s.run(cli.ExitConflict, "jobs", "edit", j.ID, "--name", "x", "--if-version", "1")
	require.Equal(t, "paused", read[jobsapi.Job](s, "jobs", "pause", j.ID).Status)
	resumed := read[jobsapi.Job](s, "jobs", "resume", j.ID)
	require.Equal(t, "active", resumed.Status)
	require.Equal(t, "CANCELLED", read[jobsapi.Run](s, "runs", "cancel", resumed.NextRunID).Status)
	s.run(cli.ExitNotRun, "runs", "watch", resumed.NextRunID)
	require.Equal(t, "deleted", read[jobsapi.Job](s, "jobs", "delete", j.ID, "--yes").Status)
	s.run(cli.ExitConflict, "jobs", "run", j.ID)
	s.run(cli.ExitNotFound, "jobs", "get", "nope")

	// Records of what was done, and of what is to come.
	actions := make(map[string]bool)
	for _, r := range read[[]jobsapi.AuditRecord](s, "audit", "list", "--all") {
		actions[r.Action] = true
	}
	require.Subset(t, actions, map[string]bool{"job.create": true, "job.run": true, "run.redrive": true, "job.delete": true})
	require.NotEmpty(t, read[[]jobsapi.ForecastSeries](s, "forecast", "--minutes", "10"))
}
