package dynamojobs_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/jobstore/dynamojobs"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func TestRecordsAreWrittenByVersionAndListed(t *testing.T) { testRecords(t, open(t)) }

func TestRecordsOnMinistack(t *testing.T) { testRecords(t, openAt(t, ministack(t))) }

func testRecords(t *testing.T, w *world) {
	ctx := t.Context()
	_, err := w.Tenant(ctx, "acme")
	require.ErrorIs(t, err, jobstore.ErrNotFound)
	tenant := jobstore.Tenant{ID: "acme", Rates: map[string]float64{"host:a": 2.5}, AllowTopics: []string{"arn:*"}}
	require.NoError(t, w.PutTenant(ctx, tenant))
	conflictOn(t, w.PutTenant(ctx, tenant), jobstore.PartRecord, 0)
	tenant.Version = 1
	got, err := w.Tenant(ctx, "acme")
	require.NoError(t, err)
	require.Equal(t, tenant, got)
	tenant.MaxConcurrent = 3
	require.NoError(t, w.PutTenant(ctx, tenant))
	conflictOn(t, w.PutTenant(ctx, tenant), jobstore.PartRecord, 0)

	for i := range 3 {
		k := jobstore.Key{ID: fmt.Sprint("key", i), Tenant: "acme", Role: "admin", Hash: [32]byte{byte(i)}, Created: created}
		require.NoError(t, w.PutKey(ctx, k))
		conflictOn(t, w.PutKey(ctx, k), jobstore.PartRecord, 0)
		k.Version, k.Revoked = 1, created.Add(time.Hour)
		require.NoError(t, w.PutKey(ctx, k))
		k.Version = 2
		got, err := w.Key(ctx, k.ID)
		require.NoError(t, err)
		require.Equal(t, k, got)
	}
	keys, err := w.Keys(ctx, "acme")
	require.NoError(t, err)
	require.Len(t, keys, 3)
	require.Equal(t, created.Add(time.Hour), keys[2].Revoked, "the list has what the key has")

	for i, id := range []string{"b", "c", "a"} {
		x := jobstore.Secret{Tenant: "acme", ID: id, Sealed: []byte(id), Created: created.Add(time.Duration(i) * time.Minute)}
		require.NoError(t, w.PutSecret(ctx, x))
	}
	require.NoError(t, w.DeleteSecret(ctx, "acme", "c"))
	require.ErrorIs(t, w.DeleteSecret(ctx, "acme", "c"), jobstore.ErrNotFound)
	secrets, err := w.Secrets(ctx, "acme")
	require.NoError(t, err)
	require.Len(t, secrets, 2)
	require.Equal(t, "a", secrets[0].ID, "newest first")

	var audit []jobstore.AuditRecord
	for i := range 5 {
		audit = append(audit, jobstore.AuditRecord{
			Tenant: "acme", At: created.Add(time.Duration(i) * time.Minute), ID: trigger.NewID(), Action: "job.pause", Expires: created.Add(90 * 24 * time.Hour),
		})
	}
	require.NoError(t, w.Commit(ctx, jobstore.Tx{Audit: audit}))
	first, err := w.Audit(ctx, "acme", "", 3)
	require.NoError(t, err)
	rest, err := w.Audit(ctx, "acme", first.Next, 3)
	require.NoError(t, err)
	require.Empty(t, rest.Next)
	require.Equal(t, []jobstore.AuditRecord{audit[4], audit[3], audit[2], audit[1], audit[0]}, append(first.Items, rest.Items...))
	_, err = w.Audit(ctx, "other", first.Next, 3)
	require.ErrorIs(t, err, jobstore.ErrCursor)
	other, err := w.Keys(ctx, "other")
	require.NoError(t, err)
	require.Empty(t, other)
}

func TestAKeptAnswerCountsUntilItExpires(t *testing.T) {
	w := open(t)
	now := time.Now().UTC()
	w.opts.Now = func() time.Time { return now }
	s, err := dynamojobs.New(w.opts)
	require.NoError(t, err)
	kept := jobstore.Idempotency{Tenant: "acme", Key: "a#b", BodyHash: [32]byte{1}, Status: 201, Answer: []byte("{}"), Expires: now.Add(time.Hour)}
	require.NoError(t, s.Commit(t.Context(), jobstore.Tx{Idempotency: &kept}))
	got, err := s.Idempotency(t.Context(), "acme", "a#b")
	require.NoError(t, err)
	require.Equal(t, kept, got)
	_, err = s.Idempotency(t.Context(), "other", "a#b")
	require.ErrorIs(t, err, jobstore.ErrNotFound)
	now = now.Add(time.Hour - time.Millisecond)
	conflictOn(t, s.Commit(t.Context(), jobstore.Tx{Idempotency: &kept}), jobstore.PartIdempotency, 0)
	now = now.Add(time.Millisecond)
	_, err = s.Idempotency(t.Context(), "acme", "a#b")
	require.ErrorIs(t, err, jobstore.ErrNotFound)
	kept.Status, kept.Expires = 409, now.Add(time.Hour)
	require.NoError(t, s.Commit(t.Context(), jobstore.Tx{Idempotency: &kept}))
	got, err = s.Idempotency(t.Context(), "acme", "a#b")
	require.NoError(t, err)
	require.Equal(t, kept, got)
}

func TestWhatShouldHaveWokenIsFoundOldestFirst(t *testing.T) { testDue(t, open(t)) }

func TestDueOnMinistack(t *testing.T) { testDue(t, openAt(t, ministack(t))) }

func testDue(t *testing.T, w *world) {
	ctx := t.Context()
	want := map[jobstore.Wake]bool{}
	for i := range 40 {
		j := aJob()
		j.Wake = created.Add(time.Duration(i) * time.Minute)
		r := job.NewRun(j.ID, 1, created)
		r.Wake = created.Add(time.Duration(i)*time.Minute + time.Second)
		require.NoError(t, w.Commit(ctx, jobstore.Tx{Create: j, Runs: []job.Run{r}}))
		if i < 20 {
			want[jobstore.Wake{Job: j.ID, At: j.Wake}], want[jobstore.Wake{Job: j.ID, Run: r.ID, At: r.Wake}] = true, true
		}
	}
	before := created.Add(20 * time.Minute) // the twentieth wakes then: not before
	got := map[jobstore.Wake]bool{}
	for shard := range jobstore.Wakes {
		due, err := w.Due(ctx, shard, before, 100)
		require.NoError(t, err)
		for i := range due {
			got[due[i]] = true
			require.False(t, i > 0 && due[i].At.Before(due[i-1].At))
		}
		if len(due) > 1 {
			less, err := w.Due(ctx, shard, before, len(due)-1)
			require.NoError(t, err)
			require.Equal(t, due[:len(due)-1], less)
		}
	}
	require.Equal(t, want, got)
	for wake := range want { // what is done is looked for no more
		if wake.Run == "" {
			continue
		}
		r, err := w.Run(ctx, wake.Run)
		require.NoError(t, err)
		r.State, r.Wake, r.Ended = job.Succeeded, time.Time{}, created
		require.NoError(t, w.Commit(ctx, jobstore.Tx{Runs: []job.Run{r}}))
	}
	for shard := range jobstore.Wakes {
		due, err := w.Due(ctx, shard, before, 100)
		require.NoError(t, err)
		for _, wake := range due {
			require.Empty(t, wake.Run)
		}
	}
	_, err := w.Due(ctx, jobstore.Wakes, before, 1)
	require.Error(t, err)
}

// One of several writers with the same seq wins, by one item and by a transaction.
func TestOneOfSeveralWritersWins(t *testing.T) { testRace(t, open(t)) }

func TestWritersRaceOnMinistack(t *testing.T) { testRace(t, openAt(t, ministack(t))) }

func testRace(t *testing.T, w *world) {
	j := aJob()
	require.NoError(t, w.Commit(t.Context(), jobstore.Tx{Create: j}))
	var won, lost atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			edited := *j
			edited.Seq, edited.Generation, edited.Version = 1, 2, 2
			edited.Name = strings.Repeat("x", i+1)
			tx := jobstore.Tx{Edit: &edited}
			if i%2 == 0 {
				tx = jobstore.Tx{Progress: &jobstore.ProgressWrite{Job: j.ID, Progress: job.Progress{Seq: 1}}}
			}
			switch err := w.Commit(t.Context(), tx); {
			case err == nil:
				won.Add(1)
			case jobstore.Conflict(err, jobstore.PartJob):
				lost.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, won.Load())
	require.EqualValues(t, 7, lost.Load())
	got, err := w.Job(t.Context(), j.ID)
	require.NoError(t, err)
	require.EqualValues(t, 2, got.Seq)
}
