package runs_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/runs"
)

func TestTheTargetNotesWhatItDid(t *testing.T) {
	completed := make(chan *http.Request, 5)
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { completed <- r }))
	t.Cleanup(api.Close)
	l := runs.NewLedger()
	pool := runs.NewPool(func() []string { return []string{api.Listener.Addr().String()} })
	target := runs.NewTarget(t.Context(), l, pool)
	id := string(job.NewRunID(trigger.NewID(), 1, time.Now().Add(-time.Second)))
	l.Add(runs.Job{Token: "a", Path: "/ok"})
	call := func(path string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target.URL+path, strings.NewReader(`{"token":"a"}`))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", id)
		req.Header.Set("Myosin-Attempt", "3")
		req.Header.Set("Myosin-Callback-Token", "secret")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	require.Equal(t, http.StatusOK, call("/ok"))
	require.Equal(t, http.StatusInternalServerError, call("/dead"))
	require.Equal(t, http.StatusAccepted, call("/long"))
	select {
	case r := <-completed:
		require.Equal(t, "/v1/runs/"+id+"/complete", r.URL.Path)
		require.Equal(t, "Bearer secret", r.Header.Get("Authorization"))
	case <-time.After(10 * time.Second):
		require.Fail(t, "an accepted run was not completed")
	}
	var a *runs.Account
	require.Eventually(t, func() (ended bool) {
		var err error
		a, err = runs.Verdict(t.Context(), l, records{}, runs.Facts{ClockOff: func(time.Time) bool { return false }})
		return err == nil && a.Calls == 3
	}, 10*time.Second, 10*time.Millisecond)
	target.Close()
	pool.Close()
	require.Equal(t, [3]int{1, 3, 2}, [3]int{a.Runs, a.Calls, a.Worked}, "what failed is no work")
	require.Equal(t, 2, a.SameAttempt)
	require.Equal(t, 1, a.Duplicates)
}

func TestARefusedConnectionGoesToTheOtherAPIAndNothingElseIsRepeated(t *testing.T) {
	gone, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	calls := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		body, _ := io.ReadAll(r.Body)
		if string(body) != "body" {
			w.WriteHeader(http.StatusTeapot)
		}
		if r.URL.Path == "/busy" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(api.Close)
	addrs := []string{gone.Addr().String(), api.Listener.Addr().String()}
	pool := runs.NewPool(func() []string { return addrs })
	t.Cleanup(pool.Close)
	post := func(path string) (*http.Response, error) {
		return (&http.Client{Transport: pool}).Post("http://api"+path, "text/plain", strings.NewReader("body"))
	}
	for range 4 { // whichever comes first
		resp, err := post("/")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	resp, err := post("/busy")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.Equal(t, 5, calls)
	addrs = addrs[:1]
	_, err = post("/") //nolint:bodyclose // there is none.
	require.Error(t, err)
}
