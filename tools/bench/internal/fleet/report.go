package fleet

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/flat"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null"
)

// Phase is what one part of a run used.
type Phase struct {
	Processes []Account
	Took      time.Duration // from the first due time (or submission) to the last arrival
	Watched   time.Duration // the time of which Processes and Stats tell
	Stats     null.Stats    // the endpoint's, of this phase alone
}

func (p *Phase) cpu() (sum time.Duration) {
	for i := range p.Processes {
		sum += p.Processes[i].CPU
	}
	return sum
}

// peak is of the largest process.
func (p *Phase) peak() (most int64) {
	for i := range p.Processes {
		most = max(most, p.Processes[i].Peak)
	}
	return most
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
	Inbound   Phase // only with Submit (the client's own sends are in its requests) and Idle
	Scheduler Phase
	Steady    float64   // jobs a second from a tenth to nine tenths of them; 0: not told
	Endpoint  []Account // since it began
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

// headOf is what every result begins with.
func headOf(h *host.Facts, o *Options) map[string]any {
	return map[string]any{
		"command": o.Command, "started": h.When.Format(time.RFC3339), "platform": h.Platform, "cpu_model": h.CPU, "cores": h.Cores,
		"load_average_before": h.Load, "go_version": h.Go, "git_revision": h.Revision, "engine": h.Engine,
		"jobs": o.Jobs, "urgent_jobs": o.Urgent, "rate": o.Rate, "services": o.Services, "partitions": o.Partitions, "payload_bytes": o.Payload,
		"schedulers": o.Schedulers, "rows_stored": o.Rows, "overdue_s": o.Overdue.Seconds(), "linger_ms": flat.Millis(o.Linger),
		"latency_dynamodb_ms": flat.Millis(o.LatencyDynamoDB), "latency_sqs_ms": flat.Millis(o.LatencySQS),
		"limits": o.Limits, "limit_table_writes_per_s": o.TableWrites, "physical_partitions_even": o.Even, "standard_writes_per_s": o.StandardWrites,
	}
}

// Flat is the report as flat snake_case keys.
func (r *Report) Flat() map[string]any {
	o, s := &r.Options, &r.Scheduler
	m := headOf(&r.Host, o)
	m["took_s"], m["scheduler_cpu_s"], m["scheduler_peak_mib"] = flat.Round(s.Took.Seconds()), flat.Round(s.cpu().Seconds()), flat.MiB(s.peak())
	m["scheduler_cores_used"] = flat.Round(s.cpu().Seconds() / math.Max(s.Watched.Seconds(), 1e-9))
	m["read_units"], m["scheduler_requests"] = s.Stats.DynamoDB.ReadUnits, s.Stats.Requests
	for _, a := range slices.Concat(r.Inbound.Processes, s.Processes, r.Endpoint) {
		m[strings.ReplaceAll(a.Name, " ", "_")+"_peak_mib"] = flat.MiB(a.Peak)
	}
	if o.Idle > 0 {
		r.idle(m)
		return m
	}
	sink := &s.Stats.SQS.Sink
	dynamo, sqs := s.requests()
	m["jobs_per_s"] = flat.Round(float64(sink.Messages) / math.Max(s.Took.Seconds(), 1e-9))
	m["jobs_per_s_per_core"] = flat.Round(float64(sink.Messages) / math.Max(s.cpu().Seconds(), 1e-9))
	if r.Steady > 0 {
		m["jobs_per_s_steady"] = math.Round(r.Steady)
	}
	m["jobs_delivered"], m["jobs_lost"], m["jobs_duplicated"] = sink.Distinct, r.jobs()-sink.Distinct, sink.Duplicates
	m["scheduler_cpu_us_per_job"] = flat.PerJob(float64(s.cpu().Microseconds()), sink.Messages)
	m["scheduler_requests_per_job"] = flat.PerJob(float64(s.Stats.Requests), sink.Messages)
	m["dynamodb_requests_per_job"], m["sqs_requests_per_job"] = flat.PerJob(float64(dynamo), sink.Messages), flat.PerJob(float64(sqs), sink.Messages)
	m["write_units_per_job"], m["read_units_per_job"] = flat.PerJob(s.Stats.DynamoDB.WriteUnits, sink.Messages), flat.PerJob(s.Stats.DynamoDB.ReadUnits, sink.Messages)
	m["write_conflicts"], m["throttled_statements"] = s.Stats.DynamoDB.Conflicts, s.Stats.DynamoDB.ThrottledStatements
	m["throttled_calls"], m["throttled_calls_sqs"] = s.Stats.DynamoDB.ThrottledCalls, s.Stats.SQS.ThrottledCalls
	early := int64(0)
	for lane, l := range sink.Lanes {
		if l.Messages == 0 {
			continue
		}
		if early += l.Early; o.Overdue > 0 {
			continue // the time before the start says nothing
		}
		m[lane+"_lateness_p50_ms"], m[lane+"_lateness_p99_ms"], m[lane+"_lateness_max_ms"] = l.P50Ms, l.P99Ms, l.MaxMs
	}
	m["jobs_early"] = early
	if o.Submit {
		in := &r.Inbound
		m["inbound_cpu_us_per_job"] = flat.PerJob(float64(in.cpu().Microseconds()), int64(o.Jobs))
		m["inbound_jobs_per_s"] = flat.Round(float64(o.Jobs) / math.Max(in.Took.Seconds(), 1e-9))
		m["submit_to_stored_requests_per_job"] = flat.PerJob(float64(in.Stats.Requests), int64(o.Jobs))
		m["requests_per_job"] = flat.PerJob(float64(in.Stats.Requests+s.Stats.Requests), int64(o.Jobs))
		m["total_write_units_per_job"] = flat.PerJob(in.Stats.DynamoDB.WriteUnits+s.Stats.DynamoDB.WriteUnits, int64(o.Jobs))
	}
	return m
}

// The list prices that an idle hour is reckoned with.
const (
	priceRegion   = "us-east-1"
	priceReads    = 0.125 // dollars per million read units, on demand
	priceQueue    = 0.40  // dollars per million requests to standard queues
	hoursPerMonth = 730
)

// idle adds what an hour with nothing due costs.
func (r *Report) idle(m map[string]any) {
	s := &r.Scheduler
	hour := float64(time.Hour) / math.Max(float64(s.Watched), 1)
	dynamo, sqs := s.requests()
	reads, polls := s.Stats.DynamoDB.ReadUnits*hour, float64(sqs)*hour
	m["watched_s"] = flat.Round(s.Watched.Seconds())
	m["requests_per_hour"], m["dynamodb_requests_per_hour"], m["sqs_requests_per_hour"] = math.Round(float64(s.Stats.Requests)*hour), math.Round(float64(dynamo)*hour), math.Round(polls)
	m["read_units_per_hour"], m["write_units_per_hour"] = math.Round(reads), math.Round(s.Stats.DynamoDB.WriteUnits*hour)
	m["scheduler_cpu_s_per_hour"], m["inbound_cpu_s_per_hour"] = flat.Round(s.cpu().Seconds()*hour), flat.Round(r.Inbound.cpu().Seconds()*hour)
	m["price_region"], m["price_usd_per_million_read_units"], m["price_usd_per_million_sqs_requests"] = priceRegion, priceReads, priceQueue
	m["dynamodb_usd_per_month"], m["sqs_usd_per_month"] = cents(reads*priceReads), cents(polls*priceQueue)
	m["usd_per_month"] = cents(reads*priceReads + polls*priceQueue)
}

// cents makes dollars a month of millionths of a dollar an hour.
func cents(perHour float64) float64 { return math.Round(perHour*hoursPerMonth/1e4) / 100 }
