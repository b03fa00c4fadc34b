package scheduler

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// SIGTERM while a queue hangs and its service has far more acquired than fits
// into the sends under way.
func TestShutdownEndsInTimeWhileAQueueHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := memstore.New(memstore.Options{})
		services := registry.NewStatic(registry.Service{Name: "hung", QueueURL: "http://q/1/hung"})
		require.NoError(t, table.SetEpochs(t.Context(), nil, trigger.Epochs{{N: 4}}))
		s := reviewed(t, table, &measured{worst: map[string]time.Duration{}}, services, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(2 * time.Second)
		fill(t, table, 2000, 4, time.Now(), func(int) string { return "hung" }, 10)
		for s.lanes[1].d.Open() < 200 {
			time.Sleep(10 * time.Millisecond)
		}
		start := time.Now()
		cancel()
		err := <-done
		states := map[string]int{}
		for _, r := range table.Rows() {
			states[r.State.Kind().String()]++
		}
		t.Log(time.Since(start), err, states)
		require.NoError(t, err)
		require.Less(t, time.Since(start), 15*time.Second, "one send's timeout, then everything is released")
		require.Zero(t, states["acquired"], fmt.Sprint(states))
	})
}
