// Package engine owns the AWS engine of a benchmark: kumo in a child process,
// which is this program again, so that what it uses is not counted as ours. An
// [Engine] may be used concurrently.
package engine

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sivchari/kumo"

	"github.com/myosin-jobs/myosin/services/standalone/embedded"
	"github.com/myosin-jobs/myosin/tools/bench/internal/child"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
)

// Command is the argument by which this program becomes the engine.
const Command = "engine-process"

// Describe names the engine and its version.
func Describe() string { return "kumo " + host.Module("github.com/sivchari/kumo") }

// Isolate takes every profile, credential and endpoint of AWS out of this
// process's environment; see embedded.Environ.
func Isolate() error {
	clean := embedded.Environ(os.Environ(), "")
	os.Clearenv()
	for _, kv := range clean {
		name, value, _ := strings.Cut(kv, "=")
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("engine: environment: %w", err)
		}
	}
	return nil
}

// Serve is the child: it serves until in ends.
func Serve(in io.Reader, out io.Writer) error {
	srv := kumo.NewServer()
	// Not Close: it would wait for connections that the parent has let go of.
	link := child.NewLink(in, out)
	if err := link.Ready(srv.URL); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return link.Serve(nil)
}

// Engine is a running child.
type Engine struct{ *child.Process }

// Start starts the child.
func Start(ctx context.Context) (*Engine, error) {
	p, err := child.Start(ctx, child.Options{Name: "engine", Args: []string{Command}})
	if err != nil {
		return nil, err
	}
	return &Engine{p}, nil
}

// URL is the base URL of all services.
func (e *Engine) URL() string { return e.Ready() }

// Close ends the child and waits for it.
func (e *Engine) Close() error { return e.Stop() }
