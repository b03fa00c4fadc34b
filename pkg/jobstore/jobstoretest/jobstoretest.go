// Package jobstoretest is the suite that every implementation of jobstore.Store
// passes: a test for each sentence of the contract, and random transactions
// against a plain model.
//
// It owns no state and starts no goroutine that it does not wait for; Run may be
// called from any number of tests.
package jobstoretest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Harness is an empty store, and what a test needs beside it.
type Harness struct {
	Store jobstore.Store
	// Row returns the trigger row under a key; nil where there is none.
	Row func(ctx context.Context, k trigger.Key) (*store.Row, error)
	// Advance moves the store's clock, which starts at [Start].
	Advance func(d time.Duration)
}

// Start is what a harness's clock has to show at first. The suite's times are
// around it.
func Start() time.Time { return time.UnixMilli(1_800_000_000_000).UTC() }

type test struct {
	name string
	run  func(t *testing.T, h Harness)
}

// Run runs the suite. New returns a harness over tables of its own; it is called
// once for each subtest, with the subtest's t.
func Run(t *testing.T, New func(t *testing.T) Harness) { //nolint:gocritic // New is a constructor.
	t.Helper()
	for _, group := range [][]test{commitTests(), keptTests(), listTests(), dueTests(), recordTests(), modelTests()} {
		for _, tt := range group {
			t.Run(tt.name, func(t *testing.T) { tt.run(t, New(t)) })
		}
	}
}

// Lists and Due may lag behind the writes: how long a test waits for them.
const (
	bound = 2 * time.Second
	poll  = 20 * time.Millisecond
)

// eventually reads until what is read is what is wanted.
func eventually[T any](t *testing.T, want T, read func() T) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), bound)
	defer stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		got := read()
		if assert.ObjectsAreEqual(want, got) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.Equal(t, want, got)
			return
		}
	}
}

// tb is what both a test and a property check with.
type tb interface {
	require.TestingT
	Helper()
}

func conflictOn(t tb, err error, part jobstore.Part, index int) {
	t.Helper()
	var c *jobstore.ConflictError
	require.ErrorAs(t, err, &c)
	require.Equal(t, jobstore.ConflictError{Part: part, Index: index}, *c)
	require.True(t, jobstore.Conflict(err, part))
}

func commit(t *testing.T, h Harness, tx jobstore.Tx) {
	t.Helper()
	require.NoError(t, h.Store.Commit(t.Context(), tx))
}

// create commits a job and returns it as it is kept.
func create(t *testing.T, h Harness, j job.Job) job.Job {
	t.Helper()
	commit(t, h, jobstore.Tx{Create: &j})
	j.Version, j.Seq = 1, 1
	return j
}

// put commits a run and returns it as it is kept.
func put(t *testing.T, h Harness, r job.Run) job.Run {
	t.Helper()
	commit(t, h, jobstore.Tx{Runs: []job.Run{r}})
	r.Version++
	return r
}

func holdsJob(t *testing.T, h Harness, want job.Job) {
	t.Helper()
	got, err := h.Store.Job(t.Context(), want.ID)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func holdsRun(t *testing.T, h Harness, want job.Run) {
	t.Helper()
	got, err := h.Store.Run(t.Context(), want.ID)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func holdsNoRun(t *testing.T, h Harness, id job.RunID) {
	t.Helper()
	_, err := h.Store.Run(t.Context(), id)
	require.ErrorIs(t, err, jobstore.ErrNotFound)
}

func holdsRow(t *testing.T, h Harness, r *store.Row, want bool) {
	t.Helper()
	got, err := h.Row(t.Context(), r.Key())
	require.NoError(t, err)
	require.Equal(t, want, got != nil, "whether a trigger is there")
	if want {
		require.Equal(t, r.ID, got.ID)
		require.Equal(t, r.Payload, got.Payload)
	}
}
