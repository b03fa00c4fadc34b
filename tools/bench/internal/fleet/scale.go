package fleet

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/myosin-jobs/myosin/tools/bench/internal/flat"
	"github.com/myosin-jobs/myosin/tools/bench/internal/host"
)

// ScaleReport tells what further schedulers bring.
type ScaleReport struct {
	Host    host.Facts
	Options Options
	Runs    []*Report // of 1, 2, 4 … schedulers, each with as many jobs for each
}

// Scale measures 1, 2, 4 … schedulers over a backlog.
func Scale(ctx context.Context, h host.Facts, o Options) (*ScaleReport, error) {
	s := &ScaleReport{Host: h, Options: o}
	for n := 1; n <= o.Schedulers; n *= 2 {
		one := o
		one.Schedulers, one.Jobs = n, n*o.Jobs
		r, err := Run(ctx, one)
		if err != nil {
			return nil, err
		}
		s.Runs = append(s.Runs, r)
		if o.Progress != nil {
			_, _ = fmt.Fprintf(o.Progress, "bench: %d schedulers: %.0f jobs/s\n", n, rateOf(r))
		}
	}
	return s, nil
}

// rateOf is the steady rate, or that of the whole run where it was short.
func rateOf(r *Report) float64 {
	if r.Steady > 0 {
		return r.Steady
	}
	return float64(r.Scheduler.Stats.SQS.Sink.Messages) / math.Max(r.Scheduler.Took.Seconds(), 1e-9)
}

// Failure says what went wrong with the jobs.
func (s *ScaleReport) Failure() error {
	return failures(s.Runs, func(i int) string { return fmt.Sprintf("%d schedulers", s.Runs[i].Options.Schedulers) })
}

// Flat is the report as flat snake_case keys.
func (s *ScaleReport) Flat() map[string]any {
	m := headOf(&s.Host, &s.Options)
	for i, r := range s.Runs {
		p := &r.Scheduler
		name := fmt.Sprintf("schedulers_%d_", r.Options.Schedulers)
		m[name+"jobs_per_s"] = math.Round(rateOf(r))
		m[name+"cpu_us_per_job"] = flat.PerJob(float64(p.cpu().Microseconds()), p.Stats.SQS.Sink.Messages)
		seconds := math.Max(p.Watched.Seconds(), 1e-9)
		m[name+"cores_used"] = flat.Round(p.cpu().Seconds() / seconds)
		m[name+"peak_mib"] = flat.MiB(p.peak())
		m[name+"write_conflicts"] = p.Stats.DynamoDB.Conflicts
		if i > 0 {
			before := s.Runs[i-1]
			m[fmt.Sprintf("ratio_%d_to_%d", before.Options.Schedulers, r.Options.Schedulers)] = flat.Round(rateOf(r) / rateOf(before))
		}
	}
	return m
}

// WriteJSON writes the report as one flat object, its keys sorted.
func (s *ScaleReport) WriteJSON(w io.Writer) error { return flat.Write(w, s.Flat()) }

// WriteText writes the report for people.
func (s *ScaleReport) WriteText(w io.Writer) error {
	m, l := s.Flat(), newLines(w)
	l.head(&s.Host, &s.Options, m)
	for i, r := range s.Runs {
		n := r.Options.Schedulers
		name := fmt.Sprintf("schedulers_%d_", n)
		ratio := ""
		if i > 0 {
			ratio = fmt.Sprintf(", %v times as fast as %d", m[fmt.Sprintf("ratio_%d_to_%d", n/2, n)], n/2)
		}
		l.add(fmt.Sprintf("%d schedulers", n), "%v jobs/s%s; %v cores in use, %v µs a job, peak %v MiB, %v conflicts",
			m[name+"jobs_per_s"], ratio, m[name+"cores_used"], m[name+"cpu_us_per_job"], m[name+"peak_mib"], m[name+"write_conflicts"])
	}
	return l.flush()
}
