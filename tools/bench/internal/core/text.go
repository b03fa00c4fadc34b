package core

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/meter"
)

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
	var b strings.Builder
	r.header(&b)
	fmt.Fprintf(&b, "\njobs: %d accepted (%.1f/s), %d refused, %d delivered, %d lost, %d duplicated, %d early; %d rows left in the table\n",
		r.Submitted, r.achieved(), r.Refused, r.Delivered, r.Lost, r.Repeated, r.Early, r.RowsLeft)
	if r.Redelivered+r.Strange+r.Unaccounted+r.Troubles > 0 {
		fmt.Fprintf(&b, "      %d delivered again by the queue, %d unknown messages, %d jobs unaccounted for, %d consumer errors\n",
			r.Redelivered, r.Strange, r.Unaccounted, r.Troubles)
	}
	r.latenesses(&b)
	r.costs(&b)
	r.calls(&b)
	r.processors(&b)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func (r *Report) header(b *strings.Builder) {
	o, h := &r.Options, &r.Host
	ahead := ""
	if o.Short {
		ahead = fmt.Sprintf(", every fifth within %s", o.needs())
	}
	rows(b, func(line func(...any)) {
		line("bench core", h.When.Format(time.RFC3339))
		line("machine", fmt.Sprintf("%s, %d cores, %s, load average %s before", h.CPU, h.Cores, h.Platform, h.Load))
		line("built", fmt.Sprintf("%s, revision %s", h.Go, h.Revision))
		line("engine", h.Engine)
		line("load", fmt.Sprintf("%g jobs/s for %s to %d services, %d in a submission, %.0f %% urgent, %d B of random text",
			o.Rate, o.Duration, o.Services, o.Batch, 100*o.Urgent, o.Payload))
		line("", fmt.Sprintf("due %s ahead%s; %d partitions a lane, look-ahead %s", o.Lead, ahead, o.Partitions, o.LookAhead))
		line("process", "client, inbound, scheduler and consumers in one, each with its own SDK configuration")
	})
}

func (r *Report) latenesses(b *strings.Builder) {
	fmt.Fprintf(b, "\nlateness, ms, from due until a long poll brought the job, and until it was on its queue (SentTimestamp)\n")
	rows(b, func(line func(...any)) {
		line("", "jobs", "p50", "p90", "p99", "max", "", "on queue p50", "p90", "p99", "max")
		for _, c := range Classes() {
			f, v := r.Received[c], r.Visible[c]
			if f.Count == 0 {
				continue
			}
			name := "  " + string(c)
			if c == Short {
				name += " (due < " + r.Options.needs().String() + " ahead; in no other line)"
			}
			line(name, f.Count, ms(f.P50), ms(f.P90), ms(f.P99), ms(f.Max), "", ms(v.P50), ms(v.P90), ms(v.P99), ms(v.Max))
		}
		f := r.SubmitTime
		line("  submission", f.Count, ms(f.P50), ms(f.P90), ms(f.P99), ms(f.Max))
	})
}

func (r *Report) costs(b *strings.Builder) {
	fmt.Fprintf(b, "\nconditional writes per job, counted at the SDK client (units: 1 a started KB of the row; kumo reports none itself)\n")
	rows(b, func(line func(...any)) {
		line("", "statements", "units", "conflicts in all")
		row := func(name string, c meter.Cost) {
			line(name, fmt.Sprintf("%.3f", r.perJob(float64(c.Statements))), fmt.Sprintf("%.3f", r.perJob(c.Units)), c.Conflicts)
		}
		for _, k := range meter.Kinds() {
			if c := r.Writes[k]; c.Statements > 0 {
				row("  "+string(k), c)
			}
		}
		row("  total", r.written())
	})
}

func (r *Report) calls(b *strings.Builder) {
	fmt.Fprintf(b, "\nrequests per job: HTTP attempts from the first submission until the table was empty (%s), idle polls and passes included\n",
		r.Took.Round(100*time.Millisecond))
	names := components()
	type op struct{ service, operation string }
	ops := make(map[op]map[string]int)
	for call, n := range r.Requests {
		at := op{call.Service, call.Operation}
		if ops[at] == nil {
			ops[at] = make(map[string]int)
		}
		ops[at][call.Component] += n
	}
	rows(b, func(line func(...any)) {
		head := []any{""}
		for _, name := range names[:3] {
			head = append(head, name)
		}
		line(append(head, "sum", "", compConsumer)...)
		row := func(title string, of func(meter.Call) bool) {
			cells := []any{title}
			cell := func(also func(meter.Call) bool) string {
				n := r.requests(func(c meter.Call) bool { return of(c) && also(c) })
				if n == 0 {
					return "-"
				}
				return fmt.Sprintf("%.3f", r.perJob(n))
			}
			for _, name := range names[:3] {
				cells = append(cells, cell(func(c meter.Call) bool { return c.Component == name }))
			}
			line(append(cells, cell(ours), "", cell(func(c meter.Call) bool { return !ours(c) }))...)
		}
		for _, at := range slices.SortedFunc(maps.Keys(ops), func(x, y op) int {
			return cmp.Or(cmp.Compare(y.service, x.service), cmp.Compare(x.operation, y.operation))
		}) {
			row("  "+at.service+" "+at.operation, func(c meter.Call) bool { return c.Service == at.service && c.Operation == at.operation })
		}
		row("  SQS", func(c meter.Call) bool { return c.Service == "SQS" })
		row("  DynamoDB", func(c meter.Call) bool { return c.Service == "DynamoDB" })
		row("  total", func(meter.Call) bool { return true })
	})
	if r.Requests[meter.Call{Component: compScheduler, Service: "DynamoDB", Operation: "UpdateItem"}] > 0 {
		fmt.Fprintf(b, "  the engine knows no PartiQL, so every write is a request of its own; DynamoDB takes up to 25 in one\n")
	}
}

func (r *Report) processors(b *strings.Builder) {
	fmt.Fprintf(b, "\nprocessor time (getrusage, user and system)\n")
	rows(b, func(line func(...any)) {
		line("", "seconds", "µs a job", "% of a core")
		row := func(name string, used time.Duration) {
			if used > 0 {
				line(name, fmt.Sprintf("%.2f", used.Seconds()), fmt.Sprintf("%.0f", r.perJob(float64(used.Microseconds()))),
					fmt.Sprintf("%.1f", 100*used.Seconds()/max(r.Took.Seconds(), 1e-9)))
			}
		}
		row("  bench: client, inbound, scheduler, consumers", r.CPU)
		row("  engine", r.EngineCPU)
	})
}

// rows lays lines out in columns, cells to the right of their column.
func rows(b *strings.Builder, fill func(line func(...any))) {
	tw := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fill(func(cells ...any) {
		for i, c := range cells {
			if i > 0 {
				fmt.Fprint(tw, "\t")
			}
			fmt.Fprint(tw, c)
		}
		fmt.Fprintln(tw)
	})
	_ = tw.Flush() // into memory
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }
