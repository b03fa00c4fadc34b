package runs

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/tools/bench/internal/fleet"
)

const (
	tenant = "default"
	// creators bounds the creations under way.
	creators = 32
	// createRate is how many jobs a second are surely created, for choosing the
	// instant at which they are due.
	createRate = 1000
)

// create creates the jobs: at the rate, each due its lead later, or all as fast
// as can be, due at an instant (or minutely).
func (b *bench) create(ctx context.Context, at time.Time) error {
	o := &b.o
	total := o.Jobs + o.Urgent
	b.say("creating %d jobs", total)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	actor := jobcontrol.Actor{Tenant: tenant, Subject: "bench"}
	began, told := time.Now(), time.Now()
	var done atomic.Int64
	for i := range total {
		due := at
		if o.Rate > 0 {
			start := began.Add(time.Duration(float64(i) / o.Rate * float64(time.Second)))
			if err := fleet.Pause(ctx, time.Until(start)); err != nil {
				break // group tells why
			}
			due = start.Add(o.Lead).UTC().Truncate(time.Millisecond)
		}
		// Urgent ones are spread among the others.
		urgent := o.Urgent > 0 && (i+1)*o.Urgent/total > i*o.Urgent/total
		spec := b.spec(due, urgent)
		if i == 0 {
			if err := spec.Validate(time.Now()); err != nil {
				return fmt.Errorf("job: %w", err)
			}
		}
		group.Go(func() error {
			_, err := b.control.Create(ctx, actor, spec, nil)
			done.Add(1)
			return err
		})
		if time.Since(told) > 5*time.Second {
			told = time.Now()
			b.say("%d of %d created", done.Load(), total)
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	took := time.Since(began)
	b.say("created in %s, %.0f a second", took.Round(time.Millisecond), float64(total)/took.Seconds())
	return nil
}

// spec is what a job is to do.
func (b *bench) spec(due time.Time, urgent bool) job.Spec {
	o := &b.o
	s := job.Spec{
		Tenant: tenant, Schedule: job.Timing{At: due}, Payload: []byte(`"` + strings.Repeat("x", max(o.Payload-2, 0)) + `"`),
		Target: job.Target{Type: job.TargetHTTP, URL: b.target.Ready() + pathStandard},
	}
	switch {
	case o.Minutes > 0:
		s.Schedule = job.Timing{Cron: "* * * * *", Zone: "UTC"}
	case o.Cron:
		s.Schedule = job.Timing{Cron: fmt.Sprintf("%d %d * * *", due.Minute(), due.Hour()), Zone: "UTC"}
	}
	if urgent {
		s.Target.URL, s.Tolerance = b.target.Ready()+pathUrgent, new(time.Duration)
	} else if o.Tolerance > 0 {
		s.Tolerance = &o.Tolerance
	}
	return s.WithDefaults()
}
