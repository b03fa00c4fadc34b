package runs

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func TestTheTargetTellsRepeatedEarlyAndStrangeCallsApart(t *testing.T) {
	n := newNotes(0, 0, 0)
	call := func(path, id string, nominal time.Time) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, http.NoBody)
		r.Header.Set(target.HeaderRunID, id)
		r.Header.Set(target.HeaderScheduledAt, nominal.UTC().Format(time.RFC3339Nano))
		w := httptest.NewRecorder()
		n.ServeHTTP(w, r)
		return w.Code
	}
	past, future := time.Now().Add(-time.Second), time.Now().Add(time.Hour)
	id := string(job.NewRunID(trigger.NewID(), 1, past))
	require.Equal(t, http.StatusOK, call(pathStandard, id, past))
	require.Equal(t, http.StatusOK, call(pathStandard, id, past))
	require.Equal(t, http.StatusOK, call(pathUrgent, string(job.NewRunID(trigger.NewID(), 1, future)), future))
	require.Equal(t, http.StatusBadRequest, call(pathStandard, "x", past))
	f := n.figures()
	require.Equal(t, 2, f.Runs)
	require.Equal(t, 1, f.Repeated)
	require.Equal(t, 1, f.Early)
	require.Equal(t, 1, f.Strange)
	require.EqualValues(t, 1, f.Standard.Runs)
	require.EqualValues(t, 1, f.Urgent.Runs)
	require.InDelta(t, 1000, f.Standard.P50, 500)
	n.reset()
	require.Equal(t, Figures{}, n.figures())

	r := Report{Expected: 3, Figures: f}
	err := r.Failure()
	for _, what := range []string{"1 runs lost", "1 runs called again", "1 runs early", "1 calls that are no run's"} {
		require.ErrorContains(t, err, what)
	}
}

func TestASpreadRunIsJudgedByItsOwnMoment(t *testing.T) {
	const tolerance = time.Minute
	n := newNotes(0, tolerance, 0)
	j := trigger.NewID()
	at := func(after time.Duration, i int) {
		nominal := time.Date(2027, 1, 1, 0, 0, i, 0, time.UTC)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, pathStandard, http.NoBody)
		r.Header.Set(target.HeaderRunID, string(job.NewRunID(j, 1, nominal)))
		r.Header.Set(target.HeaderScheduledAt, nominal.Format(time.RFC3339Nano))
		require.NoError(t, n.note(r, nominal.Add(after)))
	}
	moment := job.Spread(j, tolerance, 0)
	for moment < time.Second || moment > tolerance-5*time.Second { // so that what follows lies within the tolerance
		j = trigger.NewID()
		moment = job.Spread(j, tolerance, 0)
	}
	at(moment+time.Second, 0)
	at(tolerance+2*time.Second, 1)
	at(moment-time.Millisecond, 2)
	f := n.figures()
	require.Equal(t, 1, f.Late)
	require.InDelta(t, 2000, f.Over, 0.001)
	require.Equal(t, 1, f.Early)
	require.InDelta(t, 1000, f.FromDue.P50, 2)
}

func TestFlatnessIsOfWholeSeconds(t *testing.T) {
	var even, uneven []int64
	for s := range int64(60) {
		for i := range int64(10) {
			even = append(even, s*1000+i*100)
			uneven = append(uneven, s*1000+i*100)
		}
		if s == 30 {
			for i := range int64(10) {
				uneven = append(uneven, s*1000+900+i)
			}
		}
	}
	mean, most, most10 := flatness(even)
	require.InDelta(t, 10, mean, 0)
	require.InDelta(t, 10, most, 0)
	require.InDelta(t, 10, most10, 0)
	mean, most, most10 = flatness(uneven)
	require.InDelta(t, 10.17, mean, 0.01)
	require.InDelta(t, 20, most, 0)
	require.InDelta(t, 11, most10, 0)
	require.InDelta(t, 10, steady(even), 0.001)
	mean, _, _ = flatness(even[:50])
	require.Zero(t, mean, "five seconds tell nothing")
}
