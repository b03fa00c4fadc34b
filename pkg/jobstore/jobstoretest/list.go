package jobstoretest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

func listTests() []test {
	return []test{
		{"jobs are listed newest first, by status and label", listsJobs},
		{"runs are listed newest first, by state", listsRuns},
		{"dead letters are listed newest first, by job and time", listsDead},
		{"a redriven run and a notice are no dead letters", listsNoOthers},
		{"audit records are listed newest first", listsAudit},
		{"a cursor is its list's own", cursors},
		{"a limit is from 1 to 100", limits},
	}
}

// whole reads all pages of a list, each of up to limit items.
func whole[T any](t *testing.T, limit int, read func(cursor string) (jobstore.Page[T], error)) []T {
	t.Helper()
	list := []T{}
	for cursor, pages := "", 0; ; pages++ {
		require.Less(t, pages, 1000, "a list that does not end")
		page, err := read(cursor)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Items), limit)
		list = append(list, page.Items...)
		if page.Next == "" {
			return list
		}
		require.NotEqual(t, cursor, page.Next)
		cursor = page.Next
	}
}

func jobsOf(t *testing.T, h Harness, q jobstore.JobQuery) []job.Job {
	t.Helper()
	return whole(t, q.Limit, func(cursor string) (jobstore.Page[job.Job], error) {
		q.Cursor = cursor
		return h.Store.Jobs(t.Context(), q)
	})
}

func runsOf(t *testing.T, h Harness, q jobstore.RunQuery) []job.Run {
	t.Helper()
	return whole(t, q.Limit, func(cursor string) (jobstore.Page[job.Run], error) {
		q.Cursor = cursor
		return h.Store.Runs(t.Context(), q)
	})
}

func deadOf(t *testing.T, h Harness, q jobstore.DeadQuery) []job.Run {
	t.Helper()
	return whole(t, q.Limit, func(cursor string) (jobstore.Page[job.Run], error) {
		q.Cursor = cursor
		return h.Store.Dead(t.Context(), q)
	})
}

// sizes of pages: one item, some that do not divide a list, and all at once.
func sizes() []int { return []int{1, 2, 4, 100} }

// of returns those of a list, newest last, that are wanted, newest first.
func of[T any](list []T, want func(T) bool) []T {
	found := []T{}
	for _, v := range slices.Backward(list) {
		if want(v) {
			found = append(found, v)
		}
	}
	return found
}

func listsJobs(t *testing.T, h Harness) {
	tenant := tenantOf()
	create(t, h, newJob(tenantOf())) // another's
	statuses := []job.JobStatus{job.JobIsActive, job.JobIsPaused, job.JobIsDeleted}
	var all []job.Job
	for i := range 9 {
		j := fullJob(tenant)
		j.Created, j.Status = after(i), statuses[i%3]
		j.Labels = map[string]string{"n": fmt.Sprint(i / 3)}
		if i%2 == 0 {
			j.Labels["even"] = ""
		}
		j = create(t, h, j)
		j.Payload = nil
		all = append(all, j)
	}
	// What changes later is listed as it is then, in its old place.
	moved := &all[4]
	commit(t, h, jobstore.Tx{Progress: &jobstore.ProgressWrite{Job: moved.ID, Progress: job.Progress{Active: "x", Seq: 1}}})
	moved.Progress = job.Progress{Active: "x", Seq: 2}
	resumed := &all[1]
	resumed.Status, resumed.Version, resumed.Updated = job.JobIsActive, 2, after(100)
	edit := *resumed
	edit.Payload = []byte("new")
	commit(t, h, jobstore.Tx{Edit: &edit})
	resumed.Seq = 2

	lives := func(j job.Job) bool { return j.Status != job.JobIsDeleted }
	for name, c := range map[string]struct {
		q    jobstore.JobQuery
		want func(job.Job) bool
	}{
		"all but deleted": {jobstore.JobQuery{}, lives},
		"active":          {jobstore.JobQuery{Status: job.JobIsActive}, func(j job.Job) bool { return j.Status == job.JobIsActive }},
		"paused":          {jobstore.JobQuery{Status: job.JobIsPaused}, func(j job.Job) bool { return j.Status == job.JobIsPaused }},
		"deleted":         {jobstore.JobQuery{Status: job.JobIsDeleted}, func(j job.Job) bool { return j.Status == job.JobIsDeleted }},
		"by label":        {jobstore.JobQuery{Label: "n=1"}, func(j job.Job) bool { return lives(j) && j.Labels["n"] == "1" }},
		"by its name":     {jobstore.JobQuery{Label: "even"}, func(j job.Job) bool { _, has := j.Labels["even"]; return lives(j) && has }},
		"by empty value":  {jobstore.JobQuery{Label: "even="}, func(j job.Job) bool { _, has := j.Labels["even"]; return lives(j) && has }},
		"by both":         {jobstore.JobQuery{Status: job.JobIsActive, Label: "n=2"}, func(j job.Job) bool { return j.Status == job.JobIsActive && j.Labels["n"] == "2" }},
		"by none":         {jobstore.JobQuery{Label: "n=7"}, func(job.Job) bool { return false }},
	} {
		for _, limit := range sizes() {
			t.Log(name, limit)
			c.q.Tenant, c.q.Limit = tenant, limit
			eventually(t, of(all, c.want), func() []job.Job { return jobsOf(t, h, c.q) })
		}
	}
	require.Empty(t, jobsOf(t, h, jobstore.JobQuery{Tenant: tenantOf(), Limit: 5}))
}

func listsRuns(t *testing.T, h Harness) {
	j, other := newJob(tenantOf()), newJob(tenantOf())
	put(t, h, newRun(&other, 0))
	states := []job.State{job.Scheduled, job.Running, job.Retrying, job.Succeeded, job.Dead, job.Cancelled, job.Skipped}
	var all []job.Run
	for i := range 2 * len(states) {
		r := fullRun(&j, i)
		r.State = states[i%len(states)]
		r = put(t, h, r)
		r.Payload, r.Call.Payload = nil, nil
		all = append(all, r)
	}
	for _, limit := range sizes() {
		eventually(t, of(all, func(job.Run) bool { return true }), func() []job.Run {
			return runsOf(t, h, jobstore.RunQuery{Job: j.ID, Limit: limit})
		})
		for _, state := range states {
			want := of(all, func(r job.Run) bool { return r.State == state })
			require.Len(t, want, 2)
			eventually(t, want, func() []job.Run { return runsOf(t, h, jobstore.RunQuery{Job: j.ID, State: state, Limit: limit}) })
		}
	}
	require.Empty(t, runsOf(t, h, jobstore.RunQuery{Job: newJob("x").ID, Limit: 5}))
}

// deadRun is a run that died some minutes after the start.
func deadRun(j *job.Job, nominal, died int) job.Run {
	r := newRun(j, nominal)
	r.State, r.Ended, r.Reason, r.Payload = job.Dead, after(died), "HTTP 500", []byte("sent")
	return r
}

func listsDead(t *testing.T, h Harness) {
	tenant := tenantOf()
	a, b, foreign := newJob(tenant), newJob(tenant), newJob(tenantOf())
	put(t, h, deadRun(&foreign, 0, 3))
	var all []job.Run
	for i := range 8 {
		j := []*job.Job{&a, &b}[i%2]
		all = append(all, put(t, h, deadRun(j, 100-i, i))) // by death, not by nominal time
	}
	alive := newRun(&a, 200)
	alive.State, alive.Ended = job.Succeeded, after(4)
	put(t, h, alive)
	died := func(from, until int) func(job.Run) bool {
		return func(r job.Run) bool { return !r.Ended.Before(after(from)) && !r.Ended.After(after(until)) }
	}
	for name, c := range map[string]struct {
		q    jobstore.DeadQuery
		want func(job.Run) bool
	}{
		"all":          {jobstore.DeadQuery{}, func(job.Run) bool { return true }},
		"of a job":     {jobstore.DeadQuery{Job: a.ID}, func(r job.Run) bool { return r.Job == a.ID }},
		"from":         {jobstore.DeadQuery{From: after(3)}, died(3, 99)},
		"until":        {jobstore.DeadQuery{Until: after(3)}, died(0, 3)},
		"between":      {jobstore.DeadQuery{From: after(2), Until: after(5)}, died(2, 5)},
		"a moment":     {jobstore.DeadQuery{From: after(2), Until: after(2)}, died(2, 2)},
		"no time":      {jobstore.DeadQuery{From: after(5), Until: after(2)}, func(job.Run) bool { return false }},
		"of job, from": {jobstore.DeadQuery{Job: b.ID, From: after(4)}, func(r job.Run) bool { return r.Job == b.ID && died(4, 99)(r) }},
	} {
		for _, limit := range sizes() {
			t.Log(name, limit)
			c.q.Tenant, c.q.Limit = tenant, limit
			eventually(t, of(all, c.want), func() []job.Run { return deadOf(t, h, c.q) })
		}
	}
}

func listsNoOthers(t *testing.T, h Harness) {
	j := newJob(tenantOf())
	r := put(t, h, deadRun(&j, 0, 1))
	notice := deadRun(&j, 1, 2)
	notice.ID, notice.Kind = notice.ID.Notice(), job.Notice
	put(t, h, notice)
	list := func() []job.Run { return deadOf(t, h, jobstore.DeadQuery{Tenant: j.Tenant, Limit: 5}) }
	eventually(t, []job.Run{r}, list)
	r.Redriven = r.ID.Redriven()
	r = put(t, h, r)
	eventually(t, []job.Run{}, list)
	holdsRun(t, h, r)
	again, err := r.Redrive(1)
	require.NoError(t, err)
	again.State, again.Ended = job.Dead, after(5)
	again = put(t, h, again)
	eventually(t, []job.Run{again}, list)
}

func listsAudit(t *testing.T, h Harness) {
	tenant := tenantOf()
	var all []jobstore.AuditRecord
	for i := range 7 {
		all = append(all, newAudit(tenant, i))
	}
	isFull(t, all[0])
	commit(t, h, jobstore.Tx{Audit: append(slices.Clone(all), newAudit(tenantOf(), 3))})
	commit(t, h, jobstore.Tx{Audit: all[2:3]}) // the same record again is the same one
	list := func(limit int) []jobstore.AuditRecord {
		return whole(t, limit, func(cursor string) (jobstore.Page[jobstore.AuditRecord], error) {
			return h.Store.Audit(t.Context(), tenant, cursor, limit)
		})
	}
	for _, limit := range sizes() {
		eventually(t, of(all, func(jobstore.AuditRecord) bool { return true }), func() []jobstore.AuditRecord { return list(limit) })
	}
	// Those of one moment are told apart.
	x, y := newAudit(tenant, 9), newAudit(tenant, 9)
	commit(t, h, jobstore.Tx{Audit: []jobstore.AuditRecord{x, y}})
	eventually(t, 9, func() int { return len(list(1)) })
	require.ElementsMatch(t, []jobstore.AuditRecord{x, y}, list(1)[:2])
}

func cursors(t *testing.T, h Harness) {
	ctx, tenant := t.Context(), tenantOf()
	j := create(t, h, newJob(tenant))
	create(t, h, newJob(tenant))
	var audit []jobstore.AuditRecord
	for i := range 3 {
		put(t, h, deadRun(&j, i, i))
		audit = append(audit, newAudit(tenant, i))
	}
	commit(t, h, jobstore.Tx{Audit: audit})
	runs := func(q jobstore.RunQuery) func(string) (string, error) {
		return func(c string) (string, error) {
			q.Cursor, q.Limit = c, 1
			p, err := h.Store.Runs(ctx, q)
			return p.Next, err
		}
	}
	dead := func(q jobstore.DeadQuery) func(string) (string, error) {
		return func(c string) (string, error) {
			q.Cursor, q.Limit = c, 1
			p, err := h.Store.Dead(ctx, q)
			return p.Next, err
		}
	}
	jobs := func(q jobstore.JobQuery) func(string) (string, error) {
		return func(c string) (string, error) {
			q.Cursor, q.Limit = c, 1
			p, err := h.Store.Jobs(ctx, q)
			return p.Next, err
		}
	}
	logs := func(tenant string) func(string) (string, error) {
		return func(c string) (string, error) {
			p, err := h.Store.Audit(ctx, tenant, c, 1)
			return p.Next, err
		}
	}
	lists := map[string]func(string) (string, error){
		"runs": runs(jobstore.RunQuery{Job: j.ID}), "runs by state": runs(jobstore.RunQuery{Job: j.ID, State: job.Dead}),
		"runs of another": runs(jobstore.RunQuery{Job: newJob(tenant).ID}),
		"dead":            dead(jobstore.DeadQuery{Tenant: tenant}), "dead by job": dead(jobstore.DeadQuery{Tenant: tenant, Job: j.ID}),
		"dead by time": dead(jobstore.DeadQuery{Tenant: tenant, From: after(-9)}), "dead of another": dead(jobstore.DeadQuery{Tenant: tenantOf()}),
		"jobs": jobs(jobstore.JobQuery{Tenant: tenant}), "jobs by status": jobs(jobstore.JobQuery{Tenant: tenant, Status: job.JobIsActive}),
		"jobs by label": jobs(jobstore.JobQuery{Tenant: tenant, Label: "a"}), "jobs of another": jobs(jobstore.JobQuery{Tenant: tenantOf()}),
		"audit": logs(tenant), "audit of another": logs(tenantOf()),
	}
	for from, first := range lists {
		next, err := first("")
		require.NoError(t, err)
		if next == "" {
			continue // an empty list has none
		}
		_, err = first(next)
		require.NoError(t, err)
		for to, read := range lists {
			if to != from {
				_, err = read(next)
				require.ErrorIs(t, err, jobstore.ErrCursor, "%s's cursor for %s", from, to)
			}
		}
		flipped := []byte(next)
		flipped[len(flipped)/2] ^= 1
		for _, mangled := range []string{"!", "AAAA", next[:len(next)-2], next + "AAAA", string(flipped)} {
			_, err = first(mangled)
			require.ErrorIs(t, err, jobstore.ErrCursor, "%s: %q", from, mangled)
		}
	}
	for _, name := range []string{"runs", "dead", "jobs", "audit"} {
		eventually(t, true, func() bool { next, err := lists[name](""); require.NoError(t, err); return next != "" })
	}
}

func limits(t *testing.T, h Harness) {
	ctx, j := t.Context(), newJob(tenantOf())
	for _, limit := range []int{-1, 0, 1, 100, 101} {
		_, jobs := h.Store.Jobs(ctx, jobstore.JobQuery{Tenant: j.Tenant, Limit: limit})
		_, runs := h.Store.Runs(ctx, jobstore.RunQuery{Job: j.ID, Limit: limit})
		_, dead := h.Store.Dead(ctx, jobstore.DeadQuery{Tenant: j.Tenant, Limit: limit})
		_, audit := h.Store.Audit(ctx, j.Tenant, "", limit)
		for _, err := range []error{jobs, runs, dead, audit} {
			if limit == 1 || limit == 100 {
				require.NoError(t, err)
				continue
			}
			require.ErrorContains(t, err, "limit")
			require.NotErrorIs(t, err, jobstore.ErrCursor)
		}
	}
}
