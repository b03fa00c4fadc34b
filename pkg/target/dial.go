package target

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// maxPools bounds the sets of allowed ranges that have connections open.
	maxPools = 64
	// maxAddresses bounds how many of a name's addresses are tried.
	maxAddresses = 8
)

var errClosed = errors.New("caller is closed")

// phaseError says in which phase a dial failed.
type phaseError struct {
	kind Kind
	err  error
}

func (e *phaseError) Error() string { return e.err.Error() }
func (e *phaseError) Unwrap() error { return e.err }

// network opens and keeps the connections. A connection is reused only between
// requests under the same allowed ranges: else a tenant could ride on one that
// only another tenant may open.
type network struct {
	o    *Options
	base context.Context // ends with close
	stop context.CancelFunc
	// connect makes one connection with a dialler; a test puts another address in
	// its place, as a rebinding name would.
	connect func(ctx context.Context, d net.Dialer, address string) (net.Conn, error)

	mu     sync.Mutex
	closed bool
	dials  sync.WaitGroup // Add under mu while not closed
	conns  map[*conn]struct{}
	pools  map[string]*http.Transport
	order  []string // keys of pools, the least recently used first
}

func newNetwork(o *Options) *network {
	n := &network{o: o, conns: map[*conn]struct{}{}, pools: map[string]*http.Transport{}}
	n.connect = func(ctx context.Context, d net.Dialer, address string) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", address)
	}
	n.base, n.stop = context.WithCancel(context.Background())
	return n
}

// transport returns the connections under the allowed ranges.
func (n *network) transport(allow []netip.Prefix) *http.Transport {
	extra := slices.Clone(allow)
	extra = slices.DeleteFunc(extra, func(p netip.Prefix) bool { return slices.Contains(n.o.Guard.allow, p) })
	slices.SortFunc(extra, netip.Prefix.Compare)
	extra = slices.Compact(extra)
	var key strings.Builder
	for _, p := range extra {
		key.WriteString(p.String() + " ")
	}
	k := key.String()

	var evicted *http.Transport
	defer func() {
		if evicted != nil { // without mu: closing a connection takes it
			evicted.CloseIdleConnections() // those in use close when they become idle
		}
	}()
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.Index(n.order, k); i >= 0 {
		n.order = append(slices.Delete(n.order, i, i+1), k)
		return n.pools[k]
	}
	if len(n.order) >= maxPools {
		oldest := n.order[0]
		n.order = slices.Delete(n.order, 0, 1)
		evicted = n.pools[oldest]
		delete(n.pools, oldest)
	}
	t := n.newTransport(extra)
	n.pools[k], n.order = t, append(n.order, k)
	return t
}

func (n *network) newTransport(allow []netip.Prefix) *http.Transport {
	return &http.Transport{
		Proxy: nil, // the environment's would resolve and connect in our place
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return n.dial(ctx, address, allow)
		},
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: n.o.RootCAs},
		TLSHandshakeTimeout:    n.o.ConnectTimeout,
		DisableCompression:     true, // what is stored is what came, and nothing inflates
		MaxIdleConns:           n.o.MaxPerHost,
		MaxIdleConnsPerHost:    n.o.IdlePerHost,
		MaxConnsPerHost:        n.o.MaxPerHost,
		IdleConnTimeout:        n.o.IdleTimeout,
		MaxResponseHeaderBytes: int64(n.o.MaxHeader),
		ForceAttemptHTTP2:      true,
		// A connection that died in silence must not fail every call on it.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
	}
}

// begin counts a dial in, unless closed.
func (n *network) begin() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.dials.Add(1)
	return true
}

// dial resolves the host once, checks every address of the answer, and connects
// to those very addresses: no second look-up can put another in their place. One
// forbidden address among several refuses the name, so that the outcome does not
// hang on their order. The socket's address is checked once more as it connects.
func (n *network) dial(ctx context.Context, address string, allow []netip.Prefix) (net.Conn, error) {
	if !n.begin() {
		return nil, errClosed
	}
	defer n.dials.Done()
	ctx, cancel := context.WithTimeout(ctx, n.o.ConnectTimeout)
	defer cancel()
	defer context.AfterFunc(n.base, cancel)()
	rec := recorderFrom(ctx)

	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &phaseError{KindInvalid, fmt.Errorf("split address: %w", err)}
	}
	start := n.o.Now()
	addrs, err := n.lookup(ctx, host)
	if err != nil {
		return nil, &phaseError{KindDNS, fmt.Errorf("look up host: %w", err)}
	}
	rec.set(func(t *Timings) { t.DNS = n.o.Now().Sub(start) })
	for _, a := range addrs {
		if err := n.o.Guard.Address(a, allow); err != nil {
			return nil, &phaseError{KindRefused, err}
		}
	}
	d := net.Dialer{ControlContext: n.control(allow)}
	start = n.o.Now()
	raw, err := n.dialFirst(ctx, d, addrs, port)
	if err != nil {
		if pe := (*phaseError)(nil); errors.As(err, &pe) {
			return nil, pe
		}
		return nil, &phaseError{KindConnect, err}
	}
	rec.set(func(t *Timings) { t.Connect = n.o.Now().Sub(start) })
	return n.track(raw)
}

// control checks the address that a socket is about to connect to: the last look,
// whatever was resolved and checked before.
func (n *network) control(allow []netip.Prefix) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return &phaseError{KindRefused, &RefusedError{Host: address, Reason: "not an address"}}
		}
		if err := n.o.Guard.Address(ap.Addr(), allow); err != nil {
			return &phaseError{KindRefused, err}
		}
		return nil
	}
}

func (n *network) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	addrs, err := n.o.Resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, errors.New("no addresses")
	}
	out := make([]netip.Addr, len(addrs))
	for i, a := range addrs {
		out[i] = a.Unmap()
	}
	return out, nil
}

// dialFirst tries the addresses in turn, each with a fair share of the time left.
func (n *network) dialFirst(ctx context.Context, d net.Dialer, addrs []netip.Addr, port string) (net.Conn, error) {
	addrs = addrs[:min(len(addrs), maxAddresses)]
	var first error
	for i, a := range addrs {
		one, cancel := ctx, context.CancelFunc(func() {})
		if deadline, ok := ctx.Deadline(); ok && i < len(addrs)-1 {
			one, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(addrs)-i))
		}
		c, err := n.connect(one, d, net.JoinHostPort(a.String(), port))
		cancel()
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

// conn is known to its network until it is closed.
type conn struct {
	net.Conn
	n *network
}

func (c *conn) Close() error {
	c.n.mu.Lock()
	delete(c.n.conns, c)
	c.n.mu.Unlock()
	return c.Conn.Close()
}

func (n *network) track(raw net.Conn) (net.Conn, error) {
	c := &conn{raw, n}
	n.mu.Lock()
	closed := n.closed
	if !closed {
		n.conns[c] = struct{}{}
	}
	n.mu.Unlock()
	if closed {
		_ = raw.Close()
		return nil, errClosed
	}
	return c, nil
}

// close ends dials and connections and waits for the dials.
func (n *network) close() {
	n.mu.Lock()
	n.closed = true
	open := n.conns
	n.conns = map[*conn]struct{}{}
	pools := n.pools
	n.pools, n.order = map[string]*http.Transport{}, nil
	n.mu.Unlock()
	n.stop()
	for c := range open {
		_ = c.Conn.Close()
	}
	n.dials.Wait()
	for _, t := range pools {
		t.CloseIdleConnections()
	}
}
