package forecast_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/forecast"
	"github.com/myosin-jobs/myosin/pkg/lifecycle/lifecycletest"
)

// reads is a store whose reads are counted, and fail where failing says so.
type reads struct {
	*forecast.Memory
	n       atomic.Int64
	mu      sync.Mutex
	failing func(service string) bool
}

func newReads() *reads {
	r := &reads{}
	r.Memory = &forecast.Memory{Faults: func(op forecast.Op, service string, _ time.Time) forecast.Fault {
		if op != forecast.OpRange {
			return forecast.Fault{}
		}
		r.n.Add(1)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.failing != nil && r.failing(service) {
			return forecast.Fault{Err: errInjected}
		}
		return forecast.Fault{}
	}}
	return r
}

func (r *reads) fail(f func(service string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing = f
}

func (r *reads) add(t *testing.T, service string, minute time.Time, n int64) {
	t.Helper()
	require.NoError(t, r.Add(t.Context(), service, minute, n))
}

func names(services ...string) func() []string { return func() []string { return services } }

func reader(t *testing.T, store forecast.Ranger, services func() []string, change func(*forecast.ReaderOptions)) (*forecast.Reader, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	o := forecast.ReaderOptions{Store: store, Services: services, Registerer: reg}
	if change != nil {
		change(&o)
	}
	r, err := forecast.NewReader(o)
	require.NoError(t, err)
	return r, reg
}

func peak(window string) string { return "myosin_forecast_peak_jobs_per_minute payments " + window }

func TestAForecastHasEveryMinuteOfEachService(t *testing.T) {
	store := newReads()
	r, _ := reader(t, store, names(), nil)
	from := time.Date(2027, 1, 1, 9, 0, 0, 0, time.UTC)
	store.add(t, "payments", from.Add(-time.Minute), 100)
	store.add(t, "payments", from, 1)
	store.add(t, "payments", from.Add(59*time.Minute), 2)
	store.add(t, "payments", from.Add(60*time.Minute), 100)
	store.add(t, "reports", from.Add(30*time.Minute), 3)
	zone := time.FixedZone("here", 2*3600)
	got, err := r.Forecast(t.Context(), []string{"payments", "reports", "nobody", "reports"}, from.Add(59*time.Second).In(zone), 60)
	require.NoError(t, err)
	require.Len(t, got, 3)
	for service, want := range map[string]map[int]int64{"payments": {0: 1, 59: 2}, "reports": {30: 3}, "nobody": {}} {
		require.Len(t, got[service], 60)
		for i, p := range got[service] {
			require.Equal(t, forecast.Point{Minute: from.Add(time.Duration(i) * time.Minute), Due: want[i]}, p, service)
		}
	}
	require.EqualValues(t, 3, store.n.Load(), "one read a service")
}

func TestAnAnswerIsRepeatedForSomeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newReads()
		r, _ := reader(t, store, names(), nil)
		now := time.Now()
		due := func(service string, from time.Time, minutes int) int64 {
			got, err := r.Forecast(t.Context(), []string{service}, from, minutes)
			require.NoError(t, err)
			return got[service][0].Due
		}
		require.EqualValues(t, 0, due("payments", now, 60))
		store.add(t, "payments", now, 5)
		time.Sleep(4 * time.Second)
		require.EqualValues(t, 0, due("payments", now, 60))
		require.EqualValues(t, 0, due("payments", now, 10), "a part of what was read")
		require.EqualValues(t, 1, store.n.Load())
		require.EqualValues(t, 5, due("payments", now, 61), "more than was read")
		require.EqualValues(t, 2, store.n.Load())
		store.add(t, "payments", now, 5)
		time.Sleep(5 * time.Second)
		require.EqualValues(t, 10, due("payments", now, 61))
	})
}

func TestTheCacheIsBoundedWhateverIsAskedFor(t *testing.T) {
	store := newReads()
	r, _ := reader(t, store, names(), func(o *forecast.ReaderOptions) { o.CacheFor = time.Hour })
	now := time.Now()
	for i := range 1500 {
		_, err := r.Forecast(t.Context(), []string{fmt.Sprint("s", i)}, now, 1)
		require.NoError(t, err)
	}
	before := store.n.Load()
	for i := range 1500 {
		_, err := r.Forecast(t.Context(), []string{fmt.Sprint("s", i)}, now, 1)
		require.NoError(t, err)
	}
	require.EqualValues(t, 500, store.n.Load()-before, "1000 are remembered")
}

func TestWhatCannotBeAskedForIsToldFromAFailure(t *testing.T) {
	store := newReads()
	r, _ := reader(t, store, names(), nil)
	for name, ask := range map[string]func() error{
		"no minutes":    func() error { _, err := r.Forecast(t.Context(), []string{"payments"}, time.Now(), 0); return err },
		"many minutes":  func() error { _, err := r.Forecast(t.Context(), []string{"payments"}, time.Now(), 1441); return err },
		"no name":       func() error { _, err := r.Forecast(t.Context(), []string{""}, time.Now(), 1); return err },
		"many services": func() error { _, err := r.Forecast(t.Context(), make([]string, 1001), time.Now(), 1); return err },
	} {
		require.ErrorIs(t, ask(), forecast.ErrRange, name)
	}
	require.Zero(t, store.n.Load())
	store.fail(func(service string) bool { return service == "reports" })
	got, err := r.Forecast(t.Context(), []string{"payments", "reports"}, time.Now(), 1)
	require.ErrorIs(t, err, errInjected)
	require.NotErrorIs(t, err, forecast.ErrRange)
	require.Nil(t, got, "zeros that are none mislead")
}

func TestAPeakShowsFiveMinutesBeforeItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newReads()
		r, reg := reader(t, store, names("payments"), nil)
		start := time.Now().Truncate(time.Minute).Add(2 * time.Hour)
		store.add(t, "payments", start, 6000)
		time.Sleep(time.Until(start.Add(-61 * time.Minute)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		for _, step := range []struct {
			before       time.Duration // the peak
			m5, m15, m60 float64
		}{
			{60*time.Minute + time.Second, 0, 0, 0},
			{60 * time.Minute, 0, 0, 6000},
			{15*time.Minute + time.Second, 0, 0, 6000},
			{15 * time.Minute, 0, 6000, 6000},
			{5*time.Minute + time.Second, 0, 6000, 6000},
			{5 * time.Minute, 6000, 6000, 6000},
			{0, 6000, 6000, 6000},
			{-59 * time.Second, 6000, 6000, 6000},
			{-60 * time.Second, 0, 0, 0},
		} {
			time.Sleep(time.Until(start.Add(-step.before)))
			synctest.Wait()
			got := metrics(t, reg)
			require.Equal(t, []float64{step.m5, step.m15, step.m60}, []float64{got[peak("5m")], got[peak("15m")], got[peak("60m")]}, step.before)
			require.Contains(t, got, peak("5m"), "zero is shown, too")
		}
		cancel()
		require.NoError(t, <-done)
	})
}

func TestAScrapeNeverReads(t *testing.T) {
	store := newReads()
	r, reg := reader(t, store, names("payments"), nil)
	require.NotContains(t, metrics(t, reg), peak("5m"))
	require.Zero(t, store.n.Load())
	read, err := r.Refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, read)
	require.Contains(t, metrics(t, reg), peak("5m"))
	require.EqualValues(t, 1, store.n.Load())
	_, err = r.Forecast(t.Context(), []string{"payments"}, time.Now(), 60)
	require.NoError(t, err)
	require.EqualValues(t, 1, store.n.Load(), "the background's view serves callers, too")
}

func TestOnlyRegisteredServicesAreShown(t *testing.T) {
	store := newReads()
	services := []string{"payments", "reports"}
	r, reg := reader(t, store, func() []string { return services }, nil)
	store.add(t, "stranger", time.Now(), 5)
	_, err := r.Forecast(t.Context(), []string{"stranger"}, time.Now(), 60)
	require.NoError(t, err)
	_, err = r.Refresh(t.Context())
	require.NoError(t, err)
	require.Len(t, metrics(t, reg), 2*3+1, "two services, three windows, and the reads that went well")
	services = services[:1]
	_, err = r.Refresh(t.Context())
	require.NoError(t, err)
	require.Len(t, metrics(t, reg), 3+1)
	require.Contains(t, metrics(t, reg), peak("60m"))
}

func TestWhatIsKnownOutlivesAFailureForFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newReads()
		var log bytes.Buffer
		r, reg := reader(t, store, names("payments", "reports"), func(o *forecast.ReaderOptions) {
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		start := time.Now()
		store.add(t, "payments", start.Add(62*time.Minute), 10)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		synctest.Wait()
		store.fail(func(service string) bool { return service == "payments" })
		time.Sleep(forecast.StaleAfter - time.Second)
		synctest.Wait()
		got := metrics(t, reg)
		require.Equal(t, 10, int(got[peak("60m")]), "the window moves on over what was read")
		time.Sleep(time.Second)
		synctest.Wait()
		got = metrics(t, reg)
		require.NotContains(t, got, peak("60m"), "too old to be shown")
		require.Contains(t, got, "myosin_forecast_peak_jobs_per_minute reports 60m", "the others are read all the same")
		require.Equal(t, 1, strings.Count(log.String(), "\n"), "it is logged once:\n%s", &log)
		store.fail(nil)
		time.Sleep(forecast.DefaultRefresh)
		synctest.Wait()
		require.Contains(t, metrics(t, reg), peak("60m"))
		require.Contains(t, log.String(), "read again")
		cancel()
		require.NoError(t, <-done)
	})
}

func TestWhatACounterWritesAReaderShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newReads()
		r, _ := reader(t, store, names("runs-urgent"), nil)
		c := counter(t, store, nil)
		stop := run(t, c)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for i := range 600 {
					c.Add("runs-urgent", time.Now().Add(time.Duration(i%60)*time.Minute), 1)
				}
			})
		}
		all.Wait()
		time.Sleep(11 * time.Second)
		got, err := r.Forecast(t.Context(), []string{"runs-urgent"}, time.Now(), 60)
		require.NoError(t, err)
		for _, p := range got["runs-urgent"] {
			require.EqualValues(t, 80, p.Due, p.Minute)
		}
		stop()
	})
}

func TestTheReaderKeepsTheLifecycleContract(t *testing.T) {
	lifecycletest.Check(t, func() lifecycletest.Runner {
		r, _ := reader(t, newReads(), names("payments"), nil)
		return r.Run
	})
}

func TestReaderOptionsReportEveryFault(t *testing.T) {
	_, err := forecast.NewReader(forecast.ReaderOptions{CacheFor: -1, Refresh: time.Hour, Readers: -1})
	for _, want := range []string{"store", "services", "cache for", "refresh", "readers"} {
		require.ErrorContains(t, err, want)
	}
	reg := prometheus.NewRegistry()
	o := forecast.ReaderOptions{Store: newReads(), Services: names(), Registerer: reg}
	_, err = forecast.NewReader(o)
	require.NoError(t, err)
	_, err = forecast.NewReader(o)
	require.ErrorContains(t, err, "metrics")
}
