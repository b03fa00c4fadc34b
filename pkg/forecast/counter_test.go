package forecast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/forecast"
	"github.com/myosin-jobs/myosin/pkg/lifecycle/lifecycletest"
)

var errInjected = errors.New("injected")

// writes remembers every write that a store is asked for.
type writes struct {
	mu    sync.Mutex
	all   []write
	fault func(service string, minute time.Time) forecast.Fault
}

type write struct {
	service string
	minute  time.Time
	at      time.Time
}

// store returns a store that remembers in w.
func (w *writes) store() *forecast.Memory {
	return &forecast.Memory{Faults: func(op forecast.Op, service string, minute time.Time) forecast.Fault {
		w.mu.Lock()
		defer w.mu.Unlock()
		if op != forecast.OpAdd {
			return forecast.Fault{}
		}
		w.all = append(w.all, write{service, minute, time.Now()})
		if w.fault == nil {
			return forecast.Fault{}
		}
		return w.fault(service, minute)
	}}
}

func (w *writes) fail(f func(service string, minute time.Time) forecast.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

func (w *writes) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all)
}

func always(f forecast.Fault) func(string, time.Time) forecast.Fault {
	return func(string, time.Time) forecast.Fault { return f }
}

func counter(t require.TestingT, store forecast.Adder, change func(*forecast.CounterOptions)) *forecast.Counter {
	o := forecast.CounterOptions{Store: store}
	if change != nil {
		change(&o)
	}
	c, err := forecast.NewCounter(o)
	require.NoError(t, err)
	return c
}

// total is everything that a store holds for a service.
func total(t require.TestingT, store forecast.Ranger, service string) (sum int64) {
	points, err := store.Range(context.Background(), service, time.Unix(0, 0), time.Now().Add(100*365*24*time.Hour))
	require.NoError(t, err)
	for _, p := range points {
		sum += p.Due
	}
	return sum
}

// run runs a counter until stop is called, which waits for it.
func run(t *testing.T, c *forecast.Counter) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		require.NoError(t, <-done)
	}
}

func TestWhatIsStoredIsWhatWasAddedUnderConcurrentAddsAndFailures(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fails := rapid.SliceOfN(rapid.Bool(), 1, 50).Draw(rt, "fails")
		adders := rapid.IntRange(1, 8).Draw(rt, "adders")
		each := rapid.IntRange(1, 200).Draw(rt, "each")
		minutes := rapid.IntRange(1, 30).Draw(rt, "minutes")
		var w writes
		n := 0
		w.fail(func(string, time.Time) forecast.Fault {
			n++
			if fails[n%len(fails)] && n < 300 {
				return forecast.Fault{Err: errInjected}
			}
			return forecast.Fault{}
		})
		store := w.store()
		c := counter(rt, store, nil)
		start := time.Now().Truncate(time.Minute)
		want := make(map[string]map[int64]int64)
		var all sync.WaitGroup
		for a := range adders {
			service := fmt.Sprint("s", a%3)
			if want[service] == nil {
				want[service] = map[int64]int64{}
			}
			for i := range each {
				want[service][start.Add(time.Duration(1+i%minutes)*time.Minute).Unix()] += int64(1 + i%3)
			}
			all.Go(func() {
				for i := range each {
					c.Add(service, start.Add(time.Duration(1+i%minutes)*time.Minute+time.Duration(i%60)*time.Second), 1+i%3)
				}
			})
		}
		for range 10 {
			_, _ = c.Flush(context.Background())
		}
		all.Wait()
		for range 400 {
			if _, err := c.Flush(context.Background()); err == nil {
				break
			}
		}
		for service, minutes := range want {
			points, err := store.Range(context.Background(), service, start, start.Add(time.Hour))
			require.NoError(rt, err)
			got := map[int64]int64{}
			for _, p := range points {
				got[p.Minute.Unix()] = p.Due
			}
			require.Equal(rt, minutes, got, service)
		}
	})
}

func TestAMinuteIsWrittenAtMostOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w writes
		// Every write takes a while, and a flush at times longer than a second.
		w.fail(always(forecast.Fault{Delay: 300 * time.Millisecond}))
		store := w.store()
		c := counter(t, store, nil)
		stop := run(t, c)
		added := 0
		for i := range 3000 {
			c.Add("payments", time.Now().Add(time.Duration(i%40)*time.Minute), 1)
			added++
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(20 * time.Second) // everything is written by now
		before := w.count()
		stop()
		require.Equal(t, before, w.count(), "nothing is left for the last flush")
		last := map[time.Time]time.Time{}
		for _, one := range w.all {
			if at, seen := last[one.minute]; seen {
				require.GreaterOrEqual(t, one.at.Sub(at), time.Second, one.minute)
			}
			last[one.minute] = one.at
		}
		require.EqualValues(t, added, total(t, store, "payments"))
	})
}

// metrics are the values that a registry shows, by name and label values.
func metrics(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	all, err := reg.Gather()
	require.NoError(t, err)
	got := make(map[string]float64)
	for _, f := range all {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return got
}

func TestWhatIsFarAheadIsWrittenOnceInTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w writes
		store := w.store()
		c := counter(t, store, nil)
		stop := run(t, c)
		start := time.Now()
		for range 300 { // 30 seconds
			c.Add("near", start.Add(10*time.Minute), 1)
			c.Add("far", start.Add(12*time.Minute), 1)
			c.Add("years", start.Add(20_000*time.Hour), 1)
			time.Sleep(100 * time.Millisecond)
		}
		stop()
		times := map[string]int{}
		for _, one := range w.all {
			times[one.service]++
		}
		require.InDelta(t, 30, times["near"], 1)
		require.InDelta(t, 3, times["far"], 1)
		require.InDelta(t, 3, times["years"], 1)
		for _, service := range []string{"near", "far", "years"} {
			require.EqualValues(t, 300, total(t, store, service))
		}
	})
}

func TestAThousandAddsToOneMinuteAreOneWrite(t *testing.T) {
	var w writes
	store := w.store()
	c := counter(t, store, nil)
	for range 1000 {
		c.Add("payments", time.Now().Add(time.Hour), 1)
	}
	written, err := c.Flush(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, written, 2, "two, should a minute have turned meanwhile")
	require.Equal(t, written, w.count())
	require.EqualValues(t, 1000, total(t, store, "payments"))
	written, err = c.Flush(t.Context())
	require.NoError(t, err)
	require.Zero(t, written, "nothing is written twice")
}

func TestStoppingWritesWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w writes
		store := w.store()
		c := counter(t, store, nil)
		stop := run(t, c)
		time.Sleep(1500 * time.Millisecond)
		began := time.Now()
		for i := range 100 {
			c.Add("payments", time.Now().Add(time.Duration(i)*time.Hour), 2)
		}
		stop()
		require.EqualValues(t, 200, total(t, store, "payments"))
		require.Zero(t, time.Since(began), "at once, not with the next tick")
	})
}

func TestAStopDuringAWriteNeitherCutsItNorCountsItTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w writes
		w.fail(always(forecast.Fault{ReplyDelay: 2 * time.Second}))
		store := w.store()
		c := counter(t, store, nil)
		c.Add("payments", time.Now().Add(time.Minute), 5)
		stop := run(t, c)
		time.Sleep(1500 * time.Millisecond) // the write began half a second ago
		c.Add("payments", time.Now().Add(time.Minute), 2)
		stop()
		require.EqualValues(t, 7, total(t, store, "payments"))
		require.Equal(t, 2, w.count())
	})
}

func TestAddNeverWaitsAndStopIsBoundedWhileTheStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w writes
		w.fail(always(forecast.Fault{Delay: time.Hour}))
		c := counter(t, w.store(), nil)
		stop := run(t, c)
		c.Add("payments", time.Now(), 1)
		time.Sleep(1100 * time.Millisecond)
		require.Equal(t, 1, w.count(), "a write hangs")
		began := time.Now()
		for i := range 10_000 {
			c.Add("payments", time.Now().Add(time.Duration(i)*time.Second), 1)
		}
		require.Zero(t, time.Since(began))
		stop()
		require.LessOrEqual(t, time.Since(began), 10*time.Second)
	})
}

func TestAFailureKeepsTheCountsForTheNextFlush(t *testing.T) {
	var w writes
	store := w.store()
	c := counter(t, store, nil)
	due := time.Now().Add(30 * time.Minute)
	w.fail(always(forecast.Fault{Err: errInjected}))
	for i := range 3 {
		c.Add("payments", due, 10)
		written, err := c.Flush(t.Context())
		require.ErrorIs(t, err, errInjected)
		require.Zero(t, written)
		require.Equal(t, i+1, w.count(), "one try a flush")
	}
	w.fail(nil)
	written, err := c.Flush(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, written, "all of it in one write")
	require.EqualValues(t, 30, total(t, store, "payments"))
}

func TestAFlushThatMayNotBeginWritesNothingAndSaysSo(t *testing.T) {
	var w writes
	store := w.store()
	c := counter(t, store, nil)
	c.Add("payments", time.Now().Add(time.Hour), 10)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 {
		_, err := c.Flush(ended)
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Zero(t, w.count())
	_, err := c.Flush(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 10, total(t, store, "payments"))
}

func TestFlushesAtOnceWriteNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w writes
		w.fail(always(forecast.Fault{Delay: 100 * time.Millisecond}))
		store := w.store()
		c := counter(t, store, nil)
		for i := range 100 {
			c.Add("payments", time.Now().Add(time.Duration(i)*time.Minute), 10)
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				_, err := c.Flush(t.Context())
				require.NoError(t, err)
			})
		}
		all.Wait()
		require.Equal(t, 100, w.count())
		require.EqualValues(t, 1000, total(t, store, "payments"))
	})
}

func TestALostReplyCountsTwiceAndNeverNot(t *testing.T) {
	var w writes
	store := w.store()
	c := counter(t, store, nil)
	w.fail(always(forecast.Fault{LostReply: true}))
	c.Add("payments", time.Now().Add(time.Hour), 10)
	_, err := c.Flush(t.Context())
	require.ErrorIs(t, err, forecast.ErrReplyLost)
	w.fail(nil)
	_, err = c.Flush(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 20, total(t, store, "payments"))
}

func TestAServiceThatFailsDoesNotHoldUpTheOthers(t *testing.T) {
	var w writes
	store := w.store()
	c := counter(t, store, func(o *forecast.CounterOptions) { o.Writers = 1 })
	w.fail(func(service string, _ time.Time) forecast.Fault {
		if service == "hot" {
			return forecast.Fault{Err: errInjected}
		}
		return forecast.Fault{}
	})
	for i := range 100 {
		due := time.Now().Add(time.Duration(i) * time.Minute)
		c.Add("hot", due, 1)
		c.Add("payments", due, 1)
	}
	_, err := c.Flush(t.Context())
	require.ErrorIs(t, err, errInjected)
	require.EqualValues(t, 100, total(t, store, "payments"))
	require.Equal(t, 101, w.count(), "one try for the service that fails")
}

func TestATableThatFailsIsTriedALittleAndLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w writes
		var log bytes.Buffer
		w.fail(always(forecast.Fault{Err: errInjected}))
		store := w.store()
		c := counter(t, store, func(o *forecast.CounterOptions) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		stop := run(t, c)
		for i := range 1000 {
			c.Add(fmt.Sprint("s", i), time.Now().Add(time.Minute), 1)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.LessOrEqual(t, w.count(), 25*24, "25 flushes of 16 tries, and those under way beside them")
		require.Equal(t, 1, strings.Count(log.String(), "\n"), "it is logged once:\n%s", &log)
		w.fail(nil)
		time.Sleep(31 * time.Second)
		for i := range 1000 {
			require.EqualValues(t, 1, total(t, store, fmt.Sprint("s", i)))
		}
		stop()
		require.Contains(t, log.String(), "written again")
	})
}

func TestTheNearestMinutesAreWrittenFirst(t *testing.T) {
	var w writes
	c := counter(t, w.store(), func(o *forecast.CounterOptions) { o.Writers = 1 })
	for _, hours := range []int{900, 3, 0, 40, 1} {
		c.Add("payments", time.Now().Add(time.Duration(hours)*time.Hour), 1)
	}
	_, err := c.Flush(t.Context())
	require.NoError(t, err)
	require.Len(t, w.all, 5)
	for i := range 4 {
		require.True(t, w.all[i].minute.Before(w.all[i+1].minute))
	}
}

func TestMemoryIsBoundedAndTheNextHourFindsRoomBesideTheYearsAhead(t *testing.T) {
	var w writes
	reg := prometheus.NewRegistry()
	store := w.store()
	c := counter(t, store, func(o *forecast.CounterOptions) { o.MaxPairs, o.Registerer = 100, reg })
	start := time.Now()
	for i := range 1000 {
		c.Add("reports", start.Add(time.Duration(2+i)*time.Hour), 1)
	}
	for i := range 1000 {
		c.Add(fmt.Sprint("s", i), start.Add(30*time.Minute), 1)
	}
	c.Add("reports", start.Add(2*time.Hour), 1) // one that is held already
	got := metrics(t, reg)
	require.Equal(t, 1900, int(got["myosin_forecast_dropped_jobs_total"]))
	require.Equal(t, 100, int(got["myosin_forecast_pending_writes"]))
	written, err := c.Flush(t.Context())
	require.NoError(t, err)
	require.Equal(t, 100, written)
	require.EqualValues(t, 51, total(t, store, "reports"), "half of the room, and one more for a minute that is held")
	require.EqualValues(t, 1, total(t, store, "s49"))
	require.EqualValues(t, 0, total(t, store, "s50"))
	c.Add("s50", start.Add(30*time.Minute), 1)
	_, err = c.Flush(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, total(t, store, "s50"), "there is room again")
}

func TestWhatIsOverdueCountsInThePresentMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w writes
		store := w.store()
		c := counter(t, store, nil)
		time.Sleep(90 * time.Second)
		now := time.Now().Truncate(time.Minute).UTC()
		c.Add("payments", now.Add(-time.Hour), 1)
		c.Add("payments", now, 2)
		c.Add("payments", now.Add(59*time.Second), 4)
		c.Add("payments", now.Add(time.Minute), 8)
		c.Add("payments", now, 0)
		c.Add("payments", now, -5)
		_, err := c.Flush(t.Context())
		require.NoError(t, err)
		points, err := store.Range(t.Context(), "payments", time.Unix(0, 0), now.Add(time.Hour))
		require.NoError(t, err)
		require.Equal(t, []forecast.Point{{Minute: now, Due: 7}, {Minute: now.Add(time.Minute), Due: 8}}, points)
	})
}

func TestTheCounterKeepsTheLifecycleContract(t *testing.T) {
	lifecycletest.Check(t, func() lifecycletest.Runner {
		c := counter(t, new(forecast.Memory), nil)
		c.Add("payments", time.Now(), 1)
		return c.Run
	})
}

func TestCounterOptionsReportEveryFault(t *testing.T) {
	_, err := forecast.NewCounter(forecast.CounterOptions{Flush: time.Millisecond, FarFlush: time.Millisecond, MaxPairs: 1, Writers: -1})
	for _, want := range []string{"store", "flush: 1ms", "far flush: 1ms", "max pairs", "writers"} {
		require.ErrorContains(t, err, want)
	}
	reg := prometheus.NewRegistry()
	counter(t, new(forecast.Memory), func(o *forecast.CounterOptions) { o.Registerer = reg })
	_, err = forecast.NewCounter(forecast.CounterOptions{Store: new(forecast.Memory), Registerer: reg})
	require.ErrorContains(t, err, "metrics")
}

func BenchmarkAdd(b *testing.B) {
	c := counter(b, new(forecast.Memory), nil)
	due := time.Now().Add(time.Hour)
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			c.Add("payments", due.Add(time.Duration(i%60)*time.Minute), 1)
		}
	})
}
