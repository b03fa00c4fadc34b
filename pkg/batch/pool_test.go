package batch_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/batch"
)

func TestPoolRunsEveryTaskAtOnceAndEndsItsGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		p := batch.NewPool()
		var ran atomic.Int64
		for range 3 {
			var all sync.WaitGroup
			all.Add(10)
			gate := make(chan struct{})
			for range 10 {
				p.Go(func() { ran.Add(1); <-gate; all.Done() })
			}
			synctest.Wait()
			close(gate) // only if all ten run beside one another does anything end
			all.Wait()
		}
		require.EqualValues(t, 30, ran.Load())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, before, runtime.NumGoroutine())
	})
}

func TestPoolUsesAnIdleGoroutineAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := batch.NewPool()
		before := runtime.NumGoroutine()
		for range 20 {
			done := make(chan struct{})
			p.Go(func() { close(done) })
			<-done
			synctest.Wait() // it waits for more
		}
		require.Equal(t, before+1, runtime.NumGoroutine())
		p.Close()
		p.Close()
		synctest.Wait()
		require.Equal(t, before, runtime.NumGoroutine(), "closed, it keeps none idle")
		done := make(chan struct{})
		p.Go(func() { close(done) })
		<-done
	})
}
