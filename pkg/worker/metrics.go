package worker

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// otherName labels jobs without a handler of their own, so that callers cannot
// make labels.
const otherName = "other"

type metrics struct {
	received       *prometheus.CounterVec   // lane
	handled        *prometheus.CounterVec   // name, outcome
	duration       *prometheus.HistogramVec // name
	lateness       *prometheus.HistogramVec // name
	released       *prometheus.CounterVec   // reason
	receiveErrors  *prometheus.CounterVec   // lane
	deleteErrors   prometheus.Counter
	extensionFails prometheus.Counter
	lost           prometheus.Counter
	tooOld         prometheus.Counter
	running, held  prometheus.GaugeFunc
}

// Reasons of a release.
const (
	releaseStop   = "stop"
	releaseGroup  = "group"
	releaseTooOld = "too_old"
)

func newMetrics(w *Worker, reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "myosin", Subsystem: "worker", Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "myosin", Subsystem: "worker", Name: name, Help: help, Buckets: buckets,
		}, []string{"name"})
	}
	single := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "myosin", Subsystem: "worker", Name: name, Help: help})
	}
	gauge := func(name, help string, f func() int) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "myosin", Subsystem: "worker", Name: name, Help: help},
			func() float64 {
				w.mu.Lock()
				defer w.mu.Unlock()
				return float64(f())
			})
	}
	m := &metrics{
		received: counter("received_total", "Messages received, by lane.", "lane"),
		handled:  counter("handled_total", "Messages handled, by job name and outcome.", "name", "outcome"),
		duration: histogram("handler_duration_seconds", "Time a handler took, by job name.",
			[]float64{.001, .005, .025, .1, .5, 1, 5, 30, 120, 600, 3600}),
		lateness: histogram("lateness_seconds", "From the due time of a job to the start of its handler, by job name.",
			[]float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300, 3600}),
		released:       counter("released_total", "Messages made visible before a handler started, by reason.", "reason"),
		receiveErrors:  counter("receive_errors_total", "Receives that failed, by lane.", "lane"),
		deleteErrors:   single("delete_errors_total", "Deletes of finished messages that failed and are tried again."),
		extensionFails: single("extension_failures_total", "Visibility extensions that failed."),
		lost:           single("lost_total", "Messages whose receipt became invalid while they were held."),
		tooOld:         single("too_old_total", "Messages given up because they were held until the queue's ceiling was near."),
		running:        gauge("running", "Handlers running now.", func() int { return w.running }),
		held:           gauge("in_flight", "Messages held now: buffered, running, or not yet deleted or given back.", func() int { return len(w.entries) }),
	}
	for _, l := range trigger.Lanes {
		m.received.WithLabelValues(l.String())
		m.receiveErrors.WithLabelValues(l.String())
	}
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.received, m.handled, m.duration, m.lateness, m.released, m.receiveErrors,
		m.deleteErrors, m.extensionFails, m.lost, m.tooOld, m.running, m.held,
	} {
		errs = append(errs, reg.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register worker metrics: %w", err)
	}
	return m, nil
}
