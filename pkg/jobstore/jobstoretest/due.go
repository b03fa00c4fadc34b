package jobstoretest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

func dueTests() []test {
	return []test{
		{"what should have woken is found in one shard, oldest first", finds},
		{"what is done is looked for no more", forgets},
		{"a shard has bounds", shards},
	}
}

// woken returns what every shard has, and checks each shard's order.
func woken(t *testing.T, h Harness, before time.Time) map[jobstore.Wake]int {
	t.Helper()
	found := map[jobstore.Wake]int{}
	for shard := range jobstore.Wakes {
		due, err := h.Store.Due(t.Context(), shard, before, 1000)
		require.NoError(t, err)
		for i, w := range due {
			found[w]++
			require.False(t, i > 0 && w.At.Before(due[i-1].At), "oldest first")
		}
	}
	return found
}

func finds(t *testing.T, h Harness) {
	want := map[jobstore.Wake]int{}
	for i := range 30 {
		j := newJob(tenantOf())
		j.Wake = after(30 - i)
		r := newRun(&j, 0)
		r.Wake = after(i).Add(time.Millisecond)
		asleep := newRun(&j, 1) // never
		commit(t, h, jobstore.Tx{Create: &j, Runs: []job.Run{r, asleep}})
		for _, w := range []jobstore.Wake{{Job: j.ID, At: j.Wake}, {Job: j.ID, Run: r.ID, At: r.Wake}} {
			if w.At.Before(after(20)) {
				want[w] = 1
			}
		}
	}
	eventually(t, want, func() map[jobstore.Wake]int { return woken(t, h, after(20)) })
	eventually(t, map[jobstore.Wake]int{}, func() map[jobstore.Wake]int { return woken(t, h, after(0)) })
	for shard := range jobstore.Wakes {
		all, err := h.Store.Due(t.Context(), shard, after(20), 1000)
		require.NoError(t, err)
		for limit := 1; limit < len(all); limit++ {
			some, err := h.Store.Due(t.Context(), shard, after(20), limit)
			require.NoError(t, err)
			require.Len(t, some, limit)
			for i := range some { // of one moment, any
				require.Equal(t, all[i].At, some[i].At)
			}
		}
	}
}

func forgets(t *testing.T, h Harness) {
	j := newJob(tenantOf())
	j.Wake = after(1)
	j = create(t, h, j)
	r := newRun(&j, 0)
	r.Wake = after(2)
	r = put(t, h, r)
	holds := func(want ...jobstore.Wake) {
		t.Helper()
		all := map[jobstore.Wake]int{}
		for _, w := range want {
			all[w] = 1
		}
		eventually(t, all, func() map[jobstore.Wake]int { return woken(t, h, after(100)) })
	}
	ofJob, ofRun := jobstore.Wake{Job: j.ID, At: after(1)}, jobstore.Wake{Job: j.ID, Run: r.ID, At: after(2)}
	holds(ofJob, ofRun)

	r.Wake = after(5) // later
	r = put(t, h, r)
	ofRun.At = after(5)
	holds(ofJob, ofRun)
	r.State, r.Wake, r.Ended = job.Succeeded, time.Time{}, after(5)
	put(t, h, r)
	holds(ofJob)

	w := jobstore.ProgressWrite{Job: j.ID, Progress: job.Progress{Seq: 1, Wake: after(7)}}
	commit(t, h, jobstore.Tx{Progress: &w})
	ofJob.At = after(7)
	holds(ofJob)
	w.Progress = job.Progress{Seq: 2}
	commit(t, h, jobstore.Tx{Progress: &w})
	holds()
	j.Progress = job.Progress{Seq: 3, Wake: after(9)}
	commit(t, h, jobstore.Tx{Edit: &j})
	holds(jobstore.Wake{Job: j.ID, At: after(9)})
	j.Progress, j.Status = job.Progress{Seq: 4}, job.JobIsDeleted
	commit(t, h, jobstore.Tx{Edit: &j})
	holds()
}

func shards(t *testing.T, h Harness) {
	for _, bad := range []struct{ shard, limit int }{{-1, 1}, {jobstore.Wakes, 1}, {0, 0}, {0, -1}} {
		_, err := h.Store.Due(t.Context(), bad.shard, after(0), bad.limit)
		require.Error(t, err, "%v", bad)
	}
}
