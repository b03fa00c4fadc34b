package target

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// ErrRefused is wrapped by every refusal of a [Guard].
var ErrRefused = errors.New("refused by policy")

// RefusedError says which host or address was refused, and why.
type RefusedError struct {
	Host   string // as it was asked for, or the address it stands for
	Reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("target %q %s: %s", e.Host, ErrRefused, e.Reason)
}

// Unwrap makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Unwrap() error { return ErrRefused }

// class names a range and how it may be unlocked.
type class struct {
	prefix netip.Prefix
	name   string
}

func classes(name string, prefixes ...string) []class {
	out := make([]class, 0, len(prefixes))
	for _, p := range prefixes {
		out = append(out, class{netip.MustParsePrefix(p), name})
	}
	return out
}

func find(list []class, a netip.Addr) (string, bool) {
	for _, c := range list {
		if c.prefix.Contains(a) {
			return c.name, true
		}
	}
	return "", false
}

func contains(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// never lists what no option opens, the most telling name first. Sources: the
// IANA special-purpose registries for IPv4 and IPv6, and the clouds' manuals
// for their metadata addresses.
func never() []class {
	var out []class
	add := func(c []class) { out = append(out, c...) }
	add(classes("a cloud metadata address",
		"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "fd00:ec2::/32", // AWS: instances, ECS tasks, EKS pods
		"fd20:ce::254/128", "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32")) // Google, Azure, Alibaba, Oracle
	add(classes("link-local", "169.254.0.0/16", "fe80::/10"))
	add(classes("unspecified", "0.0.0.0/8", "::/128"))
	add(classes("multicast", "224.0.0.0/4", "ff00::/8"))
	add(classes("broadcast", "255.255.255.255/32"))
	add(classes("a documentation range", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"))
	add(classes("a benchmarking range", "198.18.0.0/15", "2001:2::/48"))
	add(classes("a reserved range", "192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4",
		"2001::/23", "fec0::/10"))
	return out
}

func loopback() []class { return classes("loopback", "127.0.0.0/8", "::1/128") }

// private lists what an allowed range may open.
func private() []class {
	return append(classes("private", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
		classes("carrier-grade NAT", "100.64.0.0/10")...)
}

// embedded returns the IPv4 address to which a translating or tunnelling
// gateway would carry a's packets.
func embedded(a netip.Addr) (v4 netip.Addr, how string, ok bool) {
	b := a.As16()
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte(b[i : i+4])) }
	switch {
	case strings.HasPrefix(string(b[:]), "\x00\x64\xff\x9b\x00\x00\x00\x00\x00\x00\x00\x00"): // 64:ff9b::/96, RFC 6052
		return at(12), "NAT64", true
	case b[0] == 0x20 && b[1] == 0x02: // 2002::/16, RFC 3056
		return at(2), "6to4", true
	case b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // RFC 5214
		return at(12), "ISATAP", true
	}
	return netip.Addr{}, "", false
}

// Address reports why a must not be connected to, as a [*RefusedError]; nil if
// it may. allow opens private ranges for this one tenant.
func (g *Guard) Address(a netip.Addr, allow []netip.Prefix) error {
	if reason := g.reason(a, allow); reason != "" {
		return &RefusedError{Host: a.String(), Reason: reason}
	}
	return nil
}

func (g *Guard) reason(a netip.Addr, allow []netip.Prefix) string {
	if !a.IsValid() {
		return "not an address"
	}
	if a.Zone() != "" {
		return "has a zone"
	}
	a = a.Unmap()
	if name, ok := find(g.never, a); ok {
		return name
	}
	if name, ok := find(g.loopback, a); ok {
		if g.allowLoopback {
			return ""
		}
		return name
	}
	if name, ok := find(g.private, a); ok {
		if contains(g.allow, a) || contains(allow, a) {
			return ""
		}
		return name + ", and no allowed range has it"
	}
	if a.Is4() {
		return ""
	}
	if v4, how, ok := embedded(a); ok {
		if inner := g.reason(v4, allow); inner != "" {
			return fmt.Sprintf("%s for %s: %s", how, v4, inner)
		}
		return ""
	}
	if !g.global.Contains(a) {
		return "a reserved range"
	}
	return ""
}

// ParseAllow reads the ranges of MYOSIN_ALLOW_TARGETS or of a tenant's record:
// CIDRs separated by commas or white space. A range that opens nothing (public
// already, or refused whatever is allowed) is an error; all are reported.
func ParseAllow(s string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	var errs []error
	openable := private()
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' }) {
		p, err := netip.ParsePrefix(f)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("allowed target range %q: not a CIDR such as 10.0.0.0/8", f))
			continue
		case p.Masked() != p:
			errs = append(errs, fmt.Errorf("allowed target range %q: has host bits, did you mean %s?", f, p.Masked()))
			continue
		}
		overlaps := false
		for _, c := range openable {
			overlaps = overlaps || c.prefix.Overlaps(p)
		}
		if !overlaps {
			errs = append(errs, fmt.Errorf("allowed target range %q: opens nothing; only private ranges can be allowed", f))
			continue
		}
		out = append(out, p)
	}
	return out, errors.Join(errs...)
}
