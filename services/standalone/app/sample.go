package app

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

// sample is the owning service of the demo: it shows what arrives.
type sample struct {
	svc    registry.Service
	show   *printer
	worker *worker.Worker
	count  atomic.Int64
	// arrived takes the deliveries of the demo's jobs; it holds all of them.
	arrived chan delivery
}

// delivery is one job of the demo that arrived.
type delivery struct {
	id   trigger.ID
	name string
	late time.Duration
}

// demoHeader marks the jobs of the demo; its value is one run of it.
const demoHeader = "demo"

func newSample(svc registry.Service, show *printer) *sample {
	return &sample{svc: svc, show: show, arrived: make(chan delivery, 64)}
}

// open makes the worker.
func (m *sample) open(s *process) error {
	o := worker.Options{
		Receiver: s.p.Queues, Sender: s.p.Queues,
		QueueURL: m.svc.QueueURL, UrgentQueueURL: m.svc.UrgentQueueURL, DeadLetterURL: m.svc.DLQURL,
		Grace: grace / 2, Log: s.log, Now: s.p.Clock.Now,
		Metrics: prometheus.WrapRegistererWith(prometheus.Labels{"service": Sample}, s.reg),
	}
	if s.engine != nil {
		o.Wait = embeddedPoll
	}
	var err error
	if m.worker, err = worker.New(o); err != nil {
		return err
	}
	m.worker.HandleDefault(m.handle)
	return nil
}

func (m *sample) handle(_ context.Context, job worker.Job[[]byte]) error {
	m.count.Add(1)
	if job.Headers[demoHeader] == "" {
		m.show.arrived(job)
		return nil
	}
	m.show.event("delivered", job.Name, lateness(job.Lateness))
	select {
	case m.arrived <- delivery{id: job.ID, name: job.Name, late: job.Lateness}:
	default: // nobody waits for more
	}
	return nil
}

// lateness in words.
func lateness(d time.Duration) string {
	if d < 0 {
		return strconv.FormatInt(-d.Milliseconds(), 10) + " ms EARLY"
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + " ms late"
}
