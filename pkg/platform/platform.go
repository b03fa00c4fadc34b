package platform

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/awsclient"
	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/forecast/dynamoforecast"
	"github.com/myosin-jobs/myosin/pkg/jobstore/dynamojobs"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/sqsqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/registry/dynamoregistry"
	"github.com/myosin-jobs/myosin/pkg/store/dynamostore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Options configure [Open]. The zero value opens the installation "myosin" with
// what the SDK finds in the environment.
type Options struct {
	// Prefix of every resource's name. Empty: [DefaultPrefix].
	Prefix string
	// Endpoint is the base URL of all AWS services. Empty: as the SDK finds it
	// (AWS_ENDPOINT_URL), else AWS itself.
	Endpoint string
	// Region. Empty: as the SDK finds it, else us-east-1.
	Region string
	// Meter is told of every call and attempt; see [awsclient.Options].
	Meter func(service, operation string, attempt bool, err error, took time.Duration)
	// Configure changes the SDK's configuration before clients are made of it, for
	// measurements; nil: nothing is changed.
	Configure func(*aws.Config)
	// StoreMeter is told what requests to the tables of triggers, jobs and runs cost.
	StoreMeter dynamostore.Meter
	// SQS configures the queues; its Metrics field is ignored.
	SQS sqsqueue.Options
	// Refresh is how often the registry is read; see [registry.CacheOptions].
	Refresh time.Duration
	// Local is the local clock; nil: clock.Steady.
	Local func() time.Time
	// Log; nil: discarded.
	Log *slog.Logger
	// Registerer takes the metrics of queues and registry; nil: none.
	Registerer prometheus.Registerer
}

// Platform is everything a process needs of AWS.
type Platform struct {
	Names  Names
	Config aws.Config
	// Clock is checked against the Date of every answer; it is unusable until
	// the first (see [Platform.Reach]).
	Clock  *clock.Clock
	Store  *dynamostore.Store
	Queues *sqsqueue.Queues
	// Source writes and reads the registry's table; Services answers from memory
	// and must be run by the process.
	Source   *dynamoregistry.Registry
	Services *registry.Cache
	// Forecast is where forecast.Counter writes and forecast.Reader reads, which
	// the process makes and runs if it needs them.
	Forecast *dynamoforecast.Table
	// Jobs are the managed layer's jobs and runs.
	Jobs *dynamojobs.Store

	dynamo *dynamodb.Client
}

// Open prepares access to an installation. It calls no service.
func Open(ctx context.Context, o Options) (*Platform, error) {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	p := &Platform{Names: Names{Prefix: o.Prefix}, Clock: clock.New(o.Local)}
	if err := p.Names.Validate(); err != nil {
		return nil, fmt.Errorf("open platform: %w", err)
	}
	if err := p.open(ctx, o); err != nil {
		return nil, fmt.Errorf("open platform: %w", err)
	}
	return p, nil
}

func (p *Platform) open(ctx context.Context, o Options) error {
	var err error
	p.Config, err = awsclient.Load(ctx, awsclient.Options{
		Region: o.Region, Endpoint: o.Endpoint, Observe: p.Clock.Observe, Now: p.Clock.Local, Meter: o.Meter,
	})
	if err != nil {
		return err
	}
	if o.Configure != nil {
		o.Configure(&p.Config)
	}
	p.dynamo = dynamodb.NewFromConfig(p.Config, func(o *dynamodb.Options) {
		// The SDK does no more than print a warning for a checksum that does not
		// match, and it prints one for every answer of an engine that sends none.
		o.DisableValidateResponseChecksum = true
		o.EndpointResolverV2 = awsclient.NewEndpointCache(o.EndpointResolverV2.ResolveEndpoint, endpointKey)
	})
	p.Store, err = dynamostore.New(dynamostore.Options{
		API: p.dynamo, Table: p.Names.Triggers(), Logger: o.Log, Meter: o.StoreMeter,
	})
	if err != nil {
		return err
	}
	o.SQS.Metrics = o.Registerer
	if p.Queues, err = sqsqueue.New(p.Config, o.SQS); err != nil {
		return err
	}
	p.Source, err = dynamoregistry.New(dynamoregistry.Options{
		Client: p.dynamo, Table: p.Names.Services(), Now: p.Clock.Now,
	})
	if err != nil {
		return err
	}
	if p.Forecast, err = dynamoforecast.New(dynamoforecast.Options{Client: p.dynamo, Table: p.Names.Forecast()}); err != nil {
		return err
	}
	p.Jobs, err = dynamojobs.New(dynamojobs.Options{
		Client: p.dynamo, Jobs: p.Names.Jobs(), Runs: p.Names.Runs(), Triggers: p.Store, Now: p.Clock.Now, Meter: dynamojobs.Meter(o.StoreMeter),
	})
	if err != nil {
		return err
	}
	p.Services, err = registry.NewCache(registry.CacheOptions{
		Source: p.Source, Refresh: o.Refresh, Log: o.Log, Metrics: o.Registerer,
	})
	return err
}

// Dynamo returns the SDK's client of the tables.
func (p *Platform) Dynamo() *dynamodb.Client { return p.dynamo }

// Reach makes one small call, so that a wrong endpoint, missing tables or
// missing rights show at start, and the clock is known.
func (p *Platform) Reach(ctx context.Context) error {
	if _, err := p.Store.Epochs(ctx); err != nil {
		return fmt.Errorf("reach table %s: %w", p.Names.Triggers(), err)
	}
	return nil
}

// Buffers are the URLs of the inbound queues.
type Buffers struct {
	Inbound [len(trigger.Lanes)]string // by lane
	DLQ     string
}

// Buffers looks the inbound queues up by name. Errors name each queue that is
// missing, and wrap queue.ErrMissing.
func (p *Platform) Buffers(ctx context.Context) (Buffers, error) {
	var b Buffers
	var errs []error
	find := func(name string) string {
		url, err := p.Queues.URL(ctx, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("queue %s: %w", name, err))
		}
		return url
	}
	for _, lane := range trigger.Lanes {
		b.Inbound[lane] = find(p.Names.Inbound(lane))
	}
	b.DLQ = find(p.Names.InboundDLQ())
	return b, errors.Join(errs...)
}

// ServiceNames returns the names of the owning services, sorted, without the
// drain's switch. It answers from the registry's cache.
func (p *Platform) ServiceNames() []string {
	var names []string
	for _, svc := range p.Services.All() {
		if svc.Name != DrainSwitch {
			names = append(names, svc.Name)
		}
	}
	return names
}

// DrainPaused reports whether an operator has paused the inbound drain; see
// [Platform.PauseDrain]. It answers from the registry's cache.
func (p *Platform) DrainPaused() bool {
	for _, svc := range p.Services.All() {
		if svc.Name == DrainSwitch {
			return svc.Paused
		}
	}
	return false
}

// PauseDrain pauses or resumes the draining of the inbound buffers by every
// process of the installation, within a refresh of their registries (15 s).
// Nothing is lost meanwhile: submissions wait in the buffers.
func (p *Platform) PauseDrain(ctx context.Context, paused bool) error {
	err := p.Source.SetPaused(ctx, DrainSwitch, paused)
	if !errors.Is(err, registry.ErrUnknown) {
		return err
	}
	if !paused {
		return nil
	}
	url, err := p.Queues.URL(ctx, p.Names.InboundDLQ())
	if err != nil {
		return fmt.Errorf("pause drain: %w", err)
	}
	// Nobody may submit to the entry: it is a switch, not a service.
	return p.Source.Put(ctx, registry.Service{
		Name: DrainSwitch, QueueURL: url, Senders: []string{"nobody"}, Paused: true,
	})
}

var _ queue.Queues = (*sqsqueue.Queues)(nil)
