package run

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/load"
	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/peer"
)

// throughput goes with every figure of throughput.
const throughput = "not comparable: the stores differ"

// Report is what was measured of all variants.
type Report struct {
	Host    host.Facts
	Load    load.Load
	Results []*Result
}

func configOf(text string) (c peer.Config, err error) {
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, fmt.Errorf("configuration: %w", err)
	}
	return c, nil
}

func round(f float64) float64 { return math.Round(f*1000) / 1000 }

func ms(d time.Duration) float64 { return round(float64(d.Microseconds()) / 1000) }

// perJob divides by the jobs that were handled.
func (r *Result) perJob(n float64) float64 { return round(n / math.Max(float64(r.Worker.Jobs), 1)) }

func (r *Result) cpu(d time.Duration) float64 { return r.perJob(float64(d.Microseconds())) }

// operations sums the statements of client and worker.
func (r *Result) operations() peer.Operations {
	sum := peer.Operations{}
	for _, o := range []peer.Operations{r.Client.Operations, r.Worker.Operations} {
		for kind, n := range o {
			sum[kind] += n
		}
	}
	return sum
}

func (r *Result) rate() float64 {
	return float64(r.Worker.Jobs) / math.Max(r.Worker.Took.Seconds(), 1e-9)
}

// Flat is the report as flat snake_case keys; a variant's begin with its name.
func (r *Report) Flat() map[string]any {
	m := map[string]any{
		"command": "peers", "started": r.Host.When.Format(time.RFC3339), "platform": r.Host.Platform, "cpu_model": r.Host.CPU, "cores": r.Host.Cores,
		"load_average_before": r.Host.Load, "go_version": r.Host.Go, "git_revision": r.Host.Revision,
		"jobs": r.Load.Jobs, "rate": r.Load.Rate, "payload_bytes": r.Load.Payload,
		"lead_min_s": r.Load.LeadMin.Seconds(), "lead_max_s": r.Load.LeadMax.Seconds(), "throughput_note": throughput,
	}
	for name, v := range Versions() {
		m[name] = v
	}
	for _, one := range r.Results {
		for k, v := range one.flat() {
			m[one.Name+"_"+k] = v
		}
	}
	return m
}

func (r *Result) flat() map[string]any {
	late := r.Worker.Lateness
	m := map[string]any{
		"title": r.Title, "settings": r.Settings, "store": r.Store, "durability": r.Durability,
		"load_average_before": r.LoadBefore, "load_average_after": r.LoadAfter,
		"jobs_submitted": r.Client.Accepted, "jobs_refused": r.Client.Refused, "jobs_delivered": r.Worker.Jobs, "jobs_lost": r.Client.Accepted - r.Worker.Jobs,
		"jobs_duplicated": r.Worker.Repeated, "jobs_early": r.Worker.Early,
		"lateness_min_ms": ms(late.Min), "lateness_p50_ms": ms(late.P50), "lateness_p90_ms": ms(late.P90), "lateness_p99_ms": ms(late.P99), "lateness_max_ms": ms(late.Max),
		"submit_p50_ms": ms(r.Client.Times.P50), "submit_p99_ms": ms(r.Client.Times.P99),
		"client_cpu_us_per_job": r.cpu(r.Client.CPU), "worker_cpu_us_per_job": r.cpu(r.Worker.CPU), "server_cpu_us_per_job": r.cpu(r.Server),
		"client_worker_cpu_us_per_job": r.cpu(r.Client.CPU + r.Worker.CPU), "jobs_per_s_not_comparable": round(r.rate()),
	}
	if r.Commands > 0 {
		m["server_commands_per_job"] = r.perJob(float64(r.Commands))
	}
	all := r.Client.CPU + r.Worker.CPU
	for name, used := range r.Platform {
		m[name+"_cpu_us_per_job"] = r.cpu(used)
		all += used
	}
	m["all_but_server_cpu_us_per_job"] = r.cpu(all)
	for kind, n := range r.operations() {
		m[kind+"_per_job"] = r.perJob(float64(n))
	}
	return m
}

// WriteJSON writes one flat object, its keys sorted.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r.Flat()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(cells ...any) {
		for i, c := range cells {
			if i > 0 {
				fmt.Fprint(tw, "\t")
			}
			fmt.Fprint(tw, c)
		}
		fmt.Fprintln(tw)
	}
	h, l := &r.Host, &r.Load
	line("peers", h.When.Format(time.RFC3339))
	line("machine", fmt.Sprintf("%s, %d cores, %s, load average %s before", h.CPU, h.Cores, h.Platform, h.Load))
	versions := Versions()
	line("built", fmt.Sprintf("%s, revision %s, asynq %s, River %s, pgx %s, kumo %s", h.Go, h.Revision,
		versions["asynq_version"], versions["river_version"], versions["pgx_version"], versions["kumo_version"]))
	line("load", fmt.Sprintf("%d jobs at %g/s, submitted one by one, %d B, due %s to %s ahead; client and worker in processes of their own; TCP on loopback",
		l.Jobs, l.Rate, l.Payload, l.LeadMin, l.LeadMax))
	for _, one := range r.Results {
		line(one.Name, fmt.Sprintf("%s; on %s (%s)", one.Settings, one.Store, one.Durability))
	}
	_ = tw.Flush() // into memory
	b.WriteString("\nlateness from due to handler start, ms; CPU in µs a job (getrusage of each process)\n")
	line("", "p50", "p90", "p99", "max", "early", "lost", "", "client", "worker", "both", "platform", "", "server", "commands/job", "", "jobs/s ("+throughput+")", "", "load average")
	for _, one := range r.Results {
		late := one.Worker.Lateness
		platform, commands := "-", "-"
		if len(one.Platform) > 0 {
			var sum time.Duration
			for _, used := range one.Platform {
				sum += used
			}
			platform = fmt.Sprintf("%.0f", one.cpu(sum))
		}
		if one.Commands > 0 {
			commands = fmt.Sprintf("%.1f", one.perJob(float64(one.Commands)))
		}
		us := func(d time.Duration) string { return fmt.Sprintf("%.0f", one.cpu(d)) }
		line(one.Name, ms(late.P50), ms(late.P90), ms(late.P99), ms(late.Max), one.Worker.Early, one.Client.Accepted-one.Worker.Jobs, "",
			us(one.Client.CPU), us(one.Worker.CPU), us(one.Client.CPU+one.Worker.CPU), platform, "", us(one.Server), commands, "", fmt.Sprintf("%.0f", one.rate()), "", one.LoadBefore+" to "+one.LoadAfter)
	}
	_ = tw.Flush()
	for _, one := range r.Results {
		ops := one.operations()
		if len(ops) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s, statements a job:", one.Name)
		for _, kind := range slices.Sorted(maps.Keys(ops)) {
			fmt.Fprintf(&b, "  %s %.2f", kind, one.perJob(float64(ops[kind])))
		}
		b.WriteString("\n")
	}
	for _, one := range r.Results {
		if len(one.Platform) > 0 {
			fmt.Fprintf(&b, "\n%s, processes of the platform:  inbound %.0f  scheduler %.0f µs a job\n", one.Name, one.cpu(one.Platform[peer.Inbound]), one.cpu(one.Platform[peer.Scheduler]))
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
