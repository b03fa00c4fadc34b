package target

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func prefixes(t testing.TB, s string) []netip.Prefix {
	t.Helper()
	out, err := ParseAllow(s)
	require.NoError(t, err)
	return out
}

func TestPublicTargetsPassInTheirNormalForm(t *testing.T) {
	g := NewGuard(GuardOptions{})
	for raw, want := range map[string]string{
		"https://example.com/a?b=c#d":           "https://example.com/a?b=c",
		"HTTP://EXAMPLE.com.:8080":              "http://example.com:8080",
		"http://example.com:/x":                 "http://example.com/x",
		"http://8.8.8.8/":                       "http://8.8.8.8/",
		"http://[2606:4700::1111]:8443/":        "http://[2606:4700::1111]:8443/",
		"http://[64:ff9b::8.8.8.8]/":            "http://[64:ff9b::808:808]/",
		"http://[2002:808:808::1]/":             "http://[2002:808:808::1]/",
		"http://xn--bcher-kva.example/":         "http://xn--bcher-kva.example/",
		"http://payments/":                      "http://payments/",
		"http://0xdeadbeef.example/":            "http://0xdeadbeef.example/",
		"http://1e100.net/":                     "http://1e100.net/",
		"http://my_host.internal.example.com/1": "http://my_host.internal.example.com/1",
	} {
		u, err := g.Check(raw, nil)
		require.NoError(t, err, raw)
		require.Equal(t, want, u.String(), raw)
	}
}

func TestForbiddenTargetsAreRefusedAtCreation(t *testing.T) {
	// Every private range is allowed, which must open none of these.
	g := NewGuard(GuardOptions{Allow: prefixes(t, "0.0.0.0/0,::/0")})
	for _, raw := range []string{
		// loopback
		"http://127.0.0.1/", "http://127.255.255.254/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/",
		"http://localhost/", "http://LocalHost.:80/", "http://a.localhost/", "http://localhost.localdomain/", "http://ip6-localhost/",
		// other spellings of IPv4
		"http://2130706433/", "http://0x7f000001/", "http://0X7F.1/", "http://0177.0.0.1/", "http://127.1/", "http://127.0.0.1./", "http://0/",
		"http://010.0.0.1/", "http://1.2.3.4.5/", "http://0x/", "http://example.1/", "http://8.8.8.8./",
		// link-local and metadata
		"http://169.254.1.1/", "http://169.254.169.254/latest/meta-data", "http://[::ffff:169.254.169.254]/", "http://[::ffff:a9fe:a9fe]/",
		"http://[fd00:ec2::254]/", "http://[fd00:ec2::23]/", "http://169.254.170.2/", "http://169.254.170.23/", "http://[fe80::1]/",
		"http://metadata.google.internal/", "http://[fd20:ce::254]/", "http://100.100.100.200/", "http://168.63.129.16/",
		// zones
		"http://[fe80::1%25eth0]/", "http://[2606:4700::1111%25eth0]/",
		// the rest
		"http://0.0.0.0/", "http://0.1.2.3/", "http://[::]/", "http://224.0.0.1/", "http://[ff02::1]/", "http://255.255.255.255/", "http://240.0.0.1/",
		"http://192.0.2.1/", "http://198.51.100.7/", "http://203.0.113.9/", "http://[2001:db8::1]/", "http://[3fff::1]/", "http://198.18.0.1/",
		"http://192.0.0.1/", "http://[fec0::1]/", "http://[100::1]/", "http://[4000::1]/", "http://[::1.2.3.4]/",
		// embeddings
		"http://[64:ff9b::127.0.0.1]/", "http://[64:ff9b::a9fe:a9fe]/", "http://[64:ff9b:1::a9fe:a9fe]/", "http://[2002:7f00:1::]/", "http://[2002:a9fe:a9fe::1]/",
		"http://[2001:0:808:808::1]/", "http://[2606:4700::5efe:169.254.169.254]/", "http://[2606:4700::200:5efe:7f00:1]/",
		// ports of other protocols
		"http://example.com:25/", "http://example.com:22/",
	} {
		_, err := g.Check(raw, nil)
		require.ErrorIs(t, err, ErrRefused, raw)
	}
}

func TestMalformedURLsAreErrorsThatKeepSecrets(t *testing.T) {
	g := NewGuard(GuardOptions{})
	for raw, want := range map[string]string{
		"":                                 "scheme",
		"ftp://example.com/?sesame":        "scheme",
		"file:///etc/passwd":               "scheme",
		"gopher://example.com":             "scheme",
		"//example.com":                    "scheme",
		"http://":                          "no host",
		"http:example.com":                 "no host",
		"http://:80/":                      "no host",
		"https://user:sesame@example.com/": "user information",
		"https://sesame@example.com/":      "user information",
		"https://example.com:0/":           "port",
		"https://example.com:65536/":       "port",
		"https://example.com:99999999999999999999": "port",
		"http://a..b/":                               "empty label",
		"http://../":                                 "empty label",
		"http://./":                                  "empty label",
		"http://example.com../":                      "empty label",
		"http://\uff11\uff12\uff17.0.0.1/":           "ASCII",
		"http://bücher.example/":                     "punycode",
		"http://[127.0.0.1]/":                        "IP-literal",
		"http://exa$mple.com/":                       "character",
		"http://ex\x01ample.com/?sesame":             "control character",
		"http://x/?sesame\n":                         "control character",
		"http://" + strings.Repeat("a", 64) + ".com": "63 bytes",
		"http://x/" + strings.Repeat("a", 2048):      "2048 bytes",
	} {
		_, err := g.Check(raw, nil)
		require.ErrorContains(t, err, want, raw)
		require.NotContains(t, err.Error(), "sesame")
	}
}

func TestPrivateRangesNeedAnAllowance(t *testing.T) {
	shut, open := NewGuard(GuardOptions{}), NewGuard(GuardOptions{Allow: prefixes(t, "10.1.0.0/16, 100.64.0.0/10\nfd12::/16")})
	for _, raw := range []string{"http://10.1.2.3/", "http://[::ffff:10.1.2.3]/", "http://[64:ff9b::10.1.2.3]/", "http://100.64.9.9/", "http://[fd12::1]/"} {
		_, err := shut.Check(raw, nil)
		require.ErrorIs(t, err, ErrRefused, raw)
		_, err = open.Check(raw, nil)
		require.NoError(t, err, raw)
	}
	for _, raw := range []string{"http://10.2.0.1/", "http://172.16.0.1/", "http://192.168.1.1/", "http://[fd13::1]/"} {
		_, err := open.Check(raw, nil)
		require.ErrorIs(t, err, ErrRefused, raw)
		_, err = open.Check(raw, prefixes(t, "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fd00::/8"))
		require.NoError(t, err, "a tenant's own: %s", raw)
	}
	var re *RefusedError
	_, err := shut.Check("http://10.1.2.3/", nil)
	require.ErrorAs(t, err, &re)
	require.Equal(t, "10.1.2.3", re.Host)
}

func TestLoopbackIsOpenedByItsOptionOnly(t *testing.T) {
	g := NewGuard(GuardOptions{AllowLoopback: true})
	for _, raw := range []string{"http://127.0.0.1:8080/", "http://[::1]/", "http://localhost/", "http://x.localhost/"} {
		_, err := g.Check(raw, nil)
		require.NoError(t, err, raw)
	}
	for _, raw := range []string{"http://169.254.169.254/", "http://10.0.0.1/", "http://2130706433/"} {
		_, err := g.Check(raw, nil)
		require.ErrorIs(t, err, ErrRefused, raw)
	}
}

func TestAllowedRangesThatOpenNothingAreErrors(t *testing.T) {
	_, err := ParseAllow("10.0.0.0/8,127.0.0.0/8 169.254.0.0/16 8.8.8.0/24 10.0.0.1/8 nonsense")
	for _, want := range []string{`"127.0.0.0/8": opens nothing`, `"169.254.0.0/16": opens nothing`, `"8.8.8.0/24": opens nothing`, "did you mean 10.0.0.0/8", `"nonsense": not a CIDR`} {
		require.ErrorContains(t, err, want)
	}
	none, err := ParseAllow(" , ")
	require.NoError(t, err)
	require.Empty(t, none)
}

// What passes names a host that a second check passes unchanged, and never an
// address that the guard forbids.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{"http://example.com", "http://127.0.0.1:80/x", "http://[::ffff:127.0.0.1]/", "http://0x7f.1", "https://a.b.:1/?q#f", "http://[fe80::1%25a]/", "http://[2002:7f00:1::]", "http://%31%32%37.0.0.1/", "http://a@b/"} {
		f.Add(s)
	}
	g := NewGuard(GuardOptions{})
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := g.Check(raw, nil)
		if err != nil {
			var ue *url.Error
			require.NotErrorAs(t, err, &ue, "repeats the URL")
			return
		}
		again, err := g.Check(u.String(), nil)
		if err != nil {
			require.ErrorContains(t, err, "longer", raw) // escaping may lengthen it
			return
		}
		require.Equal(t, u.Host, again.Host)
		if a, err := netip.ParseAddr(u.Hostname()); err == nil {
			require.NoError(t, g.Address(a, nil))
			require.False(t, a.Unmap().IsLoopback() || a.Unmap().IsPrivate() || a.Unmap().IsLinkLocalUnicast() || a.IsUnspecified() || a.Unmap().IsMulticast())
		}
	})
}
