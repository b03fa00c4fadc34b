package platform

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/forecast/dynamoforecast"
	"github.com/myosin-jobs/myosin/pkg/jobstore/dynamojobs"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/registry/dynamoregistry"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/dynamostore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// What Ensure gives the queues it makes; Terraform's defaults are the same.
const (
	bufferVisibility = time.Minute
	// bufferReceives is far above what outages of the table take, since the drain
	// stops receiving then: a message that comes back this often is one that kills
	// whoever reads it.
	bufferReceives    = 1000
	serviceVisibility = 30 * time.Second
	serviceReceives   = 5
	runsReceives      = 1000
)

// Ensure creates the tables and the inbound queues unless they exist, and the
// settings row with partitions per lane (0: trigger.DefaultPartitions) unless
// there is one: for the embedded engine and tests.
func (p *Platform) Ensure(ctx context.Context, partitions int) (Buffers, error) {
	var b Buffers
	if err := dynamostore.CreateTable(ctx, p.dynamo, p.Names.Triggers()); err != nil {
		return b, fmt.Errorf("ensure: %w", err)
	}
	if err := dynamoregistry.CreateTable(ctx, p.dynamo, p.Names.Services()); err != nil {
		return b, fmt.Errorf("ensure: %w", err)
	}
	if err := dynamoforecast.EnsureTable(ctx, p.dynamo, p.Names.Forecast()); err != nil {
		return b, fmt.Errorf("ensure: %w", err)
	}
	if err := dynamojobs.EnsureTables(ctx, p.dynamo, p.Names.Jobs(), p.Names.Runs()); err != nil {
		return b, fmt.Errorf("ensure: %w", err)
	}
	if partitions > 0 {
		have, err := p.Store.Epochs(ctx)
		if err != nil {
			return b, fmt.Errorf("ensure: %w", err)
		}
		// A table without a settings row answers the default.
		if len(have) == 1 && have[0].From.IsZero() && have[0].N == trigger.DefaultPartitions && partitions != have[0].N {
			// Loses against a settings row that is there already, which then stands.
			if err := p.Store.SetEpochs(ctx, nil, trigger.Epochs{{N: partitions}}); err != nil && !conflict(err) {
				return b, fmt.Errorf("ensure: %w", err)
			}
		}
	}
	var err error
	if b.DLQ, err = p.Queues.Create(ctx, queue.Spec{Name: p.Names.InboundDLQ(), Visibility: serviceVisibility}); err != nil {
		return b, fmt.Errorf("ensure: %w", err)
	}
	for _, lane := range trigger.Lanes {
		b.Inbound[lane], err = p.Queues.Create(ctx, queue.Spec{
			Name: p.Names.Inbound(lane), Visibility: bufferVisibility, DeadLetterURL: b.DLQ, MaxReceives: bufferReceives,
		})
		if err != nil {
			return b, fmt.Errorf("ensure: %w", err)
		}
	}
	return b, nil
}

// EnsureService creates the queues of an owning service unless they exist, and
// writes it to the registry. The URLs in svc are set by it; urgent asks for a
// queue of its own for the urgent lane.
func (p *Platform) EnsureService(ctx context.Context, svc registry.Service, urgent bool) (registry.Service, error) {
	if err := p.Names.ValidService(svc.Name); err != nil {
		return svc, fmt.Errorf("ensure service: %w", err)
	}
	return p.ensureService(ctx, svc, urgent, serviceReceives)
}

// EnsureRuns is [Platform.EnsureService] for a service of the managed layer
// itself ("runs", "runs-urgent"), whose messages come back as long as a run's
// lease is held.
func (p *Platform) EnsureRuns(ctx context.Context, name string) (registry.Service, error) {
	if err := trigger.ValidService(name); err != nil {
		return registry.Service{}, fmt.Errorf("ensure service: %w", err)
	}
	return p.ensureService(ctx, registry.Service{Name: name, Owner: "myosin"}, false, runsReceives)
}

func (p *Platform) ensureService(ctx context.Context, svc registry.Service, urgent bool, receives int) (registry.Service, error) {
	var err error
	if svc.DLQURL, err = p.Queues.Create(ctx, queue.Spec{Name: p.Names.ServiceDLQ(svc.Name, svc.FIFO), FIFO: svc.FIFO}); err != nil {
		return svc, fmt.Errorf("ensure service %s: %w", svc.Name, err)
	}
	create := func(name string) (string, error) {
		return p.Queues.Create(ctx, queue.Spec{
			Name: name, FIFO: svc.FIFO, Visibility: serviceVisibility, DeadLetterURL: svc.DLQURL, MaxReceives: receives,
		})
	}
	if svc.QueueURL, err = create(p.Names.ServiceQueue(svc.Name, svc.FIFO)); err != nil {
		return svc, fmt.Errorf("ensure service %s: %w", svc.Name, err)
	}
	if urgent {
		if svc.UrgentQueueURL, err = create(p.Names.ServiceUrgentQueue(svc.Name, svc.FIFO)); err != nil {
			return svc, fmt.Errorf("ensure service %s: %w", svc.Name, err)
		}
	}
	if err := p.Source.Put(ctx, svc); err != nil {
		return svc, fmt.Errorf("ensure service: %w", err)
	}
	return svc, nil
}

func conflict(err error) bool { return errors.Is(err, store.ErrConflict) }
