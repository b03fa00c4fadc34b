package inbound

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// outcome is how an accepted submission ended.
type outcome string

const (
	outcomeInserted   outcome = "inserted"
	outcomeDirect     outcome = "inserted_due" // claimed and handed to the dispatcher
	outcomeDuplicate  outcome = "duplicate"
	outcomeRemembered outcome = "duplicate_remembered" // without asking the table
	outcomeCancelled  outcome = "cancelled"
	outcomeGone       outcome = "duplicate_delivered" // its row was there, and is gone
)

// metrics of the drain. A nil *metrics records nothing.
type metrics struct {
	received    *prometheus.CounterVec
	submissions *prometheus.CounterVec
	dead        *prometheus.CounterVec
	released    *prometheus.CounterVec
	undeleted   *prometheus.CounterVec
	lag         *prometheus.HistogramVec
	batch       *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer, in *Inbound) (*metrics, error) {
	lane := []string{"lane"}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(lane, labels...))
	}
	m := &metrics{
		received:    counter("myosin_inbound_received_total", "Messages received from the inbound buffers, redeliveries included."),
		submissions: counter("myosin_inbound_submissions_total", "Submissions accepted, by outcome.", "outcome"),
		dead:        counter("myosin_inbound_dead_letters_total", "Messages sent to the inbound dead-letter queue, by reason and first field at fault.", "reason", "field"),
		released:    counter("myosin_inbound_released_total", "Messages given back to the buffer unfinished."),
		undeleted:   counter("myosin_inbound_delete_failures_total", "Messages dealt with that could not be deleted and will come again."),
		lag: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "myosin_inbound_drain_lag_seconds", Help: "From the message's SentTimestamp to its row.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2, 5, 10, 30, 60, 300, 1800, 7200, 86400},
		}, lane),
		batch: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "myosin_inbound_insert_batch_rows", Help: "Rows in one batch of inserts.", Buckets: []float64{1, 2, 5, 10, 15, 20, 25},
		}, lane),
	}
	all := []prometheus.Collector{m.received, m.submissions, m.dead, m.released, m.undeleted, m.lag, m.batch}
	gauge := func(name, help string, l trigger.Lane, f func() float64) {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: name, Help: help, ConstLabels: prometheus.Labels{"lane": l.String()},
		}, f))
	}
	for _, l := range trigger.Lanes {
		gauge("myosin_inbound_sick", "1 while receiving is stopped because the trigger table fails.", l, func() float64 {
			if in.lanes[l].health.isSick() {
				return 1
			}
			return 0
		})
		gauge("myosin_inbound_held_messages", "Messages received and not finished.", l, func() float64 { return float64(in.lanes[l].hold.held()) })
	}
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) receivedN(l trigger.Lane, n int) {
	if m != nil {
		m.received.WithLabelValues(l.String()).Add(float64(n))
	}
}

func (m *metrics) ended(l trigger.Lane, o outcome) {
	if m != nil {
		m.submissions.WithLabelValues(l.String(), string(o)).Inc()
	}
}

func (m *metrics) stored(l trigger.Lane, lag time.Duration) {
	if m != nil {
		m.lag.WithLabelValues(l.String()).Observe(max(lag, 0).Seconds())
	}
}

func (m *metrics) deadLettered(l trigger.Lane, d *DeadLetter) {
	if m != nil {
		m.dead.WithLabelValues(l.String(), d.Reason, d.class()).Inc()
	}
}

func (m *metrics) releasedN(l trigger.Lane, n int) {
	if m != nil {
		m.released.WithLabelValues(l.String()).Add(float64(n))
	}
}

func (m *metrics) deleteFailed(l trigger.Lane) {
	if m != nil {
		m.undeleted.WithLabelValues(l.String()).Inc()
	}
}

func (m *metrics) batched(l trigger.Lane, n int) {
	if m != nil {
		m.batch.WithLabelValues(l.String()).Observe(float64(n))
	}
}
