package target

import (
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func TestEveryFaultOfADefinitionNamesItsField(t *testing.T) {
	g := NewGuard(GuardOptions{})
	require.NoError(t, g.CheckHTTP(HTTP{URL: "https://example.com/hook"}, nil))
	for _, d := range []time.Duration{MinTimeout, MaxTimeout} {
		require.NoError(t, g.CheckHTTP(HTTP{URL: "https://example.com", Method: "PUT", Headers: map[string]string{"x-a": "b"}, Timeout: d}, nil))
	}
	many := map[string]string{}
	for i := range maxHeaders + 1 {
		many["x-"+strconv.Itoa(i)] = "v"
	}
	for _, c := range []struct {
		h      HTTP
		fields []string
	}{
		{HTTP{}, []string{"target.url"}},
		{HTTP{URL: "https://example.com", Timeout: MinTimeout - 1}, []string{"target.timeout"}},
		{HTTP{URL: "https://example.com", Timeout: MaxTimeout + 1}, []string{"target.timeout"}},
		{HTTP{URL: "https://example.com", Timeout: -1}, []string{"target.timeout"}},
		{HTTP{URL: "https://example.com", Headers: many}, []string{"target.headers"}},
		{HTTP{URL: "https://example.com", Headers: map[string]string{"X-A": "1", "x-a": "2"}}, []string{"target.headers.x-a"}},
		{
			HTTP{URL: "ftp://example.com?key=s3cret", Method: "CONNECT", Headers: map[string]string{"Host": "h", "X-A": "s3cret\n"}, Timeout: time.Hour},
			[]string{"target.url", "target.method", "target.headers.Host", "target.headers.X-A", "target.timeout"},
		},
	} {
		err := g.CheckHTTP(c.h, nil)
		var got []string
		for _, e := range parts(err) {
			var f *trigger.FieldError
			require.ErrorAs(t, e, &f)
			got = append(got, f.Field)
		}
		require.Equal(t, c.fields, got)
		require.NotContains(t, err.Error(), "s3cret")
		require.NotErrorIs(t, err, ErrRefused)
	}
	inside := HTTP{URL: "http://10.1.2.3/"}
	err := g.CheckHTTP(inside, nil)
	require.ErrorIs(t, err, ErrRefused)
	var f *trigger.FieldError
	require.ErrorAs(t, err, &f)
	require.Equal(t, "target.url", f.Field)
	require.NoError(t, g.CheckHTTP(inside, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}))
}
