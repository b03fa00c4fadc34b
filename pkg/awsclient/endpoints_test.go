package awsclient_test

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"testing"

	smithyendpoints "github.com/aws/smithy-go/endpoints"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/awsclient"
)

func TestEndpointCacheAsksOncePerAnswer(t *testing.T) {
	asked := map[string]int{}
	c := awsclient.NewEndpointCache(func(_ context.Context, p string) (smithyendpoints.Endpoint, error) {
		asked[p]++
		if p == "bad" {
			return smithyendpoints.Endpoint{}, errors.New("no such place")
		}
		return smithyendpoints.Endpoint{URI: url.URL{Host: p}}, nil
	}, func(p string) string { return p })
	for range 3 {
		for _, p := range []string{"a", "b"} {
			e, err := c.ResolveEndpoint(t.Context(), p)
			require.NoError(t, err)
			require.Equal(t, p, e.URI.Host)
		}
		_, err := c.ResolveEndpoint(t.Context(), "bad")
		require.ErrorContains(t, err, "no such place")
	}
	require.Equal(t, map[string]int{"a": 1, "b": 1, "bad": 3}, asked, "errors are not kept")
}

func TestEndpointCacheIsBounded(t *testing.T) {
	asked := 0
	c := awsclient.NewEndpointCache(func(context.Context, int) (smithyendpoints.Endpoint, error) {
		asked++
		return smithyendpoints.Endpoint{}, nil
	}, strconv.Itoa)
	for i := range 1000 {
		_, _ = c.ResolveEndpoint(t.Context(), i)
	}
	_, _ = c.ResolveEndpoint(t.Context(), 999)
	require.Equal(t, 1001, asked, "what came late is not kept")
	_, _ = c.ResolveEndpoint(t.Context(), 0)
	require.Equal(t, 1001, asked, "what came first still is")
}
