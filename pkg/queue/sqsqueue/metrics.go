package sqsqueue

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/awsclient"
	"github.com/myosin-jobs/myosin/pkg/queue"
)

// metrics counts what passes. Labels are bounded: operations and error classes,
// never a queue's URL.
type metrics struct {
	requests *prometheus.CounterVec
	messages *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	errors   *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	byOp := []string{"operation"}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "myosin_queue_requests_total",
			Help: "Calls of the queue service; retries by the SDK are not counted."}, byOp),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "myosin_queue_messages_total",
			Help: "Messages asked to be sent, deleted or changed, and messages received."}, byOp),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "myosin_queue_message_bytes_total",
			Help: "Bytes of messages asked to be sent (attributes included) and of bodies received."}, byOp),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "myosin_queue_errors_total",
			Help: "Failures by class: per message for send, delete and visibility, per call for the rest."}, []string{"operation", "class"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "myosin_queue_request_duration_seconds",
			Help:    "Time of a call, the wait of a long poll included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30}}, byOp),
	}
	if reg == nil {
		return m, nil
	}
	return m, errors.Join(register(reg, &m.requests), register(reg, &m.messages), register(reg, &m.bytes),
		register(reg, &m.errors), register(reg, &m.seconds))
}

// register registers c, or takes the one registered before.
func register[C prometheus.Collector](reg prometheus.Registerer, c *C) error {
	err := reg.Register(*c)
	if before, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if old, ok := before.ExistingCollector.(C); ok {
			*c = old
			return nil
		}
	}
	return err
}

// begin counts a call and returns what to call at its end.
func (m *metrics) begin(op string, messages, bytes int) func(error) {
	m.count(op, messages, bytes)
	start := time.Now()
	return func(err error) {
		m.requests.WithLabelValues(op).Inc()
		m.seconds.WithLabelValues(op).Observe(time.Since(start).Seconds())
		if err != nil && !perEntry(op) {
			m.entry(op, err)
		}
	}
}

// perEntry tells operations whose failures are counted per message.
func perEntry(op string) bool { return op == "send" || op == "delete" || op == "visibility" }

func (m *metrics) count(op string, messages, bytes int) {
	if messages > 0 {
		m.messages.WithLabelValues(op).Add(float64(messages))
	}
	if bytes > 0 {
		m.bytes.WithLabelValues(op).Add(float64(bytes))
	}
}

// entry counts one failure.
func (m *metrics) entry(op string, err error) {
	if err != nil {
		m.errors.WithLabelValues(op, classOf(err)).Inc()
	}
}

// classOf names the class of an error as the caller sees it.
func classOf(err error) string {
	switch {
	case errors.Is(err, queue.ErrMissing):
		return "missing"
	case errors.Is(err, queue.ErrDenied):
		return "denied"
	case errors.Is(err, queue.ErrThrottled):
		return "throttled"
	case errors.Is(err, queue.ErrRejected):
		return "rejected"
	case errors.Is(err, queue.ErrNotSent):
		return "not_sent"
	case errors.Is(err, queue.ErrReceipt):
		return "receipt"
	default:
		return awsclient.Classify(err).String()
	}
}
