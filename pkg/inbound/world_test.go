package inbound_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/inbound"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// world is a table, a queue engine and a registry, and everything seen of them.
type world struct {
	t        *testing.T
	table    *memstore.Store
	queues   *memqueue.Engine
	services *registry.Static
	urls     inbound.URLs
	client   *client.Client
	stops    []func()

	mu        sync.Mutex
	delivered map[trigger.ID]int
	inserted  map[trigger.ID]time.Time // first insert
	inserts   map[trigger.ID]int
	receives  map[string]int // by message id, in the inbound buffers
	failStore func(op string, key trigger.Key) memstore.Fault
	failQueue func(memqueue.Entry) memqueue.Fault
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, services: registry.NewStatic(), delivered: map[trigger.ID]int{}, inserted: map[trigger.ID]time.Time{},
		inserts: map[trigger.ID]int{}, receives: map[string]int{},
	}
	w.table = memstore.New(memstore.Options{
		Faults: func(op string, key trigger.Key) memstore.Fault {
			w.mu.Lock()
			f := w.failStore
			w.mu.Unlock()
			if f == nil {
				return memstore.Fault{}
			}
			return f(op, key)
		},
		OnChange: func(before, after *store.Row) {
			if before != nil || after == nil || after.State.Tombstone() {
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if _, ok := w.inserted[after.ID]; !ok {
				w.inserted[after.ID] = time.Now()
			}
			w.inserts[after.ID]++
		},
	})
	w.queues = memqueue.New(memqueue.Options{
		SenderID: "tester",
		Faults: func(e memqueue.Entry) memqueue.Fault {
			w.mu.Lock()
			if e.Op == memqueue.OpDeliver && e.URL != w.urls.DLQ {
				w.receives[e.Deliver.ID]++
			}
			f := w.failQueue
			w.mu.Unlock()
			if f == nil {
				return memqueue.Fault{}
			}
			return f(e)
		},
		OnSend: func(url string, m queue.Message) {
			if !strings.Contains(url, "svc-") {
				return
			}
			tr, err := trigger.ReadDelivered(m.Body, m.Attributes)
			if err != nil {
				t.Errorf("delivered message cannot be read: %v", err)
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.delivered[tr.ID]++
		},
	})
	ctx := t.Context()
	for _, l := range trigger.Lanes {
		w.urls.Inbound[l] = w.queue("inbound-" + l.String())
	}
	w.urls.DLQ = w.queue("inbound-dlq")
	require.NoError(t, w.table.SetEpochs(ctx, nil, trigger.Epochs{{N: 16}}))
	w.service("payments", nil)
	var err error
	w.client, err = client.New(client.Options{
		Sender: w.queues, InboundURL: w.urls.Inbound[trigger.Standard], UrgentInboundURL: w.urls.Inbound[trigger.Urgent],
		Partitions: w.table,
	})
	require.NoError(t, err)
	t.Cleanup(w.stop)
	return w
}

func (w *world) queue(name string) string {
	url, err := w.queues.Create(w.t.Context(), queue.Spec{Name: name, Visibility: time.Minute})
	require.NoError(w.t, err)
	return url
}

func (w *world) service(name string, change func(*registry.Service)) {
	svc := registry.Service{Name: name, QueueURL: w.queue("svc-" + name)}
	if change != nil {
		change(&svc)
	}
	require.NoError(w.t, w.services.Put(w.t.Context(), svc))
}

func (w *world) stop() {
	for _, stop := range slices.Backward(w.stops) {
		stop()
	}
	w.stops = nil
}

func (w *world) faults(s func(op string, key trigger.Key) memstore.Fault, q func(memqueue.Entry) memqueue.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failStore, w.failQueue = s, q
}

// lookup reads the registry without a cache.
type lookup struct{ s *registry.Static }

func (l lookup) Lookup(ctx context.Context, name string) (registry.Service, error) {
	return l.s.Get(ctx, name)
}

type proc struct {
	in   *inbound.Inbound
	reg  *prometheus.Registry
	stop func() error
}

func alone() *membership.Manual {
	return membership.NewManual(membership.View{Self: "a", Members: []string{"a"}})
}

func (w *world) start(owner string, change func(*inbound.Options)) *proc {
	p := &proc{reg: prometheus.NewRegistry()}
	o := inbound.Options{
		Store: w.table, Queue: w.queues, Services: lookup{w.services}, Members: alone(),
		Clock: clock.Trusted(nil), Owner: owner, URLs: w.urls, Registerer: p.reg,
	}
	if change != nil {
		change(&o)
	}
	var err error
	p.in, err = inbound.New(o)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.in.Run(ctx) }()
	var once sync.Once
	p.stop = func() (err error) {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	w.stops = append(w.stops, func() { _ = p.stop() })
	return p
}

// count sums a metric over its labels, or those that match.
func (p *proc) count(t *testing.T, name string, labels ...string) int {
	t.Helper()
	all, err := p.reg.Gather()
	require.NoError(t, err)
	sum := 0.0
	for _, f := range all {
		if f.GetName() != name {
			continue
		}
	next:
		for _, m := range f.GetMetric() {
			for i := 0; i < len(labels); i += 2 {
				match := false
				for _, l := range m.GetLabel() {
					match = match || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
				}
				if !match {
					continue next
				}
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return int(sum)
}

func (p *proc) outcome(t *testing.T, o string) int {
	t.Helper()
	return p.count(t, "myosin_inbound_submissions_total", "outcome", o)
}

func (w *world) schedule(service string, opts ...client.Option) client.Scheduled {
	w.t.Helper()
	s, err := w.client.Schedule(w.t.Context(), service, `{"a":1}`, opts...)
	require.NoError(w.t, err)
	return s
}

// send puts text into a buffer as a plain SQS sender would.
func (w *world) send(lane trigger.Lane, group, body string) {
	w.t.Helper()
	for _, err := range w.queues.SendBatch(w.t.Context(), w.urls.Inbound[lane], []queue.Message{{Body: body, Group: group}}) {
		require.NoError(w.t, err)
	}
}

// raw builds an inbound message by hand; change edits its fields.
func raw(change func(map[string]any)) string {
	m := map[string]any{
		"v": 1, "id": trigger.NewID().String(), "service": "payments",
		"due": time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano), "payload": base64.StdEncoding.EncodeToString([]byte(`{"a":1}`)),
	}
	if change != nil {
		change(m)
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func (w *world) rows(id trigger.ID) []store.Row {
	var rows []store.Row
	for _, r := range w.table.Rows() {
		if r.ID == id {
			rows = append(rows, r)
		}
	}
	return rows
}

func (w *world) deliveries(id trigger.ID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.delivered[id]
}

func (w *world) insertedAt(id trigger.ID) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inserted[id]
}

func (w *world) letters() []inbound.DeadLetter {
	w.t.Helper()
	var all []inbound.DeadLetter
	for _, m := range w.queues.Messages(w.urls.DLQ) {
		d, err := inbound.ParseDeadLetter(m.Body)
		require.NoError(w.t, err)
		all = append(all, d)
	}
	return all
}

func (w *world) depth() queue.Depth {
	w.t.Helper()
	var sum queue.Depth
	for _, url := range w.urls.Inbound {
		d, err := w.queues.Depth(w.t.Context(), url)
		require.NoError(w.t, err)
		sum.Visible, sum.InFlight, sum.Delayed = sum.Visible+d.Visible, sum.InFlight+d.InFlight, sum.Delayed+d.Delayed
	}
	return sum
}

func (w *world) empty() {
	w.t.Helper()
	require.Equal(w.t, queue.Depth{}, w.depth(), "every submission is acknowledged")
}

func (w *world) mostReceives() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	most := 0
	for _, n := range w.receives {
		most = max(most, n)
	}
	return most
}

func TestEveryFaultOfTheOptionsIsReportedAtOnce(t *testing.T) {
	_, err := inbound.New(inbound.Options{Owner: "a.b", Rate: -1, Visibility: time.Second, Wait: time.Minute, EpochsEvery: time.Hour})
	for _, want := range []string{"Store is missing", "URLs.DLQ is missing", "Owner", "Rate", "Visibility", "Wait", "EpochsEvery"} {
		require.ErrorContains(t, err, want)
	}
}

func handle(t *testing.T, s client.Scheduled) trigger.Handle {
	t.Helper()
	h, err := trigger.ParseHandle(s.Handle)
	require.NoError(t, err)
	return h
}
