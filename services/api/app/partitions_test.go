package app_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/inbound"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func TestThePartitionCountsAreServed(t *testing.T) {
	r := newRig(t)
	code, _, body := r.call(http.MethodGet, "/v1/partitions", "")
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{"epochs":[{"n":4}]}`, body)
	next := trigger.Epochs{{N: 4}, {N: 8, From: time.Date(2027, 1, 1, 9, 0, 0, 0, time.UTC)}}
	require.NoError(t, r.store.SetEpochs(t.Context(), trigger.Epochs{{N: 4}}, next))
	_, _, body = r.call(http.MethodGet, "/v1/partitions", "")
	require.JSONEq(t, `{"epochs":[{"n":4},{"n":8,"from":"2027-01-01T09:00:00Z"}]}`, body)

	api, err := client.NewHTTP(r.url, client.HTTPOptions{Client: r.http})
	require.NoError(t, err)
	got, err := api.Epochs(t.Context())
	require.NoError(t, err)
	require.Equal(t, next, got)

	b := brokenRig(t, broken{err: errors.New("table of account 123456789012 is gone")}, nil)
	p := b.problem(http.StatusInternalServerError, http.MethodGet, "/v1/partitions", "")
	require.Empty(t, p.Detail)
}

// drain runs the real drain over the rig's engines until the test ends.
func (r *rig) drain() (dlq string) {
	r.t.Helper()
	dlq, err := r.queues.Create(r.t.Context(), queue.Spec{Name: "myosin-inbound-dlq"})
	require.NoError(r.t, err)
	members, err := membership.NewStatic(0, 1)
	require.NoError(r.t, err)
	in, err := inbound.New(inbound.Options{
		Store: r.store, Queue: r.queues, Services: lookup{r.services}, Members: members, Clock: clock.Trusted(nil),
		Owner: "drain-1", URLs: inbound.URLs{Inbound: [...]string{r.inbound, r.urgent}, DLQ: dlq}, Wait: time.Second, Grace: time.Second,
	})
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- in.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		require.NoError(r.t, <-done)
	})
	return dlq
}

// An owning service has the buffer and this API alone. The table has fewer
// partitions than the default, as that of a standalone.
func TestASenderWithoutTheTableLearnsThePartitionCount(t *testing.T) {
	r := newRig(t)
	api, err := client.NewHTTP(r.url, client.HTTPOptions{Client: r.http})
	require.NoError(t, err)
	sender := func(change func(*client.Options)) *client.Client {
		o := client.Options{Sender: r.queues, InboundURL: r.inbound}
		change(&o)
		c, err := client.New(o)
		require.NoError(t, err)
		return c
	}
	dlq := r.drain()
	dead := func() bool { return len(must(r.queues.Receive(t.Context(), dlq, queue.ReceiveOptions{}))) > 0 }
	for name, o := range map[string]func(*client.Options){
		"from its Triggers":   func(o *client.Options) { o.Triggers = api },
		"from its Partitions": func(o *client.Options) { o.Partitions, o.Triggers = api, triggersOnly{api} },
	} {
		t.Run(name, func(t *testing.T) {
			c := sender(o)
			job, err := c.Schedule(t.Context(), "hello", map[string]int{"n": 1}, client.In(time.Hour))
			require.NoError(t, err)
			h, err := trigger.ParseHandle(job.Handle)
			require.NoError(t, err)
			require.Equal(t, 4, h.N)
			var view client.TriggerView
			require.Eventually(t, func() bool {
				view, err = c.Get(t.Context(), job.Handle)
				return err == nil
			}, 10*time.Second, 10*time.Millisecond)
			require.Equal(t, "scheduled", view.State)
			require.JSONEq(t, `{"n":1}`, string(view.Payload))
			moved, err := c.Reschedule(t.Context(), job.Handle, job.Due.Add(time.Hour))
			require.NoError(t, err)
			got, err := c.Cancel(t.Context(), moved.Handle)
			require.NoError(t, err)
			require.Equal(t, client.OutcomeCancelled, got.Outcome)
			require.False(t, dead())
		})
	}
	t.Run("the trap: from neither", func(t *testing.T) {
		c := sender(func(o *client.Options) { o.Triggers = triggersOnly{api} })
		_, err := c.Schedule(t.Context(), "hello", "x", client.In(time.Hour))
		require.NoError(t, err)
		require.Eventually(t, dead, 10*time.Second, 10*time.Millisecond)
	})
}

// triggersOnly hides that its Triggers can tell the counts.
type triggersOnly struct{ client.Triggers }
