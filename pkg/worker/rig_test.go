package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

// rig is a worker over an in-memory engine, in virtual time.
type rig struct {
	t         *testing.T
	eng       *memqueue.Engine
	url, dlq  string
	log       *logs
	reg       *prometheus.Registry
	start     time.Time
	faultLock sync.Mutex
	fault     func(memqueue.Entry) memqueue.Fault
	calls     map[memqueue.Op]int
}

// logs is a concurrent buffer of log lines.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// inBubble runs f with a rig whose queue has the given spec. A goroutine that
// outlives the test fails it: synctest waits for all of them.
func inBubble(t *testing.T, spec queue.Spec, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, log: &logs{}, reg: prometheus.NewPedanticRegistry(), start: time.Now(), calls: map[memqueue.Op]int{}}
		r.eng = memqueue.New(memqueue.Options{Faults: func(e memqueue.Entry) memqueue.Fault {
			r.faultLock.Lock()
			r.calls[e.Op]++
			fault := r.fault
			r.faultLock.Unlock()
			if fault == nil {
				return memqueue.Fault{}
			}
			return fault(e)
		}})
		if spec.Name == "" {
			spec.Name = "jobs"
		}
		dlq := "dlq"
		if spec.FIFO {
			dlq = "dlq.fifo"
		}
		r.dlq = r.create(queue.Spec{Name: dlq, FIFO: spec.FIFO})
		if spec.MaxReceives > 0 {
			spec.DeadLetterURL = r.dlq
		}
		r.url = r.create(spec)
		f(r)
	})
}

func (r *rig) create(s queue.Spec) string {
	url, err := r.eng.Create(r.t.Context(), s)
	require.NoError(r.t, err)
	return url
}

func (r *rig) setFault(f func(memqueue.Entry) memqueue.Fault) {
	r.faultLock.Lock()
	defer r.faultLock.Unlock()
	r.fault = f
}

func (r *rig) called(op memqueue.Op) int {
	r.faultLock.Lock()
	defer r.faultLock.Unlock()
	return r.calls[op]
}

func (r *rig) options() worker.Options {
	return worker.Options{
		Receiver: r.eng, QueueURL: r.url,
		Log: slog.New(slog.NewTextHandler(r.log, nil)), Metrics: r.reg,
	}
}

func (r *rig) worker(change ...func(*worker.Options)) *worker.Worker {
	o := r.options()
	for _, c := range change {
		c(&o)
	}
	w, err := worker.New(o)
	require.NoError(r.t, err)
	return w
}

func withDLQ(r *rig) func(*worker.Options) {
	return func(o *worker.Options) { o.DeadLetterURL, o.Sender = r.dlq, r.eng }
}

// run starts w and returns a function that stops it and returns Run's error.
func (r *rig) run(w *worker.Worker) (stop func() error) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

func (r *rig) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// work is what a handler does, in virtual time.
func work(d time.Duration) { time.Sleep(d) }

func (r *rig) since() time.Duration { return time.Since(r.start) }

// message returns the delivered form of a new job due now.
func (r *rig) message(name string, payload any, change ...func(*trigger.Trigger)) (trigger.ID, queue.Message) {
	body, err := json.Marshal(payload)
	require.NoError(r.t, err)
	t := trigger.Trigger{ID: trigger.NewID(), Due: time.Now(), Name: name, Payload: body}
	for _, c := range change {
		c(&t)
	}
	d := trigger.Deliver(&t, strings.HasSuffix(r.url, ".fifo"))
	m := queue.Message{Body: d.Body, Attributes: d.Attributes, Group: d.Group}
	if strings.HasSuffix(r.url, ".fifo") {
		m.Dedup = t.ID.String()
	}
	return t.ID, m
}

func (r *rig) sendTo(url string, msgs ...queue.Message) {
	for _, err := range r.eng.SendBatch(r.t.Context(), url, msgs) {
		require.NoError(r.t, err)
	}
}

func (r *rig) send(name string, payload any, change ...func(*trigger.Trigger)) trigger.ID {
	id, m := r.message(name, payload, change...)
	r.sendTo(r.url, m)
	return id
}

func (r *rig) depth(url string) queue.Depth {
	d, err := r.eng.Depth(r.t.Context(), url)
	require.NoError(r.t, err)
	return d
}

func (r *rig) empty(url string) {
	r.t.Helper()
	require.Equal(r.t, queue.Depth{}, r.depth(url))
}

// metric sums the samples of a metric whose labels contain all the given values.
func (r *rig) metric(name string, values ...string) float64 {
	fams, err := r.reg.Gather()
	require.NoError(r.t, err)
	sum := 0.0
	for _, f := range fams {
		if f.GetName() != name {
			continue
		}
	samples:
		for _, m := range f.GetMetric() {
			for _, v := range values {
				found := false
				for _, l := range m.GetLabel() {
					found = found || l.GetValue() == v
				}
				if !found {
					continue samples
				}
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// seen counts calls per job, and what went on at the same time.
type seen struct {
	mu       sync.Mutex
	count    map[trigger.ID]int
	order    []trigger.ID
	now, max int
}

func newSeen() *seen { return &seen{count: map[trigger.ID]int{}} }

func (s *seen) enter(id trigger.ID) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[id]++
	s.order = append(s.order, id)
	s.now++
	s.max = max(s.max, s.now)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now--
	}
}

func (s *seen) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order)
}

func (s *seen) of(id trigger.ID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[id]
}

func (s *seen) once(t *testing.T, n int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(t, s.count, n)
	for id, c := range s.count {
		require.Equal(t, 1, c, "job %s", id)
	}
}
