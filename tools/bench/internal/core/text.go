package core

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/flat"
	"github.com/myosin-jobs/myosin/tools/bench/internal/meter"
)

// WriteJSON writes the report as one flat object, its keys sorted.
func (r *Report) WriteJSON(w io.Writer) error { return flat.Write(w, r.Flat()) }

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	r.header(&b)
	fmt.Fprintf(&b, "\njobs: %d accepted (%.1f/s), %d refused, %d delivered (%.1f/s), %d lost, %d duplicated, %d early; %d rows left in the table\n",
		r.Submitted, r.achieved(), r.Refused, r.Delivered, float64(r.Delivered)/max(r.Dispatching.Seconds(), 1e-9), r.Lost, r.Repeated, r.Early, r.RowsLeft)
	if r.Redelivered+r.Strange+r.Unaccounted+r.Troubles > 0 {
		fmt.Fprintf(&b, "      %d delivered again by the queue, %d unknown messages, %d jobs unaccounted for, %d consumer errors\n",
			r.Redelivered, r.Strange, r.Unaccounted, r.Troubles)
	}
	r.latenesses(&b)
	r.costs(&b)
	r.calls(&b)
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
		rate := fmt.Sprintf("%g a second, due %s ahead%s", o.Rate, o.Lead, ahead)
		if o.wave() {
			rate = "all due in one second"
		}
		line("load", fmt.Sprintf("%d jobs, %s", o.Jobs, rate))
		line("", fmt.Sprintf("to %d services, %d in a submission, %.0f %% urgent, %d B of random text", o.Services, o.Batch, 100*o.Urgent, o.Payload))
		line("shape", fmt.Sprintf("%d partitions a lane, look-ahead %s, linger %s", o.Partitions, o.LookAhead, max(o.Linger, 0)))
		line("processes", fmt.Sprintf("client, consumers, inbound, %d of scheduler; figures are of all of a kind", o.Schedulers))
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
	fmt.Fprintf(b, "\nper job, counted at the SDK clients from the first submission until all was delivered (%s), idle polls and passes included\n",
		r.Took.Round(100*time.Millisecond))
	rows(b, func(line func(...any)) {
		line("", "requests", "write statements", "write units", "conflicts in all", "read units", "CPU µs", "cores in use", "peak MiB")
		row := func(name string, c *meter.Counts, peak int64) {
			w := written(c)
			line(name, r.three(requests(c, "")), r.three(float64(w.Statements)), r.three(w.Units), w.Conflicts, r.three(c.ReadUnits),
				fmt.Sprintf("%.0f", r.perJob(float64(c.CPU.Microseconds()))), fmt.Sprintf("%.3f", c.CPU.Seconds()/max(r.Took.Seconds(), 1e-9)), mib(peak))
		}
		total := r.ours()
		for _, name := range components() {
			if used := r.Used[name]; name != compConsumer {
				row("  "+name, &used, r.Peak[name])
			}
		}
		row("  submit to delivered", &total, 0)
		used := r.Used[compConsumer]
		row("  consumers", &used, r.Peak[compConsumer])
		if r.EngineCPU > 0 {
			row("  engine", &meter.Counts{CPU: r.EngineCPU}, 0)
		}
	})
	total := r.ours()
	fmt.Fprintf(b, "\nconditional writes per job (units: 1 a started KB of the row; engines need not report any)\n")
	rows(b, func(line func(...any)) {
		line("", "statements", "units", "conflicts in all")
		for _, k := range meter.Kinds() {
			if c := total.Writes[k]; c.Statements > 0 {
				line("  "+string(k), r.three(float64(c.Statements)), r.three(c.Units), c.Conflicts)
			}
		}
	})
}

func (r *Report) calls(b *strings.Builder) {
	fmt.Fprintf(b, "\nrequests per job\n")
	names := components()
	calls := make(map[string]bool)
	for _, used := range r.Used {
		for call := range used.Requests {
			calls[call] = true
		}
	}
	rows(b, func(line func(...any)) {
		head := []any{""}
		for _, name := range names {
			head = append(head, name)
		}
		line(head...)
		row := func(title string, of func(*meter.Counts) float64) {
			cells := []any{title}
			for _, name := range names {
				used := r.Used[name]
				if n := of(&used); n > 0 {
					cells = append(cells, r.three(n))
				} else {
					cells = append(cells, "-")
				}
			}
			line(cells...)
		}
		for _, call := range slices.Sorted(maps.Keys(calls)) {
			row("  "+strings.Replace(call, ".", " ", 1), func(c *meter.Counts) float64 { return float64(c.Requests[call]) })
		}
		for _, service := range []string{"DynamoDB", "SQS"} {
			row("  "+service, func(c *meter.Counts) float64 { return requests(c, service+".") })
		}
		row("  total", func(c *meter.Counts) float64 { return requests(c, "") })
	})
	if used := r.Used[compScheduler]; used.Requests["DynamoDB.UpdateItem"] > 0 {
		fmt.Fprintf(b, "  the engine knows no PartiQL, so every write is a request of its own; DynamoDB takes up to 25 in one\n")
	}
}

// three is an amount per job, to three places.
func (r *Report) three(n float64) string { return fmt.Sprintf("%.3f", r.perJob(n)) }

func mib(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", float64(bytes)/(1<<20))
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
