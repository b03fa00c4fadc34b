package fleet

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/myosin-jobs/myosin/tools/bench/internal/flat"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
)

// tick is the time of which costs are told: that between two passes over a
// partition where something is due.
const tick = 500 * time.Millisecond

// TableReport tells what a tick costs with ever more rows stored.
type TableReport struct {
	Host    host.Facts
	Options Options
	Sizes   []int
	Runs    []*Report // the sizes in turn, as many times as there are rounds
}

// Table measures a thousandth of the rows, a tenth, and all, in turn, each over
// an endpoint of its own and with the same load.
func Table(ctx context.Context, h host.Facts, o Options) (*TableReport, error) {
	t := &TableReport{Host: h, Options: o, Sizes: []int{max(1, o.Rows/1000), max(1, o.Rows/10), max(1, o.Rows)}}
	for range o.Rounds {
		for _, rows := range t.Sizes {
			one := o
			one.Rows = rows
			r, err := Run(ctx, one)
			if err != nil {
				return nil, err
			}
			t.Runs = append(t.Runs, r)
			if o.Progress != nil {
				_, _ = fmt.Fprintf(o.Progress, "bench: %d rows: %+v\n", rows, costOf(t.Runs[len(t.Runs)-1:]))
			}
		}
	}
	return t, nil
}

// tickCost is what schedulers cost in a tick, all partitions together, and how long the
// endpoint took to answer one Query.
type tickCost struct{ CPUUs, ReadUnits, Requests, QueryUs float64 }

func costOf(runs []*Report) (c tickCost) {
	var ticks, queries, queryUs float64
	for _, r := range runs {
		s := &r.Scheduler
		ticks += s.Watched.Seconds() / tick.Seconds()
		c.CPUUs += float64(s.cpu().Microseconds())
		c.ReadUnits += s.Stats.DynamoDB.ReadUnits
		c.Requests += float64(s.Stats.Requests)
		q := s.Stats.Operations["DynamoDB.Query"]
		queries, queryUs = queries+float64(q.Requests), queryUs+q.AnswerUs
	}
	ticks = math.Max(ticks, 1e-9)
	return tickCost{c.CPUUs / ticks, c.ReadUnits / ticks, c.Requests / ticks, queryUs / math.Max(queries, 1)}
}

func (t *TableReport) of(size int) (runs []*Report) {
	for i := size; i < len(t.Runs); i += len(t.Sizes) {
		runs = append(runs, t.Runs[i])
	}
	return runs
}

// Failure says what went wrong with the jobs.
func (t *TableReport) Failure() error {
	return failures(t.Runs, func(i int) string { return fmt.Sprintf("%d rows stored", t.Runs[i].Options.Rows) })
}

// Flat is the report as flat snake_case keys; what is told of a tick is of all partitions.
func (t *TableReport) Flat() map[string]any {
	m := headOf(&t.Host, &t.Options)
	m["tick_ms"], m["rounds"] = tick.Milliseconds(), t.Options.Rounds
	smallest := costOf(t.of(0))
	most := 0.0
	for i, rows := range t.Sizes {
		c := costOf(t.of(i))
		name := fmt.Sprintf("rows_%d_", rows)
		m[name+"cpu_us_per_tick"], m[name+"read_units_per_tick"], m[name+"requests_per_tick"] = flat.Round(c.CPUUs), flat.Round(c.ReadUnits), flat.Round(c.Requests)
		m[name+"endpoint_us_per_query"] = flat.Round(c.QueryUs)
		var peak int64
		for _, r := range t.of(i) {
			peak = max(peak, r.Endpoint[0].Peak)
		}
		m[name+"endpoint_peak_mib"] = flat.MiB(peak)
		if i == 0 {
			continue
		}
		ratio := func(of, to float64) float64 { return flat.Round(of / math.Max(to, 1e-9)) }
		cpu, reads, requests := ratio(c.CPUUs, smallest.CPUUs), ratio(c.ReadUnits, smallest.ReadUnits), ratio(c.Requests, smallest.Requests)
		m[name+"cpu_ratio"], m[name+"read_units_ratio"], m[name+"requests_ratio"] = cpu, reads, requests
		m[name+"endpoint_query_ratio"] = ratio(c.QueryUs, smallest.QueryUs)
		most = max(most, cpu, reads, requests)
	}
	m["tick_cost_ratio_max"] = most
	return m
}

// WriteJSON writes the report as one flat object, its keys sorted.
func (t *TableReport) WriteJSON(w io.Writer) error { return flat.Write(w, t.Flat()) }

// WriteText writes the report for people.
func (t *TableReport) WriteText(w io.Writer) error {
	m, l := t.Flat(), newLines(w)
	l.head(&t.Host, &t.Options, m)
	for i, rows := range t.Sizes {
		name := fmt.Sprintf("rows_%d_", rows)
		ratios := ""
		if i > 0 {
			ratios = fmt.Sprintf("; to the smallest: CPU %v, read units %v, requests %v, a query's answer %v",
				m[name+"cpu_ratio"], m[name+"read_units_ratio"], m[name+"requests_ratio"], m[name+"endpoint_query_ratio"])
		}
		l.add(fmt.Sprintf("%d rows", rows), "a tick of %s: %v µs of CPU, %v read units, %v requests; the endpoint answers a query in %v µs%s",
			tick, m[name+"cpu_us_per_tick"], m[name+"read_units_per_tick"], m[name+"requests_per_tick"], m[name+"endpoint_us_per_query"], ratios)
	}
	return l.flush()
}
