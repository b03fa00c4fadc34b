package awsclient

import (
	"context"
	"sync"
	"sync/atomic"

	smithyendpoints "github.com/aws/smithy-go/endpoints"
)

// maxEndpoints bounds what one EndpointCache keeps: parameters that never come
// again must not pile up.
const maxEndpoints = 64

// EndpointCache remembers where calls go. The SDK works its endpoint rules out
// anew for each request, at a few percent of a call's CPU, though all of a
// client's requests share a handful of answers. P are the service's
// EndpointParameters, K the same as something comparable.
//
// It serves as the EndpointResolverV2 of a client. Errors are not kept.
type EndpointCache[P any, K comparable] struct {
	resolve func(context.Context, P) (smithyendpoints.Endpoint, error)
	key     func(P) K
	kept    sync.Map // K to smithyendpoints.Endpoint
	count   atomic.Int64
}

// NewEndpointCache wraps a service's resolver. key must tell apart all
// parameters that resolve may answer differently.
func NewEndpointCache[P any, K comparable](
	resolve func(context.Context, P) (smithyendpoints.Endpoint, error), key func(P) K,
) *EndpointCache[P, K] {
	return &EndpointCache[P, K]{resolve: resolve, key: key}
}

// ResolveEndpoint implements the service's EndpointResolverV2. Callers share
// what it returns and must not change it; the SDK's own middleware only reads.
func (c *EndpointCache[P, K]) ResolveEndpoint(ctx context.Context, params P) (smithyendpoints.Endpoint, error) {
	k := c.key(params)
	if e, ok := c.kept.Load(k); ok {
		return e.(smithyendpoints.Endpoint), nil
	}
	e, err := c.resolve(ctx, params)
	if err == nil && c.count.Load() < maxEndpoints {
		if _, had := c.kept.LoadOrStore(k, e); !had {
			c.count.Add(1)
		}
	}
	return e, err //nolint:wrapcheck // the SDK's own error, to the SDK.
}
