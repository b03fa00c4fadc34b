package runner

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	messages *prometheus.CounterVec
	armed    prometheus.Counter
	crashes  prometheus.Counter
	overdue  prometheus.Counter
	deferred *prometheus.CounterVec
	woken    *prometheus.CounterVec
	running  prometheus.Gauge
	lateness prometheus.Histogram
	shardLag *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "myosin", Subsystem: "runner", Name: name, Help: help}
	}
	m := &metrics{
		messages: prometheus.NewCounterVec(opts("messages_total", "Messages of runs, by what became of them."), []string{"outcome"}),
		armed:    prometheus.NewCounter(opts("armed_total", "Occurrences whose successor was made sure of.")),
		crashes:  prometheus.NewCounter(opts("crashes_total", "Leases that expired without a result.")),
		overdue:  prometheus.NewCounter(opts("deferred_past_tolerance_total", "Runs put off past their tolerance.")),
		deferred: prometheus.NewCounterVec(opts("deferred_total", "Runs put off, by reason."), []string{"reason"}),
		woken:    prometheus.NewCounterVec(opts("woken_total", "What the reconciler woke: pending occurrences of jobs, and runs."), []string{"what"}),
		running:  prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "myosin", Subsystem: "runner", Name: "calls", Help: "Calls under way."}),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "myosin", Subsystem: "runner", Name: "start_lateness_seconds",
			Help:    "From an occurrence's nominal time to its first call.",
			Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 3600},
		}),
		shardLag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "myosin", Subsystem: "runner", Name: "oldest_unwoken_seconds",
			Help: "How long ago the oldest entry of a shard should have woken, as of the last pass; 0: none is late.",
		}, []string{"shard"}),
	}
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.messages, m.armed, m.crashes, m.overdue, m.deferred, m.woken, m.running, m.lateness, m.shardLag} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

// done counts a message; outcome is one of a fixed few.
func (m *metrics) done(outcome string) { m.messages.WithLabelValues(outcome).Inc() }
