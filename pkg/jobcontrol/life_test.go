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
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func (d *desk) job(t *testing.T, id trigger.ID) job.Job {
	t.Helper()
	j, err := d.store.Job(t.Context(), id)
	require.NoError(t, err)
	return j
}

func (d *desk) run(t *testing.T, id job.RunID) job.Run {
	t.Helper()
	r, err := d.store.Run(t.Context(), id)
	require.NoError(t, err)
	return r
}

func (d *desk) edit(t *testing.T, id trigger.ID, change func(*job.Job)) job.Job {
	t.Helper()
	d.now = d.now.Add(time.Second)
	j, err := d.Edit(t.Context(), actor(), id, 0, func(x *job.Job) error { change(x); return nil })
	require.NoError(t, err)
	return j
}

// begun arms the next occurrence and leases the one that is due, as a runner does.
func (d *desk) begun(t *testing.T, id trigger.ID) job.Run {
	t.Helper()
	j := d.job(t, id)
	d.now = j.Pending
	plan, err := j.Plan()
	require.NoError(t, err)
	nominal := j.Pending
	require.NoError(t, d.Arm(t.Context(), &j, plan, nominal, plan.After(nominal, d.now)))
	return d.leased(t, j, jobcontrol.NewRun(&j, nominal))
}

func (d *desk) finish(t *testing.T, r job.Run, v job.Verdict) job.Run {
	t.Helper()
	j := d.job(t, r.Job)
	r, err := d.Change(t.Context(), &j, r, func(x job.Run) (job.Run, error) {
		return x.Finish(d.now, r.Attempt, false, job.Ending{Verdict: v, Reason: "HTTP 500"}, j.Retry)
	})
	require.NoError(t, err)
	return r
}

func (d *desk) accepted(t *testing.T, id trigger.ID) job.Run {
	t.Helper()
	r, err := d.Change(t.Context(), nil, d.begun(t, id), func(x job.Run) (job.Run, error) { return x.Accept(d.now, 1) })
	require.NoError(t, err)
	return r
}

// actions returns what is on record of changes, the newest first.
func (d *desk) actions(t *testing.T) []string {
	t.Helper()
	page, err := d.store.Audit(t.Context(), "acme", "", 100)
	require.NoError(t, err)
	var out []string
	for _, a := range page.Items {
		require.Equal(t, "key-1", a.Subject)
		require.Equal(t, a.At.Add(400*24*time.Hour).Truncate(time.Second), a.Expires)
		out = append(out, a.Action+" "+a.Detail)
	}
	return out
}

func refusal(t *testing.T, err error) job.ConflictKind {
	t.Helper()
	c := &job.ConflictError{}
	require.ErrorAs(t, err, &c)
	return c.Kind
}

func TestAnEditOvertakesWhatHasNotBegunAndADeletionWhatIsTriedAgainToo(t *testing.T) {
	d := newDesk(t)
	j := d.create(t)
	retrying := d.finish(t, d.begun(t, j.ID), job.VerdictRetry)
	running := d.begun(t, j.ID)
	byHand, err := d.RunNow(t.Context(), actor(), j.ID)
	require.NoError(t, err)
	waits := job.NewRunID(j.ID, 1, d.job(t, j.ID).Pending)
	state := func(id job.RunID) job.State { return d.run(t, id).State }

	paused := d.edit(t, j.ID, func(x *job.Job) { x.Status = job.JobIsPaused })
	require.EqualValues(t, 2, paused.Generation)
	require.Zero(t, paused.Pending)
	require.Equal(t, job.Skipped, state(waits))
	require.Equal(t, "paused", d.run(t, waits).Reason)

	d.now = d.now.Add(time.Hour)
	rows := d.triggers.Len()
	edited := d.edit(t, j.ID, func(x *job.Job) { x.Schedule.Cron = "*/5 * * * *" })
	require.Zero(t, edited.Pending, "still paused")
	require.Equal(t, rows, d.triggers.Len())
	resumed := d.edit(t, j.ID, func(x *job.Job) { x.Status = job.JobIsActive })
	require.EqualValues(t, 4, resumed.Generation)
	require.Equal(t, d.now.Truncate(5*time.Minute).Add(5*time.Minute), resumed.Pending)
	require.Equal(t, rows+1, d.triggers.Len())
	require.Equal(t, job.Retrying, state(retrying.ID))
	require.Equal(t, job.Running, state(running.ID))
	require.False(t, d.run(t, running.ID).CancelRequested)
	require.Equal(t, job.Scheduled, state(byHand.ID))

	waits = job.NewRunID(j.ID, 4, resumed.Pending)
	d.now = d.now.Add(time.Second)
	_, err = d.Delete(t.Context(), actor(), j.ID, resumed.Version)
	require.NoError(t, err)
	for _, id := range []job.RunID{waits, retrying.ID, byHand.ID} {
		require.Equal(t, job.Cancelled, state(id))
		require.Equal(t, "job: delete", d.run(t, id).Reason)
		require.Equal(t, d.now, d.run(t, id).Ended)
	}
	require.Equal(t, job.Running, state(running.ID))
	require.True(t, d.run(t, running.ID).CancelRequested, "asked to stop")
	require.Equal(t, []string{
		"job.delete ", "job.resume ", "job.schedule Schedule", "job.pause ", "job.run ", "job.create ",
	}, d.actions(t))
}

func TestAnEditThatChangesNothingWritesNothing(t *testing.T) {
	d := newDesk(t)
	j := d.create(t)
	rows := d.triggers.Len()
	got := d.edit(t, j.ID, func(x *job.Job) { x.Schedule.Cron, x.Status = "* * * * *", job.JobIsActive })
	require.Equal(t, j.Version, got.Version)
	require.Equal(t, rows, d.triggers.Len())
	require.Len(t, d.actions(t), 1)
	// What leaves the times alone leaves the pending occurrence alone.
	got = d.edit(t, j.ID, func(x *job.Job) { x.Payload, x.Retry.MaxAttempts = []byte("2"), 7 })
	require.EqualValues(t, 2, got.Version)
	require.EqualValues(t, 1, got.Generation)
	require.Equal(t, j.Pending, got.Pending)
	require.Equal(t, rows, d.triggers.Len())
	require.Equal(t, "job.edit Payload Retry", d.actions(t)[0])
}

// Somebody else edits between the read and the write.
func TestEditsAtTheSameTimeAreBothMadeUnlessOneAskedForItsVersion(t *testing.T) {
	for _, version := range []int64{0, 1} {
		d := newDesk(t)
		j := d.create(t)
		once := false
		d.fault = func(op string) memjobs.Fault {
			if op == "commit" && !once {
				once = true
				d.edit(t, j.ID, func(x *job.Job) { x.Name = "theirs" })
			}
			return memjobs.Fault{}
		}
		_, err := d.Edit(t.Context(), actor(), j.ID, version, func(x *job.Job) error { x.Labels = map[string]string{"by": "me"}; return nil })
		got := d.job(t, j.ID)
		require.Equal(t, "theirs", got.Name)
		if version == 0 {
			require.NoError(t, err)
			require.Equal(t, "me", got.Labels["by"])
			require.EqualValues(t, 3, got.Version)
			continue
		}
		v := &jobcontrol.VersionError{}
		require.ErrorAs(t, err, &v)
		require.EqualValues(t, 2, v.Version)
		require.Empty(t, got.Labels)
	}
}

func TestRedrivingTwiceMakesOneRun(t *testing.T) {
	d := newDesk(t)
	j := d.create(t)
	dead := d.dead(t, j)
	d.now = d.now.Add(time.Second)
	first, err := d.Redrive(t.Context(), actor(), dead.ID)
	require.NoError(t, err)
	rows := d.triggers.Len()
	second, err := d.Redrive(t.Context(), actor(), dead.ID)
	require.NoError(t, err)
	require.Equal(t, first.ID, second.ID)
	require.Equal(t, job.Redriven, second.Kind)
	require.Equal(t, dead.ID, second.OriginalID)
	require.Equal(t, rows, d.triggers.Len())
	require.Equal(t, "run.redrive "+string(first.ID), d.actions(t)[0])
	require.Len(t, d.actions(t), 3, "create, run, one redrive")

	_, err = d.Redrive(t.Context(), actor(), first.ID)
	require.Equal(t, job.WrongState, refusal(t, err), "it is not dead")
	_, err = d.Redrive(t.Context(), actor(), dead.ID.Notice())
	require.ErrorIs(t, err, jobstore.ErrNotFound)
	other := d.dead(t, j)
	_, err = d.Delete(t.Context(), actor(), j.ID, 0)
	require.NoError(t, err)
	_, err = d.Redrive(t.Context(), actor(), other.ID)
	require.ErrorIs(t, err, jobcontrol.ErrDeleted)
}

func TestCancellingARunTwiceIsOneChange(t *testing.T) {
	d := newDesk(t)
	j := d.create(t)
	running := d.begun(t, j.ID)
	for range 2 {
		r, err := d.CancelRun(t.Context(), actor(), running.ID)
		require.NoError(t, err)
		require.Equal(t, job.Running, r.State)
		require.True(t, r.CancelRequested)
	}
	require.Equal(t, []string{"run.cancel ", "job.create "}, d.actions(t))

	waits := d.job(t, j.ID).Pending
	id := job.NewRunID(j.ID, 1, waits)
	rows := d.triggers.Len()
	for range 2 {
		r, err := d.CancelRun(t.Context(), actor(), id)
		require.NoError(t, err)
		require.Equal(t, job.Cancelled, r.State)
		require.Equal(t, "cancelled by key-1", r.Reason)
		require.Equal(t, waits.Add(time.Minute), d.job(t, j.ID).Pending, "the one after it waits")
	}
	require.Equal(t, rows+1, d.triggers.Len())
	require.Equal(t, []string{"run.cancel ", "run.cancel ", "job.create "}, d.actions(t))

	ended := d.finish(t, d.run(t, running.ID), job.VerdictSuccess)
	_, err := d.CancelRun(t.Context(), actor(), ended.ID)
	require.Equal(t, job.IsTerminal, refusal(t, err))
	_, err = d.CancelRun(t.Context(), actor(), job.NewRunID(j.ID, 9, waits))
	require.ErrorIs(t, err, jobstore.ErrNotFound)
}

func TestWhoCancelledARunIsOnRecordWhateverFailsOnTheWay(t *testing.T) {
	for _, fault := range []memjobs.Fault{{LostReply: true}, {Err: errors.New("connection reset")}, {Err: jobstore.ErrBusy}} {
		for n := range 3 { // which of the commits
			d := newDesk(t)
			running := d.begun(t, d.create(t).ID)
			commits := 0
			d.fault = func(op string) memjobs.Fault {
				if op == "commit" {
					if commits++; commits == n+1 {
						return fault
					}
				}
				return memjobs.Fault{}
			}
			_, err := d.CancelRun(t.Context(), actor(), running.ID)
			d.fault = nil
			require.NoError(t, err)
			require.True(t, d.run(t, running.ID).CancelRequested)
			require.Equal(t, []string{"run.cancel ", "job.create "}, d.actions(t))
		}
	}
}

func TestOnlyTheHolderOfAnAcceptedRunHeartbeatsAndCompletes(t *testing.T) {
	d := newDesk(t)
	j := d.create(t)
	both := func(id job.RunID, attempt int, want job.ConflictKind) {
		t.Helper()
		before := d.run(t, id)
		_, err := d.Heartbeat(t.Context(), id, attempt)
		require.Equal(t, want, refusal(t, err))
		_, err = d.Complete(t.Context(), id, attempt, true, "")
		require.Equal(t, want, refusal(t, err))
		require.Equal(t, before, d.run(t, id))
	}
	held := d.begun(t, j.ID)
	both(held.ID, 1, job.WrongState) // the runner holds it: nobody answered 202
	accepted := d.accepted(t, j.ID)
	both(accepted.ID, 0, job.StaleAttempt)
	both(accepted.ID, 2, job.StaleAttempt)
	d.now = d.now.Add(job.LeaseFor + time.Minute)
	r, err := d.Heartbeat(t.Context(), accepted.ID, 1)
	require.NoError(t, err, "late, and nobody has taken it over")
	require.Equal(t, d.now.Add(job.LeaseFor), r.LeaseUntil)
	r, err = d.Complete(t.Context(), accepted.ID, 1, true, "done")
	require.NoError(t, err)
	require.Equal(t, job.Succeeded, r.State)
	both(accepted.ID, 1, job.IsTerminal)

	waits := job.NewRunID(j.ID, 1, d.job(t, j.ID).Pending)
	_, err = d.Heartbeat(t.Context(), waits, 1)
	require.ErrorIs(t, err, jobstore.ErrNotFound)
	_, err = d.Complete(t.Context(), waits, 1, true, "")
	require.ErrorIs(t, err, jobstore.ErrNotFound)
}

func TestARunByHandLeavesTheScheduleAloneAndADeletedJobHasNone(t *testing.T) {
	d := newDesk(t)
	j := d.create(t)
	d.edit(t, j.ID, func(x *job.Job) { x.Status = job.JobIsPaused })
	before := d.job(t, j.ID)
	a, err := d.RunNow(t.Context(), actor(), j.ID)
	require.NoError(t, err)
	b, err := d.RunNow(t.Context(), actor(), j.ID)
	require.NoError(t, err)
	require.NotEqual(t, a.ID, b.ID, "two in one millisecond are two")
	require.Equal(t, job.Manual, a.Kind)
	require.Equal(t, d.now, a.Nominal)
	require.Equal(t, before, d.job(t, j.ID))

	_, err = d.Delete(t.Context(), actor(), j.ID, 0)
	require.NoError(t, err)
	_, err = d.RunNow(t.Context(), actor(), j.ID)
	require.ErrorIs(t, err, jobcontrol.ErrDeleted)
	_, err = d.RunNow(t.Context(), actor(), trigger.NewID())
	require.ErrorIs(t, err, jobstore.ErrNotFound)
}

func TestADeadRunsOwnerIsWhomTheJobNamesElseTheTenantsContactElseNobody(t *testing.T) {
	own, contact := job.Notify{Webhook: "https://own.example/hook"}, job.Notify{Topic: "arn:aws:sns:eu-west-1:123456789012:alarms"}
	for _, c := range []struct {
		notify, contact job.Notify
		target          job.Target
	}{
		{own, contact, job.Target{Type: job.TargetHTTP, URL: own.Webhook}},
		{job.Notify{}, contact, job.Target{Type: job.TargetTopic, ARN: contact.Topic}},
		{own, job.Notify{}, job.Target{Type: job.TargetHTTP, URL: own.Webhook}},
		{job.Notify{}, job.Notify{}, job.Target{}},
	} {
		d := newDesk(t)
		require.NoError(t, d.store.PutTenant(t.Context(), jobstore.Tenant{ID: "acme", Contact: c.contact}))
		sp := spec()
		sp.Notify = c.notify
		j, err := d.Create(t.Context(), actor(), sp, nil)
		require.NoError(t, err)
		dead := d.finish(t, d.begun(t, j.ID), job.VerdictDead)
		require.JSONEq(t, "{}", string(dead.Payload))
		if c.target.Type == "" {
			_, err := d.store.Run(t.Context(), dead.ID.Notice())
			require.ErrorIs(t, err, jobstore.ErrNotFound)
			continue
		}
		n := d.run(t, dead.ID.Notice())
		require.Equal(t, job.Notice, n.Kind)
		require.Equal(t, job.Scheduled, n.State)
		require.Equal(t, c.target.Type, n.Call.Target.Type)
		require.Equal(t, c.target.URL, n.Call.Target.URL)
		require.Equal(t, c.target.ARN, n.Call.Target.ARN)
		require.Contains(t, string(n.Call.Payload), string(dead.ID))
		require.Contains(t, string(n.Call.Payload), "HTTP 500")
	}
}

// recording notes the rows that are made.
type recording struct {
	*client.Client
	rows []*store.Row
}

func (r *recording) Prepare(ctx context.Context, service string, payload any, opts ...client.Option) (*store.Row, client.Scheduled, error) {
	row, s, err := r.Client.Prepare(ctx, service, payload, opts...)
	if err == nil {
		r.rows = append(r.rows, row)
	}
	return row, s, err
}

func TestAnOccurrenceFurtherAheadThanTriggersCanIsWokenOnTheWay(t *testing.T) {
	now := time.Date(2027, 5, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	d := newDesk(t)
	cl, err := client.New(client.Options{Sender: memqueue.New(memqueue.Options{}), InboundURL: "none", Now: clock})
	require.NoError(t, err)
	p := &recording{Client: cl}
	c, err := jobcontrol.New(jobcontrol.Options{Store: d.store, Triggers: p, Now: clock})
	require.NoError(t, err)
	sp := spec()
	sp.Schedule = job.Timing{At: now.Add(job.MaxAhead)}
	require.NoError(t, sp.Validate(now))
	j, err := c.Create(t.Context(), actor(), sp, nil)
	require.NoError(t, err)
	require.Equal(t, sp.Schedule.At, j.Pending)
	require.Len(t, p.rows, 1)
	require.Equal(t, now.Add(job.MaxAhead-24*time.Hour), p.rows[0].Due)
	now = p.rows[0].Due
	require.NoError(t, c.Sleep(t.Context(), jobcontrol.NewRun(&j, j.Pending), j.Pending))
	require.Len(t, p.rows, 2)
	require.Equal(t, j.Pending, p.rows[1].Due)
	require.NotEqual(t, p.rows[0].ID, p.rows[1].ID, "the first row is still there: another must not be it")
}
