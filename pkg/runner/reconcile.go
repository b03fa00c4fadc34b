package runner

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/partition"
)

// page is how many entries of a shard one pass looks at.
const page = 100

func (r *Runner) reconcile(ctx context.Context) error {
	t := time.NewTicker(r.o.Every)
	defer t.Stop()
	for {
		if n, err := r.Reconcile(ctx); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "reconciling failed", "woken", n, "error", err)
		} else if n > 0 {
			r.log.InfoContext(ctx, "woke what should have come back", "runs", n)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// Reconcile looks once at this runner's shards of what should have woken by now,
// and wakes it again; it returns how many. Errors are joined; what failed is
// looked at again by the next pass.
func (r *Runner) Reconcile(ctx context.Context) (int, error) {
	view := r.o.Members.View()
	woken := 0
	var errs []error
	for _, shard := range partition.Owned(view.Self, view.Members, jobstore.Wakes, "wakes") {
		before := r.now().Add(-r.o.Late)
		due, err := r.o.Store.Due(ctx, shard, before, page)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, w := range due {
			did, err := r.wake(ctx, w, before)
			if err != nil {
				errs = append(errs, err)
			}
			if did {
				woken++
			}
		}
		r.m.shardLag.WithLabelValues(strconv.Itoa(shard)).Set(lag(due, r.now()))
	}
	return woken, errors.Join(errs...)
}

func lag(due []jobstore.Wake, now time.Time) float64 {
	if len(due) == 0 {
		return 0
	}
	return now.Sub(due[0].At).Seconds()
}

// wake looks at one entry; the index may be behind what lies in the table.
func (r *Runner) wake(ctx context.Context, w jobstore.Wake, before time.Time) (bool, error) {
	j, err := r.o.Store.Job(ctx, w.Job)
	if errors.Is(err, jobstore.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	now := r.now()
	// Each time, twice as long: a backlog is not made worse by waking it.
	again := func(since time.Time) time.Time { return now.Add(min(max(now.Sub(since), r.o.Late), time.Hour)) }
	if w.Run == "" {
		if j.Status != job.JobIsActive || j.Pending.IsZero() || j.Wake.IsZero() || j.Wake.After(before) {
			return false, nil
		}
		plan, err := r.plans.of(&j)
		if err != nil {
			return false, err
		}
		return r.woke("job", r.o.Control.Wake(ctx, &j, jobcontrol.NewRun(&j, j.Pending), again(plan.Due(j.Pending))))
	}
	run, err := r.o.Store.Run(ctx, w.Run)
	switch {
	case errors.Is(err, jobstore.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case run.Wake.IsZero() || run.Wake.After(before) || run.State.Terminal():
		return false, nil
	case run.State == job.Running && run.LeaseUntil.After(before):
		_, err := r.woke("", r.o.Control.Watch(ctx, run, run.LeaseUntil))
		return false, err // it lives
	}
	return r.woke("run", r.o.Control.Wake(ctx, &j, run, again(later(run.LeaseUntil, later(run.NotBefore, run.Nominal)))))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// woke counts a waking; one that lost to another change needs none.
func (r *Runner) woke(what string, err error) (bool, error) {
	if _, lost := errors.AsType[*jobstore.ConflictError](err); lost {
		return false, nil
	}
	if err == nil && what != "" {
		r.m.woken.WithLabelValues(what).Inc()
	}
	return err == nil, err
}
