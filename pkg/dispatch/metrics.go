package dispatch

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Metrics of dispatching, one set per process. A nil *Metrics records nothing.
type Metrics struct {
	lateness  *prometheus.HistogramVec
	outcomes  *prometheus.CounterVec
	batch     *prometheus.HistogramVec
	suspected *prometheus.CounterVec
	breakers  *prometheus.GaugeVec
	lost      *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	lane := []string{"lane"}
	m := &Metrics{
		lateness: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "myosin_dispatch_lateness_seconds", Help: "From due time to accepted by the service queue.",
			Buckets: []float64{.002, .005, .01, .02, .05, .1, .25, .5, 1, 2, 5, 10, 30, 60, 300, 1800, 7200},
		}, lane),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "myosin_dispatch_claims_total", Help: "Claims by how they ended.",
		}, []string{"lane", "outcome"}),
		batch: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "myosin_dispatch_send_batch_messages", Help: "Messages in one send.", Buckets: prometheus.LinearBuckets(1, 1, 10),
		}, lane),
		suspected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "myosin_dispatch_duplicates_suspected_total", Help: "Messages sent that may have been sent before.",
		}, lane),
		breakers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "myosin_dispatch_breakers_open", Help: "Services whose queue fails.",
		}, lane),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "myosin_dispatch_finish_conflicts_total", Help: "Claims that were no longer ours when they were to be completed or released.",
		}, lane),
	}
	for _, c := range []prometheus.Collector{m.lateness, m.outcomes, m.batch, m.suspected, m.breakers, m.lost} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) sent(lane trigger.Lane, late time.Duration, maybeSent bool) {
	if m == nil {
		return
	}
	m.lateness.WithLabelValues(lane.String()).Observe(late.Seconds())
	if maybeSent {
		m.suspected.WithLabelValues(lane.String()).Inc()
	}
}

func (m *Metrics) ended(lane trigger.Lane, o Outcome) {
	if m != nil {
		m.outcomes.WithLabelValues(lane.String(), o.String()).Inc()
	}
}

func (m *Metrics) batched(lane trigger.Lane, n int) {
	if m != nil {
		m.batch.WithLabelValues(lane.String()).Observe(float64(n))
	}
}

func (m *Metrics) breakerOpen(lane trigger.Lane, d float64) {
	if m != nil {
		m.breakers.WithLabelValues(lane.String()).Add(d)
	}
}

func (m *Metrics) conflict(lane trigger.Lane) {
	if m != nil {
		m.lost.WithLabelValues(lane.String()).Inc()
	}
}
