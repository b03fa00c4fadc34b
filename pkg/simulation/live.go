package simulation

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// live plays the plan: submissions with what happens to them later, and the
// faults that are events.
func (w *world) live() {
	var all sync.WaitGroup
	begin := func(at time.Duration, f func()) {
		all.Go(func() {
			time.Sleep(at)
			f()
		})
	}
	for i := range w.o.Triggers {
		p := w.planTrigger(i, 0, w.o.Span)
		begin(p.at, func() { w.submit(p) })
	}
	// When every fault is over, the world must be as good as new.
	calm := w.calm()
	for i := range w.o.Triggers / 8 {
		p := w.planTrigger(w.o.Triggers+i, calm, calm+20*time.Second)
		begin(p.at, func() { w.submit(p) })
	}
	for _, f := range w.faults {
		if !slices.Contains(callKinds, f.kind) {
			begin(f.from, func() { w.happen(f) })
		}
	}
	all.Wait()
	time.Sleep(w.o.Settle)
}

// planned is one submission and what its caller does afterwards.
type planned struct {
	n        int
	id       trigger.ID
	at       time.Duration
	service  string
	opts     []client.Option
	key      string
	due      time.Time
	payload  []byte
	again    time.Duration // submit once more after; 0 for never
	cancel   time.Duration // after the submission; negative for never
	move     time.Duration
	moveBy   time.Duration
	oldCount bool // the caller uses the count from before the growth
}

func (w *world) planTrigger(n int, from, to time.Duration) planned {
	r := w.rand
	secs := func(lo, hi float64) time.Duration {
		return time.Duration((lo + (hi-lo)*r.Float64()) * float64(time.Second)).Truncate(time.Millisecond)
	}
	p := planned{n: n, id: seededID(r), at: secs(from.Seconds(), to.Seconds()), service: serviceNames[r.IntN(len(serviceNames))], cancel: -1, move: -1}
	delay := secs(0, 60)
	switch r.IntN(6) {
	case 0:
		delay = -secs(0, 5) // overdue
	case 1:
		delay = secs(0, 2)
	}
	p.due = w.start.Add(p.at + delay).UTC()
	p.opts = []client.Option{client.At(p.due)}
	if r.IntN(4) == 0 {
		p.opts = append(p.opts, client.UrgentLane())
	}
	if r.IntN(3) == 0 {
		p.opts = append(p.opts, client.Tenant(fmt.Sprintf("t%d", r.IntN(4))))
	}
	p.payload = make([]byte, r.IntN(400))
	if r.IntN(3) == 0 {
		for i := range p.payload {
			p.payload[i] = byte(r.IntN(256))
		}
	}
	switch r.IntN(5) {
	case 0:
		p.cancel = secs(0, max(1, delay.Seconds()+3))
		if r.IntN(3) == 0 {
			p.cancel = 0
		}
	case 1:
		p.move, p.moveBy = secs(0, max(1, delay.Seconds())), secs(-10, 40)
		if r.IntN(4) == 0 {
			p.cancel = p.move + secs(0, 10)
		}
	case 2:
		if again := secs(0, 20); w.o.Faults > 0 || again < delay-6*time.Second {
			p.key, p.again = fmt.Sprintf("order-%d", n), again
			p.opts = append(p.opts, client.Key(p.key))
			p.id = trigger.KeyedID(p.service, "", p.key)
		}
	}
	if p.key != "" {
		// A key's id holds the tenant too; keep it simple.
		p.opts = append(p.opts, client.Tenant(""))
	}
	p.oldCount = r.IntN(2) == 0
	return p
}

func seededID(r *rand.Rand) trigger.ID {
	var id trigger.ID
	binary.LittleEndian.PutUint64(id[:8], r.Uint64())
	binary.LittleEndian.PutUint64(id[8:], r.Uint64())
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// count is the partition count a caller uses now.
func (w *world) count(old bool) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.grown && !old {
		return 2 * w.o.Partitions
	}
	return w.o.Partitions
}

// submit plays one submission and what its caller does afterwards.
func (w *world) submit(p planned) {
	var steps sync.WaitGroup
	var handle string
	id := p.id.String()
	w.audit.with(id, func(j *job) {
		j.service, j.offered, j.payload = p.service, true, p.payload
		j.dues[p.due.UnixMilli()] = true
	})
	if p.again > 0 {
		steps.Go(func() {
			time.Sleep(p.again)
			w.submitOnce(p, !p.oldCount)
		})
	}
	handle = w.submitOnce(p, p.oldCount)
	if handle != "" && p.move >= 0 {
		steps.Go(func() {
			time.Sleep(p.move)
			w.move(p, handle)
		})
	}
	if handle != "" && p.cancel >= 0 {
		steps.Go(func() {
			time.Sleep(p.cancel)
			c, err := w.caller(p.id, w.count(p.oldCount))
			if err != nil {
				panic(err)
			}
			ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
			defer stop()
			w.audit.event(id, "cancel begins")
			res, err := c.Cancel(ctx, handle)
			w.audit.took(id, res, err)
		})
	}
	steps.Wait()
}

func (w *world) submitOnce(p planned, old bool) string {
	c, err := w.caller(p.id, w.count(old))
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	w.audit.with(p.id.String(), func(j *job) { j.submissions++ })
	got, err := c.Schedule(ctx, p.service, p.payload, p.opts...)
	w.audit.event(p.id.String(), fmt.Sprintf("submitted, due %s: %v", p.due.Sub(w.start), err))
	if err == nil {
		w.audit.with(p.id.String(), func(j *job) { j.accepted, j.touched = true, time.Now() })
		if got.ID != p.id {
			w.note("submission %d got id %s, not %s", p.n, got.ID, p.id)
		}
	}
	return got.Handle
}

// move reschedules and notes which due times the trigger may fire at.
func (w *world) move(p planned, handle string) {
	c, err := w.caller(p.id, w.count(p.oldCount))
	if err != nil {
		panic(err)
	}
	next := time.Now().Add(p.moveBy).UTC().Truncate(time.Millisecond)
	id := p.id.String()
	w.audit.with(id, func(j *job) { j.dues[next.UnixMilli()] = true })
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	_, err = c.Reschedule(ctx, handle, next)
	w.audit.event(id, fmt.Sprintf("moved to %s: %v", next.Sub(w.start), err))
	w.audit.with(id, func(j *job) { j.touched = time.Now() })
	var conflict *client.ConflictError
	switch {
	case err == nil:
		// The old time is off: nothing may be sent for it from here on.
		w.audit.with(id, func(j *job) {
			if next.UnixMilli() != p.due.UnixMilli() {
				j.movedFrom[p.due.UnixMilli()] = time.Now()
			}
		})
	case errors.As(err, &conflict), errors.Is(err, client.ErrNotStored):
		// Refused for certain, unless an earlier try of the call had applied.
	}
}

// happen plays a fault that is an event, and its end.
func (w *world) happen(f fault) {
	switch f.kind {
	case queueMissing:
		name := serviceNames[f.target%len(serviceNames)]
		ctx := context.Background()
		if name == "ordered" || w.queues.DeleteQueue(ctx, w.urls[name]) != nil {
			return
		}
		w.audit.lostWithQueue(name)
		time.Sleep(f.length)
		if _, err := w.queues.Create(ctx, queue.Spec{Name: "svc-" + name}); err != nil {
			w.note("queue of %s: %v", name, err)
		}
	case servicePaused:
		name := serviceNames[f.target%len(serviceNames)]
		_ = w.registry.SetPaused(context.Background(), name, true)
		time.Sleep(f.length)
		_ = w.registry.SetPaused(context.Background(), name, false)
	case killScheduler:
		w.replace(&w.schedulers, f, true, w.startScheduler)
	case rollScheduler:
		w.replace(&w.schedulers, f, false, w.startScheduler)
	case killInbound:
		w.replace(&w.inbounds, f, true, w.startInbound)
	case rollInbound:
		w.replace(&w.inbounds, f, false, w.startInbound)
	case clockAtStart:
		w.replace(&w.schedulers, f, false, func(time.Duration) *member { return w.startScheduler(f.duration) })
	case killWorker:
		name := serviceNames[f.target%len(serviceNames)]
		w.mu.Lock()
		p := w.workers[name]
		w.mu.Unlock()
		p.kill()
		p.stop()
		time.Sleep(f.length)
		w.startWorker(name)
	case freezeScheduler:
		w.freezeOne(&w.schedulers, f)
	case freezeInbound:
		w.freezeOne(&w.inbounds, f)
	case clockStep:
		w.pick(&w.schedulers, f.target).step(f.duration)
	case viewLag:
		w.lag(f)
	case growPartitions:
		w.grow()
	default:
	}
}

// replace ends one member, by force or in order, and starts another. By force
// the others learn of it late, and the new one comes later still.
func (w *world) replace(list *[]*member, f fault, force bool, start func(time.Duration) *member) {
	m := w.pick(list, f.target)
	w.remove(list, m)
	m.leaving.Store(true)
	if !force {
		start(0)
		w.tell()
		m.view.Set(membership.View{Members: m.view.View().Members})
		m.stop()
		return
	}
	w.audit.disturbed(m.process, "was killed")
	m.kill()
	m.stop()
	start(0)
	time.Sleep(f.length)
	w.tell()
}

// freezeOne lets a process stand still; if it takes long the others are told
// that it is gone, as readiness probes would, and told again when it is back.
func (w *world) freezeOne(list *[]*member, f fault) {
	m := w.pick(list, f.target)
	w.audit.disturbed(m.process, "was frozen")
	m.freeze(f.length)
	if f.length < 20*time.Second {
		return
	}
	time.Sleep(15 * time.Second)
	w.mu.Lock()
	alone := len(*list) < 2
	w.mu.Unlock()
	if alone {
		return
	}
	w.remove(list, m)
	w.tell()
	time.Sleep(f.length - 15*time.Second)
	w.mu.Lock()
	if !m.leaving.Load() && !slices.Contains(*list, m) {
		*list = append(*list, m)
	}
	w.mu.Unlock()
	w.tell()
}

// lag gives one scheduler a view that lacks another for a while.
func (w *world) lag(f fault) {
	m := w.pick(&w.schedulers, f.target)
	v := m.view.View()
	var fewer []string
	for _, name := range v.Members {
		if name == m.name || len(fewer) == 0 {
			fewer = append(fewer, name)
		}
	}
	m.view.Set(membership.View{Self: v.Self, Members: fewer})
	time.Sleep(f.length)
	w.tell()
}

// grow doubles the partitions, a minute ahead as the contract wants it.
func (w *world) grow() {
	ctx := context.Background()
	old := trigger.Epochs{{N: w.o.Partitions}}
	next := append(slices.Clone(old), trigger.Epoch{N: 2 * w.o.Partitions, From: time.Now().Add(time.Minute).UTC().Truncate(time.Millisecond)})
	for {
		if now, err := w.table.Epochs(ctx); err == nil && now.Max() == next.Max() {
			break
		}
		_ = w.table.SetEpochs(ctx, old, next)
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(time.Minute)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.grown = true
}

// suspect reports whether a process was frozen so recently that a send of it
// may rest on what it knew before.
func (p *process) suspect() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.thaw.IsZero() && time.Since(p.thaw) < 40*time.Second
}
