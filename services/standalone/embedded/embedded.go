// Package embedded owns the AWS engine inside the standalone process: kumo,
// behind a fixed address, with the refusals of SQS that kumo leaves out, and
// with its snapshots written before the process ends.
//
// It refuses addresses that others than this machine can reach, since the
// engine takes any credentials. kumo keeps its state per process: two engines
// in one process share it. An [Engine] runs once; everything else here may be
// used concurrently.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/sivchari/kumo"
)

// Options configure [Listen].
type Options struct {
	// Addr is the host:port the engine is reached at; port 0 takes a free one.
	// Required.
	Addr string
	// DataDir holds the snapshots; empty: the data is gone with the process. The
	// process must have been started with the environment of [Environ].
	DataDir string
	// Log takes failures to serve; nil: discarded.
	Log *slog.Logger
}

const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	// shutdownTimeout is how long calls under way have when the engine stops;
	// then they are cut: long polls of other processes, mostly.
	shutdownTimeout = time.Second
	backendConns    = 256
)

// Engine is the AWS endpoint of the process.
type Engine struct {
	o        Options
	listener net.Listener
	backend  *kumo.Server
	proxy    http.Handler
	close    sync.Once
	conns    *http.Transport
}

// Listen binds the address and starts kumo; calls are answered once Run runs.
// Without Run, Close frees both.
func Listen(ctx context.Context, o Options) (*Engine, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.DataDir != "" {
		if got := os.Getenv(envDataDir); got != o.DataDir {
			return nil, fmt.Errorf("embedded: data directory %q: the process was started with %s=%q, which kumo has read by now", o.DataDir, envDataDir, got)
		}
		if err := os.MkdirAll(o.DataDir, 0o750); err != nil {
			return nil, fmt.Errorf("embedded: data directory: %w", err)
		}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	e := &Engine{o: o, listener: l, backend: kumo.NewServer()}
	target, err := url.Parse(e.backend.URL)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("embedded: %w", err), e.Close())
	}
	e.conns = &http.Transport{
		MaxIdleConns: backendConns, MaxIdleConnsPerHost: backendConns, IdleConnTimeout: idleTimeout,
		DisableCompression: true, WriteBufferSize: 32 << 10, ReadBufferSize: 32 << 10,
	}
	e.proxy = strict(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // the caller's, as a signature would cover
		},
		Transport:      e.conns,
		FlushInterval:  -1,
		ModifyResponse: e.modify,
		ErrorLog:       slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug), // callers that hang up
		BufferPool:     &buffers{},
	})
	return e, nil
}

// Addr returns the bound host:port.
func (e *Engine) Addr() string { return e.listener.Addr().String() }

// URL returns the base URL of all services.
func (e *Engine) URL() string { return "http://" + e.Addr() }

// Direct returns the base URL of kumo itself, for callers in this process: a call
// through the front costs about 180 µs more, and what the front adds they check
// themselves.
func (e *Engine) Direct() string { return e.backend.URL }

// Close stops kumo and frees the address. Idempotent.
func (e *Engine) Close() error {
	var err error
	e.close.Do(func() {
		if err = e.listener.Close(); errors.Is(err, net.ErrClosed) {
			err = nil
		}
		if e.conns != nil {
			e.conns.CloseIdleConnections()
		}
		e.backend.Close()
	})
	if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	return nil
}

// Run serves until ctx ends. Then calls under way have a second, and with a data
// directory everything acknowledged is on disk when it returns.
func (e *Engine) Run(ctx context.Context) error {
	// Requests outlive ctx by the shutdown timeout, then their contexts end, which
	// makes kumo give up their long polls.
	calls, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	srv := &http.Server{
		Handler:           e.proxy,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          slog.NewLogLogger(e.o.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return calls },
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(e.listener) }()
	var err error
	select {
	case err = <-served:
		err = fmt.Errorf("embedded: %w", err)
	case <-ctx.Done():
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		if srv.Shutdown(end) != nil {
			cut()
			_ = srv.Close() // its errors are those of cut connections
		}
		cancel()
		if e := <-served; !errors.Is(e, http.ErrServerClosed) {
			err = fmt.Errorf("embedded: %w", e)
		}
	}
	if e.o.DataDir != "" {
		err = errors.Join(err, e.flush(context.WithoutCancel(ctx)))
	}
	return errors.Join(err, e.Close())
}

// buffers is a pool for the reverse proxy.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, bufferSize)
}

func (b *buffers) Put(p []byte) { b.pool.Put(&p) }
