package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALeaseIsHeldToItsLastMoment(t *testing.T) {
	r := in(t, Running)
	end := start().Add(LeaseFor)
	claim := Claim{Generation: 1, JobGeneration: 1, JobStatus: JobIsActive}
	for _, left := range []time.Duration{time.Millisecond, time.Second, 20 * time.Second} {
		_, err := r.Lease(end.Add(-left), claim)
		var held *ConflictError
		require.ErrorAs(t, err, &held)
		require.Equal(t, LeaseHeld, held.Kind, "%s before its end", left)
		require.Equal(t, end, held.Until)
		_, err = r.Expire(end.Add(-left), DefaultRetry(), 0)
		require.Equal(t, LeaseHeld, kind(err))
	}
	_, err := r.Lease(end, claim)
	require.Equal(t, LeaseExpired, kind(err))
	expired, err := r.Expire(end, DefaultRetry(), 0)
	require.NoError(t, err)
	require.Equal(t, Retrying, expired.State)
}

func TestARunPutBackHasNoFailureAndWaits(t *testing.T) {
	until := start().Add(time.Minute)
	r, err := in(t, Running).PutBack(start(), 1, until)
	require.NoError(t, err)
	require.Equal(t, Retrying, r.State)
	require.Zero(t, r.Failures)
	require.Zero(t, r.Crashes)
	require.Equal(t, until, r.NotBefore)
	require.Equal(t, until, r.Wake)
	require.Equal(t, 1, r.Deferrals)
	_, err = in(t, Running).PutBack(start(), 2, until)
	require.Equal(t, StaleAttempt, kind(err))
	asked, err := in(t, Running).Cancel(start(), "x")
	require.NoError(t, err)
	asked, err = asked.PutBack(start(), 1, until)
	require.NoError(t, err)
	require.Equal(t, Cancelled, asked.State)
}
