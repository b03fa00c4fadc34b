package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// call makes one request of the API with the curl of the published examples:
// JSON in, JSON out.
func call(t *testing.T, method, url string, body any, want int, header ...string) map[string]any {
	t.Helper()
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		require.NoError(t, err)
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, in)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, want, res.StatusCode, "%s %s: %s", method, url, b)
	out := map[string]any{}
	if len(bytes.TrimSpace(b)) > 0 {
		require.NoError(t, json.Unmarshal(b, &out), string(b))
	}
	if etag := res.Header.Get("Etag"); etag != "" {
		out["etag"] = etag
	}
	return out
}

func items(t *testing.T, page map[string]any) []map[string]any {
	t.Helper()
	list, ok := page["items"].([]any)
	require.True(t, ok, page)
	out := make([]map[string]any, len(list))
	for i, x := range list {
		out[i], ok = x.(map[string]any)
		require.True(t, ok)
	}
	return out
}

// The published walk-through: create (once and cron), repeat with the same
// Idempotency-Key, preview, pause, edit, history by cursor, heartbeat with a stale
// attempt, delete.
func TestAPIWalkThrough(t *testing.T) {
	needsE2E(t)
	t.Parallel()
	p, _ := standalone(t, "--no-demo")
	api := p.sees(p.out, `API  (http://\S+)`, 30*time.Second)
	called := make(chan http.Header, 100)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called <- r.Header.Clone()
		if strings.HasPrefix(r.URL.Path, "/long") {
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(target.Close)

	at := time.Now().Add(2 * time.Second).UTC().Truncate(time.Second)
	once := map[string]any{
		"schedule": map[string]any{"type": "once", "run_at": at.Format(time.RFC3339)},
		"target":   map[string]any{"type": "http", "url": target.URL + "/now"}, "payload": map[string]any{"n": 1},
	}
	first := call(t, "POST", api+"/v1/jobs", once, 201, "Idempotency-Key", "walk-1")
	again := call(t, "POST", api+"/v1/jobs", once, 201, "Idempotency-Key", "walk-1")
	require.Equal(t, first["id"], again["id"])
	once["payload"] = 2
	call(t, "POST", api+"/v1/jobs", once, 422, "Idempotency-Key", "walk-1")
	header := receiveCall(t, called)
	require.Regexp(t, "^"+first["id"].(string), header.Get("Idempotency-Key"))

	cron := call(t, "POST", api+"/v1/jobs", map[string]any{
		"schedule": map[string]any{"type": "cron", "expr": "0 9 * * 1-5", "tz": "Asia/Ho_Chi_Minh"},
		"target":   map[string]any{"type": "http", "url": target.URL + "/long"}, "retryPolicy": map[string]any{"maxAttempts": 3},
	}, 201)
	require.Len(t, cron["fire_times"], 5)
	job := api + "/v1/jobs/" + cron["id"].(string)
	preview := call(t, "POST", api+"/v1/schedules/preview", map[string]any{
		"schedule": map[string]any{"type": "cron", "expr": "0 2 * * *", "tz": "America/Los_Angeles"}, "from": "2025-03-08T12:00:00Z", "count": 2,
	}, 200)
	require.Equal(t, []any{"2025-03-09T10:00:00Z", "2025-03-10T09:00:00Z"}, preview["fire_times"])
	require.NotEmpty(t, preview["warnings"])

	for range 3 {
		run := call(t, "POST", job+"/run", nil, 202)
		url := api + "/v1/runs/" + run["id"].(string)
		token := receiveCall(t, called).Get("Myosin-Callback-Token")
		eventually(t, 10*time.Second, 50*time.Millisecond, "the run is accepted", func() error {
			if got := call(t, "GET", url, nil, 200); got["accepted"] != true {
				return fmt.Errorf("%v", got)
			}
			return nil
		})
		call(t, "POST", url+"/heartbeat", map[string]any{"attempt": 7}, 409)
		beat := call(t, "POST", url+"/heartbeat", map[string]any{"attempt": 1}, 200, "Authorization", "Bearer "+token)
		require.Equal(t, false, beat["cancel_requested"])
		done := call(t, "POST", url+"/complete", map[string]any{"attempt": 1, "outcome": "success"}, 200, "Authorization", "Bearer "+token)
		require.Equal(t, "SUCCEEDED", done["status"])
	}
	seen := map[any]bool{}
	cursor := ""
	for range 10 {
		page := call(t, "GET", job+"/runs?limit=1"+cursor, nil, 200)
		for _, r := range items(t, page) {
			seen[r["id"]] = true
		}
		next, ok := page["next_cursor"].(string)
		if !ok || next == "" {
			break
		}
		cursor = "&cursor=" + next
	}
	require.Len(t, seen, 4, "the three, and the occurrence that waits")
	call(t, "GET", job+"/runs?cursor=zzz", nil, 422)

	paused := call(t, "PATCH", job, map[string]any{"status": "paused"}, 200, "If-Match", `"1"`)
	require.Equal(t, "paused", paused["status"])
	call(t, "PATCH", job, map[string]any{"status": "active"}, 412, "If-Match", `"1"`)
	edited := call(t, "PATCH", job, map[string]any{
		"status": "active", "schedule": map[string]any{"type": "cron", "expr": "30 9 * * *", "tz": "UTC"},
	}, 200, "If-Match", `"2"`)
	require.Contains(t, edited["next_run_at"], "T09:30:00Z")
	skipped := items(t, call(t, "GET", job+"/runs?status=SKIPPED", nil, 200))
	require.Len(t, skipped, 1)
	require.Equal(t, "paused", skipped[0]["reason"])
	require.Equal(t, "deleted", call(t, "DELETE", job, nil, 200)["status"])
	cancelled := items(t, call(t, "GET", job+"/runs?status=CANCELLED", nil, 200))
	require.Len(t, cancelled, 1)
	require.Zero(t, p.stop(20*time.Second)/time.Minute)
}

func receiveCall(t *testing.T, calls <-chan http.Header) http.Header {
	t.Helper()
	select {
	case h := <-calls:
		return h
	case <-time.After(20 * time.Second):
		require.Fail(t, "the target was not called")
		return nil
	}
}

// Whatever schemathesis makes of the OpenAPI document, no answer is a 500 or one
// that the document does not describe.
func TestAPIFuzzedByItsDocument(t *testing.T) {
	needsE2E(t)
	t.Parallel()
	fuzzer := os.Getenv(envFuzzer)
	if fuzzer == "" {
		t.Skipf("%s names no schemathesis: make e2e brings one", envFuzzer)
	}
	p, _ := standalone(t, "--no-demo", "--log-level=error")
	api := p.sees(p.out, `API  (http://\S+)`, 30*time.Second)
	// Things that are there, so that more than "not found" is met.
	far := map[string]any{"type": "once", "run_at": time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)}
	var jobs, runs []string
	for range 4 {
		j := call(t, "POST", api+"/v1/jobs", map[string]any{"schedule": far, "target": map[string]any{"type": "queue", "service": "hello"}}, 201)
		id := j["id"].(string)
		jobs = append(jobs, id)
		runs = append(runs, j["next_run_id"].(string), call(t, "POST", api+"/v1/jobs/"+id+"/run", nil, 202)["id"].(string))
	}
	trigger := call(t, "POST", api+"/v1/triggers", map[string]any{"service": "hello", "delay": "24h"}, 201)
	list := func(ids ...string) string { return `["` + strings.Join(ids, `", "`) + `"]` }
	var config strings.Builder
	for name, of := range map[string][]string{"jobs": jobs, "runs": runs, "triggers": {trigger["handle"].(string)}, "services": {"hello"}} {
		param := map[string]string{"jobs": "id", "runs": "id", "triggers": "handle", "services": "name"}[name]
		fmt.Fprintf(&config, "[dictionaries.%s]\nvalues = %s\n", name, list(of...))
		fmt.Fprintf(&config, "[[operations]]\ninclude-path-regex = '^/v1/%s/'\nparameters = { %q = { dictionary = %q, probability = 0.9 } }\n", name, "path."+param, name)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "schemathesis.toml")
	require.NoError(t, os.WriteFile(file, []byte(config.String()), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, fuzzer, "--config-file", file, "run", api+"/openapi.json",
		"--phases", "examples,coverage,fuzzing", "--max-time", "60", "--max-examples", "30", "--workers", "2",
		"--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance",
		"--request-timeout", "30", "--generation-database", "none", "--no-color")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		_, failures, _ := bytes.Cut(out, []byte("= FAILURES ="))
		t.Fatalf("schemathesis: %v\n%s", err, failures[:min(len(failures), 20_000)])
	}
	m := regexp.MustCompile(`(\d+) generated, (\d+) passed`).FindSubmatch(out)
	require.NotNil(t, m, "%s", out)
	t.Logf("schemathesis: %s", m[0])
}
