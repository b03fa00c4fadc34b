// Package app wires the HTTP API: the trigger part of it so far, for callers
// without SQS access, and for owning services that may not use the table.
//
// It owns the surface (paths, problems, limits, documents) and refuses to do the
// work itself: package client schedules, looks up, moves and cancels. Without
// keys, which a later release brings, it binds to loopback addresses alone.
// Handlers may be used concurrently; [Run] serves until its context ends.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/lifecycle"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

// DefaultAddr is where the API listens unless told otherwise.
const DefaultAddr = "127.0.0.1:8080"

// Options configure [Run].
type Options struct {
	// Addr is host:port on a loopback address; port 0 takes a free one. Empty:
	// [DefaultAddr].
	Addr string
	// Prefix of the installation. Empty: platform.DefaultPrefix.
	Prefix string
	// LogLevel and LogFormat are those of telemetry.LogOptions.
	LogLevel, LogFormat string
	// Log overrides both; nil: one is made, on standard error.
	Log *slog.Logger
	// Ready is told the bound address once the API serves; nil: nobody is.
	Ready func(addr string)
}

// Bind adds the options to the settings of a process.
func (o *Options) Bind(s *settings.Set) {
	o.Addr, o.Prefix, o.LogLevel, o.LogFormat = DefaultAddr, platform.DefaultPrefix, "info", "json"
	s.StringVar(&o.Addr, "addr", "MYOSIN_API_ADDR", "loopback host:port of the API, probes and metrics")
	s.StringVar(&o.Prefix, "prefix", "MYOSIN_PREFIX", "prefix of every table and queue")
	s.StringVar(&o.LogLevel, "log-level", "MYOSIN_LOG_LEVEL", "debug, info, warn or error")
	s.StringVar(&o.LogFormat, "log-format", "MYOSIN_LOG_FORMAT", "json or text")
}

// Validate reports every option at fault, joined.
func (o *Options) Validate() error {
	var errs []error
	if o.Addr != "" {
		errs = append(errs, CheckAddr(o.Addr))
	}
	if o.Prefix != "" {
		errs = append(errs, platform.Names{Prefix: o.Prefix}.Validate())
	}
	l := telemetry.LogOptions{Level: o.LogLevel, Format: o.LogFormat}
	return errors.Join(append(errs, l.Validate())...)
}

// CheckAddr refuses addresses that others than this machine can reach.
func CheckAddr(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("address %q: want host:port", addr)
	}
	if host == "" || !loopback(addr) {
		return fmt.Errorf("address %q: without keys it must be on this machine alone, such as 127.0.0.1:8080", addr)
	}
	return nil
}

// Run serves the API until ctx ends.
func Run(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return fmt.Errorf("api: %w", err)
	}
	if o.Addr == "" {
		o.Addr = DefaultAddr
	}
	log := o.Log
	if log == nil {
		var err error
		if log, err = telemetry.NewLogger(telemetry.LogOptions{Level: o.LogLevel, Format: o.LogFormat, Process: "api"}); err != nil {
			return fmt.Errorf("api: %w", err)
		}
	}
	reg := telemetry.NewRegistry("api")
	p, err := platform.Open(ctx, platform.Options{Prefix: o.Prefix, Log: log, Registerer: reg})
	if err != nil {
		return fmt.Errorf("api: %w", err)
	}
	if err := p.Reach(ctx); err != nil {
		return fmt.Errorf("api: %w", err)
	}
	buffers, err := p.Buffers(ctx)
	if err != nil {
		return fmt.Errorf("api: %w", err)
	}
	server, err := Server(ServerOptions{Platform: p, Buffers: buffers, Addr: o.Addr, Log: log, Registry: reg})
	if err != nil {
		return fmt.Errorf("api: %w", err)
	}
	log.InfoContext(ctx, "listening", "address", server.Addr())
	if o.Ready != nil {
		o.Ready(server.Addr())
	}
	return lifecycle.Run(ctx, 0, log,
		lifecycle.Component{Name: "registry", Run: p.Services.Run},
		lifecycle.Component{Name: "api", Run: server.Run},
	)
}

// ServerOptions configure [Server]. Everything but Checks is required.
type ServerOptions struct {
	Platform *platform.Platform
	Buffers  platform.Buffers
	Addr     string
	Log      *slog.Logger
	Registry *prometheus.Registry
	// Checks of readiness beside the registry's and the clock's.
	Checks []telemetry.Check
}

// Server binds the address and returns the API over an installation, with
// probes and metrics. Whoever runs it runs the platform's registry too.
func Server(o ServerOptions) (*telemetry.Server, error) {
	if err := CheckAddr(o.Addr); err != nil {
		return nil, err
	}
	p := o.Platform
	jobs, err := NewClient(p, o.Buffers)
	if err != nil {
		return nil, err
	}
	handler, err := NewHandler(HandlerOptions{
		Jobs: jobs, Services: p.Source, Partitions: p.Store, Now: p.Clock.Now, Log: o.Log, Metrics: o.Registry,
	})
	if err != nil {
		return nil, err
	}
	return telemetry.NewServer(telemetry.ServerOptions{
		Addr: o.Addr, Gatherer: o.Registry, Handler: handler, Log: o.Log,
		Checks: append([]telemetry.Check{
			{Name: "registry", Func: p.Services.Ready},
			{Name: "clock", Func: p.Clock.Ready},
		}, o.Checks...),
	})
}

// NewClient returns a client for a role that may use an installation's table.
func NewClient(p *platform.Platform, b platform.Buffers) (*client.Client, error) {
	return p.ClientFor(b)
}
