package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/scheduler"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// world is a table, a queue engine and a registry, and what was delivered.
type world struct {
	t        *testing.T
	table    *memstore.Store
	queues   *memqueue.Engine
	services *registry.Static
	n        int

	mu        sync.Mutex
	delivered map[string][]delivery
	stops     []func()
}

type delivery struct {
	at   time.Time
	late time.Duration
	url  string
}

func newWorld(t *testing.T, n int, so memstore.Options, qo memqueue.Options) *world {
	w := &world{t: t, n: n, delivered: make(map[string][]delivery)}
	qo.OnSend = func(url string, m queue.Message) {
		now := time.Now()
		tr, err := trigger.ReadDelivered(m.Body, m.Attributes)
		if err != nil {
			t.Errorf("delivered message cannot be read: %v", err)
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		id := tr.ID.String()
		w.delivered[id] = append(w.delivered[id], delivery{at: now, late: now.Sub(tr.Due), url: url})
	}
	w.table = memstore.New(so)
	w.queues = memqueue.New(qo)
	w.services = registry.NewStatic()
	require.NoError(t, w.table.SetEpochs(t.Context(), nil, trigger.Epochs{{N: n}}))
	t.Cleanup(w.stop)
	return w
}

func (w *world) stop() {
	for _, v := range slices.Backward(w.stops) {
		v()
	}
	w.stops = nil
}

func (w *world) service(name string, change func(*registry.Service)) {
	url, err := w.queues.Create(w.t.Context(), queue.Spec{Name: "svc-" + name})
	require.NoError(w.t, err)
	svc := registry.Service{Name: name, QueueURL: url}
	if change != nil {
		change(&svc)
	}
	require.NoError(w.t, w.services.Put(w.t.Context(), svc))
}

// lookup reads the registry without a cache.
type lookup struct{ s *registry.Static }

func (l lookup) Lookup(ctx context.Context, name string) (registry.Service, error) {
	return l.s.Get(ctx, name)
}

type proc struct {
	s       *scheduler.Scheduler
	members *membership.Manual
	stop    func() error
}

func (w *world) start(owner string, members *membership.Manual, change func(*scheduler.Options)) *proc {
	o := scheduler.Options{
		Store: w.table, Sender: w.queues, Services: lookup{w.services}, Members: members,
		Clock: clock.Trusted(nil), Owner: owner,
	}
	if change != nil {
		change(&o)
	}
	s, err := scheduler.New(o)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	p := &proc{s: s, members: members}
	var once sync.Once
	p.stop = func() (err error) {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	w.stops = append(w.stops, func() { _ = p.stop() })
	return p
}

func alone() *membership.Manual {
	return membership.NewManual(membership.View{Self: "a", Members: []string{"a"}})
}

func (w *world) insert(service string, due time.Time, lane trigger.Lane, change func(*store.Row)) trigger.ID {
	row := store.Row{Trigger: trigger.Trigger{
		ID: trigger.NewID(), Service: service, Due: due.UTC().Truncate(time.Millisecond), Lane: lane, N: w.n, Payload: []byte(`{"a":1}`),
	}, State: trigger.StateScheduled, Created: time.Now().UTC().Truncate(time.Millisecond)}
	if change != nil {
		change(&row)
	}
	r := w.table.Write(context.Background(), []store.Op{{Kind: store.Insert, Key: row.Key(), Row: &row}})
	require.NoError(w.t, r[0].Err)
	return row.ID
}

func (w *world) deliveries(id trigger.ID) []delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.delivered[id.String()]
}

func (w *world) once(ids []trigger.ID, atMost time.Duration) {
	w.t.Helper()
	for _, id := range ids {
		d := w.deliveries(id)
		require.Len(w.t, d, 1, "deliveries of %s", id)
		require.GreaterOrEqual(w.t, d[0].late, time.Duration(0), "early")
		require.LessOrEqual(w.t, d[0].late, atMost, "late")
	}
}

func TestDeliversEachTriggerOnceAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 16, memstore.Options{}, memqueue.Options{})
		var ids []trigger.ID
		for i := range 5 {
			w.service(fmt.Sprintf("svc%d", i), nil)
		}
		for i := range 500 {
			ids = append(ids, w.insert(fmt.Sprintf("svc%d", i%5), time.Now().Add(10*time.Second+time.Duration(i)*7*time.Millisecond), trigger.Lane(i%2), nil))
		}
		w.start("p1", alone(), nil)
		time.Sleep(20 * time.Second)
		w.once(ids, 10*time.Millisecond)
		require.Zero(t, w.table.Len(), "rows are deleted")
		w.stop()
	})
}
