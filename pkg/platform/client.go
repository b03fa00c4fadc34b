package platform

import (
	"context"
	"fmt"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Client returns a client that submits to the installation's buffers and works
// on its table: for roles that may use both. Owning services take [client.New]
// with [client.NewHTTP].
func (p *Platform) Client(ctx context.Context) (*client.Client, error) {
	b, err := p.Buffers(ctx)
	if err != nil {
		return nil, fmt.Errorf("open client: %w", err)
	}
	return p.ClientFor(b)
}

// ClientFor is [Platform.Client] for buffers that were looked up already.
func (p *Platform) ClientFor(b Buffers) (*client.Client, error) {
	table, err := client.NewTable(client.TableOptions{Store: p.Store, Now: p.Clock.Now})
	if err != nil {
		return nil, err
	}
	return client.New(client.Options{
		Sender: p.Queues, InboundURL: b.Inbound[trigger.Standard], UrgentInboundURL: b.Inbound[trigger.Urgent],
		Services: owners{p}, Partitions: p.Store, Triggers: table, Now: p.Clock.Now,
	})
}

// owners looks owning services up: the drain's switch is an entry of the
// registry, and nobody's service.
type owners struct{ p *Platform }

// Lookup implements client.Services.
func (o owners) Lookup(ctx context.Context, name string) (registry.Service, error) {
	if name == DrainSwitch {
		return registry.Service{}, fmt.Errorf("service %q: %w", name, registry.ErrUnknown)
	}
	return o.p.Services.Lookup(ctx, name)
}
