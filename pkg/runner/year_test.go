package runner_test

import (
	"container/heap"
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/cron"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/jobstore/memjobs"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/runner"
	"github.com/myosin-jobs/myosin/pkg/runner/protect"
	"github.com/myosin-jobs/myosin/pkg/runner/protect/memshared"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

// calendar hands a runner the triggers of its jobs one after the other, with the
// clock at each one's due time: years pass in seconds.
type calendar struct {
	now     time.Time
	rows    rows
	called  []time.Time
	runner  *runner.Runner
	control *jobcontrol.Control
	store   *memjobs.Store
}

type rows []*store.Row

func (r rows) Len() int           { return len(r) }
func (r rows) Less(i, j int) bool { return r[i].Due.Before(r[j].Due) }
func (r rows) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *rows) Push(x any)        { *r = append(*r, x.(*store.Row)) }
func (r *rows) Pop() any {
	old := *r
	x := old[len(old)-1]
	*r = old[:len(old)-1]
	return x
}

// Ready implements runner.Caller.
func (*calendar) Ready(context.Context, job.Target) (time.Time, bool) { return time.Time{}, true }

// Call implements runner.Caller.
func (c *calendar) Call(_ context.Context, a runner.Attempt) target.Result {
	c.called = append(c.called, a.Run.Nominal)
	return target.Result{StatusCode: 200}
}

func newCalendar(t *testing.T, start time.Time) *calendar {
	c := &calendar{now: start}
	clock := func() time.Time { return c.now }
	table := memstore.New(memstore.Options{Now: clock, OnChange: func(before, after *store.Row) {
		if before == nil {
			row := *after
			heap.Push(&c.rows, &row)
		}
	}})
	c.store = memjobs.New(memjobs.Options{Triggers: table, Now: clock})
	queues := memqueue.New(memqueue.Options{})
	cl, err := client.New(client.Options{Sender: queues, InboundURL: "none", Now: clock})
	require.NoError(t, err)
	c.control, err = jobcontrol.New(jobcontrol.Options{Store: c.store, Triggers: cl, Now: clock})
	require.NoError(t, err)
	gate, err := protect.New(protect.Options{Runner: "r", Shared: &memshared.Shared{}, Now: clock})
	require.NoError(t, err)
	tenants, err := runner.NewTenants(runner.TenantsOptions{Store: c.store, Now: clock})
	require.NoError(t, err)
	members, err := membership.NewStatic(0, 1)
	require.NoError(t, err)
	c.runner, err = runner.New(runner.Options{
		Store: c.store, Control: c.control, Caller: c, Gate: gate, Tenants: tenants, Queue: queues, QueueURL: "runs", Members: members, Now: clock,
	})
	require.NoError(t, err)
	return c
}

// until plays everything due before an instant.
func (c *calendar) until(t *testing.T, end time.Time) {
	for len(c.rows) > 0 && c.rows[0].Due.Before(end) {
		row := heap.Pop(&c.rows).(*store.Row)
		c.now = row.Due
		require.NoError(t, c.runner.Handle(t.Context(), worker.Job[[]byte]{ID: row.ID, Due: row.Due, Name: row.Name, Tenant: row.Tenant, Payload: row.Payload}))
	}
}

// daily is the slow reference: the instants of a wall time on each day, found by
// looking at every minute.
func daily(zone *time.Location, hour, minute int, from, to time.Time, p cron.Policy) (want []time.Time, gaps int) {
	type day struct{ hits, after []time.Time }
	var days []day
	last := -1
	for at := from.Truncate(time.Minute); at.Before(to); at = at.Add(time.Minute) {
		local := at.In(zone)
		if local.YearDay() != last {
			last = local.YearDay()
			days = append(days, day{})
		}
		d := &days[len(days)-1]
		switch wall := local.Hour()*60 + local.Minute(); {
		case wall == hour*60+minute:
			d.hits = append(d.hits, at)
		case wall > hour*60+minute && len(d.after) == 0 && len(d.hits) == 0:
			d.after = append(d.after, at)
		}
	}
	for _, d := range days {
		switch {
		case len(d.hits) == 0 && len(d.after) > 0 && p.Gap == cron.GapSkip:
			gaps++
		case len(d.hits) == 0:
			want = append(want, d.after...)
		case p.Fold == cron.FoldBoth:
			want = append(want, d.hits...)
		default:
			want = append(want, d.hits[0])
		}
	}
	return want, gaps
}

func TestAYearOfADailyJobHasExactlyTheRightRuns(t *testing.T) {
	for _, c := range []struct {
		zone, expr   string
		hour, minute int
		gaps, folds  int // of the wall time, in 2027
	}{
		{"Europe/Berlin", "30 2 * * *", 2, 30, 1, 1},
		{"America/New_York", "30 2 * * *", 2, 30, 1, 0},
		{"Australia/Lord_Howe", "45 1 * * *", 1, 45, 0, 1}, // turns back by half an hour
	} {
		for _, p := range []cron.Policy{{Gap: cron.GapShift, Fold: cron.FoldFirst}, {Gap: cron.GapSkip, Fold: cron.FoldBoth}} {
			zone, err := cron.LoadZone(c.zone)
			require.NoError(t, err)
			from, to := time.Date(2027, 1, 1, 0, 0, 0, 0, zone).UTC(), time.Date(2028, 1, 1, 0, 0, 0, 0, zone).UTC()
			cal := newCalendar(t, from.Add(-time.Second))
			j, err := cal.control.Create(t.Context(), me(), spec(func(s *job.Spec) {
				s.Schedule = job.Timing{Cron: c.expr, Zone: c.zone, Policy: p}
			}), nil)
			require.NoError(t, err)
			cal.until(t, to)
			want, gaps := daily(zone, c.hour, c.minute, from, to, p)
			if !slices.EqualFunc(want, cal.called, time.Time.Equal) {
				t.Fatalf("%s %+v: want %d runs, had %d", c.zone, p, len(want), len(cal.called))
			}
			if p.Gap == cron.GapSkip {
				require.Equal(t, c.gaps, gaps)
				require.Len(t, want, 365+c.folds-c.gaps, "both of the fold, none of the gap")
			} else {
				require.Len(t, want, 365)
			}
			require.Equal(t, map[job.Kind]int{job.Occurrence: len(want), job.Gap: gaps}, cal.kinds(t, j.ID))
		}
	}
}

// kinds counts what is on record of a job.
func (c *calendar) kinds(t *testing.T, id trigger.ID) map[job.Kind]int {
	n := map[job.Kind]int{job.Gap: 0}
	for cursor := ""; ; {
		page, err := c.store.Runs(t.Context(), jobstore.RunQuery{Job: id, Cursor: cursor, Limit: 100})
		require.NoError(t, err)
		for _, r := range page.Items {
			n[r.Kind]++
		}
		if cursor = page.Next; cursor == "" {
			return n
		}
	}
}

// TestALongTimeOfAMinutelyJobHasExactlyTheRightRuns lives through four weeks with
// Europe's spring, and through those of two odder zones for three days each;
// MYOSIN_YEAR=1 makes each a year.
func TestALongTimeOfAMinutelyJobHasExactlyTheRightRuns(t *testing.T) {
	for _, c := range []struct {
		zone string
		from time.Time
		days int
	}{
		{"Europe/Berlin", time.Date(2027, 3, 8, 0, 0, 0, 0, time.UTC), 28},
		{"America/St_Johns", time.Date(2027, 3, 13, 0, 0, 0, 0, time.UTC), 3},
		{"Australia/Lord_Howe", time.Date(2027, 4, 2, 0, 0, 0, 0, time.UTC), 3},
	} {
		if os.Getenv("MYOSIN_YEAR") != "" {
			c.days = 365
		}
		cal := newCalendar(t, c.from.Add(-time.Second))
		_, err := cal.control.Create(t.Context(), me(), spec(func(s *job.Spec) { s.Schedule = job.Timing{Cron: "* * * * *", Zone: c.zone} }), nil)
		require.NoError(t, err)
		cal.until(t, c.from.Add(time.Duration(c.days)*24*time.Hour))
		require.Len(t, cal.called, c.days*24*60, c.zone)
		for i, at := range cal.called {
			if !at.Equal(c.from.Add(time.Duration(i) * time.Minute)) {
				t.Fatalf("%s: occurrence %d is %s", c.zone, i, at)
			}
		}
	}
}
