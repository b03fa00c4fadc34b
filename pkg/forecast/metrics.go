package forecast

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// counterMetrics are those of a [Counter].
type counterMetrics struct {
	writes  *prometheus.CounterVec // by result
	dropped prometheus.Counter
}

// newCounterMetrics registers the metrics on reg (nil: nowhere).
func newCounterMetrics(reg prometheus.Registerer, held func() int) (*counterMetrics, error) {
	m := &counterMetrics{
		writes: newResults("myosin_forecast_writes_total", "Writes of one service's minute to the forecast table: ok, error."),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "myosin_forecast_dropped_jobs_total", Help: "Jobs left out of the forecast because too many minutes wait to be written.",
		}),
	}
	pending := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "myosin_forecast_pending_minutes", Help: "Minutes of services whose counts wait to be written.",
	}, func() float64 { return float64(held()) })
	return m, register(reg, m.writes, m.dropped, pending)
}

func (m *counterMetrics) wrote(err error) { m.writes.WithLabelValues(result(err)).Inc() }

func newResults(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"result"})
}

func register(reg prometheus.Registerer, all ...prometheus.Collector) error {
	if reg == nil {
		return nil
	}
	var errs []error
	for _, col := range all {
		errs = append(errs, reg.Register(col))
	}
	return errors.Join(errs...)
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}
