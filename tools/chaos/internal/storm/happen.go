package storm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/myosin-jobs/myosin/tools/chaos/internal/audit"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/journal"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/plan"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/procs"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/proxy"
)

// slot is a place for a process, one after the other.
type slot struct {
	role         string
	index, count int
	place        string
	faults       *proxy.Place
	turn         sync.Mutex // held while something happens to its process
	now          *started
	serial       int
}

// started is one start of a process.
type started struct {
	slot   *slot
	name   string
	proc   *procs.Process
	way    *proxy.Proxy
	offset time.Duration
}

// launch starts a process in a slot, which then is the slot's own. Its turn is
// held, or the run has not begun.
func (w *world) launch(ctx context.Context, s *slot, offset time.Duration) error {
	s.serial++
	st := &started{slot: s, name: s.place + "." + strconv.Itoa(s.serial), offset: offset}
	var err error
	if st.way, err = w.listen(ctx, s, st.name); err != nil {
		return err
	}
	spec := procs.Spec{Name: st.name, Dir: w.dir, Program: filepath.Join(w.dir, s.role), Env: slices.Concat(w.env, []string{"AWS_ENDPOINT_URL=" + st.way.URL()})}
	if s.role == "worker" || offset != 0 {
		if spec.Program, err = os.Executable(); err != nil {
			return err
		}
		spec.Args = []string{map[string]string{"worker": WorkerCommand, "scheduler": SchedulerCommand, "inbound": InboundCommand, runner: RunnerCommand}[s.role]}
		spec.Env = append(spec.Env, OffsetEnv+"="+offset.String())
	}
	switch s.role {
	case "worker":
	case api:
		spec.Args = append(spec.Args, "--addr=127.0.0.1:0")
	default:
		spec.Args = append(spec.Args, "--addr=127.0.0.1:0", fmt.Sprintf("--member-index=%d", s.index), fmt.Sprintf("--member-count=%d", s.count))
	}
	if s.role == "inbound" {
		// The embedded engine wakes no poll when a message becomes visible again.
		spec.Args = append(spec.Args, "--wait=2s")
	}
	w.manage(&spec, s.role)
	if st.proc, err = w.keeper.Start(spec); err != nil {
		st.way.Close()
		return err
	}
	w.mu.Lock()
	w.starts[st.name] = st
	w.mu.Unlock()
	s.now = st
	if s.role == api {
		// Where it listens is told to nobody else.
		w.managed.finding.Go(func() { _ = w.ready(context.WithoutCancel(ctx), st) }) // one that ends has no address
	}
	return nil
}

// relaunch is launch for a run that has begun: without processes it is worth nothing.
func (w *world) relaunch(ctx context.Context, s *slot, offset time.Duration) {
	if err := w.launch(ctx, s, offset); err != nil {
		w.ledger.Breach("a process could not be started: " + err.Error())
	}
}

func (w *world) disturb(st *started, kind string, from, to time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.facts.Disturbances = append(w.facts.Disturbances, audit.Disturbance{By: st.name, Kind: kind, From: from, To: to})
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults[what]++
}

// alive wants a process that nobody has ended to run.
func (w *world) alive(st *started) {
	if !st.proc.Running() {
		w.ledger.Breach(fmt.Sprintf("%s ended by itself: %s\n%s", st.name, st.proc.State(), st.proc.Tail(20)))
	}
}

func (w *world) kill(st *started) {
	w.alive(st)
	w.disturb(st, audit.Killed, time.Now(), time.Time{})
	st.way.Leaving()
	st.proc.Kill()
}

// stop ends a process in good order. One that has only just been started is
// given the time to begin: until then a signal ends it as it does any program,
// and there is nothing that it could leave undone.
func (w *world) stop(st *started) {
	begun := time.NewTimer(startWait)
	defer begun.Stop()
	select {
	case <-st.way.Called():
	case <-begun.C:
	}
	w.alive(st)
	if !st.proc.Running() {
		return
	}
	st.way.Leaving()
	const more = 3 * time.Second
	began := time.Now()
	defer func() { w.disturb(st, audit.Rolled, began, time.Now()) }()
	if err := st.proc.Stop(grace + more); err != nil {
		w.disturb(st, audit.Killed, time.Now(), time.Time{})
		w.ledger.Breach(fmt.Sprintf("a stop was not clean: %v\n%s", err, st.proc.Tail(20)))
	}
}

// happen plays one event of the schedule when its time has come.
func (w *world) happen(ctx context.Context, e *plan.Event) {
	at := w.start.Add(e.At)
	if s := w.slot(e.Place); s != nil && (s.role == "scheduler" || s.role == runner) && e.Kind != plan.Calls && e.Kind != plan.Clock {
		// As much claimed, or called, at that moment as can be: due just before.
		const ahead = 6 * time.Second
		if !until(ctx, at.Add(-ahead)) {
			return
		}
		if s.role == runner {
			w.managed.load.Burst(ctx, at)
		} else {
			w.burst(ctx, at)
		}
	}
	if !until(ctx, at) {
		return
	}
	w.say.line("%-7s %-12s %s", e.Kind, e.Place, e.Detail())
	if e.Kind == plan.Calls {
		e.Window.Until = time.Now().Add(e.Length)
		w.slot(e.Place).faults.Open(e.Window)
		return
	}
	w.count(string(e.Kind))
	switch e.Kind {
	case plan.Queue:
		w.deleteQueue(ctx, e)
		return
	case plan.Disk:
		w.fillDisk(ctx, e)
		return
	default:
	}
	s := w.slot(e.Place)
	s.turn.Lock()
	defer s.turn.Unlock()
	old := s.now
	switch e.Kind {
	case plan.Kill:
		w.kill(old)
		until(ctx, time.Now().Add(e.Length))
		w.relaunch(ctx, s, 0)
	case plan.Roll:
		w.stop(old)
		until(ctx, time.Now().Add(e.Length))
		w.relaunch(ctx, s, 0)
	case plan.Surge:
		w.relaunch(ctx, s, 0)
		until(ctx, time.Now().Add(e.Length))
		w.stop(old)
	case plan.Clock:
		w.stop(old)
		w.relaunch(ctx, s, e.Offset)
		until(ctx, time.Now().Add(e.Length))
		w.stop(s.now)
		w.relaunch(ctx, s, 0)
	case plan.Freeze:
		w.freeze(ctx, s, e)
	default:
	}
}

// freeze stops a process in its tracks and lets it go on. A replacement has its
// partitions meanwhile, as a cluster would arrange that has given it up; the old
// one knows nothing of that when it wakes.
func (w *world) freeze(ctx context.Context, s *slot, e *plan.Event) {
	old, began := s.now, time.Now()
	if err := old.proc.Signal(syscall.SIGSTOP); err != nil {
		w.alive(old)
		return
	}
	if e.Instead {
		until(ctx, began.Add(5*time.Second))
		w.relaunch(ctx, s, 0)
	}
	until(ctx, began.Add(e.Length))
	_ = old.proc.Signal(syscall.SIGCONT) // it cannot have ended
	// What it does next may still rest on what it knew before.
	w.disturb(old, audit.Frozen, began, time.Now().Add(5*time.Second))
	w.say.line("woken   %s", old.name)
	if e.Instead {
		until(ctx, time.Now().Add(8*time.Second))
		w.stop(old)
	}
}

// deleteQueue is an operator's mistake, and its repair.
func (w *world) deleteQueue(ctx context.Context, e *plan.Event) {
	s := w.slot(caller) // a turn of its own: nothing else happens to callers
	s.turn.Lock()
	defer s.turn.Unlock()
	svc := w.services[e.Place]
	name := journal.QueueName(svc.QueueURL)
	if err := w.p.Queues.DeleteQueue(ctx, svc.QueueURL); err != nil {
		w.say.line("the queue could not be deleted: %v", err)
		return
	}
	w.mu.Lock()
	w.facts.Deleted[name] = append(w.facts.Deleted[name], time.Now())
	w.mu.Unlock()
	until(ctx, time.Now().Add(e.Length))
	w.makeQueue(ctx, e.Place)
}

// makeQueue makes a service's queues until it succeeds: a name is free again a
// minute after its queue was deleted.
func (w *world) makeQueue(ctx context.Context, service string) {
	for ctx.Err() == nil {
		svc := w.services[service]
		if _, err := w.p.EnsureService(ctx, svc, true); err == nil {
			w.say.line("the queue of %s is there again", service)
			return
		}
		until(ctx, time.Now().Add(2*time.Second))
	}
}

// heal ends every fault, and has one process in every slot.
func (w *world) heal(ctx context.Context) {
	for _, s := range w.slots {
		s.faults.Heal()
	}
	w.copies.Drop()
	for _, s := range w.slots {
		if s.role == caller {
			continue
		}
		s.turn.Lock()
		w.alive(s.now)
		if !s.now.proc.Running() {
			w.relaunch(ctx, s, 0)
		}
		s.turn.Unlock()
	}
}

// shutDown ends the processes in good order.
func (w *world) shutDown() {
	var all sync.WaitGroup
	for _, s := range w.slots {
		if s.role != caller {
			all.Go(func() { w.stop(s.now) })
		}
	}
	all.Wait()
}

// until waits for a moment; false if ctx ended before.
func until(ctx context.Context, at time.Time) bool {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
