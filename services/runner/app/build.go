package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/lifecycle"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/runner"
	"github.com/myosin-jobs/myosin/pkg/runner/protect"
	"github.com/myosin-jobs/myosin/pkg/runner/protect/dynamoshared"
	"github.com/myosin-jobs/myosin/pkg/target"
)

// Targets says what runs may call and how they are signed.
type Targets struct {
	// Allow lists private address ranges that every tenant may target, as CIDRs.
	Allow string
	// AllowLoopback opens loopback addresses: for one's own machine only.
	AllowLoopback bool
	// AnyService lets every tenant target every owning service: likewise.
	AnyService bool
	// CallbackKeys sign callback tokens, separated by commas: the first signs, all
	// verify. Empty: no tokens are sent.
	CallbackKeys string
	// Sealer opens signing secrets; nil: calls are not signed.
	Sealer Opener
}

// Opener opens what was sealed for a tenant and a secret; an access.Sealer is one.
type Opener interface {
	Open(ctx context.Context, sealed []byte, bind map[string]string) ([]byte, error)
}

// BuildOptions configure [Build].
type BuildOptions struct {
	Platform *platform.Platform  // required
	Control  *jobcontrol.Control // required
	Members  membership.Provider // required
	Owner    string              // names this process among its kind
	Targets  Targets
	// Runner takes the settings of the runner; its wiring fields are ignored.
	Runner     runner.Options
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Built is a runner with what it stands on.
type Built struct {
	Runner *runner.Runner
	// Components are to be run in this order, after the registry.
	Components []lifecycle.Component
}

// Build makes a runner over an installation whose services "runs" and
// "runs-urgent" are in the registry.
func Build(ctx context.Context, o BuildOptions) (*Built, error) {
	p := o.Platform
	standard, err := p.Services.Lookup(ctx, jobcontrol.Service)
	if err != nil {
		return nil, fmt.Errorf("service %s: %w", jobcontrol.Service, err)
	}
	urgent, err := p.Services.Lookup(ctx, jobcontrol.UrgentService)
	if err != nil && !errors.Is(err, registry.ErrUnknown) {
		return nil, fmt.Errorf("service %s: %w", jobcontrol.UrgentService, err)
	}
	caller, closeCaller, err := callers(o)
	if err != nil {
		return nil, err
	}
	shared, err := dynamoshared.New(dynamoshared.Options{Client: p.Dynamo(), Table: p.Names.Jobs()})
	if err != nil {
		return nil, err
	}
	gate, err := protect.New(protect.Options{
		Runner: o.Owner, Shared: shared, Members: func() int { return len(o.Members.View().Members) }, Now: p.Clock.Now,
		Logger: o.Log, Registerer: o.Registerer,
	})
	if err != nil {
		return nil, err
	}
	tenants, err := runner.NewTenants(runner.TenantsOptions{Store: p.Jobs, Unseal: unseal(o.Targets.Sealer), Now: p.Clock.Now})
	if err != nil {
		return nil, err
	}
	ro := o.Runner
	ro.Store, ro.Control, ro.Caller, ro.Gate, ro.Tenants = p.Jobs, o.Control, caller, gate, tenants
	ro.Queue, ro.QueueURL, ro.UrgentURL = p.Queues, standard.QueueURL, urgent.QueueURL
	ro.Members, ro.Now, ro.Log, ro.Registerer = o.Members, p.Clock.Now, o.Log, o.Registerer
	r, err := runner.New(ro)
	if err != nil {
		return nil, err
	}
	return &Built{Runner: r, Components: []lifecycle.Component{
		{Name: "target connections", Run: closeCaller},
		{Name: "gate", Run: gate.Run},
		{Name: "runner", Run: r.Run},
	}}, nil
}

// NewControl returns what changes jobs and runs in an installation.
func NewControl(p *platform.Platform, b platform.Buffers, counted jobcontrol.Forecast) (*jobcontrol.Control, error) {
	triggers, err := p.ClientFor(b)
	if err != nil {
		return nil, err
	}
	return jobcontrol.New(jobcontrol.Options{Store: p.Jobs, Triggers: triggers, Now: p.Clock.Now, Forecast: counted})
}

// callers makes what calls targets, and closes its connections at the end.
func callers(o BuildOptions) (*runner.Targets, func(context.Context) error, error) {
	var allow []netip.Prefix
	if o.Targets.Allow != "" {
		var err error
		if allow, err = target.ParseAllow(o.Targets.Allow); err != nil {
			return nil, nil, fmt.Errorf("allowed targets: %w", err)
		}
	}
	calls, err := target.New(target.Options{
		Guard: target.NewGuard(target.GuardOptions{Allow: allow, AllowLoopback: o.Targets.AllowLoopback}), Registerer: o.Registerer,
	})
	if err != nil {
		return nil, nil, err
	}
	queues, err := target.NewQueueSender(target.QueueOptions{Services: o.Platform.Services, Sender: o.Platform.Queues, Registerer: o.Registerer})
	if err != nil {
		return nil, nil, err
	}
	topics, err := target.NewTopicPublisher(target.TopicOptions{SNS: sns.NewFromConfig(o.Platform.Config), Registerer: o.Registerer})
	if err != nil {
		return nil, nil, err
	}
	signer, err := Signer(o.Targets.CallbackKeys)
	if err != nil {
		return nil, nil, err
	}
	c, err := runner.NewTargets(runner.TargetsOptions{
		HTTP: calls, Queues: queues, Topics: topics, Services: o.Platform.Services, Signer: signer,
		AnyService: o.Targets.AnyService, Now: o.Platform.Clock.Now,
	})
	return c, func(ctx context.Context) error {
		<-ctx.Done()
		calls.Close()
		return nil
	}, err
}

// Signer reads callback keys (whsec_…, separated by commas); nil without any.
func Signer(keys string) (*target.Signer, error) {
	if strings.TrimSpace(keys) == "" {
		return nil, nil //nolint:nilnil // no signer is the answer.
	}
	var secrets []target.Secret
	for i, k := range strings.Split(keys, ",") {
		s, err := target.ParseSecret(strings.TrimSpace(k))
		if err != nil {
			return nil, fmt.Errorf("callback key %d: %w", i+1, err)
		}
		secrets = append(secrets, s)
	}
	return target.NewSigner(secrets...)
}

func unseal(s Opener) func(context.Context, jobstore.Secret) (target.Secret, error) {
	if s == nil {
		return nil
	}
	return func(ctx context.Context, sealed jobstore.Secret) (target.Secret, error) {
		plain, err := s.Open(ctx, sealed.Sealed, SecretContext(sealed.Tenant, sealed.ID))
		if err != nil {
			return target.Secret{}, err
		}
		return target.ParseSecret(string(plain))
	}
}

// SecretContext is what a sealed signing secret is bound to.
func SecretContext(tenant, id string) map[string]string {
	return map[string]string{"tenant": tenant, "secret": id}
}
