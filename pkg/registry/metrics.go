package registry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	lookups   *prometheus.CounterVec // by result
	refreshes *prometheus.CounterVec // by result
}

// newMetrics registers the metrics of a cache on reg (nil: nowhere). The error
// says which name is taken.
func newMetrics(reg prometheus.Registerer, c *Cache) (*metrics, error) {
	m := &metrics{
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "myosin_registry_lookups_total",
			Help: "Look-ups of a service: hit (from memory), read (from the table), unknown, error.",
		}, []string{"result"}),
		refreshes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "myosin_registry_refreshes_total",
			Help: "Reads of the whole registry: ok, partial (an item could not be read), error.",
		}, []string{"result"}),
	}
	if reg == nil {
		return m, nil
	}
	age := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "myosin_registry_age_seconds",
		Help: "Time since the view of the registry was read; 0 before the first read.",
	}, func() float64 { return c.Age().Seconds() })
	known := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "myosin_registry_services",
		Help: "Services known.",
	}, func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return float64(len(c.services))
	})
	var errs []error
	for _, col := range []prometheus.Collector{m.lookups, m.refreshes, age, known} {
		errs = append(errs, reg.Register(col))
	}
	return m, errors.Join(errs...)
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "read"
	case errors.Is(err, ErrUnknown):
		return "unknown"
	}
	return "error"
}
