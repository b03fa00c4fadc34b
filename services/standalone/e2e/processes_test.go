package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// daemon is a scheduler or inbound process that is ready.
type daemon struct {
	*process
	addr  string
	owner string // in the rows it acquires
}

// inbound starts the drain and waits until it is ready.
func (w *world) inbound() *daemon {
	w.t.Helper()
	return w.daemon("inbound", "inbound", "--member-index=0", "--member-count=1")
}

// scheduler starts the scheduler of an index and waits until it is ready.
func (w *world) scheduler(index int) *daemon {
	w.t.Helper()
	return w.daemon("scheduler-"+strconv.Itoa(index), "scheduler",
		"--member-index="+strconv.Itoa(index), "--member-count="+strconv.Itoa(schedulers))
}

func (w *world) daemon(name, program string, args ...string) *daemon {
	w.t.Helper()
	d := w.launch(name, program, args...)
	d.becomesReady(ready)
	return d
}

// launch starts a process and waits until it listens.
func (w *world) launch(name, program string, args ...string) *daemon {
	w.t.Helper()
	p := start(w.t, w.dir, w.name(name), program, w.env, append(args, "--addr=127.0.0.1:0")...)
	return &daemon{
		process: p,
		addr:    p.sees(p.log, `"addr":"([^"]+)"`, ready),
		owner:   p.sees(p.log, `"owner":"([^"]+)"`, ready),
	}
}

// worker starts the owning service's worker; its output is the record of what
// arrived.
func (w *world) worker() *process {
	w.t.Helper()
	self, err := os.Executable()
	require.NoError(w.t, err)
	return start(w.t, w.dir, w.name("worker"), self, append(w.env, envWorker+"=1"))
}

// finish waits until everything has arrived and nothing moves any more, ends the
// processes, and demands a clean account.
func (w *world) finish(l *ledger, worker *process, f *fault, daemons ...*daemon) {
	w.t.Helper()
	const within = 90 * time.Second // a claim is recovered 60 s after it was made, by a sweep
	eventually(w.t, within, 500*time.Millisecond, "every trigger arrives", func() error {
		got, err := deliveries(worker.out)
		if err != nil {
			return err
		}
		if ids := l.missing(got); len(ids) > 0 {
			return errors.Join(fmt.Errorf("%d are missing, such as %s", len(ids), ids[0]), w.quiet())
		}
		return w.quiet()
	})
	for _, d := range daemons {
		d.stop(grace)
	}
	worker.stop(grace)
	require.NoError(w.t, w.refused())
	require.NoError(w.t, w.quiet())
	got, err := deliveries(worker.out)
	require.NoError(w.t, err)
	a := l.settle(got, f)
	w.t.Attr("account", a.String())
	require.Empty(w.t, a.breaches, "%s\n%s", a, a.broken())
}

// until waits for a moment of the test's plan.
func (w *world) until(at time.Time) {
	w.t.Helper()
	require.True(w.t, pause(w.t.Context(), at), "the test was ended")
}

func TestProcessesKilledAndRolledUnderLoadLoseNothing(t *testing.T) {
	onEachEngine(t, map[string]int{"kumo": 60, "ministack": 15}, func(t *testing.T, e engine) {
		w := newWorld(t, e)
		inbound := w.inbound()
		var s [schedulers]*daemon
		for i := range s {
			s[i] = w.scheduler(i)
		}
		worker := w.worker()

		l := newLedger(w)
		began := time.Now()
		at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
		l.load(at(60))

		// A kill, with as much acquired, sent and not completed as can be.
		w.until(at(6))
		l.burst(t.Context(), at(12))
		w.until(at(12.01))
		kill := &fault{at: time.Now()}
		s[0].kill()
		kill.held = w.held(s[0].owner)
		require.NotEmpty(t, kill.held, "the kill came at a moment without claims: it shows nothing")
		w.until(at(17))
		s[0] = w.scheduler(0)

		// A roll, in the middle of another burst.
		w.until(at(22))
		l.burst(t.Context(), at(28))
		w.until(at(27.98))
		took := s[1].stop(grace)
		require.Empty(t, w.held(s[1].owner), "a scheduler that stopped left claims behind")
		s[1] = w.scheduler(1)

		w.until(at(40))
		tookInbound := inbound.stop(grace)
		require.Empty(t, w.held(inbound.owner), "a drain that stopped left claims behind")
		inbound = w.inbound()

		l.calls.Wait()
		t.Attr("stops", fmt.Sprintf("scheduler %s, inbound %s", took.Round(time.Millisecond), tookInbound.Round(time.Millisecond)))
		w.finish(l, worker, kill, inbound, s[0], s[1], s[2])
	})
}

func TestProcessesFrozenOwnerDropsItsStaleClaims(t *testing.T) {
	onEachEngine(t, map[string]int{"kumo": 40, "ministack": 10}, func(t *testing.T, e engine) {
		w := newWorld(t, e)
		inbound := w.inbound()
		var s [schedulers]*daemon
		for i := range s {
			s[i] = w.scheduler(i)
		}
		worker := w.worker()

		l := newLedger(w)
		began := time.Now()
		at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
		l.load(at(55))

		// Between acquire and send, as the lead is 100 ms.
		w.until(at(4))
		l.burst(t.Context(), at(10))
		w.until(at(9.97))
		frozen := s[2]
		freeze := &fault{at: time.Now()}
		frozen.signal(syscall.SIGSTOP)
		// What it had asked for may still be carried out.
		w.until(at(10.5))
		freeze.held = w.held(frozen.owner)
		require.NotEmpty(t, freeze.held, "the freeze came at a moment without claims: it shows nothing")

		// Its partitions get another owner, as they would from a cluster that has
		// given it up; and it knows nothing of that when it wakes.
		w.until(at(14))
		s[2] = w.scheduler(2)
		w.until(at(80))
		frozen.signal(syscall.SIGCONT)

		l.calls.Wait()
		// Both own the same partitions for a while, with work due.
		l.burst(t.Context(), time.Now().Add(4*time.Second))
		w.until(time.Now().Add(6 * time.Second))
		log, err := os.ReadFile(frozen.log)
		require.NoError(t, err)
		dropped := strings.Count(string(log), "claim is too old to send on")
		t.Attr("frozen", fmt.Sprintf("held %d claims, dropped %d when it woke", len(freeze.held), dropped))
		w.finish(l, worker, freeze, inbound, s[0], s[1], s[2], frozen)
	})
}
