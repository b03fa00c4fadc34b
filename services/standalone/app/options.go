// Package app wires everything into one process: the drain, the scheduler, the
// HTTP API, and a sample service with its worker, over an embedded AWS engine or
// over any other endpoint.
//
// It owns the wiring, the demo and what is shown of both. It refuses addresses
// that others than this machine can reach, since neither the API nor the engine
// asks for keys. [Run] serves until its context ends; several may run in one
// process, but share the data of the embedded engine.
package app

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/myosin-jobs/myosin/pkg/access/seal"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	api "github.com/myosin-jobs/myosin/services/api/app"
)

// What scripts may rely on.
const (
	DefaultAPIAddr = api.DefaultAddr
	DefaultAWSAddr = "127.0.0.1:4566"
	// Sample is the service that the demo submits to.
	Sample = "hello"
)

// embeddedPartitions is small, because kumo reads the whole table for a query.
const embeddedPartitions = 4

// Options configure [Run].
type Options struct {
	// APIAddr and AWSAddr are loopback host:port; port 0 takes a free one.
	// Empty: [DefaultAPIAddr], [DefaultAWSAddr].
	APIAddr, AWSAddr string
	// Prefix of the installation. Empty: platform.DefaultPrefix.
	Prefix string
	// External uses the endpoint of the environment (AWS_ENDPOINT_URL, else AWS)
	// instead of the embedded engine. AWSAddr and DataDir are not used then.
	External bool
	// Create makes tables, buffers and the sample service where they are missing.
	// The embedded engine always does; elsewhere Terraform should.
	Create bool
	// Partitions per lane of a table that is made. 0: 4 for the embedded engine,
	// trigger.DefaultPartitions elsewhere.
	Partitions int
	// DataDir keeps the embedded engine's data over restarts; see
	// embedded.Options. Empty: in memory.
	DataDir string
	// Secrets says how signing secrets are sealed, CallbackKeys sign callback tokens.
	// Empty: keys of the process's own, kept in DataDir; with External no signing
	// secrets can be kept, and tokens are good while the process lives.
	Secrets      seal.Settings
	CallbackKeys string
	// NoDemo submits no sample jobs.
	NoDemo bool
	// ExitAfterDemo stops when the demo is through, with its error, if any.
	ExitAfterDemo bool
	// LogLevel and LogFormat are those of telemetry.LogOptions, but empty is warn
	// and text.
	LogLevel, LogFormat string
	// Log overrides both; nil: one is made, on standard error.
	Log *slog.Logger
	// Out takes what is shown to people. nil: discarded.
	Out io.Writer
	// Ready is told the addresses once everything serves; nil: nobody is.
	Ready func(Addrs)
}

// Addrs are where a process is reached.
type Addrs struct {
	API string // host:port
	AWS string // base URL; empty with External
}

// Bind adds the options to the settings of a process.
func (o *Options) Bind(s *settings.Set) {
	o.APIAddr, o.AWSAddr, o.Prefix = DefaultAPIAddr, DefaultAWSAddr, platform.DefaultPrefix
	o.LogLevel, o.LogFormat = "warn", "text"
	s.StringVar(&o.APIAddr, "api-addr", "MYOSIN_API_ADDR", "loopback host:port of the API, probes and metrics")
	s.StringVar(&o.AWSAddr, "aws-addr", "MYOSIN_AWS_ADDR", "loopback host:port of the embedded AWS endpoint")
	s.StringVar(&o.Prefix, "prefix", "MYOSIN_PREFIX", "prefix of every table and queue")
	s.BoolVar(&o.Create, "create", "MYOSIN_CREATE", "with --embedded=false: make tables, buffers and the sample service where they are missing")
	s.IntVar(&o.Partitions, "partitions", "MYOSIN_PARTITIONS", "partitions per lane of a table that is made; 0: 4 embedded, else 64")
	s.StringVar(&o.DataDir, "data-dir", "MYOSIN_DATA_DIR", "keep the embedded engine's data here, over orderly stops: a kill loses the last seconds; empty: in memory")
	o.Secrets.Settings(s)
	s.StringVar(&o.CallbackKeys, "callback-keys", "MYOSIN_CALLBACK_KEYS", "keys (whsec_…) that sign callback tokens, separated by commas; empty: one of the process's own")
	s.Secret("callback-keys")
	s.BoolVar(&o.NoDemo, "no-demo", "MYOSIN_NO_DEMO", "submit no sample jobs")
	s.BoolVar(&o.ExitAfterDemo, "exit-after-demo", "MYOSIN_EXIT_AFTER_DEMO", "stop once the sample jobs are through")
	s.StringVar(&o.LogLevel, "log-level", "MYOSIN_LOG_LEVEL", "debug, info, warn or error; on standard error")
	s.StringVar(&o.LogFormat, "log-format", "MYOSIN_LOG_FORMAT", "text or json")
}

func (o *Options) setDefaults() {
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	def(&o.APIAddr, DefaultAPIAddr)
	def(&o.AWSAddr, DefaultAWSAddr)
	def(&o.Prefix, platform.DefaultPrefix)
	def(&o.LogLevel, "warn")
	def(&o.LogFormat, "text")
	if !o.External {
		o.Create = true
		if o.Partitions == 0 {
			o.Partitions = embeddedPartitions
		}
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
}

// Validate reports every option at fault, joined.
func (o *Options) Validate() error {
	d := *o
	d.setDefaults()
	var errs []error
	flag := func(name string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", name, err))
		}
	}
	flag("api-addr", api.CheckAddr(d.APIAddr))
	if !d.External {
		flag("aws-addr", api.CheckAddr(d.AWSAddr))
	}
	flag("prefix", platform.Names{Prefix: d.Prefix}.Validate())
	if d.Partitions < 0 || d.Partitions > trigger.MaxPartitions {
		flag("partitions", fmt.Errorf("%d; want 0 (the default) to %d", d.Partitions, trigger.MaxPartitions))
	}
	if d.External && d.DataDir != "" {
		flag("data-dir", errors.New("belongs to the embedded engine"))
	}
	if d.ExitAfterDemo && d.NoDemo {
		flag("exit-after-demo", errors.New("there is none with --no-demo"))
	}
	l := telemetry.LogOptions{Level: d.LogLevel, Format: d.LogFormat}
	return errors.Join(append(errs, l.Validate())...)
}
