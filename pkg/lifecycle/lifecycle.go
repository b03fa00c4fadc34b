// Package lifecycle owns how a process starts and stops its long-lived parts.
//
// There is one contract: a part is a function Run(ctx) that works until ctx
// ends, gives back what it holds, waits for its goroutines and returns nil. No
// Start, no Stop, no state to get wrong. Package lifecycletest hammers it.
//
// It refuses to hang: whatever does not stop in time is named and left behind.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

// DefaultGrace fits into the 30 s that Kubernetes gives a pod.
const DefaultGrace = 25 * time.Second

// ErrStuck is wrapped by the error of [Run] that names the components which did
// not stop within the grace.
var ErrStuck = errors.New("did not stop in time")

// Component is one long-lived part of a process.
type Component struct {
	Name string
	// Run works until ctx ends and returns nil then (an error that wraps the
	// context's is taken for nil). A nil before that means that the part has
	// nothing left to do; the others go on. An error stops the process.
	Run func(ctx context.Context) error
}

// Run starts the components in order and waits until ctx ends, one fails, or
// all are through. Then it stops them one by one in reverse order, each only
// after the one before has returned: list what others stand on first (metrics
// server, membership, registry) and what takes in work last (loops, listeners),
// so that work stops coming before what it needs goes away. Their contexts carry
// the values of ctx, not its end.
//
// Stopping takes at most grace (0: [DefaultGrace]). When nine tenths of it have
// passed, all that are left are stopped at once and have the last tenth. The
// error joins the failures, each with its component's name, and names those that
// did not stop; their goroutines are lost, so the process should exit. log may
// be nil.
func Run(ctx context.Context, grace time.Duration, log *slog.Logger, components ...Component) error {
	if grace <= 0 {
		grace = DefaultGrace
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	g := &group{log: log, ended: make(chan *part, len(components))} // room for all: nobody blocks
	for _, c := range components {
		g.start(ctx, c)
	}
	g.wait(ctx)
	g.stop(ctx, grace)
	return g.result()
}

type part struct {
	Component
	cancel  context.CancelFunc
	stopped bool          // told to
	done    chan struct{} // closed after err is set
	err     error
}

type group struct {
	log   *slog.Logger
	parts []*part
	ended chan *part
}

func (g *group) start(ctx context.Context, c Component) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{Component: c, cancel: cancel, done: make(chan struct{})}
	g.parts = append(g.parts, p)
	g.log.DebugContext(ctx, "starting", telemetry.KeyComponent, p.Name)
	go func() {
		defer cancel()
		p.err = p.Run(own)
		close(p.done)
		g.ended <- p
	}()
}

// wait returns when it is time to stop.
func (g *group) wait(ctx context.Context) {
	for range g.parts {
		select {
		case p := <-g.ended:
			if p.err != nil {
				g.log.ErrorContext(ctx, "component failed, stopping", telemetry.KeyComponent, p.Name)
				return
			}
			g.log.InfoContext(ctx, "component is through", telemetry.KeyComponent, p.Name)
		case <-ctx.Done():
			g.log.InfoContext(ctx, "stopping")
			return
		}
	}
}

func (g *group) stop(ctx context.Context, grace time.Duration) {
	last := grace / 10
	began := time.Now()
	timer := time.NewTimer(grace - last)
	defer timer.Stop()
	hurry := false
	for _, p := range slices.Backward(g.parts) {
		p.stop()
		for running := true; running; {
			select {
			case <-p.done:
				running = false
				g.log.DebugContext(ctx, "stopped", telemetry.KeyComponent, p.Name, telemetry.KeyDuration, time.Since(began))
			case <-timer.C:
				if hurry {
					return
				}
				hurry = true
				g.log.WarnContext(ctx, "component is slow to stop, stopping all others", telemetry.KeyComponent, p.Name)
				for _, other := range g.parts {
					other.stop()
				}
				timer.Reset(last)
			}
		}
	}
}

func (p *part) stop() {
	select {
	case <-p.done:
	default:
		p.stopped = true
		p.cancel()
	}
}

// result joins the failures in the order of the components.
func (g *group) result() error {
	var errs []error
	var lost []string
	for _, p := range g.parts {
		select {
		case <-p.done:
		default:
			lost = append(lost, p.Name)
			continue
		}
		if p.err != nil && !(p.stopped && errors.Is(p.err, context.Canceled)) {
			errs = append(errs, fmt.Errorf("%s: %w", p.Name, p.err))
		}
	}
	if len(lost) > 0 {
		errs = append(errs, fmt.Errorf("%w: %s", ErrStuck, strings.Join(lost, ", ")))
	}
	return errors.Join(errs...)
}
