package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/forecast"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/lifecycle"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/runner"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	runs "github.com/myosin-jobs/myosin/services/runner/app"
)

// managed is the managed layer of the process.
type managed struct {
	control     *jobcontrol.Control
	forecasts   *forecast.Reader
	callbackKey target.Secret
}

// poll is how long a poll of the runs queues is; 0: the worker's own.
func (s *process) poll() time.Duration {
	if s.engine != nil {
		return embeddedPoll
	}
	return 0
}

// ensureRuns makes the services of the managed layer unless they exist.
func (s *process) ensureRuns(ctx context.Context) error {
	for _, name := range []string{jobcontrol.Service, jobcontrol.UrgentService} {
		svc, err := s.p.Source.Get(ctx, name)
		if errors.Is(err, registry.ErrUnknown) {
			svc, err = s.p.EnsureRuns(ctx, name)
		}
		if err == nil && s.engine != nil {
			err = s.address(ctx, &svc)
		}
		if err != nil {
			return fmt.Errorf("service %s: %w", name, err)
		}
	}
	return nil
}

// manage makes the control and the runner. Targets may be on this machine, and
// every owning service: nobody else can reach the API.
func (s *process) manage(ctx context.Context, members membership.Provider, counter *forecast.Counter) error {
	var err error
	if s.control, err = runs.NewControl(s.p, s.b, counter); err != nil {
		return err
	}
	// Tokens live as long as the process: runs that a target accepted before are
	// ended by the watchdog, or by complete without a token.
	s.callbackKey = target.NewSecret()
	built, err := runs.Build(ctx, runs.BuildOptions{
		Platform: s.p, Control: s.control, Members: members, Owner: "r" + trigger.NewID().String(),
		Targets: runs.Targets{AllowLoopback: true, AnyService: true, CallbackKeys: s.callbackKey.Reveal()},
		Runner:  runner.Options{Concurrency: 50, UrgentSlots: 10, Wait: s.poll(), Grace: grace / 2},
		Log:     s.log, Registerer: s.reg,
	})
	if err != nil {
		return err
	}
	s.parts = append(s.parts, built.Components...)
	reader, err := forecast.NewReader(forecast.ReaderOptions{
		Store: s.p.Forecast, Services: s.p.ServiceNames, Now: s.p.Clock.Now, Log: s.log, Registerer: s.reg,
	})
	if err != nil {
		return err
	}
	s.forecasts = reader
	s.parts = append(s.parts, lifecycle.Component{Name: "forecast reader", Run: reader.Run})
	return nil
}
