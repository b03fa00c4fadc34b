package job

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryEditOfAJob(t *testing.T) {
	want := map[JobStatus]map[Edit]JobStatus{
		JobIsActive:  {Pause: JobIsPaused, Schedule: JobIsActive, Delete: JobIsDeleted},
		JobIsPaused:  {Resume: JobIsActive, Schedule: JobIsPaused, Delete: JobIsDeleted},
		JobIsDeleted: {},
	}
	for status, edits := range want {
		for _, e := range []Edit{Pause, Resume, Schedule, Delete, "other"} {
			next, generation, ok := e.Apply(status, 7)
			after, changes := edits[e]
			require.Equal(t, changes, ok, "%s %s", status, e)
			if !changes {
				require.Equal(t, status, next)
				require.EqualValues(t, 7, generation)
				continue
			}
			require.Equal(t, after, next)
			require.EqualValues(t, 8, generation)
		}
	}
}

func TestWhatAnEditDoesToARunInEachState(t *testing.T) {
	for _, e := range []Edit{Pause, Resume, Schedule, Delete} {
		for _, s := range []State{Scheduled, Running, Retrying, Succeeded, Dead, Cancelled, Skipped} {
			want := s
			switch {
			case s == Scheduled && e == Pause:
				want = Skipped
			case s == Scheduled, s == Retrying && e == Delete:
				want = Cancelled
			}
			r := in(t, s).Edited(start(), e)
			require.Equal(t, want, r.State, "%s %s", s, e)
			require.Equal(t, s == Running && e == Delete, r.CancelRequested)
		}
	}
}
