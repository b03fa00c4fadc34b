package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/jobsapi"
)

// The ways of the target, by path.
const (
	pathOK    = "/ok"
	pathFlaky = "/flaky" // 503 now and then
	pathSlow  = "/slow"
	pathReset = "/reset" // cuts the connection now and then
	pathLong  = "/long"  // 202, and completes later
	pathDead  = "/dead"  // always 500
)

// Target is a server that runs call.
type Target struct {
	URL     string
	ledger  *Ledger
	api     *http.Client
	server  *httptest.Server
	pending sync.WaitGroup // completions under way
	ctx     context.Context
	stop    context.CancelFunc
}

// NewTarget starts one; it completes long runs over api.
func NewTarget(ctx context.Context, l *Ledger, api http.RoundTripper) *Target {
	t := &Target{ledger: l, api: &http.Client{Transport: api, Timeout: askFor}}
	t.ctx, t.stop = context.WithCancel(ctx)
	t.server = httptest.NewServer(t)
	t.URL = t.server.URL
	return t
}

// Close ends it.
func (t *Target) Close() {
	t.stop()
	t.server.CloseClientConnections()
	t.server.Close()
	t.pending.Wait()
}

type payload struct{ Token string }

// ServeHTTP implements http.Handler.
//
//nolint:gosec // moods, not secrets.
func (t *Target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := Call{Run: r.Header.Get("Idempotency-Key"), Attempt: r.Header.Get("Myosin-Attempt"), Path: r.URL.Path, At: time.Now()}
	var p payload
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&p); err != nil && r.Context().Err() == nil {
		t.ledger.Breach(fmt.Sprintf("the target got a payload that nobody gave: run %s: %v", c.Run, err))
	}
	c.Token = p.Token
	status := http.StatusOK
	switch c.Path {
	case pathFlaky:
		if rand.N(10) < 3 {
			status = http.StatusServiceUnavailable
		}
	case pathSlow:
		pause(t.ctx, time.Duration(500+rand.N(2000))*time.Millisecond)
	case pathReset:
		if rand.N(10) < 3 {
			c.End = time.Now()
			t.ledger.Called(&c)
			cut(w)
			return
		}
	case pathLong:
		w.WriteHeader(http.StatusAccepted)
		t.pending.Go(func() { t.complete(c, r.Header.Get("Myosin-Callback-Token")) })
		return
	case pathDead:
		status = http.StatusInternalServerError
	}
	c.End, c.Worked = time.Now(), status == http.StatusOK
	t.ledger.Called(&c)
	w.WriteHeader(status)
}

// cut resets the connection of a call.
func cut(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if conn, _, err := h.Hijack(); err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // a reset, not an end
			}
			_ = conn.Close()
		}
	}
}

// complete ends a run that was accepted, as soon as the API lets it.
func (t *Target) complete(c Call, token string) {
	pause(t.ctx, time.Duration(300+rand.N(2500))*time.Millisecond) //nolint:gosec // load.
	unsure := false
	for end := time.Now().Add(25 * time.Second); time.Now().Before(end); {
		body, _ := json.Marshal(map[string]any{"attempt": json.RawMessage(c.Attempt), "outcome": "success"}) // digits
		req, err := http.NewRequestWithContext(t.ctx, http.MethodPost, "http://api"+jobsapi.RunsPath+"/"+c.Run+"/complete", bytes.NewReader(body))
		if err != nil {
			break
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := t.api.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			switch {
			case resp.StatusCode == http.StatusOK:
				c.Worked = true
			case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
				unsure = true
			case resp.StatusCode == http.StatusConflict && !unsure:
				// Not accepted yet, or another attempt is under way: the lease will tell.
			case resp.StatusCode != http.StatusConflict:
				t.ledger.Breach(fmt.Sprintf("completion of run %s: %s", c.Run, resp.Status))
				end = time.Time{}
			}
			if c.Worked {
				break
			}
		} else {
			unsure = true
		}
		if !pause(t.ctx, 500*time.Millisecond) {
			break
		}
	}
	c.End, c.Unsure = time.Now(), unsure && !c.Worked
	t.ledger.Called(&c)
}

// pause waits; false if ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
