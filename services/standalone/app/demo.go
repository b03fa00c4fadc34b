package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const (
	// demoSettle is how long the sample jobs have to be stored before one is
	// cancelled and one moved.
	demoSettle = time.Second
	// demoAfter is how long past its time a cancelled job is watched.
	demoAfter = 700 * time.Millisecond
	demoLimit = 45 * time.Second
)

// demoJob is one sample job.
type demoJob struct {
	name string
	in   time.Duration
	lane trigger.Lane
	how  string // shown when it is submitted
	job  client.Scheduled
}

// demo submits sample jobs, cancels one, moves one, and shows what becomes of
// them. It returns what went wrong, or nil when ctx ended.
func (s *process) demo(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, demoLimit)
	defer cancel()
	err := s.demoTriggers(limited)
	if err == nil && s.control != nil {
		err = s.demoRuns(limited)
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		s.show.printf("\nThe demo failed: %v\n", err)
		return fmt.Errorf("demo: %w", err)
	}
	if !s.o.ExitAfterDemo {
		s.next()
	}
	return nil
}

func (s *process) demoTriggers(ctx context.Context) error {
	run := trigger.NewID().String()
	list := []*demoJob{
		{name: "now", how: "due at once"},
		{name: "in-2s", in: 2 * time.Second, how: "due in 2 s"},
		{name: "urgent", in: 3 * time.Second, lane: trigger.Urgent, how: "due in 3 s, urgent lane"},
		{name: "cancelled", in: 4 * time.Second, how: "due in 4 s"},
		{name: "moved", in: time.Minute, how: "due in 60 s"},
		{name: "in-5s", in: 5 * time.Second, how: "due in 5 s"},
	}
	s.show.printf("Demo: six jobs for the queue of the service %q.\n", Sample)
	s.show.begin()
	began := time.Now()
	for _, d := range list {
		var err error
		d.job, err = s.jobs.Schedule(ctx, Sample, map[string]string{"greeting": "hello, " + d.name},
			client.In(d.in), client.Lane(d.lane), client.Name(d.name), client.Header(demoHeader, run))
		if err != nil {
			return fmt.Errorf("submit %s: %w", d.name, err)
		}
		s.show.event("submitted", d.name, d.how)
	}
	doomed, moved := list[3], list[4]
	if err := wait(ctx, time.Until(began.Add(demoSettle))); err != nil {
		return err
	}
	res, err := s.jobs.Cancel(ctx, doomed.job.Handle)
	if err != nil {
		return err
	}
	s.show.event("cancel", doomed.name, strings.ReplaceAll(string(res.Outcome), "_", " ")+": it will not arrive")
	if res.Outcome != client.OutcomeCancelled {
		return fmt.Errorf("cancel of %s: %s", doomed.name, res.Outcome)
	}
	if moved.job, err = s.reschedule(ctx, moved.job.Handle, s.p.Clock.Now().Add(3*time.Second)); err != nil {
		return err
	}
	s.show.event("rescheduled", moved.name, "from in 60 s to in 3 s")
	return s.watch(ctx, list, doomed)
}

// reschedule tries again while the job is not stored yet.
func (s *process) reschedule(ctx context.Context, handle string, due time.Time) (client.Scheduled, error) {
	for {
		job, err := s.jobs.Reschedule(ctx, handle, due)
		if !errors.Is(err, client.ErrNotStored) {
			return job, err
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return job, errors.Join(client.ErrNotStored, err)
		}
	}
}

// watch waits for the deliveries and for the time of the cancelled job.
func (s *process) watch(ctx context.Context, list []*demoJob, doomed *demoJob) error {
	missing := make(map[trigger.ID]string, len(list))
	for _, d := range list {
		if d != doomed {
			missing[d.job.ID] = d.name
		}
	}
	total := len(missing)
	least, most := time.Duration(1<<62), time.Duration(0)
	over := time.NewTimer(time.Until(doomed.job.Due.Add(demoAfter)))
	defer over.Stop()
	watching := over.C
	for len(missing) > 0 || watching != nil {
		select {
		case got := <-s.sample.arrived:
			switch _, expected := missing[got.id]; {
			case got.id == doomed.job.ID:
				return errors.New("the cancelled job was delivered")
			case !expected:
				continue // of an earlier start, with a data directory
			case got.late < 0:
				return fmt.Errorf("%s was delivered early", got.name)
			}
			delete(missing, got.id)
			least, most = min(least, got.late), max(most, got.late)
		case <-watching:
			watching = nil
		case <-ctx.Done():
			if len(missing) > 0 {
				return fmt.Errorf("%d of %d jobs were not delivered: %w", len(missing), total, ctx.Err())
			}
			return ctx.Err()
		}
	}
	s.show.printf("\nDone: %d delivered, %d to %d ms late; 1 cancelled, and it did not arrive.\n", total, least.Milliseconds(), most.Milliseconds())
	return nil
}

// next tells a newcomer where to go from here.
func (s *process) next() {
	s.show.printf(`
Try this next, in another terminal:
  curl -s http://%s/v1/triggers -H 'Content-Type: application/json' \
    -d '{"service":"%s","delay":"5s","payload":{"n":1}}'
`, s.o.APIAddr, Sample)
	if s.control != nil {
		s.show.printf(`  curl -s http://%s/v1/jobs -H 'Content-Type: application/json' \
    -d '{"schedule":{"type":"cron","expr":"* * * * *"},"target":{"type":"http","url":"%s"},"payload":{"n":1}}'
  go run ./tools/myosin jobs list
`, s.o.APIAddr, s.target.url(endpointPath))
	}
	if s.engine != nil {
		s.show.printf("  export AWS_ENDPOINT_URL=%s AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any\n", s.engine.URL())
	}
	s.show.printf(`  go run ./tools/myosin schedule --service %s --in 5s --payload '{"n":1}'
  go run ./tools/myosin --help

What arrives for %q, and at the sample target, is shown here.
`, Sample, Sample)
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
