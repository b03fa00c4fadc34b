package target

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Resolver looks a host's addresses up. It must return when its context ends.
// *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options of a [Caller]. Zero values mean the defaults named.
type Options struct {
	Guard *Guard // required

	Timeout        time.Duration // of a whole call that states none; 30 s
	MaxTimeout     time.Duration // to which a call's own is cut; 5 min, at least Timeout
	ConnectTimeout time.Duration // for the name and TCP, and once more for TLS; 5 s
	MaxBody        int           // bytes of an answer's body that are read; 64 KiB
	MaxExcerpt     int           // bytes of Result.Excerpt; 4 KiB, at most MaxBody
	MaxHeader      int           // bytes of an answer's head; 64 KiB
	MaxRetryAfter  time.Duration // to which Retry-After is cut; 24 h
	UserAgent      string        // unless the job sets its own; "Myosin/1"

	IdlePerHost int           // connections kept for reuse per host; 256
	MaxPerHost  int           // connections per host, calls beyond wait within their timeout; 256
	IdleTimeout time.Duration // after which an unused connection is closed; 60 s

	Resolver Resolver         // net.Resolver's zero value
	RootCAs  *x509.CertPool   // the system's
	Now      func() time.Time // time.Now

	Registerer prometheus.Registerer // nil: no metrics
}

func (o *Options) setDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	num := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	def(&o.Timeout, 30*time.Second)
	def(&o.MaxTimeout, max(5*time.Minute, o.Timeout))
	def(&o.ConnectTimeout, 5*time.Second)
	def(&o.MaxRetryAfter, 24*time.Hour)
	def(&o.IdleTimeout, time.Minute)
	num(&o.MaxBody, 64<<10)
	num(&o.MaxExcerpt, min(4<<10, max(o.MaxBody, 0)))
	num(&o.MaxHeader, 64<<10)
	num(&o.IdlePerHost, 256)
	num(&o.MaxPerHost, 256)
	if o.UserAgent == "" {
		o.UserAgent = "Myosin/1"
	}
	if o.Resolver == nil {
		o.Resolver = &net.Resolver{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Validate reports every fault together.
func (o Options) Validate() error {
	o.setDefaults()
	var errs []error
	if o.Guard == nil {
		errs = append(errs, errors.New("guard: required"))
	}
	for _, d := range []struct {
		name string
		v    time.Duration
	}{{"timeout", o.Timeout}, {"connect timeout", o.ConnectTimeout}, {"max retry after", o.MaxRetryAfter}, {"idle timeout", o.IdleTimeout}} {
		if d.v < 0 {
			errs = append(errs, fmt.Errorf("%s: must not be negative", d.name))
		}
	}
	if o.MaxTimeout < o.Timeout {
		errs = append(errs, errors.New("max timeout: must not be below the timeout"))
	}
	for _, n := range []struct {
		name string
		v    int
	}{{"max body", o.MaxBody}, {"max excerpt", o.MaxExcerpt}, {"max header", o.MaxHeader}, {"idle per host", o.IdlePerHost}, {"max per host", o.MaxPerHost}} {
		if n.v < 0 {
			errs = append(errs, fmt.Errorf("%s: must not be negative", n.name))
		}
	}
	if o.MaxExcerpt > o.MaxBody {
		errs = append(errs, errors.New("max excerpt: must not be over max body"))
	}
	if !validValue(o.UserAgent) {
		errs = append(errs, errors.New("user agent: not a header's value"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("target options: %w", err)
	}
	return nil
}
