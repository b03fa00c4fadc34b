// Package app wires the HTTP API: triggers, for callers without SQS access and
// for owning services that may not use the table, and the managed layer: jobs,
// runs, dead letters and the records of tenants.
//
// It owns the surface (paths, problems, limits, documents, who may do what) and
// refuses to do the work itself: package client schedules triggers, package
// jobcontrol changes jobs and runs. Without keys it binds to loopback addresses
// alone. Handlers may be used concurrently; [Run] serves until its context ends.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/access/seal"
	"github.com/myosin-jobs/myosin/pkg/forecast"
	"github.com/myosin-jobs/myosin/pkg/lifecycle"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

// requestGrace is how long requests under way have when the process stops: the
// longest that a change waits for the backend, within the process's own grace.
const requestGrace = 20 * time.Second

// DefaultAddr is where the API listens unless told otherwise.
const DefaultAddr = "127.0.0.1:8080"

// Options configure [Run].
type Options struct {
	// Addr is host:port, on a loopback address unless there are keys; port 0 takes
	// a free one. Empty: [DefaultAddr].
	Addr string
	// Keys asks for an API key, or a token, with every request.
	Keys bool
	// Issuer and Audience make bearer tokens of an OpenID Connect issuer be taken as
	// well; they need Keys. Empty: none are.
	Issuer, Audience string
	// AllowTargets lists private address ranges that every tenant may target, as
	// CIDRs; AllowLoopback lets targets be on this machine. As the runners have it.
	AllowTargets  string
	AllowLoopback bool
	// CallbackKeys verify callback tokens, separated by commas: those of the
	// runners. Empty: heartbeat and complete take credentials alone.
	CallbackKeys string
	// Secrets says how signing secrets are sealed, as the runners open them. Zero:
	// there is no /v1/secrets.
	Secrets seal.Settings
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
	s.StringVar(&o.Addr, "addr", "MYOSIN_API_ADDR", "host:port of the API, probes and metrics; a loopback address without keys")
	s.BoolVar(&o.Keys, "keys", "MYOSIN_API_KEYS", "ask for an API key, or a token, with every request")
	s.StringVar(&o.Issuer, "oidc-issuer", "MYOSIN_OIDC_ISSUER", "OpenID Connect issuer whose tokens are taken beside keys")
	s.StringVar(&o.Audience, "oidc-audience", "MYOSIN_OIDC_AUDIENCE", "audience that such a token must name")
	s.StringVar(&o.AllowTargets, "allow-targets", "MYOSIN_ALLOW_TARGETS", "private address ranges that targets may be in, as CIDRs separated by commas")
	s.BoolVar(&o.AllowLoopback, "allow-loopback-targets", "MYOSIN_ALLOW_LOOPBACK_TARGETS", "let targets be on this machine: never in a shared installation")
	s.StringVar(&o.CallbackKeys, "callback-keys", "MYOSIN_CALLBACK_KEYS", "keys (whsec_…) that callback tokens are signed with, separated by commas: those of the runners")
	s.Secret("callback-keys")
	o.Secrets.Settings(s)
	s.StringVar(&o.Prefix, "prefix", "MYOSIN_PREFIX", "prefix of every table and queue")
	s.StringVar(&o.LogLevel, "log-level", "MYOSIN_LOG_LEVEL", "debug, info, warn or error")
	s.StringVar(&o.LogFormat, "log-format", "MYOSIN_LOG_FORMAT", "json or text")
}

// Validate reports every option at fault, joined.
func (o *Options) Validate() error {
	var errs []error
	if o.Addr != "" && !o.Keys {
		errs = append(errs, CheckAddr(o.Addr))
	}
	if o.Issuer != "" || o.Audience != "" {
		if !o.Keys {
			errs = append(errs, errors.New("oidc: needs keys"))
		}
		if err := o.oidc().Validate(); err != nil {
			errs = append(errs, fmt.Errorf("oidc: %w", err))
		}
	}
	_, err := o.signer()
	errs = append(errs, err)
	_, err = o.guard()
	errs = append(errs, err)
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

// Run serves the API until ctx ends. It waits for an installation that cannot be
// reached yet.
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
	if err := p.WaitReach(ctx, log); err != nil {
		return nil //nolint:nilerr // stopped before it began.
	}
	buffers, err := p.WaitBuffers(ctx, log)
	if err != nil {
		return nil //nolint:nilerr // as above.
	}
	m, err := open(p, buffers, &o, log, reg)
	if err != nil {
		return fmt.Errorf("api: %w", err)
	}
	server, err := Server(m.server)
	if err != nil {
		return fmt.Errorf("api: %w", err)
	}
	log.InfoContext(ctx, "listening", "address", server.Addr(), "keys", o.Keys)
	if o.Ready != nil {
		o.Ready(server.Addr())
	}
	return lifecycle.Run(ctx, 0, log,
		lifecycle.Component{Name: "registry", Run: p.Services.Run},
		lifecycle.Component{Name: "forecast", Run: m.counter.Run},
		lifecycle.Component{Name: "forecast reader", Run: m.reader.Run},
		lifecycle.Component{Name: "api", Run: server.Run},
	)
}

// opened is what a process of the API consists of.
type opened struct {
	server  ServerOptions
	counter *forecast.Counter
	reader  *forecast.Reader
}

func open(p *platform.Platform, b platform.Buffers, o *Options, log *slog.Logger, reg *prometheus.Registry) (*opened, error) {
	m := &opened{server: ServerOptions{Platform: p, Buffers: b, Addr: o.Addr, Log: log, Registry: reg, Grace: requestGrace}}
	var err error
	m.counter, err = forecast.NewCounter(forecast.CounterOptions{Store: p.Forecast, Now: p.Clock.Now, Log: log, Registerer: reg})
	if err != nil {
		return nil, err
	}
	m.reader, err = forecast.NewReader(forecast.ReaderOptions{
		Store: p.Forecast, Services: p.ServiceNames, Now: p.Clock.Now, Log: log, Registerer: reg,
	})
	if err != nil {
		return nil, err
	}
	m.server.Forecasts = m.reader
	if m.server.Control, err = NewControl(p, b, m.counter); err != nil {
		return nil, err
	}
	if m.server.Guard, err = o.guard(); err != nil {
		return nil, err
	}
	if m.server.Callbacks, err = o.signer(); err != nil {
		return nil, err
	}
	if m.server.Sealer, err = o.Secrets.Open(p.Config, p.Clock.Now); err != nil {
		return nil, err
	}
	if !o.Keys {
		return m, nil
	}
	options := access.Options{Keys: KeyStore{Records: p.Jobs}, Now: p.Clock.Now, Log: log, Registerer: reg}
	if o.Issuer != "" {
		options.OIDC = o.oidc()
	}
	if m.server.Auth, err = access.NewAuthenticator(options); err != nil {
		return nil, err
	}
	return m, nil
}

func (o *Options) oidc() *access.OIDC { return &access.OIDC{Issuer: o.Issuer, Audience: o.Audience} }

func (o *Options) guard() (*target.Guard, error) {
	options := target.GuardOptions{AllowLoopback: o.AllowLoopback}
	if o.AllowTargets != "" {
		var err error
		if options.Allow, err = target.ParseAllow(o.AllowTargets); err != nil {
			return nil, fmt.Errorf("allow targets: %w", err)
		}
	}
	return target.NewGuard(options), nil
}

// signer returns what verifies callback tokens; nil without keys.
func (o *Options) signer() (*target.Signer, error) {
	if strings.TrimSpace(o.CallbackKeys) == "" {
		return nil, nil //nolint:nilnil // no signer is the answer.
	}
	keys := strings.Split(o.CallbackKeys, ",")
	secrets := make([]target.Secret, len(keys))
	for i, key := range keys {
		var err error
		if secrets[i], err = target.ParseSecret(strings.TrimSpace(key)); err != nil {
			return nil, fmt.Errorf("callback key %d: %w", i+1, err)
		}
	}
	return target.NewSigner(secrets...)
}
