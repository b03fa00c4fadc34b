package target

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// The ways to call a target, as labels of the metrics.
const (
	typeHTTP  = "http"
	typeQueue = "queue"
	typeTopic = "topic"
)

// metrics of the calls. A nil *metrics records nothing.
type metrics struct{ seconds *prometheus.HistogramVec }

// newMetrics registers the metrics; a second caller on the registerer shares
// those of the first.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
	if r == nil {
		return nil, nil
	}
	m := &metrics{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "myosin_target_call_seconds",
		Help:    "Calls to targets, by the type of target and how they ended: the status code's class, or what went wrong.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
	}, []string{"outcome", "type"})}
	err := r.Register(m.seconds)
	if had, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if shared, ok := had.ExistingCollector.(*prometheus.HistogramVec); ok {
			m.seconds, err = shared, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("register target metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) observe(kind string, r Result) {
	if m == nil {
		return
	}
	outcome := string(r.Kind)
	switch {
	case outcome != "":
	case r.StatusCode >= 200 && r.StatusCode <= 599:
		outcome = string("12345"[r.StatusCode/100-1]) + "xx"
	default:
		outcome = "other"
	}
	m.seconds.WithLabelValues(outcome, kind).Observe(r.Timings.Total.Seconds())
}
