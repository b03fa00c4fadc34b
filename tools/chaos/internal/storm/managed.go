package storm

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/audit"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/procs"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/runs"
)

// The roles of the managed layer.
const (
	runner = "runner"
	api    = "api"
)

const (
	crons = 12 // minutely jobs
	// pendingFor is how long every active minutely job may take to have exactly one
	// pending occurrence again: a runner looks for what should have woken a minute
	// after that.
	pendingFor = 3 * time.Minute
)

// managed is what a run has of the managed layer.
type managed struct {
	ledger  *runs.Ledger
	pool    *runs.Pool
	target  *runs.Target
	load    *runs.Load
	key     string         // of callback tokens
	finding sync.WaitGroup // the addresses of API processes

	mu        sync.Mutex
	addresses map[string]string // by place
	probed    runs.Probed
}

func (m *managed) close() {
	m.finding.Wait()
	m.load.Wait()
	m.target.Close()
	m.pool.Close()
}

// openManaged makes the services of runs, their target and the load.
func (w *world) openManaged(ctx context.Context) error {
	if w.o.Runs == 0 {
		return nil
	}
	for _, name := range []string{jobcontrol.Service, jobcontrol.UrgentService} {
		svc, err := w.p.EnsureRuns(ctx, name)
		if err != nil {
			return err
		}
		w.services[name] = svc
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	m := &managed{ledger: runs.NewLedger(), key: "whsec_" + base64.StdEncoding.EncodeToString(secret), addresses: make(map[string]string)}
	m.pool = runs.NewPool(func() (all []string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, addr := range m.addresses {
			all = append(all, addr)
		}
		slices.Sort(all)
		return all
	})
	m.target = runs.NewTarget(context.WithoutCancel(ctx), m.ledger, m.pool)
	w.managed = m
	var err error
	m.load, err = runs.NewLoad(runs.LoadOptions{
		Ledger: m.ledger, Pool: m.pool, Target: m.target.URL, Rate: w.o.Runs, Crons: crons, Say: w.say.line,
	})
	return err
}

// manage adds what processes of the managed layer are started with.
func (w *world) manage(spec *procs.Spec, role string) {
	switch role {
	case runner:
		spec.Args = append(spec.Args, "--concurrency=30", "--urgent-slots=5", "--wait=2s", "--late=1m", "--reconcile-every=5s")
	case api:
	default:
		return
	}
	spec.Args = append(spec.Args, "--allow-loopback-targets")
	spec.Env = append(spec.Env, "MYOSIN_CALLBACK_KEYS="+w.managed.key)
}

// found notes where an API process listens, once it is ready: the newest of a
// place is the place's.
func (w *world) found(s *started, addr string) {
	if s.slot.role != api {
		return
	}
	w.managed.mu.Lock()
	defer w.managed.mu.Unlock()
	w.managed.addresses[s.slot.place] = addr
}

// rollAPIs rolls the API one process at a time, under requests and without other
// faults: none of them may fail.
func (w *world) rollAPIs(ctx context.Context) {
	for _, s := range w.slots {
		if s.role == api {
			if err := w.ready(ctx, s.now); err != nil {
				w.ledger.Breach("the API is not ready after the faults: " + err.Error())
				return
			}
		}
	}
	live, stop := context.WithCancel(ctx)
	var probing sync.WaitGroup
	probing.Go(func() { w.managed.probed = w.managed.load.Probe(ctx, live) })
	until(ctx, time.Now().Add(time.Second))
	for _, s := range w.slots {
		if s.role != api {
			continue
		}
		s.turn.Lock()
		w.stop(s.now)
		w.relaunch(ctx, s, 0)
		if err := w.ready(ctx, s.now); err != nil {
			w.ledger.Breach("a rolled API is not ready: " + err.Error())
		}
		s.turn.Unlock()
		until(ctx, time.Now().Add(time.Second))
	}
	stop()
	probing.Wait()
	p := w.managed.probed
	w.say.line("the API was rolled: %d requests, %d failed", p.Requests, p.Failed)
	if p.Failed > 0 && w.o.APIs > 1 {
		w.ledger.Breach(fmt.Sprintf("%d of %d requests failed while the API was rolled one by one", p.Failed, p.Requests))
	}
}

// endCrons wants every active minutely job to have one pending occurrence, and
// deletes them.
func (w *world) endCrons(ctx context.Context) {
	for end := time.Now().Add(pendingFor); ; {
		n, err := w.onePending(ctx)
		if err == nil {
			w.say.line("every minutely job has one pending occurrence")
			break
		}
		if time.Now().After(end) || !until(ctx, time.Now().Add(time.Second)) {
			w.ledger.Breach(fmt.Sprintf("%s after the faults %d minutely jobs have not exactly one pending occurrence: %v", pendingFor, n, err))
			break
		}
	}
	w.managed.load.EndCrons(ctx)
}

func (w *world) onePending(ctx context.Context) (int, error) {
	rows, err := w.rows(ctx)
	if err != nil {
		return 0, err
	}
	var bodies [][]byte
	for i := range rows {
		if _, waits := rows[i].waits(); waits {
			bodies = append(bodies, rows[i].body)
		}
	}
	return runs.OnePending(ctx, w.managed.ledger, w.p.Jobs, bodies)
}

// managedWaits reports runs that have not ended.
func (w *world) managedWaits(ctx context.Context) error {
	if w.managed == nil {
		return nil
	}
	return runs.Waiting(ctx, w.managed.ledger, w.p.Jobs)
}

// managedVerdict is the account of the managed layer.
func (w *world) managedVerdict(ctx context.Context) (*runs.Account, error) {
	w.managed.finding.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	f := runs.Facts{Start: w.start, Tolerance: audit.Tolerance}
	var clocks []string
	for name, st := range w.starts {
		if st.slot.role == "scheduler" || st.slot.role == runner {
			clocks = append(clocks, name)
		}
	}
	for _, d := range w.facts.Disturbances {
		if st := w.starts[d.By]; st != nil && st.slot.role == runner {
			f.Disturbances = append(f.Disturbances, runs.Disturbance{Kind: d.Kind, From: d.From, To: d.To})
		}
	}
	f.ClockOff = func(at time.Time) bool {
		return slices.ContainsFunc(clocks, func(name string) bool { return w.clockOff(name, at) })
	}
	a, err := runs.Verdict(ctx, w.managed.ledger, w.p.Jobs, f)
	if err == nil {
		a.Probe = w.managed.probed
	}
	return a, err
}

// breaches are those of both layers.
func (r *Report) breaches() []string {
	if r.Managed == nil {
		return r.Breaches
	}
	return slices.Concat(r.Breaches, r.Managed.Breaches)
}

func (r *Report) flatManaged(flat map[string]any) {
	m := r.Managed
	if m == nil {
		return
	}
	maps.Copy(flat, map[string]any{
		"runners": r.Options.Runners, "apis": r.Options.APIs, "runs_rate": r.Options.Runs,
		"chaos_jobs": m.Jobs, "chaos_jobs_accepted": m.Accepted, "chaos_jobs_without_answer": m.NoAnswer, "chaos_jobs_changed": m.Changed, "chaos_jobs_changes_unsure": m.Unsure,
		"chaos_runs": m.Runs, "chaos_runs_calls": m.Calls, "chaos_runs_worked": m.Worked, "chaos_runs_succeeded": m.Succeeded,
		"chaos_runs_dead": m.Dead, "chaos_runs_cancelled": m.Cancelled, "chaos_runs_unended": m.Unended, "chaos_runs_uncalled": m.Uncalled,
		"chaos_runs_early": m.Early, "chaos_runs_early_within_clock_tolerance": m.WithinClock, "chaos_runs_called_after_cancel": m.Voided,
		"chaos_runs_occurrences": m.Occurrences, "chaos_runs_occurrences_missed": m.Missed,
		"chaos_runs_duplicates": m.Duplicates, "chaos_runs_duplicates_unexplained": m.Unexplained, "chaos_runs_duplicates_roll": m.OnRolls,
		"chaos_runs_duplicates_unexplained_share": m.Share(), "chaos_runs_attempts_called_again": m.SameAttempt,
		"chaos_runs_late_p50_ms": m.LateP50, "chaos_runs_late_p99_ms": m.LateP99, "chaos_runs_late_max_ms": m.LateMax,
		"chaos_api_requests": m.Requests, "chaos_api_requests_failed_in_faults": m.FailedRequests,
		"chaos_api_roll_requests": m.Probe.Requests, "chaos_api_roll_failed": m.Probe.Failed, "chaos_api_roll_refused": m.Probe.Refused,
		"chaos_api_roll_availability": m.Probe.Availability(), "chaos_api_roll_slowest_ms": m.Probe.Slowest.Milliseconds(),
	})
	for why, n := range m.Why {
		flat["chaos_runs_duplicates_because_"+snake(why)] = n
	}
}

func (r *Report) textManaged(line func(name, format string, args ...any)) {
	m := r.Managed
	if m == nil {
		return
	}
	line("jobs", "%d accepted, %d without an answer, %d changed on the way, %d of them without an answer", m.Accepted, m.NoAnswer, m.Changed, m.Unsure)
	line("runs called", "%d, by %d calls of which %d did their work", m.Runs, m.Calls, m.Worked)
	line("runs of jobs due once", "%d succeeded, %d dead, %d cancelled, %d unended, %d uncalled", m.Succeeded, m.Dead, m.Cancelled, m.Unended, m.Uncalled)
	line("minutely occurrences", "%d, %d without a record", m.Occurrences, m.Missed)
	line("runs called early", "%d (%d within the clocks' tolerance)", m.Early, m.WithinClock)
	line("runs called after their cancel, edit or delete", "%d", m.Voided)
	line("work done again", "%d: %d unexplained (%.4f %%), %d of them on rolls", m.Duplicates, m.Unexplained, 100*m.Share(), m.OnRolls)
	for _, why := range slices.Sorted(maps.Keys(m.Why)) {
		line("  "+why, "%d", m.Why[why])
	}
	line("lateness of first calls, faults included", "p50 %.0f ms, p99 %.0f ms, max %.0f ms", m.LateP50, m.LateP99, m.LateMax)
	line("requests of the API under faults", "%d, %d failed", m.Requests, m.FailedRequests)
	line("API rolled one by one", "%d requests, %d failed, %d went to the other process, slowest %s: %.3f %% available",
		m.Probe.Requests, m.Probe.Failed, m.Probe.Refused, m.Probe.Slowest.Round(time.Millisecond), 100*m.Probe.Availability())
}
