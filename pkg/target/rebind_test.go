package target

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// What was resolved and checked is public; the socket is led elsewhere all the
// same. Only the check at the socket stands in its way.
func TestTheSocketsOwnAddressIsCheckedWhateverWasResolved(t *testing.T) {
	var hits atomic.Int64
	elsewhere := strings.TrimPrefix(serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) }), "http://")
	for _, open := range []bool{false, true} {
		c := caller(t, func(o *Options) {
			o.Guard = NewGuard(GuardOptions{AllowLoopback: open})
			o.Resolver = names{"public.test": addrs("93.184.216.34")}
		})
		var asked string
		c.n.connect = func(ctx context.Context, d net.Dialer, address string) (net.Conn, error) {
			asked = address
			return d.DialContext(ctx, "tcp", elsewhere)
		}
		r := call(c, "http://public.test")
		require.Equal(t, "93.184.216.34:80", asked)
		if !open {
			require.Equal(t, KindRefused, r.Kind)
			require.ErrorIs(t, r.Err, ErrRefused)
			require.Zero(t, hits.Load())
			continue
		}
		require.NoError(t, r.Err)
		require.EqualValues(t, 1, hits.Load(), "with loopback allowed the same way leads there")
	}
}
