package scheduler

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
)

// readers counts rows by how much of them was read.
type readers struct {
	*memstore.Store
	mu         sync.Mutex
	full, thin int
}

func (r *readers) Range(ctx context.Context, q store.Range) (store.Page, error) {
	page, err := r.Store.Range(ctx, q)
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.Heads {
		r.thin += len(page.Rows)
	} else {
		r.full += len(page.Rows)
	}
	return page, err
}

// bodies notes the size of each message and how late it was sent.
type bodies struct {
	measured
	mu    sync.Mutex
	sizes map[int]int
}

func (b *bodies) SendBatch(ctx context.Context, url string, msgs []queue.Message) []error {
	b.mu.Lock()
	for i := range msgs {
		b.sizes[len(msgs[i].Body)]++
	}
	b.mu.Unlock()
	return b.measured.SendBatch(ctx, url, msgs)
}

func TestABusyPartitionIsReadOnceAndStillFindsWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, late = 6000, 40
		table := &readers{Store: memstore.New(memstore.Options{})}
		services := registry.NewStatic(registry.Service{Name: "svc", QueueURL: "http://q/1/svc"})
		out := &bodies{measured: measured{worst: map[string]time.Duration{}}, sizes: map[int]int{}}
		_, stop := running(t, table.Store, 1, out, services, func(o *Options) { o.Store = table })
		// One a millisecond: at any time some thousands lie within the look-ahead.
		fill(t, table.Store, jobs, 1, time.Now().Add(10*time.Second), func(int) string { return "svc" }, 100)
		time.Sleep(10 * time.Second)
		for i := range late { // among rows that were read already
			fill(t, table.Store, 1, 1, time.Now().Add(1500*time.Millisecond), func(int) string { return "svc" }, 200+3*i)
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		stop()
		taken, worst := out.of("http://q/1/svc")
		require.Equal(t, jobs+late, taken)
		require.Less(t, worst, 100*time.Millisecond, "what is new is found within a second")
		sizes := 0
		for _, n := range out.sizes {
			sizes += n
		}
		require.Equal(t, jobs+late, sizes)
		require.Len(t, out.sizes, late+1, "each with the payload it was stored with")
		t.Logf("%d rows read in full, %d thinly", table.full, table.thin)
		require.Less(t, table.full, 2*jobs)
		require.Greater(t, table.thin, jobs)
	})
}
