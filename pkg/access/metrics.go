package access

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests *prometheus.CounterVec // by method and result
	reads    *prometheus.CounterVec // by result
	fetches  *prometheus.CounterVec // by what and result
}

// newMetrics registers the metrics on reg (nil: nowhere). The error says which
// name is taken.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "myosin_access_requests_total",
			Help: "Requests authenticated, by method (key, oidc, none) and result: ok, or why not.",
		}, []string{"method", "result"}),
		reads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "myosin_access_key_reads_total",
			Help: "Reads of an API key from its store: found, unknown, error.",
		}, []string{"result"}),
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "myosin_access_issuer_fetches_total",
			Help: "Requests to the OpenID Connect issuer, by what (discovery, keys) and result (ok, error).",
		}, []string{"what", "result"}),
	}
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.requests, m.reads, m.fetches} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) fetched(what string, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.fetches.WithLabelValues(what, result).Inc()
}
