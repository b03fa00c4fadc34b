// Package telemetry owns what a process shows of itself: its logger, the names
// of log keys, its metrics registry, and the HTTP server for health, readiness
// and metrics.
//
// It refuses package-level state: loggers and registries are made here and
// handed down. All of it may be used concurrently.
package telemetry

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"
)

// Names of log keys, so that one search finds every line about one thing.
// Payloads, headers, tokens and credentials are never logged under any key.
const (
	KeyAttempt   = "attempt"
	KeyComponent = "component" // part of a process
	KeyCount     = "count"
	KeyDue       = "due"
	KeyDuration  = "duration"
	KeyError     = "error"
	KeyHandle    = "handle"
	KeyLane      = "lane"
	KeyOwner     = "owner" // process start that holds something
	KeyPartition = "partition"
	KeyProcess   = "process" // inbound, scheduler, runner, api, standalone
	KeyQueue     = "queue"
	KeyReason    = "reason"
	KeyService   = "service" // owning service
	KeyTable     = "table"
	KeyTenant    = "tenant"
	KeyTrigger   = "trigger_id"
)

// LogOptions configure [NewLogger].
type LogOptions struct {
	// Output is written to; nil: standard error.
	Output io.Writer
	// Format is "json" or "text"; empty: json.
	Format string
	// Level is "debug", "info", "warn" or "error"; empty: info.
	Level string
	// Process is added to every line as KeyProcess; empty: nothing is.
	Process string
}

// Validate reports every option at fault, joined.
func (o *LogOptions) Validate() error {
	_, err := o.level()
	var errs []error
	switch o.Format {
	case "", "json", "text":
	default:
		errs = append(errs, fmt.Errorf("log format: %q; want json or text", o.Format))
	}
	return errors.Join(append(errs, err)...)
}

func (o *LogOptions) level() (slog.Level, error) {
	switch o.Level {
	case "":
		return slog.LevelInfo, nil
	case "debug", "info", "warn", "error":
		var l slog.Level
		err := l.UnmarshalText([]byte(o.Level))
		return l, err
	}
	return 0, fmt.Errorf("log level: %q; want debug, info, warn or error", o.Level)
}

// NewLogger returns a logger whose times are UTC with milliseconds and whose
// durations read like "1.5s" in both formats.
func NewLogger(o LogOptions) (*slog.Logger, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	level, err := o.level()
	if err != nil {
		return nil, err
	}
	if o.Output == nil {
		o.Output = os.Stderr
	}
	ho := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	var h slog.Handler = slog.NewJSONHandler(o.Output, ho)
	if o.Format == "text" {
		h = slog.NewTextHandler(o.Output, ho)
	}
	log := slog.New(h)
	if o.Process != "" {
		log = log.With(KeyProcess, o.Process)
	}
	return log, nil
}

func readable(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindTime:
		a.Value = slog.StringValue(a.Value.Time().UTC().Format("2006-01-02T15:04:05.000Z"))
	case slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().Round(time.Microsecond).String())
	}
	return a
}
