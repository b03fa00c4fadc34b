package batch_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/batch"
)

func TestFullBatchesLeaveAtOnceAndTheRestAfterTheLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sizes []int
		var when []time.Duration
		start := time.Now()
		b, err := batch.New(batch.Options[int]{Size: 10, Linger: 5 * time.Millisecond, Workers: 4, Flush: func(items []int) {
			mu.Lock()
			defer mu.Unlock()
			sizes = append(sizes, len(items))
			when = append(when, time.Since(start))
		}})
		require.NoError(t, err)
		defer b.Close()
		b.Add(make([]int, 13)...)
		synctest.Wait()
		mu.Lock()
		require.Equal(t, []int{10}, sizes)
		mu.Unlock()
		time.Sleep(6 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []int{10, 3}, sizes)
		require.Equal(t, 5*time.Millisecond, when[1])
	})
}

func TestWhatAFullBatchLeavesBehindLingersFromItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		var when []time.Duration
		b, err := batch.New(batch.Options[int]{Size: 10, Linger: 5 * time.Millisecond, Workers: 4, Flush: func([]int) {
			mu.Lock()
			defer mu.Unlock()
			when = append(when, time.Since(start))
		}})
		require.NoError(t, err)
		defer b.Close()
		b.Add(1)
		time.Sleep(4 * time.Millisecond)
		b.Add(make([]int, 10)...) // ten leave, one stays and has come just now
		time.Sleep(20 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []time.Duration{4 * time.Millisecond, 9 * time.Millisecond}, when)
	})
}

func TestDrainWaitsForItemsAddedByFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		tries := map[int]int{}
		var b *batch.Batcher[int]
		b, err := batch.New(batch.Options[int]{Size: 3, Linger: time.Hour, Workers: 1, Flush: func(items []int) {
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			for _, i := range items {
				if tries[i]++; tries[i] < 3 {
					b.Add(i)
				}
			}
		}})
		require.NoError(t, err)
		b.Add(1, 2, 3, 4)
		b.Drain()
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, map[int]int{1: 3, 2: 3, 3: 3, 4: 3}, tries)
	})
}

func TestWorkersBoundBatchesInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		b, err := batch.New(batch.Options[int]{Size: 1, Workers: 2, Flush: func([]int) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
		}})
		require.NoError(t, err)
		b.Add(make([]int, 9)...)
		b.Drain()
		require.Equal(t, 2, most)
	})
}

func TestOptionsReportEveryProblem(t *testing.T) {
	_, err := batch.New(batch.Options[int]{Linger: -1})
	for _, part := range []string{"size", "linger", "workers", "flush"} {
		require.ErrorContains(t, err, part)
	}
}
