package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/tools/bench/internal/child"
	"github.com/myosin-jobs/myosin/tools/bench/internal/endpoint"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null"
)

const (
	look = 100 * time.Millisecond
	// settle is how long processes get to start and to read what is due soon.
	settle = 6 * time.Second
	// drainRate is how fast submissions are surely drained, for choosing the first due time.
	drainRate = 500
)

// fleet is one run.
type fleet struct {
	o        Options
	endpoint *child.Process
	url      string
	p        *platform.Platform
	services []string
	triggers string // the table
}

// Run measures. The error is of a run that could not be made; what became of the
// jobs stands in the report.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Command == "" {
		o.Command = "null"
	}
	f := &fleet{o: o}
	if err := f.open(ctx); err != nil {
		return nil, fmt.Errorf("bench %s: %w", o.Command, err)
	}
	defer func() { err = errors.Join(err, f.endpoint.Stop()) }()
	r = &Report{Options: o}
	if err := f.run(ctx, r); err != nil {
		return nil, fmt.Errorf("bench %s: %w", o.Command, err)
	}
	r.Endpoint, err = account(f.endpoint)
	return r, err
}

// open starts the endpoint and makes the installation on it.
func (f *fleet) open(ctx context.Context) error {
	args := []string{
		"--limits", f.o.Limits,
		"--latency-dynamodb", f.o.LatencyDynamoDB.String(), "--latency-sqs", f.o.LatencySQS.String(), "--even=" + strconv.FormatBool(f.o.Even),
	}
	if f.o.TableWrites > 0 {
		args = append(args, "--table-writes", number(f.o.TableWrites))
	}
	e, err := endpoint.Start(ctx, args...)
	if err != nil {
		return err
	}
	f.endpoint, f.url = e, e.Ready()
	if f.p, err = platform.Open(ctx, platform.Options{Endpoint: f.url}); err != nil {
		return errors.Join(err, e.Stop())
	}
	f.triggers = f.p.Names.Triggers()
	if err := f.install(ctx); err != nil {
		return errors.Join(err, e.Stop())
	}
	return nil
}

func (f *fleet) install(ctx context.Context) error {
	if _, err := f.p.Ensure(ctx, f.o.Partitions); err != nil {
		return err
	}
	for i := range f.o.Services {
		name := fmt.Sprintf("s%d", i) // as the endpoint names those it fills in
		if _, err := f.p.EnsureService(ctx, registry.Service{Name: name}, f.o.Urgent > 0); err != nil {
			return err
		}
		f.services = append(f.services, name)
	}
	_, err := f.p.Services.Refresh(ctx)
	return err
}

func (f *fleet) run(ctx context.Context, r *Report) error {
	o := &f.o
	if o.Rows > 0 {
		year := time.Now().AddDate(1, 0, 0)
		if err := f.fill(ctx, o.Rows, "standard", year, year.Add(24*time.Hour)); err != nil {
			return err
		}
	}
	if o.Idle > 0 {
		return f.idle(ctx, r)
	}
	var first time.Time
	switch {
	case o.Submit:
		first = time.Now().Add(time.Duration(float64(o.Jobs)/drainRate*float64(time.Second)) + 2*settle)
		if err := f.submit(ctx, r, first); err != nil {
			return err
		}
		if late := time.Until(first) < settle; late {
			return errors.New("the machine is too slow: jobs fell due before all were stored; give fewer --jobs")
		}
	default:
		first = time.Now().Add(2*settle + time.Duration(o.Jobs/500)*time.Millisecond).Add(-o.Overdue)
		if err := f.fill(ctx, o.Jobs, "standard", first, first.Add(o.span())); err != nil {
			return err
		}
		if err := f.fill(ctx, o.Urgent, "urgent", first, first.Add(o.span())); err != nil {
			return err
		}
	}
	return f.dispatch(ctx, r, first)
}

// fill lays rows into the table.
func (f *fleet) fill(ctx context.Context, rows int, lane string, from, to time.Time) error {
	if rows == 0 {
		return nil
	}
	q := url.Values{
		"table": {f.triggers}, "rows": {strconv.Itoa(rows)}, "partitions": {strconv.Itoa(f.o.Partitions)}, "lane": {lane},
		"services": {strconv.Itoa(f.o.Services)}, "payload": {strconv.Itoa(f.o.Payload)}, "seed": {strconv.Itoa(rand.IntN(1 << 30))}, //nolint:gosec // a load.
		"from": {from.UTC().Format(time.RFC3339Nano)}, "to": {to.UTC().Format(time.RFC3339Nano)},
	}
	return f.ask(ctx, http.MethodPost, "/_fill?"+q.Encode(), nil)
}

// submit sends the jobs through an inbound process and measures it.
func (f *fleet) submit(ctx context.Context, r *Report, first time.Time) error {
	p, err := f.inbound(ctx)
	if err != nil {
		return err
	}
	jobs, err := f.p.Client(ctx)
	if err != nil {
		return errors.Join(err, p.Stop())
	}
	if err := Pause(ctx, time.Second); err != nil {
		return errors.Join(err, p.Stop())
	}
	began := time.Now()
	if err := f.ask(ctx, http.MethodPost, "/_reset?keep=data", nil); err != nil {
		return errors.Join(err, p.Stop())
	}
	before, err := account(p)
	if err != nil {
		return errors.Join(err, p.Stop())
	}
	payload := strings.Repeat("x", f.o.Payload)
	var sending errgroup.Group
	sending.SetLimit(4)
	const batch = 100
	for at := 0; at < f.o.Jobs && ctx.Err() == nil; at += batch {
		sending.Go(func() error {
			var requests []client.Request
			for i := at; i < min(at+batch, f.o.Jobs); i++ {
				due := first.Add(time.Duration(float64(i) / f.o.Rate * float64(time.Second)))
				requests = append(requests, client.Request{Service: f.services[i%len(f.services)], Payload: payload, Options: []client.Option{client.At(due)}})
			}
			for _, res := range jobs.ScheduleBatch(ctx, requests) {
				if res.Err != nil {
					return res.Err
				}
			}
			return nil
		})
	}
	if err := errors.Join(sending.Wait(), ctx.Err()); err != nil {
		return errors.Join(err, p.Stop())
	}
	stats, err := f.until(ctx, time.Now().Add(f.o.Patience), func(s *null.Stats) bool { return s.DynamoDB.Rows[f.triggers] >= f.o.Jobs })
	if err != nil {
		return errors.Join(err, p.Stop())
	}
	used, err := since(before, p)
	r.Inbound = Phase{Processes: used, Took: time.Since(began), Watched: time.Since(began), Stats: stats}
	return errors.Join(err, p.Stop())
}

// dispatch starts the schedulers and measures them until all is delivered.
func (f *fleet) dispatch(ctx context.Context, r *Report, first time.Time) error {
	ps, err := f.schedulers(ctx)
	if err != nil {
		return err
	}
	defer func() {
		for _, p := range ps {
			_ = p.Stop() // measured already
		}
	}()
	if f.o.Overdue == 0 {
		fmt.Fprintf(f.o.Progress, "bench: the first job is due in %s\n", time.Until(first).Round(time.Millisecond))
		if err := Pause(ctx, time.Until(first)-500*time.Millisecond); err != nil {
			return err
		}
	}
	if err := f.ask(ctx, http.MethodPost, "/_reset?keep=data", nil); err != nil {
		return err
	}
	before, err := account(ps...)
	if err != nil {
		return err
	}
	watched := time.Now()
	began := watched
	if began.Before(first) {
		began = first
	}
	total := int64(f.o.Jobs + f.o.Urgent)
	last := began.Add(f.o.span())
	var steady steady
	stats, err := f.until(ctx, last.Add(f.o.Patience), func(s *null.Stats) bool {
		steady.see(time.Now(), s.SQS.Sink.Messages, total)
		return s.SQS.Sink.Messages >= total && s.DynamoDB.Rows[f.triggers] <= 1+f.o.Rows // the settings row
	})
	if err != nil {
		return err
	}
	used, err := since(before, ps...)
	lastAt := int64(0)
	for _, l := range stats.SQS.Sink.Lanes {
		lastAt = max(lastAt, l.LastMs)
	}
	r.Steady = steady.rate()
	r.Scheduler = Phase{Processes: used, Took: time.UnixMilli(lastAt).Sub(began), Watched: time.Since(watched), Stats: stats}
	return err
}

// idle watches inbound and the schedulers with nothing due.
func (f *fleet) idle(ctx context.Context, r *Report) error {
	ps, err := f.schedulers(ctx)
	if err != nil {
		return err
	}
	defer func() {
		for _, p := range ps {
			_ = p.Stop()
		}
	}()
	in, err := f.inbound(ctx)
	if err != nil {
		return err
	}
	ps = append(ps, in)
	if err := Pause(ctx, settle); err != nil {
		return err
	}
	if err := f.ask(ctx, http.MethodPost, "/_reset?keep=data", nil); err != nil {
		return err
	}
	before, err := account(ps...)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := Pause(ctx, f.o.Idle); err != nil {
		return err
	}
	used, err := since(before, ps...)
	if err != nil {
		return err
	}
	r.Scheduler = Phase{Processes: used[:len(used)-1], Took: time.Since(began), Watched: time.Since(began)}
	r.Inbound = Phase{Processes: used[len(used)-1:]}
	return f.ask(ctx, http.MethodGet, "/_stats", &r.Scheduler.Stats)
}

func (f *fleet) inbound(ctx context.Context) (*child.Process, error) {
	return Start(ctx, "inbound", f.profile(".inbound"), "inbound", "--endpoint", f.url, "--addr", "127.0.0.1:0", "--log-level", "warn")
}

func (f *fleet) schedulers(ctx context.Context) (ps []*child.Process, err error) {
	for i := range f.o.Schedulers {
		profile := ""
		if i == 0 {
			profile = f.profile("")
		}
		p, err := Start(ctx, fmt.Sprintf("scheduler %d", i), profile, "scheduler", "--endpoint", f.url, "--addr", "127.0.0.1:0", "--log-level", "warn",
			"--member-index", strconv.Itoa(i), "--member-count", strconv.Itoa(f.o.Schedulers), "--send-linger", f.o.Linger.String(),
			"--standard-writes", number(f.o.StandardWrites/float64(f.o.Schedulers)))
		if err != nil {
			for _, p := range ps {
				err = errors.Join(err, p.Stop())
			}
			return nil, err
		}
		ps = append(ps, p)
	}
	return ps, nil
}

// profile names the file of a process's CPU profile.
func (f *fleet) profile(suffix string) string {
	if f.o.Profile == "" {
		return ""
	}
	return f.o.Profile + suffix
}

// until polls the endpoint's counts until done, or the deadline, which is no error.
func (f *fleet) until(ctx context.Context, deadline time.Time, done func(*null.Stats) bool) (s null.Stats, err error) {
	told := time.Now()
	for {
		s = null.Stats{}
		if err := f.ask(ctx, http.MethodGet, "/_stats", &s); err != nil {
			return s, err
		}
		if done(&s) || time.Now().After(deadline) {
			return s, nil
		}
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			urgent := s.SQS.Sink.Lanes["urgent"].Messages
			fmt.Fprintf(f.o.Progress, "bench: %d delivered (%d urgent), %d rows\n", s.SQS.Sink.Messages, urgent, s.DynamoDB.Rows[f.triggers])
		}
		if err := Pause(ctx, look); err != nil {
			return s, err
		}
	}
}

// ask asks the endpoint's own interface.
func (f *fleet) ask(ctx context.Context, method, path string, into any) error {
	return endpoint.Ask(ctx, method, f.url+path, into)
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// Pause waits, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
