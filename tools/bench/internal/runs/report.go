package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/child"
	"github.com/myosin-jobs/myosin/tools/bench/internal/endpoint"
	"github.com/myosin-jobs/myosin/tools/bench/internal/flat"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
	"github.com/myosin-jobs/myosin/tools/bench/internal/meter"
	endpointstats "github.com/myosin-jobs/myosin/tools/bench/internal/null"
)

// The components of a run.
const (
	compCreator   = "creator"
	compScheduler = "scheduler"
	compRunner    = "runner"
	compTarget    = "target"
)

// Used is what a component used.
type Used struct {
	CPU      time.Duration
	Peak     int64          // largest resident memory of one process, bytes
	Requests map[string]int // by service and operation; nil: not counted
}

// Report is what a run measured.
type Report struct {
	Host     host.Facts // set by the caller
	Options  Options
	Expected int // runs
	Took     time.Duration
	Figures  Figures
	Used     map[string]Used
	// Endpoint are the null endpoint's own counts; nil over kumo.
	Endpoint *endpointstats.Stats
	// Tables are the names of those of triggers, jobs, runs and forecast.
	Tables map[string]string
}

// window is where a measurement began.
type window struct {
	at  time.Time
	cpu map[string]time.Duration
}

// parts are the processes by component. Those that have not started yet are none.
func (b *bench) parts() map[string][]*child.Process {
	return map[string][]*child.Process{compScheduler: b.schedulers, compRunner: b.runners, compTarget: {b.target}}
}

// begin sets what is counted to zero.
func (b *bench) begin(ctx context.Context) (*window, error) {
	w := &window{at: time.Now(), cpu: make(map[string]time.Duration)}
	b.own.Reset()
	for name, ps := range b.parts() {
		cpu, _, err := child.Used(ps...)
		if err != nil {
			return nil, err
		}
		w.cpu[name] = cpu
		if !b.o.Metered || name == compTarget {
			continue
		}
		for _, p := range ps {
			if _, err := meter.Restart(p); err != nil {
				return nil, err
			}
		}
	}
	if err := b.target.Ask(askReset, nil); err != nil {
		return nil, err
	}
	if b.o.Engine == kumo {
		return w, nil
	}
	return w, endpoint.Ask(ctx, http.MethodPost, b.url+"/_reset?keep=data", nil)
}

// end reads what was counted since.
func (b *bench) end(ctx context.Context, w *window, expected int) (*Report, error) {
	names := b.p.Names
	r := &Report{
		Options: b.o, Expected: expected, Took: time.Since(w.at), Used: make(map[string]Used),
		Tables: map[string]string{"triggers": names.Triggers(), "jobs": names.Jobs(), "runs": names.Runs(), "forecast": names.Forecast()},
	}
	if b.o.Engine == null {
		r.Endpoint = new(endpointstats.Stats)
		if err := endpoint.Ask(ctx, http.MethodGet, b.url+"/_stats", r.Endpoint); err != nil {
			return nil, err
		}
	}
	for name, ps := range b.parts() {
		cpu, peak, err := child.Used(ps...)
		if err != nil {
			return nil, err
		}
		u := Used{CPU: cpu - w.cpu[name], Peak: peak}
		if b.o.Metered && name != compTarget {
			var sum meter.Counts
			for _, p := range ps {
				c, err := meter.Ask(p)
				if err != nil {
					return nil, err
				}
				sum.Add(&c)
			}
			u.Requests = sum.Requests
		}
		r.Used[name] = u
	}
	if b.o.Rate > 0 && b.o.Metered {
		r.Used[compCreator] = Used{Requests: b.own.Counts().Requests}
	}
	return r, b.target.Ask(askFigures, &r.Figures)
}

// lost is how many runs did not come.
func (r *Report) lost() int { return r.Expected - r.Figures.Runs }

// Failure says what went wrong with the runs; nil if each came once, and not early.
func (r *Report) Failure() error {
	var errs []error
	bad := func(n int, what string) {
		if n != 0 {
			errs = append(errs, fmt.Errorf("%d %s", n, what))
		}
	}
	bad(r.lost(), "runs lost")
	bad(r.Figures.Repeated, "runs called again")
	bad(r.Figures.Early, "runs early")
	bad(r.Figures.Strange, "calls that are no run's")
	return errors.Join(errs...)
}

// Flat is the report as flat snake_case keys.
func (r *Report) Flat() map[string]any {
	h, o, f := &r.Host, &r.Options, &r.Figures
	m := map[string]any{
		"command": "runs", "shape": o.Shape, "started": h.When.Format(time.RFC3339), "platform": h.Platform, "cpu_model": h.CPU, "cores": h.Cores,
		"load_average_before": h.Load, "go_version": h.Go, "git_revision": h.Revision, "engine": h.Engine,
		"jobs": o.Jobs, "urgent_jobs": o.Urgent, "rate": o.Rate, "cron": o.Cron, "minutes": o.Minutes, "tolerance_s": o.Tolerance.Seconds(),
		"payload_bytes": o.Payload, "target_delay_ms": flat.Millis(o.Delay), "schedulers": o.Schedulers, "runners": o.Runners,
		"concurrency": o.Concurrency, "urgent_slots": o.UrgentSlots, "partitions": o.Partitions, "metered": o.Metered,
		"runs_expected": r.Expected, "runs": f.Runs, "jobs_lost": r.lost(), "jobs_duplicated": f.Repeated, "jobs_early": f.Early,
		"calls_strange": f.Strange, "calls_in_flight_max": f.InFlight, "calls_per_s_steady": flat.Round(f.PerSecond), "took_s": flat.Round(r.Took.Seconds()),
	}
	if o.Engine == kumo {
		m["kumo_version"] = host.Module("github.com/sivchari/kumo")
	}
	late := func(prefix string, l Lateness) {
		if l.Runs > 0 && !o.Backlog { // a backlog's lateness is the load's
			m[prefix+"_p50_ms"], m[prefix+"_p90_ms"], m[prefix+"_p99_ms"], m[prefix+"_max_ms"] = flat.Round(l.P50), flat.Round(l.P90), flat.Round(l.P99), flat.Round(l.Max)
		}
	}
	late("standard_lateness", f.Standard)
	late("urgent_lateness", f.Urgent)
	if o.Tolerance > 0 {
		late("lateness_after_due", f.FromDue)
		m["runs_after_tolerance"], m["over_tolerance_max_ms"] = f.Late, flat.Round(f.Over)
		if o.Minutes == 0 && f.Mean > 0 {
			m["runs_per_s_mean"], m["runs_per_s_max"], m["runs_per_s_max_of_10_s"] = flat.Round(f.Mean), f.Most, flat.Round(f.Most10)
			m["max_over_mean"], m["max_over_mean_10_s"] = flat.Round(f.Most/f.Mean), flat.Round(f.Most10/f.Mean)
		}
	}
	runs := int64(f.Runs)
	m["connections_per_run"] = flat.PerJob(float64(f.Connections), runs)
	counted := 0
	for name, u := range r.Used {
		m[name+"_cpu_us_per_run"], m[name+"_peak_mib"] = flat.PerJob(float64(u.CPU.Microseconds()), runs), flat.MiB(u.Peak)
		if name == compCreator {
			delete(m, name+"_cpu_us_per_run")
			delete(m, name+"_peak_mib")
		}
		if u.Requests == nil {
			continue
		}
		sum := 0
		for call, n := range u.Requests {
			sum += n
			m[name+"_"+flat.Call(call)+"_per_run"] = flat.PerJob(float64(n), runs)
		}
		m[name+"_requests_per_run"] = flat.PerJob(float64(sum), runs)
		if name != compCreator {
			counted += sum
		}
	}
	if counted > 0 {
		m["requests_per_run"] = flat.PerJob(float64(counted), runs)
	}
	r.endpoint(m, runs)
	return m
}

// endpoint adds what the null endpoint counted.
func (r *Report) endpoint(m map[string]any, runs int64) {
	if r.Endpoint == nil {
		return
	}
	d := &r.Endpoint.DynamoDB
	m["requests_per_run"] = flat.PerJob(float64(r.Endpoint.Requests), runs)
	m["write_units_per_run"], m["read_units_per_run"] = flat.PerJob(d.WriteUnits, runs), flat.PerJob(d.ReadUnits, runs)
	for name, table := range r.Tables {
		m["write_units_"+name+"_per_run"] = flat.PerJob(d.Written[table], runs)
	}
	m["write_units_beyond_trigger_per_run"] = flat.PerJob(d.WriteUnits-d.Written[r.Tables["triggers"]], runs)
	m["write_conflicts"], m["throttled_calls"] = d.Conflicts, d.ThrottledCalls
}

// WriteJSON writes the report as one flat object, its keys sorted.
func (r *Report) WriteJSON(w io.Writer) error { return flat.Write(w, r.Flat()) }

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	m, h, o := r.Flat(), &r.Host, &r.Options
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	add := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(tw, name+"\t"+format+"\n", args...) // Flush tells
	}
	add("bench runs "+o.Shape, "schedulers, runners and a target as processes")
	add("machine", "%s, %d cores, %s, load average %s before", h.CPU, h.Cores, h.Platform, h.Load)
	add("built", "%s, revision %s", h.Go, h.Revision)
	add("engine", "%s", h.Engine)
	add("runs", "%v of %v; %v lost, %v called again, %v early; %v a second in the middle", m["runs"], m["runs_expected"], m["jobs_lost"], m["jobs_duplicated"], m["jobs_early"], m["calls_per_s_steady"])
	for _, what := range []string{"standard_lateness", "urgent_lateness", "lateness_after_due"} {
		if m[what+"_p99_ms"] != nil {
			add(strings.ReplaceAll(what, "_", " ")+", ms", "p50 %v  p90 %v  p99 %v  max %v", m[what+"_p50_ms"], m[what+"_p90_ms"], m[what+"_p99_ms"], m[what+"_max_ms"])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if strings.HasSuffix(key, "_per_run") || strings.HasSuffix(key, "_mib") || strings.Contains(key, "over_") || strings.HasPrefix(key, "runs_") || strings.HasPrefix(key, "calls_in") {
			add(strings.ReplaceAll(key, "_", " "), "%v", m[key])
		}
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
