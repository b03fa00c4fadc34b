package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/myosin-jobs/myosin/pkg/target"
)

// endpoint is the sample HTTP target: it shows the runs that call it, and fails
// the first attempt of those that ask for it by their path.
type endpoint struct {
	show     *printer
	listener net.Listener
	server   *http.Server
	count    atomic.Int64
	called   chan call // of the demo; it holds all of them
}

// call is one attempt that arrived.
type call struct {
	run     string
	attempt string
	code    int
}

const (
	endpointPath = "/hello"
	flakyPath    = "/flaky" // fails the first attempt of each run
)

func newEndpoint(show *printer) (*endpoint, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("sample target: %w", err)
	}
	e := &endpoint{show: show, listener: l, called: make(chan call, 64)}
	mux := http.NewServeMux()
	mux.HandleFunc(endpointPath, e.serve)
	mux.HandleFunc(flakyPath, e.serve)
	e.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return e, nil
}

func (e *endpoint) url(path string) string { return "http://" + e.listener.Addr().String() + path }

func (e *endpoint) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		http.Error(w, "the body did not arrive", http.StatusBadRequest)
		return
	}
	c := call{run: r.Header.Get(target.HeaderRunID), attempt: r.Header.Get(target.HeaderAttempt), code: http.StatusOK}
	if r.URL.Path == flakyPath && c.attempt == "1" {
		c.code = http.StatusServiceUnavailable
	}
	e.count.Add(1)
	if r.Header.Get(demoHeader) == "" {
		e.show.printf("%s  %s called, attempt %s: %s → %d\n", time.Now().Format("15:04:05.000"), r.URL.Path, shown(c.attempt), shown(string(body)), c.code)
	} else {
		select {
		case e.called <- c:
		default: // nobody waits for more
		}
	}
	w.WriteHeader(c.code)
	_, _ = io.WriteString(w, http.StatusText(c.code)) // whoever called has gone
}

// run serves until ctx ends.
func (e *endpoint) run(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- e.server.Serve(e.listener) }()
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace/3)
	defer cancel()
	err := e.server.Shutdown(ctx)
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
