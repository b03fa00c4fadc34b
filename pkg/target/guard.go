package target

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxURL is the length to which URLs are accepted, in bytes.
const maxURL = 2048

// GuardOptions say what may be called beside the public internet.
type GuardOptions struct {
	// Allow lists private ranges open to every tenant, as [ParseAllow] reads them
	// from MYOSIN_ALLOW_TARGETS. It opens neither loopback, link-local nor
	// metadata addresses.
	Allow []netip.Prefix
	// AllowLoopback opens 127.0.0.0/8, ::1 and localhost. Off by default: it is
	// for tests and for standalone on one's own machine, where the targets being
	// tried out run beside it. A shared installation must leave it off.
	AllowLoopback bool
}

// Guard decides what may be called: URLs at creation by [Guard.Check], addresses
// after each look-up and again as a socket connects by [Guard.Address]. What
// passes Check may still be refused when called, as names change.
type Guard struct {
	never, loopback, private []class
	global                   netip.Prefix
	allow                    []netip.Prefix
	allowLoopback            bool
}

// NewGuard returns a guard.
func NewGuard(o GuardOptions) *Guard {
	return &Guard{
		never: never(), loopback: loopback(), private: private(),
		global: netip.MustParsePrefix("2000::/3"),
		allow:  slices.Clone(o.Allow), allowLoopback: o.AllowLoopback,
	}
}

// Check reports why raw cannot be a target: nil if it can. It looks up no name.
// A refusal by policy wraps [ErrRefused]; other errors say what is malformed.
// None repeats the URL's query or user information. The URL returned is the one
// that is called: host in lower case, without trailing dot and fragment.
func (g *Guard) Check(raw string, allow []netip.Prefix) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, fmt.Errorf("target url: longer than %d bytes", maxURL)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("target url: %w", bare(err))
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("target url: scheme must be http or https")
	case u.User != nil:
		return nil, errors.New("target url: must not carry user information; send an Authorization header")
	case u.Opaque != "" || u.Hostname() == "":
		return nil, errors.New("target url: has no host")
	}
	port := u.Port()
	if port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, errors.New("target url: port must be in 1-65535")
		} else if spokenOtherwise(n) {
			return nil, &RefusedError{Host: u.Hostname(), Reason: fmt.Sprintf("port %d is not HTTP's", n)}
		}
	}
	bracketed := strings.HasPrefix(u.Host, "[")
	host, err := g.host(u.Hostname(), bracketed, allow)
	if err != nil {
		return nil, err
	}
	if bracketed {
		host = "[" + host + "]"
	}
	if port != "" {
		host += ":" + port
	}
	u.Host, u.Fragment, u.RawFragment = host, "", ""
	return u, nil
}

// bare strips the URL that url.Parse repeats in its errors.
func bare(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		return ue.Err
	}
	return err
}

// spokenOtherwise tells ports of well-known protocols that can be fed commands
// in the guise of an HTTP request: mail, shells, file and name services, after
// the "bad port" list of the WHATWG's fetch standard.
func spokenOtherwise(port int) bool {
	switch port {
	case 19, 20, 21, 22, 23, 25, 53, 69, 110, 111, 119, 123, 135, 137, 139, 143, 161, 179,
		389, 465, 512, 513, 514, 515, 587, 636, 993, 995, 2049, 6667, 6697:
		return true
	}
	return false
}

// host checks a URL's host and returns its normal form.
func (g *Guard) host(host string, bracketed bool, allow []netip.Prefix) (string, error) {
	if strings.Contains(host, "%") {
		return "", &RefusedError{Host: host, Reason: "has a zone"}
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() == bracketed {
		if err := g.Address(a, allow); err != nil {
			return "", err
		}
		return a.String(), nil
	}
	if bracketed {
		return "", fmt.Errorf("target url: [%s] is not an IPv6 address", Excerpt([]byte(host), 64))
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if reason := malformed(name); reason != "" {
		return "", fmt.Errorf("target url: host %q %s", Excerpt([]byte(host), 64), reason)
	}
	// Names that end in a number are IPv4 addresses to browsers and to the C
	// library, in forms such as 2130706433, 0x7f.1 or 0177.0.0.1.
	if last := name[strings.LastIndexByte(name, '.')+1:]; numeric(last) {
		return "", &RefusedError{Host: host, Reason: "an IPv4 address must be written as four decimal numbers, without leading zeros or trailing dot"}
	}
	if local(name) && !g.allowLoopback {
		return "", &RefusedError{Host: host, Reason: "loopback"}
	}
	switch name {
	case "metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal":
		return "", &RefusedError{Host: host, Reason: "a cloud metadata address"}
	}
	return name, nil
}

func malformed(name string) string {
	if len(name) > 253 {
		return "is longer than 253 bytes"
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return "has an empty label or one of over 63 bytes"
		}
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 0x80:
			return "is not ASCII; write it in punycode (xn--…)"
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		default:
			return "has a character that no host name has"
		}
	}
	return ""
}

// numeric tells what the C library's inet_aton would read as a number.
func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

func local(name string) bool {
	switch name {
	case "localhost", "localhost.localdomain", "localhost6", "localhost6.localdomain6", "ip6-localhost", "ip6-loopback":
		return true
	}
	return strings.HasSuffix(name, ".localhost")
}
