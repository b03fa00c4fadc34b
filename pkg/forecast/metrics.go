package forecast

import (
	"errors"
	"slices"
	"time"

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
		Name: "myosin_forecast_pending_writes", Help: "Minutes of services whose counts wait to be written.",
	}, func() float64 { return float64(held()) })
	return m, register(reg, m.writes, m.dropped, pending)
}

func (m *counterMetrics) wrote(err error) { m.writes.WithLabelValues(result(err)).Inc() }

// readerMetrics are those of a [Reader].
type readerMetrics struct {
	reads *prometheus.CounterVec // by result
}

// newReaderMetrics registers the metrics on reg (nil: nowhere).
func newReaderMetrics(reg prometheus.Registerer, r *Reader) (*readerMetrics, error) {
	m := &readerMetrics{reads: newResults("myosin_forecast_reads_total", "Reads of one service's minutes from the forecast table: ok, error.")}
	return m, register(reg, m.reads, &peaks{r: r, desc: prometheus.NewDesc(
		"myosin_forecast_peak_jobs_per_minute",
		"Most jobs due in one minute from now to the end of the window; absent once it is old.",
		[]string{"service", "window"}, nil,
	)})
}

// peaks exposes what a reader knows, without reading.
type peaks struct {
	r    *Reader
	desc *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (p *peaks) Describe(ch chan<- *prometheus.Desc) { ch <- p.desc }

// Collect implements prometheus.Collector.
func (p *peaks) Collect(ch chan<- prometheus.Metric) {
	now := p.r.o.Now()
	p.r.mu.Lock()
	views := p.r.watched // replaced as a whole, never changed
	p.r.mu.Unlock()
	first := minuteOf(now)
	for service, v := range views {
		if now.Sub(v.read).Abs() >= StaleAfter {
			continue
		}
		for _, window := range [...]struct {
			label string
			d     time.Duration
		}{{"5m", 5 * time.Minute}, {"15m", 15 * time.Minute}, {"60m", time.Hour}} {
			// The minute that the window ends in counts whole: a peak shows no later
			// than its window before it begins.
			if due, ok := v.part(first, minuteOf(now.Add(window.d))-first+1); ok {
				ch <- prometheus.MustNewConstMetric(p.desc, prometheus.GaugeValue, float64(slices.Max(due)), service, window.label)
			}
		}
	}
}

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
