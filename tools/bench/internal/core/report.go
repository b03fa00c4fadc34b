package core

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/flat"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
	"github.com/myosin-jobs/myosin/tools/bench/internal/meter"
)

// Class is a set of jobs whose lateness is told apart.
type Class string

// The classes. Those of [Short] are in no other.
const (
	All      Class = "all"
	Standard Class = "standard"
	Urgent   Class = "urgent"
	Short    Class = "short" // due within the look-ahead + 2 s of being accepted
)

// Classes lists them in the order they are shown.
func Classes() [4]Class { return [...]Class{All, Standard, Urgent, Short} }

// Figures sum up one distribution.
type Figures struct {
	Count              int64
	P50, P90, P99, Max time.Duration
}

// Report is what a run measured.
type Report struct {
	Host    host.Facts // set by the caller
	Options Options

	Submitting  time.Duration // from the first submission to the last answer
	Dispatching time.Duration // from the first due time until the last job was on its queue
	Took        time.Duration // from the first submission until all was delivered, and a second

	Submitted   int // accepted
	Refused     int // submissions that failed, or of unknown outcome
	Delivered   int // of those accepted
	Lost        int // accepted and not delivered
	Repeated    int // messages of a job beyond its first
	Early       int // on the queue before their time
	RowsLeft    int // rows in the table at the end
	Redelivered int // messages that the queue itself delivered again
	Strange     int // messages that are no job
	Unaccounted int // jobs that arrived without having been accepted
	Troubles    int // failed polls and deletes of the consumers
	Trouble     error

	SubmitTime Figures // of one submission, as its caller sees it
	// Received is the time from due until a long poll brought the job; Visible,
	// until it was on its queue, by the queue's SentTimestamp (whole milliseconds).
	Received, Visible map[Class]Figures

	// Used is what each component used, from the first submission until Took; the
	// schedulers together. Peak is the largest resident memory of one process, in
	// bytes, where the system tells.
	Used map[string]meter.Counts
	Peak map[string]int64

	EngineCPU time.Duration // of the engine's process; 0: not told
}

// Failure says what went wrong with the jobs; nil if each arrived once and not
// early, and left nothing behind.
func (r *Report) Failure() error {
	var errs []error
	bad := func(n int, what string) {
		if n > 0 {
			errs = append(errs, fmt.Errorf("%d %s", n, what))
		}
	}
	bad(r.Lost, "jobs lost")
	bad(r.Repeated, "duplicates")
	bad(r.Early, "jobs early")
	bad(r.Refused, "jobs refused at submission")
	bad(r.RowsLeft, "rows left in the table")
	bad(r.Strange, "messages that are no job")
	bad(r.Unaccounted, "jobs that nobody submitted")
	if r.Submitted == 0 {
		errs = append(errs, errors.New("nothing was submitted"))
	}
	if len(errs) > 0 && r.Trouble != nil {
		errs = append(errs, fmt.Errorf("the first error met: %w", r.Trouble))
	}
	return errors.Join(errs...)
}

// perJob divides by the jobs that were delivered.
func (r *Report) perJob(n float64) float64 { return n / max(float64(r.Delivered), 1) }

// ours is what the platform used, from submission to delivery: everything but
// the owning services' consumers.
func (r *Report) ours() (total meter.Counts) {
	for _, name := range components() {
		if used := r.Used[name]; name != compConsumer {
			total.Add(&used)
		}
	}
	return total
}

// requests sums those to a service, or with "" all.
func requests(c *meter.Counts, service string) (n float64) {
	for call, count := range c.Requests {
		if strings.HasPrefix(call, service) {
			n += float64(count)
		}
	}
	return n
}

func written(c *meter.Counts) (total meter.Cost) {
	for _, cost := range c.Writes {
		total = total.Plus(cost)
	}
	return total
}

// Flat is the report as flat snake_case keys.
func (r *Report) Flat() map[string]any {
	o := &r.Options
	m := map[string]any{
		"command": "core", "started": r.Host.When.Format(time.RFC3339), "platform": r.Host.Platform, "cpu_model": r.Host.CPU,
		"cores": r.Host.Cores, "load_average_before": r.Host.Load, "go_version": r.Host.Go,
		"kumo_version": host.Module("github.com/sivchari/kumo"), "git_revision": r.Host.Revision, "engine": r.Host.Engine,
		"jobs": o.Jobs, "rate": o.Rate, "wave": o.wave(), "services": o.Services, "partitions": o.Partitions,
		"schedulers": o.Schedulers, "linger_ms": flat.Millis(max(o.Linger, 0)),
		"lead_min_s": o.Lead.Min.Seconds(), "lead_max_s": o.Lead.Max.Seconds(), "payload_bytes": o.Payload, "batch": o.Batch,
		"urgent_share": o.Urgent, "short": o.Short, "look_ahead_s": o.LookAhead.Seconds(),

		"submitting_s": flat.Round(r.Submitting.Seconds()), "dispatching_s": flat.Round(r.Dispatching.Seconds()), "took_s": flat.Round(r.Took.Seconds()),
		"jobs_submitted": r.Submitted, "jobs_refused": r.Refused, "jobs_delivered": r.Delivered, "jobs_lost": r.Lost,
		"jobs_duplicated": r.Repeated, "jobs_early": r.Early, "jobs_unaccounted": r.Unaccounted, "rows_left": r.RowsLeft,
		"messages_redelivered": r.Redelivered, "messages_strange": r.Strange, "consumer_errors": r.Troubles,
		"jobs_submitted_per_s": flat.Round(r.achieved()), "jobs_per_s": flat.Round(float64(r.Delivered) / max(r.Dispatching.Seconds(), 1e-9)),
	}
	total := r.ours()
	m["sqs_requests_per_job"], m["dynamodb_requests_per_job"] = flat.Round(r.perJob(requests(&total, "SQS."))), flat.Round(r.perJob(requests(&total, "DynamoDB.")))
	r.addUsed(m, "", &total)
	for _, k := range meter.Kinds() {
		r.addCost(m, string(k)+"_", total.Writes[k])
	}
	for _, name := range components() {
		used := r.Used[name]
		r.addUsed(m, name+"_", &used)
		for call, n := range used.Requests {
			m["requests_"+name+"_"+flat.Call(call)] = n
		}
		if peak := r.Peak[name]; peak > 0 {
			m[name+"_peak_mib"] = flat.MiB(peak)
		}
		r.addCPU(m, name, used.CPU)
	}
	r.addCPU(m, "engine", r.EngineCPU)
	for _, c := range Classes() {
		name := ""
		if c != All {
			name = string(c) + "_"
		}
		addFigures(m, name+"lateness", r.Received[c])
		addFigures(m, name+"visible", r.Visible[c])
	}
	addFigures(m, "submit", r.SubmitTime)
	return m
}

// addUsed adds what processes asked of AWS.
func (r *Report) addUsed(m map[string]any, name string, c *meter.Counts) {
	m[name+"requests_per_job"] = flat.Round(r.perJob(requests(c, "")))
	m[name+"read_units_per_job"] = flat.Round(r.perJob(c.ReadUnits))
	r.addCost(m, name, written(c))
}

func (r *Report) addCost(m map[string]any, name string, c meter.Cost) {
	m[name+"write_statements_per_job"] = flat.Round(r.perJob(float64(c.Statements)))
	m[name+"write_units_per_job"] = flat.Round(r.perJob(c.Units))
	m[name+"write_conflicts"] = c.Conflicts
}

func (r *Report) addCPU(m map[string]any, name string, used time.Duration) {
	if used <= 0 {
		return // not told
	}
	m[name+"_cpu_s"], m[name+"_cpu_us_per_job"] = flat.Round(used.Seconds()), flat.Round(r.perJob(float64(used.Microseconds())))
	m[name+"_cores_used"] = flat.Round(used.Seconds() / max(r.Took.Seconds(), 1e-9))
}

func components() [4]string {
	return [...]string{compClient, compInbound, compScheduler, compConsumer}
}

// achieved is how many jobs a second were really submitted.
func (r *Report) achieved() float64 {
	return float64(r.Submitted) / max(r.Submitting.Seconds(), 1e-9)
}

func addFigures(m map[string]any, name string, f Figures) {
	m[name+"_count"] = f.Count
	if f.Count == 0 {
		return
	}
	m[name+"_p50_ms"], m[name+"_p90_ms"] = flat.Millis(f.P50), flat.Millis(f.P90)
	m[name+"_p99_ms"], m[name+"_max_ms"] = flat.Millis(f.P99), flat.Millis(f.Max)
}
