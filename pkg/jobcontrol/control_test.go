package jobcontrol_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/jobstore/memjobs"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// desk is a control over a job store that fails as told.
type desk struct {
	*jobcontrol.Control
	now      time.Time
	store    *memjobs.Store
	triggers *memstore.Store
	fault    func(op string) memjobs.Fault
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{now: time.Date(2027, 5, 1, 12, 0, 30, 0, time.UTC)}
	clock := func() time.Time { return d.now }
	d.triggers = memstore.New(memstore.Options{Now: clock})
	d.store = memjobs.New(memjobs.Options{Triggers: d.triggers, Now: clock, Fault: func(op string, _ *jobstore.Tx) memjobs.Fault {
		if d.fault == nil {
			return memjobs.Fault{}
		}
		return d.fault(op)
	}})
	c, err := client.New(client.Options{Sender: memqueue.New(memqueue.Options{}), InboundURL: "none", Now: clock})
	require.NoError(t, err)
	d.Control, err = jobcontrol.New(jobcontrol.Options{
		Store: d.store, Triggers: c, Now: clock,
		Wait: func(ctx context.Context, by time.Duration) error { d.now = d.now.Add(by); return ctx.Err() },
	})
	require.NoError(t, err)
	return d
}

func actor() jobcontrol.Actor { return jobcontrol.Actor{Tenant: "acme", Subject: "key-1"} }

func spec() job.Spec {
	return job.Spec{
		Tenant: "acme", Schedule: job.Timing{Cron: "* * * * *"}, Payload: []byte("{}"),
		Target: job.Target{Type: job.TargetHTTP, URL: "https://target.example/"},
	}.WithDefaults()
}

func (d *desk) create(t *testing.T) job.Job {
	t.Helper()
	j, err := d.Create(t.Context(), actor(), spec(), nil)
	require.NoError(t, err)
	return j
}

// dead makes a run by hand that has died.
func (d *desk) dead(t *testing.T, j job.Job) job.Run {
	t.Helper()
	r, err := d.RunNow(t.Context(), actor(), j.ID)
	require.NoError(t, err)
	r = d.leased(t, j, r)
	r, err = d.Change(t.Context(), &j, r, func(x job.Run) (job.Run, error) {
		return x.Finish(d.now, 1, false, job.Ending{Verdict: job.VerdictDead, Reason: "HTTP 404"}, j.Retry)
	})
	require.NoError(t, err)
	return r
}

func (d *desk) leased(t *testing.T, j job.Job, r job.Run) job.Run {
	t.Helper()
	r, err := d.Begin(t.Context(), &j, r, func(j *job.Job, x job.Run) (job.Run, error) {
		return x.Lease(d.now, job.Claim{Generation: x.Generation, JobGeneration: j.Generation, JobStatus: j.Status})
	})
	require.NoError(t, err)
	return r
}

func (d *desk) runs(t *testing.T, id trigger.ID) []job.Run {
	t.Helper()
	p, err := d.store.Runs(t.Context(), jobstore.RunQuery{Job: id, Limit: 100})
	require.NoError(t, err)
	return p.Items
}

// Each change is made once, with one record of who made it, whatever becomes of
// its first commit or of the reads beside it.
func TestAChangeIsMadeOnceWhateverBecomesOfItsFirstCommit(t *testing.T) {
	errReset := errors.New("connection reset")
	faults := map[string]memjobs.Fault{
		"lost reply": {LostReply: true}, "not applied": {Err: errReset}, "busy": {Err: jobstore.ErrBusy}, "none": {},
	}
	for name, c := range map[string]struct {
		action string
		do     func(t *testing.T, d *desk, j job.Job, r job.Run) error
		check  func(t *testing.T, d *desk, j job.Job, r job.Run)
	}{
		"edit": {"job.schedule", func(t *testing.T, d *desk, j job.Job, _ job.Run) error {
			_, err := d.Edit(t.Context(), actor(), j.ID, j.Version, func(x *job.Job) error { x.Schedule.Cron = "*/5 * * * *"; return nil })
			return err
		}, func(t *testing.T, d *desk, j job.Job, _ job.Run) {
			got, err := d.store.Job(t.Context(), j.ID)
			require.NoError(t, err)
			require.EqualValues(t, 2, got.Generation)
			require.EqualValues(t, 2, got.Version)
		}},
		"delete": {"job.delete", func(t *testing.T, d *desk, j job.Job, _ job.Run) error {
			_, err := d.Delete(t.Context(), actor(), j.ID, 0)
			return err
		}, func(t *testing.T, d *desk, j job.Job, _ job.Run) {
			got, err := d.store.Job(t.Context(), j.ID)
			require.NoError(t, err)
			require.Equal(t, job.JobIsDeleted, got.Status)
			require.Zero(t, got.Pending)
		}},
		"run by hand": {"job.run", func(t *testing.T, d *desk, j job.Job, _ job.Run) error {
			_, err := d.RunNow(t.Context(), actor(), j.ID)
			return err
		}, func(t *testing.T, d *desk, j job.Job, _ job.Run) {
			require.Len(t, d.runs(t, j.ID), 2)
		}},
		"cancel the pending run": {"run.cancel", func(t *testing.T, d *desk, j job.Job, _ job.Run) error {
			r, err := d.CancelRun(t.Context(), actor(), job.NewRunID(j.ID, 1, j.Pending))
			require.Equal(t, job.Cancelled, r.State)
			return err
		}, func(t *testing.T, d *desk, j job.Job, _ job.Run) {
			got, err := d.store.Job(t.Context(), j.ID)
			require.NoError(t, err)
			require.Equal(t, j.Pending.Add(time.Minute), got.Pending)
		}},
		"redrive": {"run.redrive", func(t *testing.T, d *desk, _ job.Job, r job.Run) error {
			next, err := d.Redrive(t.Context(), actor(), r.ID)
			require.Equal(t, r.ID, next.OriginalID)
			return err
		}, func(t *testing.T, d *desk, j job.Job, r job.Run) {
			got, err := d.store.Run(t.Context(), r.ID)
			require.NoError(t, err)
			require.Equal(t, r.ID.Redriven(), got.Redriven)
			require.Len(t, d.runs(t, j.ID), 2)
		}},
	} {
		for what, fault := range faults {
			t.Run(name+", "+what, func(t *testing.T) {
				d := newDesk(t)
				j := d.create(t)
				dead := d.dead(t, j)
				rows := d.triggers.Len()
				hit := false
				d.fault = func(op string) memjobs.Fault {
					if op == "commit" && !hit {
						hit = true
						return fault
					}
					return memjobs.Fault{}
				}
				err := c.do(t, d, j, dead)
				d.fault = nil
				require.NoError(t, err)
				c.check(t, d, j, dead)
				require.LessOrEqual(t, d.triggers.Len(), rows+1)
				page, err := d.store.Audit(t.Context(), "acme", "", 100)
				require.NoError(t, err)
				n := 0
				for _, a := range page.Items {
					if a.Action == c.action {
						n++
					}
				}
				if c.action == "job.run" {
					n-- // that of the dead one
				}
				require.Equal(t, 1, n, "records of %s", c.action)
			})
		}
	}
}

func TestACreateWhoseReplyIsLostMakesOneJob(t *testing.T) {
	for _, fault := range []memjobs.Fault{{LostReply: true}, {Err: errors.New("connection reset")}, {Err: jobstore.ErrBusy}} {
		createWith(t, fault)
	}
}

func createWith(t *testing.T, fault memjobs.Fault) {
	d := newDesk(t)
	hit := false
	d.fault = func(op string) memjobs.Fault {
		if op == "commit" && !hit {
			hit = true
			return fault
		}
		return memjobs.Fault{}
	}
	j := d.create(t)
	p, err := d.store.Jobs(t.Context(), jobstore.JobQuery{Tenant: "acme", Limit: 10})
	require.NoError(t, err)
	require.Len(t, p.Items, 1)
	require.Equal(t, j.ID, p.Items[0].ID)
	require.Equal(t, 1, d.triggers.Len())
}

func TestAnUsedIdempotencyKeyIsToldAndNothingIsMade(t *testing.T) {
	d := newDesk(t)
	idem := func() *jobcontrol.IdempotencyRequest {
		return &jobcontrol.IdempotencyRequest{Key: "k", Answer: func(j job.Job) (int, []byte) { return 201, []byte(j.ID.String()) }}
	}
	j, err := d.Create(t.Context(), actor(), spec(), idem())
	require.NoError(t, err)
	_, err = d.Create(t.Context(), actor(), spec(), idem())
	require.True(t, jobstore.Conflict(err, jobstore.PartIdempotency), "%v", err)
	kept, err := d.store.Idempotency(t.Context(), "acme", "k")
	require.NoError(t, err)
	require.Equal(t, j.ID.String(), string(kept.Answer))
	require.Equal(t, 1, d.triggers.Len())
}

func TestAnEditOfAnotherVersionIsRefused(t *testing.T) {
	d := newDesk(t)
	j := d.create(t)
	_, err := d.Edit(t.Context(), actor(), j.ID, 1, func(x *job.Job) error { x.Name = "a"; return nil })
	require.NoError(t, err)
	_, err = d.Edit(t.Context(), actor(), j.ID, 1, func(x *job.Job) error { x.Name = "b"; return nil })
	var version *jobcontrol.VersionError
	require.ErrorAs(t, err, &version)
	require.EqualValues(t, 2, version.Version)
	_, err = d.Delete(t.Context(), actor(), j.ID, 0)
	require.NoError(t, err)
	_, err = d.Edit(t.Context(), actor(), j.ID, 0, func(x *job.Job) error { x.Name = "c"; return nil })
	require.ErrorIs(t, err, jobcontrol.ErrDeleted)
}

// The outcome of a call is written though the store answers nothing for a while.
func TestAResultIsWrittenThroughLostRepliesAndFailingReads(t *testing.T) {
	d := newDesk(t)
	j := d.create(t)
	r, err := d.RunNow(t.Context(), actor(), j.ID)
	require.NoError(t, err)
	r = d.leased(t, j, r)
	calls := 0
	d.fault = func(op string) memjobs.Fault {
		switch calls++; {
		case op == "commit" && calls == 1:
			return memjobs.Fault{LostReply: true}
		case calls < 6:
			return memjobs.Fault{Err: errors.New("connection reset")}
		}
		return memjobs.Fault{}
	}
	ended, err := d.Change(t.Context(), &j, r, func(x job.Run) (job.Run, error) {
		return x.Finish(d.now, 1, false, job.Ending{Verdict: job.VerdictSuccess}, j.Retry)
	})
	require.NoError(t, err)
	require.Equal(t, job.Succeeded, ended.State)
	d.fault = nil
	got, err := d.store.Run(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, job.Succeeded, got.State)
}

// repeats is a store that repeats a transaction whose reply was lost, and finds
// its own first try in its way, as an engine without request tokens does.
type repeats struct{ *memjobs.Store }

func (r repeats) Commit(ctx context.Context, tx jobstore.Tx) error {
	if err := r.Store.Commit(ctx, tx); err != nil {
		return err
	}
	return r.Store.Commit(ctx, tx)
}

func TestAResultIsNotTakenForAnothersConflict(t *testing.T) {
	d := newDesk(t)
	j := d.create(t)
	r, err := d.RunNow(t.Context(), actor(), j.ID)
	require.NoError(t, err)
	r = d.leased(t, j, r)
	r, err = d.Change(t.Context(), &j, r, func(x job.Run) (job.Run, error) { return x.Accept(d.now, 1) })
	require.NoError(t, err)
	triggers, err := client.New(client.Options{Sender: memqueue.New(memqueue.Options{}), InboundURL: "none", Now: func() time.Time { return d.now }})
	require.NoError(t, err)
	c, err := jobcontrol.New(jobcontrol.Options{Store: repeats{d.store}, Triggers: triggers, Now: func() time.Time { return d.now }})
	require.NoError(t, err)
	done, err := c.Complete(t.Context(), r.ID, 1, true, "done")
	require.NoError(t, err)
	require.Equal(t, job.Succeeded, done.State)
	_, err = c.Complete(t.Context(), r.ID, 1, true, "done")
	var refused *job.ConflictError
	require.ErrorAs(t, err, &refused)
}
