package registry_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/lifecycle/lifecycletest"
	"github.com/myosin-jobs/myosin/pkg/registry"
)

// counted counts the calls to a source, delays its Gets, and can lag behind in
// its lists as DynamoDB does.
type counted struct {
	*registry.Static
	mu          sync.Mutex
	gets, lists int
	delay       time.Duration
	stale       []registry.Service
	partial     error
}

func (c *counted) Get(ctx context.Context, name string) (registry.Service, error) {
	c.mu.Lock()
	c.gets++
	c.mu.Unlock()
	select {
	case <-time.After(c.delay):
	case <-ctx.Done():
		return registry.Service{}, ctx.Err()
	}
	return c.Static.Get(ctx, name)
}

func (c *counted) List(ctx context.Context) ([]registry.Service, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists++
	if c.stale != nil {
		return c.stale, nil
	}
	all, err := c.Static.List(ctx)
	return all, errors.Join(err, c.partial)
}

func svc(name string) registry.Service {
	return registry.Service{Name: name, QueueURL: "http://localhost:4566/000000000000/myosin-svc-" + name}
}

func open(t *testing.T, services ...registry.Service) (*registry.Cache, *counted, *prometheus.Registry) {
	src := &counted{Static: registry.NewStatic(services...)}
	reg := prometheus.NewPedanticRegistry()
	cache, err := registry.NewCache(registry.CacheOptions{Source: src, Metrics: reg})
	require.NoError(t, err)
	return cache, src, reg
}

func value(t *testing.T, reg *prometheus.Registry, name, result string) float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != name || result != "" && m.GetLabel()[0].GetValue() != result {
				continue
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return 0
}

func TestKnownServicesAreAnsweredFromMemory(t *testing.T) {
	cache, src, reg := open(t, svc("a"), svc("b"))
	n, err := cache.Refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, n)
	for range 10 {
		got, err := cache.Lookup(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, svc("a"), got)
	}
	require.Zero(t, src.gets)
	require.Equal(t, []registry.Service{svc("a"), svc("b")}, cache.All())
	require.InDelta(t, 10, value(t, reg, "myosin_registry_lookups_total", "hit"), 0)
	require.InDelta(t, 2, value(t, reg, "myosin_registry_services", ""), 0)
}

func TestUnknownNamesDoNotHammerTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, src, reg := open(t)
		for range 100 {
			_, err := cache.Lookup(t.Context(), "late")
			require.ErrorIs(t, err, registry.ErrUnknown)
		}
		require.Equal(t, 1, src.gets)
		require.NoError(t, src.Put(t.Context(), svc("late")))
		time.Sleep(registry.DefaultNegative)
		_, err := cache.Lookup(t.Context(), "late")
		require.NoError(t, err)
		require.Equal(t, 2, src.gets)
		require.InDelta(t, 100, value(t, reg, "myosin_registry_lookups_total", "unknown"), 0)
	})
}

func TestRefreshEndsAnUnknown(t *testing.T) {
	cache, src, _ := open(t)
	_, err := cache.Lookup(t.Context(), "late")
	require.ErrorIs(t, err, registry.ErrUnknown)
	require.NoError(t, src.Put(t.Context(), svc("late")))
	_, err = cache.Refresh(t.Context())
	require.NoError(t, err)
	_, err = cache.Lookup(t.Context(), "late")
	require.NoError(t, err)
	require.Equal(t, 1, src.gets)
}

func TestConcurrentMissesShareOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, src, _ := open(t, svc("a"))
		src.delay = time.Second
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				got, err := cache.Lookup(t.Context(), "a")
				require.NoError(t, err)
				require.Equal(t, "a", got.Name)
			})
		}
		wg.Wait()
		require.Equal(t, 1, src.gets)
	})
}

func TestACallerThatGivesUpDoesNotFailTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, src, _ := open(t, svc("a"))
		src.delay = 2 * time.Second
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := cache.Lookup(short, "a")
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		synctest.Wait()
		wg.Go(func() { // waits for the first, then reads for itself
			_, err := cache.Lookup(t.Context(), "a")
			require.NoError(t, err)
		})
		wg.Go(func() { // its own context ends while it waits
			_, err := cache.Lookup(short, "a")
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		wg.Wait()
		require.Equal(t, 2, src.gets)
	})
}

func TestAFailingSourceIsNotUnknownAndIsTriedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, src, _ := open(t, svc("a"))
		down := errors.New("table is down")
		src.Fail(down)
		for range 10 {
			_, err := cache.Lookup(t.Context(), "a")
			require.ErrorIs(t, err, down)
			require.NotErrorIs(t, err, registry.ErrUnknown)
		}
		require.Equal(t, 1, src.gets)
		src.Fail(nil)
		time.Sleep(time.Second)
		_, err := cache.Lookup(t.Context(), "a")
		require.NoError(t, err)
	})
}

func TestAFailedRefreshKeepsTheOldView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, src, reg := open(t, svc("a"))
		require.Error(t, cache.Ready())
		src.Fail(errors.New("table is down"))
		_, err := cache.Refresh(t.Context())
		require.ErrorContains(t, err, "table is down")
		require.ErrorContains(t, cache.Ready(), "table is down")

		src.Fail(nil)
		_, err = cache.Refresh(t.Context())
		require.NoError(t, err)
		require.NoError(t, cache.Ready())

		src.Fail(errors.New("table is down"))
		time.Sleep(time.Hour)
		_, err = cache.Refresh(t.Context())
		require.Error(t, err)
		require.NoError(t, cache.Ready())
		_, err = cache.Lookup(t.Context(), "a")
		require.NoError(t, err)
		require.InDelta(t, 3600, value(t, reg, "myosin_registry_age_seconds", ""), 1e-9)
		require.InDelta(t, 2, value(t, reg, "myosin_registry_refreshes_total", "error"), 0)
	})
}

func TestAStaleListDoesNotHideWhatAConsistentReadFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, src, _ := open(t, svc("new"))
		_, err := cache.Lookup(t.Context(), "new")
		require.NoError(t, err)
		src.stale = []registry.Service{}
		_, err = cache.Refresh(t.Context())
		require.NoError(t, err)
		require.Len(t, cache.All(), 1)

		time.Sleep(time.Minute) // now the list is right: the service was deleted
		src.Set()
		_, err = cache.Refresh(t.Context())
		require.NoError(t, err)
		_, err = cache.Lookup(t.Context(), "new")
		require.ErrorIs(t, err, registry.ErrUnknown)
	})
}

func TestAnUnreadableItemKeepsItsLastGoodValueAndHidesNoOther(t *testing.T) {
	cache, src, reg := open(t, svc("a"), svc("b"))
	_, err := cache.Refresh(t.Context())
	require.NoError(t, err)
	src.Set(svc("b"), svc("c"))
	src.partial = &registry.PartialError{Bad: map[string]error{"a": errors.New("rate is text")}}
	_, err = cache.Refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, []registry.Service{svc("a"), svc("b"), svc("c")}, cache.All())
	require.InDelta(t, 1, value(t, reg, "myosin_registry_refreshes_total", "partial"), 0)
}

func TestRunRefreshesAndEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, src, _ := open(t)
		src.Fail(errors.New("table is down"))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { require.NoError(t, cache.Run(ctx)) })
		time.Sleep(2500 * time.Millisecond)
		require.Error(t, cache.Ready())
		src.Fail(nil)
		time.Sleep(time.Second) // a first load is tried again every second
		require.NoError(t, cache.Ready())

		require.NoError(t, src.Put(ctx, svc("a")))
		time.Sleep(registry.DefaultRefresh)
		require.Len(t, cache.All(), 1)
		require.Equal(t, 5, src.lists)
		cancel()
		wg.Wait()
	})
}

func TestRunKeepsTheLifecycleContract(t *testing.T) {
	lifecycletest.Check(t, func() lifecycletest.Runner {
		cache, _, _ := open(t, svc("a"))
		return cache.Run
	})
}

func TestRememberedUnknownNamesAreBounded(t *testing.T) {
	cache, src, _ := open(t)
	for i := range 30_000 {
		_, err := cache.Lookup(t.Context(), fmt.Sprint("x", i))
		require.ErrorIs(t, err, registry.ErrUnknown)
	}
	require.LessOrEqual(t, registry.Remembered(cache), 10_000)
	require.Equal(t, 30_000, src.gets)
}

func TestCacheOptionsReportEveryFault(t *testing.T) {
	_, err := registry.NewCache(registry.CacheOptions{Refresh: -1, Negative: -1})
	for _, field := range []string{"source", "refresh", "negative"} {
		require.ErrorContains(t, err, field)
	}
	reg := prometheus.NewRegistry()
	o := registry.CacheOptions{Source: new(registry.Static), Metrics: reg}
	_, err = registry.NewCache(o)
	require.NoError(t, err)
	_, err = registry.NewCache(o)
	require.Error(t, err, "metrics are taken")
}
