package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null"
)

// Phase is what one part of a run used.
type Phase struct {
	CPU   time.Duration // of its processes
	Took  time.Duration // from the first due time (or submission) to the last arrival
	Peak  int64         // largest resident memory of one process, in bytes
	Stats null.Stats    // the endpoint's, of this phase alone
}

// requests of the phase, to DynamoDB and SQS.
func (p *Phase) requests() (dynamo, sqs int64) {
	for op, c := range p.Stats.Operations {
		if strings.HasPrefix(op, "SQS.") {
			sqs += c.Requests
		} else {
			dynamo += c.Requests
		}
	}
	return dynamo, sqs
}

// Report is what a run measured.
type Report struct {
	Host      host.Facts // set by the caller
	Options   Options
	Inbound   Phase // only with Submit; the client's own sends are in its requests
	Scheduler Phase
}

func (r *Report) jobs() int64 { return int64(r.Options.Jobs + r.Options.Urgent) }

// Failure says what went wrong with the jobs; nil if each arrived once, not early.
func (r *Report) Failure() error {
	if r.Options.Idle > 0 {
		return nil
	}
	s := &r.Scheduler.Stats.SQS.Sink
	var errs []error
	bad := func(n int64, what string) {
		if n != 0 {
			errs = append(errs, fmt.Errorf("%d %s", n, what))
		}
	}
	bad(r.jobs()-s.Distinct, "jobs lost")
	bad(s.Duplicates, "duplicates")
	for lane, l := range s.Lanes {
		bad(l.Early, "jobs early on the "+lane+" lane")
	}
	return errors.Join(errs...)
}

func perJob(n float64, jobs int64) float64 {
	return math.Round(1000*n/math.Max(float64(jobs), 1)) / 1000
}

func round(f float64) float64 { return math.Round(f*1000) / 1000 }

// Flat is the report as flat snake_case keys.
func (r *Report) Flat() map[string]any {
	o, s := &r.Options, &r.Scheduler
	m := map[string]any{
		"command": "null", "started": r.Host.When.Format(time.RFC3339), "platform": r.Host.Platform, "cpu_model": r.Host.CPU, "cores": r.Host.Cores,
		"load_average_before": r.Host.Load, "go_version": r.Host.Go, "git_revision": r.Host.Revision, "engine": r.Host.Engine,
		"jobs": o.Jobs, "urgent_jobs": o.Urgent, "rate": o.Rate, "services": o.Services, "partitions": o.Partitions, "payload_bytes": o.Payload,
		"schedulers": o.Schedulers, "rows_stored": o.Rows, "linger_ms": round(o.Linger.Seconds() * 1000),
		"latency_dynamodb_ms": round(o.LatencyDynamoDB.Seconds() * 1000), "latency_sqs_ms": round(o.LatencySQS.Seconds() * 1000), "limits": o.Limits,
		"took_s": round(s.Took.Seconds()), "scheduler_cpu_s": round(s.CPU.Seconds()), "scheduler_peak_mib": round(float64(s.Peak) / (1 << 20)),
		"scheduler_cores_used": round(s.CPU.Seconds() / math.Max(s.Took.Seconds(), 1e-9)),
		"read_units":           s.Stats.DynamoDB.ReadUnits, "scheduler_requests": s.Stats.Requests,
	}
	if o.Idle > 0 {
		hour := float64(time.Hour) / math.Max(float64(s.Took), 1)
		m["command"] = "idle"
		m["requests_per_hour"], m["read_units_per_hour"] = math.Round(float64(s.Stats.Requests)*hour), math.Round(s.Stats.DynamoDB.ReadUnits*hour)
		m["scheduler_cpu_s_per_hour"] = round(s.CPU.Seconds() * hour)
		return m
	}
	sink := &s.Stats.SQS.Sink
	dynamo, sqs := s.requests()
	m["jobs_per_s"] = round(float64(sink.Messages) / math.Max(s.Took.Seconds(), 1e-9))
	m["jobs_per_s_per_core"] = round(float64(sink.Messages) / math.Max(s.CPU.Seconds(), 1e-9))
	m["jobs_delivered"], m["jobs_lost"], m["jobs_duplicated"] = sink.Distinct, r.jobs()-sink.Distinct, sink.Duplicates
	m["scheduler_cpu_us_per_job"] = perJob(float64(s.CPU.Microseconds()), sink.Messages)
	m["scheduler_requests_per_job"] = perJob(float64(s.Stats.Requests), sink.Messages)
	m["dynamodb_requests_per_job"], m["sqs_requests_per_job"] = perJob(float64(dynamo), sink.Messages), perJob(float64(sqs), sink.Messages)
	m["write_units_per_job"], m["read_units_per_job"] = perJob(s.Stats.DynamoDB.WriteUnits, sink.Messages), perJob(s.Stats.DynamoDB.ReadUnits, sink.Messages)
	m["write_conflicts"], m["throttled_statements"] = s.Stats.DynamoDB.Conflicts, s.Stats.DynamoDB.ThrottledStatements
	for lane, l := range sink.Lanes {
		if l.Messages == 0 {
			continue
		}
		m[lane+"_lateness_p50_ms"], m[lane+"_lateness_p99_ms"], m[lane+"_lateness_max_ms"] = l.P50Ms, l.P99Ms, l.MaxMs
	}
	if o.Submit {
		in := &r.Inbound
		m["inbound_cpu_us_per_job"] = perJob(float64(in.CPU.Microseconds()), int64(o.Jobs))
		m["inbound_jobs_per_s"] = round(float64(o.Jobs) / math.Max(in.Took.Seconds(), 1e-9))
		m["submit_to_stored_requests_per_job"] = perJob(float64(in.Stats.Requests), int64(o.Jobs))
		m["requests_per_job"] = perJob(float64(in.Stats.Requests+s.Stats.Requests), int64(o.Jobs))
		m["total_write_units_per_job"] = perJob(in.Stats.DynamoDB.WriteUnits+s.Stats.DynamoDB.WriteUnits, int64(o.Jobs))
	}
	return m
}

// WriteJSON writes the report as one flat object, its keys sorted.
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
	o, h, m := &r.Options, &r.Host, r.Flat()
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(tw, name+"\t"+format+"\n", args...) }
	line("bench "+m["command"].(string), "inbound and scheduler processes over an endpoint that costs next to nothing")
	line("machine", "%s, %d cores, %s, load average %s before", h.CPU, h.Cores, h.Platform, h.Load)
	line("built", "%s, revision %s", h.Go, h.Revision)
	line("engine", "%s", h.Engine)
	line("shape", "%d scheduler processes, %d partitions a lane, linger %s, %d further rows", o.Schedulers, o.Partitions, o.Linger, o.Rows)
	if o.Idle > 0 {
		line("idle", "%v requests, %v read units, %v s of CPU an hour", m["requests_per_hour"], m["read_units_per_hour"], m["scheduler_cpu_s_per_hour"])
		return tw.Flush()
	}
	line("load", "%d jobs of %d B, %g due a second, to %d services; %d urgent", o.Jobs, o.Payload, o.Rate, o.Services, o.Urgent)
	line("jobs", "%v delivered, %v lost, %v duplicated; %v jobs/s", m["jobs_delivered"], m["jobs_lost"], m["jobs_duplicated"], m["jobs_per_s"])
	for _, lane := range []string{"standard", "urgent"} {
		if m[lane+"_lateness_p50_ms"] != nil {
			line(lane+" lateness, ms", "p50 %v  p99 %v  max %v", m[lane+"_lateness_p50_ms"], m[lane+"_lateness_p99_ms"], m[lane+"_lateness_max_ms"])
		}
	}
	line("scheduler", "%v µs of CPU a job, %v cores in use, %v jobs/s a core; peak %v MiB", m["scheduler_cpu_us_per_job"], m["scheduler_cores_used"], m["jobs_per_s_per_core"], m["scheduler_peak_mib"])
	line("", "%v requests a job (DynamoDB %v, SQS %v), %v write units, %v read units", m["scheduler_requests_per_job"], m["dynamodb_requests_per_job"], m["sqs_requests_per_job"], m["write_units_per_job"], m["read_units_per_job"])
	if o.Submit {
		line("inbound", "%v µs of CPU a job, %v jobs/s", m["inbound_cpu_us_per_job"], m["inbound_jobs_per_s"])
		line("submit to delivered", "%v requests a job, %v write units", m["requests_per_job"], m["total_write_units_per_job"])
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
