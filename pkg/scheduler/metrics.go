package scheduler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// metrics of scheduling. A nil *metrics records nothing.
type metrics struct {
	passes     *prometheus.HistogramVec
	pages      *prometheus.CounterVec
	readErrors *prometheus.CounterVec
	conflicts  *prometheus.CounterVec
	recoveries *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer, s *Scheduler) (*metrics, error) {
	byLane := []string{"lane"}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "myosin_scheduler_" + name, Help: help}, byLane)
	}
	m := &metrics{
		passes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "myosin_scheduler_pass_seconds", Help: "Reading one partition from the floor to the look-ahead.",
			Buckets: prometheus.ExponentialBuckets(.001, 4, 10),
		}, byLane),
		pages:      counter("pages_total", "Pages read by passes."),
		readErrors: counter("read_errors_total", "Turns of a partition that ended in an error."),
		conflicts:  counter("acquire_conflicts_total", "Rows that were no longer as read when they were to be acquired."),
		recoveries: counter("recoveries_total", "Acquired rows recovered from owners that are gone."),
	}
	cs := []prometheus.Collector{m.passes, m.pages, m.readErrors, m.conflicts, m.recoveries}
	for i := range trigger.Lanes {
		id := trigger.Lanes[i]
		gauge := func(name, help string, f func(l *lane) float64) {
			cs = append(cs, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "myosin_scheduler_" + name, Help: help, ConstLabels: prometheus.Labels{"lane": id.String()},
			}, func() float64 { return f(s.lanes[i]) }))
		}
		gauge("partitions_owned", "Partitions this process owns.", func(l *lane) float64 { own, _ := l.owned(); return float64(own) })
		gauge("pending_rows", "Rows in memory that wait to be acquired.", func(l *lane) float64 { rows, _ := l.pending.total(); return float64(rows) })
		gauge("pending_bytes", "Memory of those rows.", func(l *lane) float64 { _, bytes := l.pending.total(); return float64(bytes) })
		gauge("claimed_rows", "Rows acquired and not finished.", func(l *lane) float64 { return float64(l.d.Open()) })
		gauge("parked_ranges", "Ranges of services that may not send now.", func(l *lane) float64 { return float64(l.parkedRanges()) })
	}
	cs = append(cs, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "myosin_scheduler_clock_skew_seconds", Help: "Local time minus the time of AWS answers.",
	}, func() float64 { skew, _ := s.o.Clock.Skew(); return skew.Seconds() }))
	for _, c := range cs {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (l *lane) parkedRanges() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, p := range l.parts {
		p.mu.Lock()
		n += len(p.parked)
		p.mu.Unlock()
	}
	return n
}

func (m *metrics) pass(l trigger.Lane, took time.Duration, pages int) {
	if m != nil {
		m.passes.WithLabelValues(l.String()).Observe(took.Seconds())
		m.pages.WithLabelValues(l.String()).Add(float64(pages))
	}
}

func (m *metrics) readError(l trigger.Lane) {
	if m != nil {
		m.readErrors.WithLabelValues(l.String()).Inc()
	}
}

func (m *metrics) conflict(l trigger.Lane) {
	if m != nil {
		m.conflicts.WithLabelValues(l.String()).Inc()
	}
}

func (m *metrics) recovered(l trigger.Lane, n int) {
	if m != nil {
		m.recoveries.WithLabelValues(l.String()).Add(float64(n))
	}
}
