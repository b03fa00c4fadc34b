package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	// shutdownTimeout is the default of ServerOptions.Grace.
	shutdownTimeout = 2 * time.Second
)

// Check is one condition of readiness. Func must answer at once, from what is
// known already, and may be called concurrently; its error is shown to callers.
type Check struct {
	Name string
	Func func() error
}

// ServerOptions configure a [Server].
type ServerOptions struct {
	// Addr is host:port; port 0 takes a free one. Required.
	Addr string
	// Checks must all pass for /readyz to answer 200; none: always ready.
	Checks []Check
	// Gatherer is shown on /metrics; nil: there is no such page.
	Gatherer prometheus.Gatherer
	// Handler serves every other path; nil: 404.
	Handler http.Handler
	// Grace is how long requests under way have when the server stops. Default 2 s,
	// enough for probes and metrics.
	Grace time.Duration
	// Log takes failures to serve; nil: discarded.
	Log *slog.Logger
}

// Validate reports every option at fault, joined.
func (o *ServerOptions) Validate() error {
	var errs []error
	if _, _, err := net.SplitHostPort(o.Addr); err != nil {
		errs = append(errs, fmt.Errorf("address: %q; want host:port", o.Addr))
	}
	for i, c := range o.Checks {
		if c.Name == "" || c.Func == nil {
			errs = append(errs, fmt.Errorf("checks[%d]: name or func missing", i))
		}
	}
	if o.Grace < 0 {
		errs = append(errs, fmt.Errorf("grace: %s; want 0 (default) or more", o.Grace))
	}
	return errors.Join(errs...)
}

// Server answers /healthz (the process runs), /readyz (it may be given work)
// and /metrics. Safe for concurrent use.
type Server struct {
	o        ServerOptions
	log      *slog.Logger
	listener net.Listener
	draining atomic.Bool
}

// NewServer binds the address, so that a taken port shows before anything else
// starts, and serves once Run is called. Without Run, Close frees the address.
func NewServer(o ServerOptions) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("telemetry server: %w", err)
	}
	if o.Grace == 0 {
		o.Grace = shutdownTimeout
	}
	s := &Server{o: o, log: o.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if s.listener, err = net.Listen("tcp", o.Addr); err != nil {
		return nil, fmt.Errorf("telemetry server: %w", err)
	}
	return s, nil
}

// Addr returns the bound host:port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Drain makes /readyz fail from now on, so that no new work is routed here while
// the process stops. Metrics stay.
func (s *Server) Drain() { s.draining.Store(true) }

// Close frees the address of a server that was never run.
func (s *Server) Close() error {
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("telemetry server: %w", err)
	}
	return nil
}

// Run serves until ctx ends, lets requests under way finish within the grace and
// returns nil. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	srv := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("telemetry server: %w", err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Grace)
	defer cancel()
	if err := srv.Shutdown(end); err != nil {
		_ = srv.Close() // cuts what is left; its errors are those of cut connections
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("telemetry server: %w", err)
	}
	return s.Close() // Serve may not have taken the listener over yet
}

// Handler returns what the server serves, for tests and for mounting elsewhere.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		s.answer(w, http.StatusOK, map[string]bool{"healthy": true})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		r := s.Readiness()
		code := http.StatusOK
		if !r.Ready {
			code = http.StatusServiceUnavailable
		}
		s.answer(w, code, r)
	})
	if s.o.Gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(s.o.Gatherer, promhttp.HandlerOpts{
			ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
			// One broken collector must not blind everyone to the rest.
			ErrorHandling: promhttp.ContinueOnError,
		}))
	}
	if s.o.Handler != nil {
		mux.Handle("/", s.o.Handler)
	}
	return mux
}

// Readiness is the body of /readyz.
type Readiness struct {
	Ready   bool      `json:"ready"`
	Failing []Failing `json:"failing,omitempty"`
}

// Failing is one check that does not pass.
type Failing struct {
	Check  string `json:"check"`
	Reason string `json:"reason"`
}

// Readiness runs every check.
func (s *Server) Readiness() Readiness {
	var r Readiness
	if s.draining.Load() {
		r.Failing = append(r.Failing, Failing{"shutdown", "the process is stopping"})
	}
	for _, c := range s.o.Checks {
		if err := c.Func(); err != nil {
			r.Failing = append(r.Failing, Failing{c.Name, err.Error()})
		}
	}
	r.Ready = len(r.Failing) == 0
	return r
}

func (s *Server) answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		s.log.Debug("answer was not sent", KeyError, err)
	}
}
