package client_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// hangs is a source of epochs that answers once, then only when the call ends.
type hangs struct{ calls atomic.Int64 }

func (h *hangs) Epochs(ctx context.Context) (trigger.Epochs, error) {
	if h.calls.Add(1) == 1 {
		return trigger.Epochs{{N: 4}}, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAHangingSourceOfPartitionCountsHoldsNobodyUpForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &hangs{}
		b := newBed(t, nil, func(o *client.Options) { o.Partitions = src })
		took := func() time.Duration {
			began := time.Now()
			job, err := b.Schedule(t.Context(), "payments", "x")
			require.NoError(t, err)
			require.Equal(t, 4, handle(t, job.Handle).N)
			return time.Since(began)
		}
		require.Zero(t, took())
		time.Sleep(20 * time.Second)
		first := make(chan time.Duration)
		go func() { first <- took() }()
		synctest.Wait()
		for range 10 {
			require.Zero(t, took(), "one asks again, the others go on with what is known")
		}
		require.Equal(t, 2*time.Second, <-first)
		require.Zero(t, took(), "it is left alone for a while")
		require.EqualValues(t, 2, src.calls.Load())
	})
}

func TestTriggersThatKnowThePartitionCountsAreAsked(t *testing.T) {
	d := newDesk(t, memstore.Options{})
	require.NoError(t, d.s.SetEpochs(t.Context(), nil, trigger.Epochs{{N: 4}}))
	for n, change := range map[int]func(*client.Options){
		4:                         func(o *client.Options) { o.Triggers = d.Table },
		16:                        func(o *client.Options) { o.Triggers, o.Partitions = d.Table, &counts{epochs: trigger.Epochs{{N: 16}}} },
		trigger.DefaultPartitions: func(o *client.Options) { o.Triggers = struct{ client.Triggers }{d.Table} },
	} {
		job, err := newBed(t, nil, change).Schedule(t.Context(), "payments", "x")
		require.NoError(t, err)
		require.Equal(t, n, handle(t, job.Handle).N)
	}
}

func TestPartitionCountsThatMakeNoSenseAreNotUsed(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"empty":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) },
		"zero":      func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"epochs":[{"n":0}]}`)) },
		"shrinking": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"epochs":[{"n":8},{"n":4}]}`)) },
		"an API of before": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", client.ProblemType)
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"code":"not_found"}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(answer)
			defer srv.Close()
			api, err := client.NewHTTP(srv.URL, client.HTTPOptions{})
			require.NoError(t, err)
			b := newBed(t, nil, func(o *client.Options) { o.Triggers = api })
			_, err = b.Schedule(t.Context(), "payments", "x")
			require.ErrorContains(t, err, "partition")
			require.NotErrorIs(t, err, client.ErrNotFound, "no trigger was asked for")
			require.Empty(t, b.submissions(t, b.inbound))
		})
	}
}
