package dispatch

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Metrics of dispatching, one set per process. A nil *Metrics records nothing.
type Metrics struct {
	suspected *prometheus.CounterVec
	breakers  *prometheus.GaugeVec
	lost      *prometheus.CounterVec
	// What is counted for each job is looked up once.
	lateness, batch [len(trigger.Lanes)]prometheus.Observer
	outcomes        [len(trigger.Lanes)][Dropped + 1]prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	lane := []string{"lane"}
	lateness := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "myosin_dispatch_lateness_seconds", Help: "From due time to accepted by the service queue.",
		Buckets: []float64{.002, .005, .01, .02, .05, .1, .25, .5, 1, 2, 5, 10, 30, 60, 300, 1800, 7200},
	}, lane)
	outcomes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "myosin_dispatch_claims_total", Help: "Claims by how they ended.",
	}, []string{"lane", "outcome"})
	batch := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "myosin_dispatch_send_batch_messages", Help: "Messages in one send.", Buckets: prometheus.LinearBuckets(1, 1, 10),
	}, lane)
	m := &Metrics{
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
	for _, c := range []prometheus.Collector{lateness, outcomes, batch, m.suspected, m.breakers, m.lost} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	for _, l := range trigger.Lanes {
		m.lateness[l], m.batch[l] = lateness.WithLabelValues(l.String()), batch.WithLabelValues(l.String())
		for o := Delivered; o <= Dropped; o++ {
			m.outcomes[l][o] = outcomes.WithLabelValues(l.String(), o.String())
		}
	}
	return m, nil
}

func (m *Metrics) sent(lane trigger.Lane, late time.Duration, maybeSent bool) {
	if m == nil {
		return
	}
	m.lateness[lane].Observe(late.Seconds())
	if maybeSent {
		m.suspected.WithLabelValues(lane.String()).Inc()
	}
}

func (m *Metrics) ended(lane trigger.Lane, o Outcome) {
	if m != nil {
		m.outcomes[lane][o].Inc()
	}
}

func (m *Metrics) batched(lane trigger.Lane, n int) {
	if m != nil {
		m.batch[lane].Observe(float64(n))
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
