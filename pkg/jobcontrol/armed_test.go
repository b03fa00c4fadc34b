package jobcontrol_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

func TestARunThatWasArmedOverAndHasNotBegunIsFoundAndCancelled(t *testing.T) {
	d := newDesk(t)
	j, err := d.store.Job(t.Context(), d.create(t).ID)
	require.NoError(t, err)
	nominal := j.Pending
	id := job.NewRunID(j.ID, j.Generation, nominal)
	d.now = nominal.Add(time.Second)
	plan, err := j.Plan()
	require.NoError(t, err)
	require.NoError(t, d.Arm(t.Context(), &j, plan, nominal, plan.After(nominal, d.now)))
	_, err = d.store.Run(t.Context(), id)
	require.ErrorIs(t, err, jobstore.ErrNotFound, "it has no record yet")
	r, err := d.Run(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, job.Scheduled, r.State)

	got, err := d.CancelRun(t.Context(), actor(), id)
	require.NoError(t, err)
	require.Equal(t, job.Cancelled, got.State)
	kept, err := d.store.Run(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, job.Cancelled, kept.State)
	again, err := d.store.Job(t.Context(), j.ID)
	require.NoError(t, err)
	require.Equal(t, j.Pending, again.Pending, "the one after it still waits")

	// Its message meets the record.
	fresh, err := d.Begin(t.Context(), &j, r, func(j *job.Job, x job.Run) (job.Run, error) {
		return x.Lease(d.now, job.Claim{Generation: x.Generation, JobGeneration: j.Generation, JobStatus: j.Status})
	})
	if err == nil {
		require.NotEqual(t, job.Running, fresh.State)
	}
}
