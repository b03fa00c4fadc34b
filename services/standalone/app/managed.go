package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/access/seal"
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
	control   *jobcontrol.Control // nil where the services of runs are not there
	forecasts *forecast.Reader
	callbacks *target.Signer
	sealer    access.Sealer // nil: signing secrets cannot be kept
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

// secrets makes what seals signing secrets and signs callback tokens, and returns
// the keys of the latter: of the settings, else the process's own.
func (s *process) secrets() (callbackKeys string, err error) {
	settings, callbackKeys := s.o.Secrets, s.o.CallbackKeys
	own, err := loadKeys(s.o.DataDir)
	if err != nil {
		return "", err
	}
	if settings == (seal.Settings{}) && s.engine != nil {
		settings.Keys = own.Seal
	}
	if callbackKeys == "" {
		callbackKeys = own.Callback
	}
	if s.callbacks, err = runs.Signer(callbackKeys); err != nil {
		return "", err
	}
	s.sealer, err = settings.Open(s.p.Config, s.p.Clock.Now)
	return callbackKeys, err
}

// manage makes the control and the runner. Targets may be on this machine, and
// every owning service: nobody else can reach the API.
func (s *process) manage(ctx context.Context, members membership.Provider, counter *forecast.Counter) error {
	switch _, err := s.p.Services.Lookup(ctx, jobcontrol.Service); {
	case errors.Is(err, registry.ErrUnknown):
		s.log.WarnContext(ctx, "the managed layer is left out: its services are not in the registry (--create makes them)")
		return nil
	case err != nil:
		return err
	}
	callbackKeys, err := s.secrets()
	if err != nil {
		return err
	}
	if s.control, err = runs.NewControl(s.p, s.b, counter); err != nil {
		return err
	}
	targets := runs.Targets{AllowLoopback: true, AnyService: true, CallbackKeys: callbackKeys}
	if s.sealer != nil {
		targets.Sealer = s.sealer
	}
	built, err := runs.Build(ctx, runs.BuildOptions{
		Platform: s.p, Control: s.control, Members: members, Owner: "r" + trigger.NewID().String(),
		Targets: targets,
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
