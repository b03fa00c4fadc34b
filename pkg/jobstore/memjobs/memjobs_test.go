package memjobs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/jobstore/memjobs"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

var start = time.UnixMilli(1_800_000_000_000).UTC()

func aJob() *job.Job {
	j := &job.Job{
		ID: trigger.NewID(), Status: job.JobIsActive, Generation: 1, Created: start, Updated: start, Version: 1,
		Spec: job.Spec{
			Name: "report", Tenant: "acme", Schedule: job.Timing{Cron: "0 * * * *"},
			Target: job.Target{Type: job.TargetHTTP, URL: "https://example.com/run"},
		}.WithDefaults(),
	}
	j.Pending = start.Add(time.Hour)
	j.Wake = j.Pending.Add(time.Minute)
	return j
}

func aRow(j *job.Job, due time.Time) *store.Row {
	id := job.NewRunID(j.ID, j.Generation, due)
	return &store.Row{
		Trigger: trigger.Trigger{ID: id.TriggerID(), Service: "runs", Due: due, N: 4, Payload: []byte(id), Tenant: j.Tenant},
		State:   trigger.StateScheduled, Created: start,
	}
}

// table is a store with its triggers, and what goes wrong with it.
type table struct {
	*memjobs.Store
	triggers *memstore.Store
	fault    memjobs.Fault
	asked    []string
	told     []string
}

func open() *table {
	w := &table{triggers: memstore.New(memstore.Options{})}
	w.Store = memjobs.New(memjobs.Options{
		Triggers: w.triggers,
		Fault: func(op string, tx *jobstore.Tx) memjobs.Fault {
			w.asked = append(w.asked, fmt.Sprint(op, " ", tx != nil))
			f := w.fault
			w.fault = memjobs.Fault{}
			return f
		},
		OnCommit: func(tx *jobstore.Tx) {
			for _, r := range tx.Runs {
				w.told = append(w.told, fmt.Sprint(r.ID.Sort(), " ", r.Version))
			}
		},
	})
	return w
}

func TestAFaultBeforeAppliesNothing(t *testing.T) {
	w, j := open(), aJob()
	w.fault = memjobs.Fault{Err: jobstore.ErrBusy}
	row := aRow(j, start)
	require.ErrorIs(t, w.Commit(t.Context(), jobstore.Tx{Create: j, Triggers: []*store.Row{row}}), jobstore.ErrBusy)
	_, err := w.Job(t.Context(), j.ID)
	require.ErrorIs(t, err, jobstore.ErrNotFound)
	got, err := w.triggers.Get(t.Context(), row.Key())
	require.NoError(t, err)
	require.Nil(t, got)
	require.Zero(t, w.Counts())
}

func TestALostReplyIsApplied(t *testing.T) {
	w, j := open(), aJob()
	w.fault = memjobs.Fault{LostReply: true}
	row := aRow(j, start)
	require.ErrorIs(t, w.Commit(t.Context(), jobstore.Tx{Create: j, Triggers: []*store.Row{row}}), memjobs.ErrReplyLost)
	got, err := w.Job(t.Context(), j.ID)
	require.NoError(t, err)
	require.EqualValues(t, 1, got.Seq)
	there, err := w.triggers.Get(t.Context(), row.Key())
	require.NoError(t, err)
	require.NotNil(t, there)
	require.True(t, jobstore.Conflict(w.Commit(t.Context(), jobstore.Tx{Create: j}), jobstore.PartJob))

	// A refusal is no less one for a reply that is lost after.
	w.fault = memjobs.Fault{LostReply: true}
	require.True(t, jobstore.Conflict(w.Commit(t.Context(), jobstore.Tx{Create: j}), jobstore.PartJob))
}

func TestDelaysPassBeforeAndAfterTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, j := open(), aJob()
		w.fault = memjobs.Fault{Delay: 3 * time.Second, ReplyDelay: 4 * time.Second}
		began := time.Now()
		var wg sync.WaitGroup
		var commitErr error
		wg.Go(func() { commitErr = w.Commit(t.Context(), jobstore.Tx{Create: j}) })
		at := func(d time.Duration) error {
			time.Sleep(time.Until(began.Add(d))) // virtual
			synctest.Wait()
			_, err := w.Job(t.Context(), j.ID)
			return err
		}
		require.ErrorIs(t, at(2*time.Second), jobstore.ErrNotFound)
		require.NoError(t, at(3*time.Second))
		wg.Wait()
		require.NoError(t, commitErr)
		require.Equal(t, 7*time.Second, time.Since(began))
	})
}

func TestAContextThatEndsInADelayLeavesTheWriteUnapplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, before, after := open(), aJob(), aJob()
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		w.fault = memjobs.Fault{Delay: time.Minute}
		require.ErrorIs(t, w.Commit(ctx, jobstore.Tx{Create: before}), context.DeadlineExceeded)
		_, err := w.Job(t.Context(), before.ID)
		require.ErrorIs(t, err, jobstore.ErrNotFound)

		ctx, stop = context.WithTimeout(t.Context(), time.Second)
		defer stop()
		w.fault = memjobs.Fault{ReplyDelay: time.Minute}
		require.ErrorIs(t, w.Commit(ctx, jobstore.Tx{Create: after}), context.DeadlineExceeded)
		_, err = w.Job(t.Context(), after.ID)
		require.NoError(t, err, "in the delay of the reply it is applied")
	})
}

func TestEveryOperationAsksForItsFault(t *testing.T) {
	w, ctx := open(), t.Context()
	boom := errors.New("boom")
	for _, c := range []struct {
		op  string
		run func() error
	}{
		{"commit true", func() error { return w.Commit(ctx, jobstore.Tx{Create: aJob()}) }},
		{"job false", func() error { _, err := w.Job(ctx, trigger.NewID()); return err }},
		{"run false", func() error { _, err := w.Run(ctx, "x"); return err }},
		{"jobs false", func() error { _, err := w.Jobs(ctx, jobstore.JobQuery{Limit: 1}); return err }},
		{"runs false", func() error { _, err := w.Runs(ctx, jobstore.RunQuery{Limit: 1}); return err }},
		{"dead false", func() error { _, err := w.Dead(ctx, jobstore.DeadQuery{Limit: 1}); return err }},
		{"due false", func() error { _, err := w.Due(ctx, 0, start, 1); return err }},
		{"idempotency false", func() error { _, err := w.Idempotency(ctx, "a", "b"); return err }},
		{"audit false", func() error { _, err := w.Audit(ctx, "a", "", 1); return err }},
		{"records false", func() error { return w.PutTenant(ctx, jobstore.Tenant{ID: "a"}) }},
		{"records false", func() error { _, err := w.Keys(ctx, "a"); return err }},
	} {
		w.asked, w.fault = nil, memjobs.Fault{Err: boom}
		require.ErrorIs(t, c.run(), boom, c.op)
		require.Equal(t, []string{c.op}, w.asked)
	}
	_, err := w.Tenant(ctx, "a")
	require.ErrorIs(t, err, jobstore.ErrNotFound)
}

func TestCommitsAreToldOfInTheirOrderAndRefusalsAreNot(t *testing.T) {
	w := open()
	r := job.NewRun(aJob().ID, 1, start)
	const versions, writers = 20, 4
	var want []string
	for v := range versions {
		r.Version = int64(v)
		want = append(want, fmt.Sprint(r.ID.Sort(), " ", v))
	}
	s := memjobs.New(memjobs.Options{OnCommit: func(tx *jobstore.Tx) {
		w.told = append(w.told, fmt.Sprint(tx.Runs[0].ID.Sort(), " ", tx.Runs[0].Version))
	}})
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for v := int64(0); v < versions; {
				next := r
				next.Version = v
				err := s.Commit(t.Context(), jobstore.Tx{Runs: []job.Run{next}})
				if err == nil || jobstore.Conflict(err, jobstore.PartRun) {
					v++ // won, or lost to one that has
					continue
				}
				t.Errorf("commit: %v", err)
				return
			}
		})
	}
	wg.Wait()
	require.Equal(t, want, w.told)
}

func TestExactlyOneOfManyCommitsWinsEachVersionOfAJob(t *testing.T) {
	triggers := memstore.New(memstore.Options{})
	s := memjobs.New(memjobs.Options{Triggers: triggers})
	j := aJob()
	require.NoError(t, s.Commit(t.Context(), jobstore.Tx{Create: j}))
	const versions, writers = 25, 8
	for seq := int64(1); seq <= versions; seq++ {
		errs := make([]error, writers)
		rows := make([]*store.Row, writers)
		var wg sync.WaitGroup
		for i := range writers {
			rows[i] = aRow(j, start.Add(time.Duration(seq*writers+int64(i))*time.Minute))
			wg.Go(func() {
				errs[i] = s.Commit(t.Context(), jobstore.Tx{
					Progress: &jobstore.ProgressWrite{Job: j.ID, Progress: job.Progress{Seq: seq}}, Triggers: rows[i : i+1],
				})
			})
		}
		wg.Wait()
		won := 0
		for i, err := range errs {
			row, getErr := triggers.Get(t.Context(), rows[i].Key())
			require.NoError(t, getErr)
			require.Equal(t, err == nil, row != nil, "a trigger of a commit that was refused")
			if err == nil {
				won++
				continue
			}
			require.True(t, jobstore.Conflict(err, jobstore.PartJob), err)
		}
		require.Equal(t, 1, won)
	}
}

// The figures are those that ministack bills: see TestCostsOnMinistack.
func TestACronRunCountsWhatDynamoDBBills(t *testing.T) {
	w, j := open(), aJob()
	spent := func(units, triggers float64, tx jobstore.Tx) {
		t.Helper()
		w.ResetCounts()
		require.NoError(t, w.Commit(t.Context(), tx))
		require.Equal(t, memjobs.Counts{Commits: 1, Units: units, Triggers: triggers}, w.Counts())
	}
	spent(7, 2, jobstore.Tx{Create: j, Triggers: []*store.Row{aRow(j, j.Pending)}}) // 9 in all

	next := j.Pending.Add(time.Hour)
	running, err := job.NewRun(j.ID, 1, j.Pending).Lease(j.Pending, job.Claim{Generation: 1, JobGeneration: 1, JobStatus: job.JobIsActive})
	require.NoError(t, err)
	begun := running
	begun.Version = 1
	done, err := begun.Finish(j.Pending.Add(time.Second), 1, false, job.Ending{Verdict: job.VerdictSuccess, StatusCode: 200}, job.DefaultRetry())
	require.NoError(t, err)
	insert := jobstore.Tx{Triggers: []*store.Row{aRow(j, next)}}
	progress := jobstore.Tx{Progress: &jobstore.ProgressWrite{Job: j.ID, Progress: job.Progress{
		Pending: next, Previous: j.Pending, Wake: next.Add(time.Minute), Seq: 1,
	}}}
	w.ResetCounts()
	for _, tx := range []jobstore.Tx{insert, progress, {Runs: []job.Run{running}}, {Runs: []job.Run{done}}} {
		require.NoError(t, w.Commit(t.Context(), tx))
	}
	require.Equal(t, memjobs.Counts{Commits: 4, Units: 7, Triggers: 1}, w.Counts())
	require.Error(t, w.Commit(t.Context(), progress))
	require.Equal(t, memjobs.Counts{Commits: 4, Units: 7, Triggers: 1}, w.Counts(), "a refusal is not counted")

	spent(2, 0, jobstore.Tx{Guard: &jobstore.Guard{Job: j.ID, Generation: 1}}) // a transaction, though of one item
	dead := job.NewRun(j.ID, 1, next)
	dead.State, dead.Ended, dead.Payload = job.Dead, next, make([]byte, 2048)
	spent(4, 0, jobstore.Tx{Runs: []job.Run{dead}}) // 3 KiB and the index of dead letters
}

func TestACommitThatDynamoDBWouldNotTakeIsRefusedWhole(t *testing.T) {
	w, j := open(), aJob()
	row := aRow(j, start)
	require.ErrorContains(t, w.Commit(t.Context(), jobstore.Tx{Create: j, Triggers: []*store.Row{row, row}}), "twice")
	got, err := w.triggers.Get(t.Context(), row.Key())
	require.NoError(t, err)
	require.Nil(t, got)
	var runs []job.Run
	for i := range 12 {
		r := job.NewRun(j.ID, 1, start.Add(time.Duration(i)*time.Minute))
		r.Payload = make([]byte, 390<<10)
		runs = append(runs, r)
	}
	require.ErrorIs(t, w.Commit(t.Context(), jobstore.Tx{Runs: runs}), jobstore.ErrTooLarge, "over 4 MiB together")
	require.NoError(t, w.Commit(t.Context(), jobstore.Tx{Runs: runs[:10]}))
	s := memjobs.New(memjobs.Options{})
	require.ErrorContains(t, s.Commit(t.Context(), jobstore.Tx{Triggers: []*store.Row{row}}), "no table of triggers")
}
