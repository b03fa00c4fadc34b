package inbound

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
)

func TestTheCrewGrowsWithFullPollsAndShrinksWithPoorOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newCrew(16)
		var joined, left atomic.Int32
		for i := range 16 {
			go func() {
				if c.join(ctx, i) {
					joined.Add(1)
				} else {
					left.Add(1)
				}
			}()
		}
		for _, step := range []struct{ found, joined int }{
			{0, 2}, {queue.MaxBatch - 1, 2}, {queue.MaxBatch, 4}, {queue.MaxBatch, 8}, {queue.MaxBatch, 16}, {queue.MaxBatch, 16},
		} {
			c.found(step.found)
			synctest.Wait()
			require.EqualValues(t, step.joined, joined.Load())
		}
		for range 20 {
			c.found(queue.MaxBatch/2 - 1)
		}
		require.Equal(t, 2, c.size)
		require.True(t, c.join(ctx, 1))
		go func() {
			if !c.join(ctx, 2) {
				left.Add(1)
			}
		}()
		synctest.Wait()
		require.Zero(t, left.Load())
		cancel()
		synctest.Wait()
		require.EqualValues(t, 1, left.Load())
		require.False(t, c.join(ctx, 0))
	})
}

func TestACrewOfOneStaysOne(t *testing.T) {
	c := newCrew(1)
	c.found(queue.MaxBatch)
	require.Equal(t, 1, c.size)
	c.found(0)
	require.Equal(t, 1, c.size)
}
