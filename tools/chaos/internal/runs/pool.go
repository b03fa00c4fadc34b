package runs

import (
	"errors"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"
)

// askFor bounds a request.
const askFor = 12 * time.Second

// Pool sends requests to whichever API process takes the connection, as a load
// balancer without health checks and a client that tries the next address do.
// What fails otherwise has failed.
type Pool struct {
	addresses func() []string
	next      atomic.Int64
	refused   atomic.Int64
	transport *http.Transport
}

// NewPool returns one over the addresses that there are at a time.
func NewPool(addresses func() []string) *Pool {
	return &Pool{addresses: addresses, transport: &http.Transport{MaxIdleConnsPerHost: 50}}
}

var errNoAPI = errors.New("no API takes connections")

// RoundTrip implements http.RoundTripper; the host of a request says nothing.
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) {
	all := p.addresses()
	first := int(p.next.Add(1))
	for i := range all {
		try := r.Clone(r.Context())
		try.URL.Host, try.Host = all[(first+i)%len(all)], ""
		if r.GetBody != nil {
			var err error
			if try.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
		resp, err := p.transport.RoundTrip(try)
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return resp, err
		}
		p.refused.Add(1)
	}
	return nil, errNoAPI
}

// Close ends its idle connections.
func (p *Pool) Close() { p.transport.CloseIdleConnections() }
