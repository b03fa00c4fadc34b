package page

import (
	"fmt"
	"strings"
)

// verdict is what a figure is, set against its target.
type verdict string

const (
	met         verdict = "met"
	notMet      verdict = "**not met**"
	notMeasured verdict = "not measured"
	told        verdict = "reported" // no number is aimed at
)

// figure is one row.
type figure struct {
	what, target string
	from         []string // runs, all needed
	// show gives the text and whether the target is met; it reads what it needs
	// from the runs, in the order of from.
	show func(m *reading) (string, bool)
	told bool // nothing is aimed at
}

// reading reads figures, and remembers one that is not there.
type reading struct {
	results Results
	missing string
}

func (m *reading) of(run, key string) float64 {
	f, ok := m.results[run].number(key)
	if !ok && m.missing == "" {
		m.missing = run + " does not tell " + key
	}
	return f
}

// judge gives what the row shows.
func (f *figure) judge(results Results) (string, verdict) {
	var harms []string
	for _, run := range Runs() {
		for _, name := range f.from {
			if run.Name != name {
				continue
			}
			r, ok := results[name]
			if !ok {
				return "", notMeasured
			}
			if fault := run.fault(r); fault != "" {
				return name + " was " + fault, notMeasured
			}
			if harm := r.harm(); harm != "" {
				harms = append(harms, name+": "+harm)
			}
		}
	}
	m := &reading{results: results}
	shown, ok := f.show(m)
	switch {
	case m.missing != "":
		return m.missing, notMeasured
	case len(harms) > 0:
		return shown + "; " + strings.Join(harms, "; "), notMet
	case f.told:
		return shown, told
	case ok:
		return shown, met
	}
	return shown, notMet
}

// atMost is a figure with an upper bound.
func atMost(what, target, run, key string, most float64, unit string) figure {
	return figure{what: what, target: target, from: []string{run}, show: func(m *reading) (string, bool) {
		v := m.of(run, key)
		return plain(v) + unit, v <= most
	}}
}

const micro = " µs"

// figures are those of which a target was set.
func figures() []figure {
	return []figure{
		{
			what: "scheduler CPU a job, 5,000 jobs/s to one service", target: "≤ 125 µs, and ≤ 1/5 of the Dynein baseline", from: []string{"null-one-service", "dynein"},
			show: func(m *reading) (string, bool) {
				own, base := m.of("null-one-service", "scheduler_cpu_us_per_job"), m.of("dynein", "scheduler_cpu_us_per_job")
				return fmt.Sprintf("%s µs; baseline %s µs, %s times as much", plain(own), plain(base), plain(base/max(own, 1e-9))), own <= 125 && own*5 <= base
			},
		},
		atMost("the same, 2,000 jobs/s over 50 services, linger 5 ms", "≤ 350 µs", "null-50-services-5ms", "scheduler_cpu_us_per_job", 350, micro),
		atMost("the same, linger 100 ms", "≤ 180 µs", "null-50-services-100ms", "scheduler_cpu_us_per_job", 180, micro),
		atMost("inbound CPU a job", "≤ 150 µs", "submit", "inbound_cpu_us_per_job", 150, micro),
		{
			what: "AWS requests a job, submit to delivered, 5,000 jobs/s to one service; write units", target: "≤ 0.6; 3.0 at ≤ 1 KB", from: []string{"submit"},
			show: func(m *reading) (string, bool) {
				requests, units := m.of("submit", "requests_per_job"), m.of("submit", "total_write_units_per_job")
				return fmt.Sprintf("%s; %s", plain(requests), plain(units)), requests <= 0.6 && units < 3.005
			},
		},
		{
			what: "the same, 2,000 jobs/s over 50 services", target: "reported", from: []string{"submit-50-services"}, told: true,
			show: func(m *reading) (string, bool) {
				return fmt.Sprintf("%s; %s", plain(m.of("submit-50-services", "requests_per_job")), plain(m.of("submit-50-services", "total_write_units_per_job"))), true
			},
		},
		{
			what: "schedulers 1 → 2, latency the limit and not CPU", target: "≥ 1.9 times", from: []string{"scale"},
			show: func(m *reading) (string, bool) {
				ratio := m.of("scale", "ratio_1_to_2")
				return fmt.Sprintf("%s times (2 → 4: %s): %s, %s, %s jobs/s", plain(ratio), plain(m.of("scale", "ratio_2_to_4")),
					plain(m.of("scale", "schedulers_1_jobs_per_s")), plain(m.of("scale", "schedulers_2_jobs_per_s")), plain(m.of("scale", "schedulers_4_jobs_per_s"))), ratio >= 1.9
			},
		},
		{
			what: "lateness at 200 jobs/s on kumo", target: "p50 ≤ 20 ms, p99 ≤ 250 ms", from: []string{"core-200"},
			show: func(m *reading) (string, bool) {
				p50, p99 := m.of("core-200", "lateness_p50_ms"), m.of("core-200", "lateness_p99_ms")
				return fmt.Sprintf("p50 %s ms, p99 %s ms", plain(p50), plain(p99)), p50 <= 20 && p99 <= 250
			},
		},
		{
			what: "urgent lateness while 1,000,000 standard jobs fall due in one second, AWS-like latency and limits", target: "p99 ≤ 5 s", from: []string{"wave"},
			show: func(m *reading) (string, bool) {
				p99 := m.of("wave", "urgent_lateness_p99_ms")
				return fmt.Sprintf("p50 %s ms, p99 %s ms (standard lane: p99 %s s)", plain(m.of("wave", "urgent_lateness_p50_ms")), plain(p99),
					plain(m.of("wave", "standard_lateness_p99_ms")/1000)), p99 <= 5000
			},
		},
		atMost("largest process in that wave", "≤ 512 MiB", "wave", "scheduler_peak_mib", 512, " MiB"),
		atMost("largest process with 2,000,000 overdue", "≤ 512 MiB", "overdue", "scheduler_peak_mib", 512, " MiB"),
		{
			what: "a tick's cost from 10 thousand to 10 million rows: CPU, read units, requests", target: "within 1.2 times", from: []string{"table"},
			show: func(m *reading) (string, bool) {
				list := func(rows string) string {
					return fmt.Sprintf("%s, %s, %s", plain(m.of("table", rows+"cpu_ratio")), plain(m.of("table", rows+"read_units_ratio")), plain(m.of("table", rows+"requests_ratio")))
				}
				return "1 million: " + list("rows_1000000_") + "; 10 million: " + list("rows_10000000_"), m.of("table", "tick_cost_ratio_max") <= 1.2
			},
		},
		{
			what: "chaos: lost / early / cancelled but delivered", target: "0 / 0 / 0", from: []string{"chaos"},
			show: func(m *reading) (string, bool) {
				lost, early, cancelled := m.of("chaos", "chaos_lost"), m.of("chaos", "chaos_early"), m.of("chaos", "chaos_cancelled_delivered")
				return fmt.Sprintf("%s / %s / %s of %s, %s faults", plain(lost), plain(early), plain(cancelled), plain(m.of("chaos", "chaos_submitted")),
					plain(m.of("chaos", "chaos_faults"))), lost+early+cancelled == 0
			},
		},
		{
			what: "chaos: duplicates on rollouts / unexplained", target: "0 / 0; after a kill at most the rows sent and not completed", from: []string{"chaos"},
			show: func(m *reading) (string, bool) {
				roll, unexplained := m.of("chaos", "chaos_duplicates_roll"), m.of("chaos", "chaos_duplicates_unexplained")
				return fmt.Sprintf("%s / %s; %s sends repeated in all, %s rows sent and not completed at kills", plain(roll), plain(unexplained),
					plain(m.of("chaos", "chaos_duplicate_sends")), plain(m.of("chaos", "chaos_rows_sent_and_not_completed_at_kills"))), roll+unexplained == 0
			},
		},
		{
			what: "runs: nominal time to the target's first byte, 50 runs/s on kumo, no tolerance declared", target: "p99 < 5 s", from: []string{"runs-load"},
			show: func(m *reading) (string, bool) {
				p99 := m.of("runs-load", "standard_lateness_p99_ms")
				return fmt.Sprintf("p50 %s ms, p99 %s ms", plain(m.of("runs-load", "standard_lateness_p50_ms")), plain(p99)), p99 < 5000
			},
		},
		{
			what: "runs: write units of a cron run beyond its trigger's three", target: "≤ 8", from: []string{"runs-cron"},
			show: func(m *reading) (string, bool) {
				beyond := m.of("runs-cron", "write_units_beyond_trigger_per_run")
				of := func(table string) string { return plain(m.of("runs-cron", "write_units_"+table+"_per_run")) }
				return fmt.Sprintf("%s (jobs %s, runs %s, forecast %s) and %s; %s requests", plain(beyond), of("jobs"), of("runs"), of("forecast"), of("triggers"),
					plain(m.of("runs-cron", "requests_per_run"))), beyond <= 8
			},
		},
		{
			what: "runs: urgent ones in a midnight wave of 200,000 jobs", target: "p99 < 5 s", from: []string{"runs-wave"},
			show: func(m *reading) (string, bool) {
				p99 := m.of("runs-wave", "urgent_lateness_p99_ms")
				return fmt.Sprintf("p50 %s ms, p99 %s ms, the last %s ms", plain(m.of("runs-wave", "urgent_lateness_p50_ms")), plain(p99), plain(m.of("runs-wave", "urgent_lateness_max_ms"))), p99 < 5000
			},
		},
		{
			what: "runs: the others of that wave, over their tolerance of 10 min", target: "within it (p99 < 5 s from their own moment in it) and flat: the fullest 10 s ≤ 1.2 times the mean", from: []string{"runs-wave"},
			show: func(m *reading) (string, bool) {
				p99, over, tens := m.of("runs-wave", "lateness_after_due_p99_ms"), m.of("runs-wave", "over_tolerance_max_ms"), m.of("runs-wave", "max_over_mean_10_s")
				return fmt.Sprintf("p99 %s ms from their moment, %s of them at its very end and up to %s ms after it; %s runs/s, fullest second %s times that, fullest 10 s %s",
					plain(p99), plain(m.of("runs-wave", "runs_after_tolerance")), plain(over), plain(m.of("runs-wave", "runs_per_s_mean")),
					plain(m.of("runs-wave", "max_over_mean")), plain(tens)), p99 < 5000 && over < 5000 && tens <= 1.2
			},
		},
		{
			what: "runs: one runner with 200 calls of 200 ms at a time", target: "≥ 900 calls/s", from: []string{"runs-calls"},
			show: func(m *reading) (string, bool) {
				rate := m.of("runs-calls", "calls_per_s_steady")
				return fmt.Sprintf("%s calls/s, %s µs of its CPU a run, %s MiB", plain(rate), plain(m.of("runs-calls", "runner_cpu_us_per_run")), plain(m.of("runs-calls", "runner_peak_mib"))), rate >= 900
			},
		},
		{
			what: "client + worker CPU a job against asynq and River", target: "measured and [explained](peers/README.md)", from: []string{"peers"}, told: true,
			show: func(m *reading) (string, bool) {
				of := func(name string) string { return plain(m.of("peers", name+"_client_worker_cpu_us_per_job")) }
				return fmt.Sprintf("Myosin %s µs; asynq %s to %s, River %s to %s", of("myosin"), of("asynq_default"), of("asynq_tuned"), of("river_default"), of("river_tuned")), true
			},
		},
	}
}

// others are figures without a target.
func others() []figure {
	of := func(what, run string, show func(m *reading) string) figure {
		return figure{what: what, from: []string{run}, told: true, show: func(m *reading) (string, bool) { return show(m), true }}
	}
	perJob := func(what, own, base string) figure {
		return figure{what: what, from: []string{own, base}, told: true, show: func(m *reading) (string, bool) {
			cpu, theirs := m.of(own, "scheduler_cpu_us_per_job"), m.of(base, "scheduler_cpu_us_per_job")
			return fmt.Sprintf("%s µs, %s requests a job; baseline %s µs, %s requests", plain(cpu), plain(m.of(own, "scheduler_requests_per_job")),
				plain(theirs), plain(m.of(base, "scheduler_requests_per_job"))), true
		}}
	}
	return []figure{
		perJob("scheduler against the Dynein baseline, 5,000 jobs/s to one service", "null-one-service", "dynein"),
		perJob("the same, 2,000 jobs/s over 50 services", "null-50-services-5ms", "dynein-50-services"),
		perJob("the same, 100 jobs/s", "null-100", "dynein-100"),
		of("lateness at 100 jobs/s on kumo", "core", func(m *reading) string {
			return fmt.Sprintf("p50 %s ms, p99 %s ms", plain(m.of("core", "lateness_p50_ms")), plain(m.of("core", "lateness_p99_ms")))
		}),
		of("an hour with nothing due, 64 partitions in each lane", "idle", func(m *reading) string {
			return fmt.Sprintf("%s requests to DynamoDB, %s to SQS, %s read units, %s s of CPU in scheduler and %s s in inbound", plain(m.of("idle", "dynamodb_requests_per_hour")),
				plain(m.of("idle", "sqs_requests_per_hour")), plain(m.of("idle", "read_units_per_hour")), plain(m.of("idle", "scheduler_cpu_s_per_hour")), plain(m.of("idle", "inbound_cpu_s_per_hour")))
		}),
		of("a month of that, list prices of us-east-1: $0.125 per million read units on demand, $0.40 per million SQS requests", "idle", func(m *reading) string {
			return fmt.Sprintf("$%.2f: DynamoDB $%.2f, SQS $%.2f", m.of("idle", "usd_per_month"), m.of("idle", "dynamodb_usd_per_month"), m.of("idle", "sqs_usd_per_month"))
		}),
		of("throughput of one scheduler in the wave, and throttled statements", "wave", func(m *reading) string {
			return fmt.Sprintf("%s jobs/s; %s", plain(m.of("wave", "jobs_per_s")), plain(m.of("wave", "throttled_statements")))
		}),
		of("throughput of one scheduler with 2,000,000 overdue, no latency", "overdue", func(m *reading) string {
			return plain(m.of("overdue", "jobs_per_s")) + " jobs/s"
		}),
		of("requests of a run at 50 runs/s on kumo: scheduler, runner; of its creation", "runs-load", func(m *reading) string {
			return fmt.Sprintf("%s, %s; %s", plain(m.of("runs-load", "scheduler_requests_per_run")), plain(m.of("runs-load", "runner_requests_per_run")),
				plain(m.of("runs-load", "creator_requests_per_run")))
		}),
		of("requests of a cron run over the null endpoint: scheduler, runner", "runs-cron", func(m *reading) string {
			return fmt.Sprintf("%s, %s", plain(m.of("runs-cron", "scheduler_requests_per_run")), plain(m.of("runs-cron", "runner_requests_per_run")))
		}),
		of("the endpoint's own answer to a Query with 10 thousand, 1 and 10 million rows", "table", func(m *reading) string {
			return fmt.Sprintf("%s, %s, %s µs", plain(m.of("table", "rows_10000_endpoint_us_per_query")), plain(m.of("table", "rows_1000000_endpoint_us_per_query")),
				plain(m.of("table", "rows_10000000_endpoint_us_per_query")))
		}),
	}
}

// peers is the table of the peers' figures.
func peers(r Result) string {
	if r == nil {
		return "Not measured."
	}
	var b strings.Builder
	b.WriteString("| | lateness p50, p99 | early | client + worker CPU a job | platform beside them |\n|---|---|---|---|---|\n")
	m := &reading{results: Results{"peers": r}}
	for _, name := range []string{"asynq_default", "asynq_tuned", "river_default", "river_tuned", "relational", "myosin"} {
		beside := ""
		if name == "myosin" {
			beside = fmt.Sprintf("inbound %s µs, scheduler %s µs", plain(m.of("peers", "myosin_inbound_cpu_us_per_job")), plain(m.of("peers", "myosin_scheduler_cpu_us_per_job")))
		}
		fmt.Fprintf(&b, "| %s | %s ms, %s ms | %s of %s | %s µs | %s |\n", r.text(name+"_title"), plain(m.of("peers", name+"_lateness_p50_ms")), plain(m.of("peers", name+"_lateness_p99_ms")),
			plain(m.of("peers", name+"_jobs_early")), plain(m.of("peers", name+"_jobs_delivered")), plain(m.of("peers", name+"_client_worker_cpu_us_per_job")), beside)
	}
	if m.missing != "" {
		return "Not measured: " + m.missing + "."
	}
	return strings.TrimSuffix(b.String(), "\n")
}
