package fleet

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/myosin-jobs/myosin/tools/bench/internal/flat"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
)

// WriteJSON writes the report as one flat object, its keys sorted.
func (r *Report) WriteJSON(w io.Writer) error { return flat.Write(w, r.Flat()) }

// lines writes a table of names and values.
type lines struct{ tw *tabwriter.Writer }

func newLines(w io.Writer) lines { return lines{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

func (l lines) add(name, format string, args ...any) {
	_, _ = fmt.Fprintf(l.tw, name+"\t"+format+"\n", args...) // Flush tells
}

// head is what every report begins with.
func (l lines) head(h *host.Facts, o *Options, m map[string]any) {
	l.add("bench "+o.Command, "real processes over an endpoint that costs next to nothing")
	l.add("machine", "%s, %d cores, %s, load average %s before", h.CPU, h.Cores, h.Platform, h.Load)
	l.add("built", "%s, revision %s", h.Go, h.Revision)
	l.add("engine", "%s", h.Engine)
	if o.StandardWrites > 0 {
		l.add("standard lane", "%g writes a second at most (--standard-writes)", o.StandardWrites)
	}
	if o.Idle == 0 {
		l.add("load", "%v jobs of %d B, %g due a second, to %d services; %d urgent", m["jobs"], o.Payload, o.Rate, o.Services, o.Urgent)
	}
}

func (l lines) flush() error {
	if err := l.tw.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	o, m, l := &r.Options, r.Flat(), newLines(w)
	l.head(&r.Host, o, m)
	l.add("shape", "%d scheduler processes, %d partitions a lane, linger %s, %d further rows", o.Schedulers, o.Partitions, o.Linger, o.Rows)
	if o.Idle > 0 {
		l.add("an idle hour", "%v requests to DynamoDB, %v to SQS, %v read units", m["dynamodb_requests_per_hour"], m["sqs_requests_per_hour"], m["read_units_per_hour"])
		l.add("", "%v s of CPU in schedulers, %v s in inbound", m["scheduler_cpu_s_per_hour"], m["inbound_cpu_s_per_hour"])
		l.add("an idle month", "$%v at list prices of %s: $%v DynamoDB on demand, $%v SQS", m["usd_per_month"], priceRegion, m["dynamodb_usd_per_month"], m["sqs_usd_per_month"])
		return l.flush()
	}
	l.add("jobs", "%v delivered, %v lost, %v duplicated, %v early; %v jobs/s", m["jobs_delivered"], m["jobs_lost"], m["jobs_duplicated"], m["jobs_early"], m["jobs_per_s"])
	for _, lane := range []string{"standard", "urgent"} {
		if m[lane+"_lateness_p50_ms"] != nil {
			l.add(lane+" lateness, ms", "p50 %v  p99 %v  max %v", m[lane+"_lateness_p50_ms"], m[lane+"_lateness_p99_ms"], m[lane+"_lateness_max_ms"])
		}
	}
	l.add("scheduler", "%v µs of CPU a job, %v cores in use, %v jobs/s a core", m["scheduler_cpu_us_per_job"], m["scheduler_cores_used"], m["jobs_per_s_per_core"])
	l.add("", "%v requests a job (DynamoDB %v, SQS %v), %v write units, %v read units", m["scheduler_requests_per_job"], m["dynamodb_requests_per_job"], m["sqs_requests_per_job"], m["write_units_per_job"], m["read_units_per_job"])
	l.add("", "%v statements throttled, %v calls; %v conflicts", m["throttled_statements"], m["throttled_calls"], m["write_conflicts"])
	for _, a := range append(r.Scheduler.Processes, r.Endpoint...) {
		l.add("peak of "+a.Name, "%v MiB", flat.MiB(a.Peak))
	}
	if o.Submit {
		l.add("inbound", "%v µs of CPU a job, %v jobs/s", m["inbound_cpu_us_per_job"], m["inbound_jobs_per_s"])
		l.add("submit to delivered", "%v requests a job, %v write units", m["requests_per_job"], m["total_write_units_per_job"])
	}
	return l.flush()
}
