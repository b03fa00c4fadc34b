package target

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

func TestAWorkerHandlesARunByItsJobsName(t *testing.T) {
	q := memqueue.New(memqueue.Options{})
	url, err := q.Create(t.Context(), queue.Spec{Name: "pay"})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	w, err := worker.New(worker.Options{Receiver: q, QueueURL: url, Wait: time.Second})
	require.NoError(t, err)
	var got worker.Job[map[string]int]
	worker.Handle(w, "remind", func(_ context.Context, j worker.Job[map[string]int]) error {
		got = j
		cancel()
		return nil
	})
	first := job.NewRunID(trigger.KeyedID("test", "", "job"), 1, message().ScheduledAt)
	m := message()
	m.ID, m.OriginalRunID, m.RunID = first.TriggerID(), string(first), string(first.Redriven())
	require.NoError(t, queueSender(t, q, registry.NewStatic(registry.Service{Name: "pay", QueueURL: url})).Send(t.Context(), "pay", m).Err)
	require.NoError(t, w.Run(ctx))
	require.Equal(t, first.TriggerID(), got.ID)
	require.Equal(t, map[string]int{"a": 1}, got.Payload)
	require.Equal(t, "acme", got.Tenant)
	require.True(t, m.ScheduledAt.Equal(got.Due))
	require.Equal(t, string(first.Redriven()), got.Headers[HeaderRunID])
	require.Equal(t, string(first), got.Headers[HeaderOriginalRunID])
	require.Empty(t, q.Messages(url))
}
