package dynein

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/flat"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null/mq"
)

// label goes with every figure of this mode.
const label = "the published Dynein algorithm as we read it, written in Go over the same SDK; not Airbnb's code, nor its figures"

// Report is what a run measured.
type Report struct {
	Host    host.Facts // set by the caller
	Options Options
	// Stats are the endpoint's, from the first due time to the last delete.
	Stats null.Stats
	// Took is from the first due time to the last arrival.
	Took time.Duration
	// CPU is of the scheduler processes, EndpointCPU of the endpoint's; 0: not told.
	CPU, EndpointCPU time.Duration
}

func (r *Report) arrived() mq.Lateness { return r.Stats.SQS.Sink.Lanes["standard"] }

func (r *Report) delivered() int64 { return r.Stats.SQS.Sink.Distinct }

// Failure says what went wrong with the jobs; nil if each arrived once, not early.
func (r *Report) Failure() error {
	var errs []error
	bad := func(n int64, what string) {
		if n != 0 {
			errs = append(errs, fmt.Errorf("%d %s", n, what))
		}
	}
	bad(int64(r.Options.Jobs)-r.delivered(), "jobs lost")
	bad(r.Stats.SQS.Sink.Duplicates, "duplicates")
	bad(r.arrived().Early, "jobs early")
	bad(int64(r.Stats.DynamoDB.Rows[Table]), "rows left in the table")
	return errors.Join(errs...)
}

func (r *Report) perJob(n float64) float64 {
	return flat.PerJob(n, r.delivered())
}

func (r *Report) rate() float64 { return float64(r.delivered()) / math.Max(r.Took.Seconds(), 1e-9) }

// perCore is what one core could dispatch.
func (r *Report) perCore() float64 {
	return float64(r.delivered()) / math.Max(r.CPU.Seconds(), 1e-9)
}

// services sums requests by AWS service.
func (r *Report) requests(service string) (n int64) {
	for op, c := range r.Stats.Operations {
		if strings.HasPrefix(op, service) {
			n += c.Requests
		}
	}
	return n
}

// Flat is the report as flat snake_case keys.
func (r *Report) Flat() map[string]any {
	o, late := &r.Options, r.arrived()
	m := map[string]any{
		"command": "dynein", "label": label,
		"started": r.Host.When.Format(time.RFC3339), "platform": r.Host.Platform, "cpu_model": r.Host.CPU, "cores": r.Host.Cores,
		"load_average_before": r.Host.Load, "go_version": r.Host.Go, "git_revision": r.Host.Revision, "engine": r.Host.Engine,
		"jobs": o.Jobs, "rate": o.Rate, "services": o.Services, "partitions": o.Partitions, "payload_bytes": o.Payload,
		"schedulers": o.Schedulers, "workers": o.Workers, "query_limit": o.Limit,
		"latency_dynamodb_ms": flat.Millis(o.LatencyDynamoDB), "latency_sqs_ms": flat.Millis(o.LatencySQS),
		"took_s": flat.Round(r.Took.Seconds()), "jobs_per_s": flat.Round(r.rate()),
		"jobs_delivered": r.delivered(), "jobs_lost": int64(o.Jobs) - r.delivered(), "jobs_duplicated": r.Stats.SQS.Sink.Duplicates,
		"jobs_early": late.Early, "rows_left": r.Stats.DynamoDB.Rows[Table],
		"requests_per_job_scope": "the scheduler alone: to be set against scheduler_requests_per_job of others",
		"requests_per_job":       r.perJob(float64(r.requests(""))), "scheduler_requests_per_job": r.perJob(float64(r.requests(""))),
		"sqs_requests_per_job": r.perJob(float64(r.requests("SQS."))), "dynamodb_requests_per_job": r.perJob(float64(r.requests("DynamoDB."))),
		"write_units_per_job": r.perJob(r.Stats.DynamoDB.WriteUnits), "read_units_per_job": r.perJob(r.Stats.DynamoDB.ReadUnits),
		"write_conflicts": r.Stats.DynamoDB.Conflicts, "items_queried_per_job": r.perJob(float64(r.Stats.DynamoDB.ItemsQueried)),
		"lateness_count": late.Messages, "lateness_p50_ms": late.P50Ms, "lateness_p90_ms": late.P90Ms, "lateness_p99_ms": late.P99Ms, "lateness_max_ms": late.MaxMs,
	}
	for op, c := range r.Stats.Operations {
		m["requests_scheduler_"+flat.Call(op)] = c.Requests
	}
	if r.CPU > 0 {
		m["scheduler_cpu_s"], m["scheduler_cpu_us_per_job"] = flat.Round(r.CPU.Seconds()), r.perJob(float64(r.CPU.Microseconds()))
		m["jobs_per_s_per_core"], m["scheduler_cores_used"] = flat.Round(r.perCore()), flat.Round(r.CPU.Seconds()/math.Max(r.Took.Seconds(), 1e-9))
	}
	if r.EndpointCPU > 0 {
		m["engine_cpu_s"], m["engine_cpu_us_per_job"] = flat.Round(r.EndpointCPU.Seconds()), r.perJob(float64(r.EndpointCPU.Microseconds()))
	}
	return m
}

// WriteJSON writes the report as one flat object, its keys sorted.
func (r *Report) WriteJSON(w io.Writer) error { return flat.Write(w, r.Flat()) }

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	o, h, late := &r.Options, &r.Host, r.arrived()
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(tw, name+"\t"+format+"\n", args...) }
	line("bench dynein", "%s", label)
	line("machine", "%s, %d cores, %s, load average %s before", h.CPU, h.Cores, h.Platform, h.Load)
	line("built", "%s, revision %s", h.Go, h.Revision)
	line("engine", "%s", h.Engine)
	line("load", "%d jobs of %d B, %g due a second, to %d services", o.Jobs, o.Payload, o.Rate, o.Services)
	line("shape", "%d processes, %d workers in each, %d partitions, %d rows a query", o.Schedulers, o.Workers, o.Partitions, o.Limit)
	line("", "")
	line("jobs", "%d delivered, %d lost, %d duplicated, %d early; %.0f jobs/s", r.delivered(), int64(o.Jobs)-r.delivered(), r.Stats.SQS.Sink.Duplicates, late.Early, r.rate())
	line("lateness, ms", "p50 %.1f  p99 %.1f  max %.1f", late.P50Ms, late.P99Ms, late.MaxMs)
	line("scheduler CPU", "%.0f µs a job, %.2f cores in use; %.0f jobs/s a core", r.perJob(float64(r.CPU.Microseconds())), r.CPU.Seconds()/math.Max(r.Took.Seconds(), 1e-9), r.perCore())
	line("endpoint CPU", "%.0f µs a job", r.perJob(float64(r.EndpointCPU.Microseconds())))
	line("requests a job", "%.3f: DynamoDB %.3f, SQS %.3f (of the scheduler alone)", r.perJob(float64(r.requests(""))), r.perJob(float64(r.requests("DynamoDB."))), r.perJob(float64(r.requests("SQS."))))
	line("write units a job", "%.3f, after the one of the insert", r.perJob(r.Stats.DynamoDB.WriteUnits))
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
