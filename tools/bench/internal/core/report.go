package core

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

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

	Submitting time.Duration // from the first submission to the last answer
	Took       time.Duration // from the first submission until the table was empty

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

	Requests map[meter.Call]int
	Writes   map[meter.Kind]meter.Cost

	CPU       time.Duration // of this process; 0: not told
	EngineCPU time.Duration // of the engine's; 0: not told
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

// requests sums the requests that a filter lets through.
func (r *Report) requests(of func(meter.Call) bool) float64 {
	n := 0
	for call, count := range r.Requests {
		if of(call) {
			n += count
		}
	}
	return float64(n)
}

// ours tells the platform's requests, submit to delivered, from those of the
// owning services' consumers.
func ours(c meter.Call) bool { return c.Component != compConsumer }

func (r *Report) written() (total meter.Cost) {
	for _, c := range r.Writes {
		total.Statements += c.Statements
		total.Conflicts += c.Conflicts
		total.Units += c.Units
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
		"rate": o.Rate, "duration_s": o.Duration.Seconds(), "services": o.Services, "partitions": o.Partitions,
		"lead_min_s": o.Lead.Min.Seconds(), "lead_max_s": o.Lead.Max.Seconds(), "payload_bytes": o.Payload, "batch": o.Batch,
		"urgent_share": o.Urgent, "short": o.Short, "look_ahead_s": o.LookAhead.Seconds(),

		"submitting_s": round(r.Submitting.Seconds()), "took_s": round(r.Took.Seconds()),
		"jobs_submitted": r.Submitted, "jobs_refused": r.Refused, "jobs_delivered": r.Delivered, "jobs_lost": r.Lost,
		"jobs_duplicated": r.Repeated, "jobs_early": r.Early, "jobs_unaccounted": r.Unaccounted, "rows_left": r.RowsLeft,
		"messages_redelivered": r.Redelivered, "messages_strange": r.Strange, "consumer_errors": r.Troubles,
		"jobs_submitted_per_s": round(r.achieved()),

		"requests_per_job":          round(r.perJob(r.requests(ours))),
		"sqs_requests_per_job":      round(r.perJob(r.requests(func(c meter.Call) bool { return ours(c) && c.Service == "SQS" }))),
		"dynamodb_requests_per_job": round(r.perJob(r.requests(func(c meter.Call) bool { return ours(c) && c.Service == "DynamoDB" }))),
	}
	for _, name := range components() {
		m[name+"_requests_per_job"] = round(r.perJob(r.requests(func(c meter.Call) bool { return c.Component == name })))
	}
	for call, n := range r.Requests {
		m["requests_"+call.Component+"_"+strings.ToLower(call.Service)+"_"+snake(call.Operation)] = n
	}
	total := r.written()
	costs := map[string]meter.Cost{"": total}
	for _, k := range meter.Kinds() {
		costs[string(k)+"_"] = r.Writes[k]
	}
	for name, c := range costs {
		m[name+"write_statements_per_job"] = round(r.perJob(float64(c.Statements)))
		m[name+"write_units_per_job"] = round(r.perJob(c.Units))
		m[name+"write_conflicts"] = c.Conflicts
	}
	for _, c := range Classes() {
		name := ""
		if c != All {
			name = string(c) + "_"
		}
		addFigures(m, name+"lateness", r.Received[c])
		addFigures(m, name+"visible", r.Visible[c])
	}
	addFigures(m, "submit", r.SubmitTime)
	for name, used := range map[string]time.Duration{"bench": r.CPU, "engine": r.EngineCPU} {
		if used > 0 {
			m[name+"_cpu_s"] = round(used.Seconds())
			m[name+"_cpu_us_per_job"] = round(r.perJob(float64(used.Microseconds())))
		}
	}
	return m
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
	m[name+"_p50_ms"], m[name+"_p90_ms"] = millis(f.P50), millis(f.P90)
	m[name+"_p99_ms"], m[name+"_max_ms"] = millis(f.P99), millis(f.Max)
}

func millis(d time.Duration) float64 { return round(float64(d.Microseconds()) / 1000) }

// round keeps three places: more would be noise.
func round(f float64) float64 { return math.Round(f*1000) / 1000 }

// snake turns ReceiveMessage into receive_message.
func snake(s string) string {
	var b strings.Builder
	for i, c := range s {
		if unicode.IsUpper(c) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
