package lifecycle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/lifecycle"
	"github.com/myosin-jobs/myosin/pkg/lifecycle/lifecycletest"
)

// diary notes what happens in which order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// worker runs until it is stopped and takes a while to stop.
func (d *diary) worker(name string, stopping time.Duration) lifecycle.Component {
	return lifecycle.Component{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		d.note("%s told", name)
		time.Sleep(stopping)
		d.note("%s stopped", name)
		return ctx.Err()
	}}
}

func failing(name string, after time.Duration, err error) lifecycle.Component {
	return lifecycle.Component{Name: name, Run: func(ctx context.Context) error {
		select {
		case <-time.After(after):
			return err
		case <-ctx.Done():
			return nil
		}
	}}
}

func stuck(name string, until <-chan struct{}) lifecycle.Component {
	return lifecycle.Component{Name: name, Run: func(context.Context) error { <-until; return nil }}
}

func TestComponentsStopOneByOneInReverseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(diary)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := lifecycle.Run(ctx, 0, nil, d.worker("registry", time.Second), d.worker("loop", time.Second), d.worker("listener", time.Second))
		require.NoError(t, err)
		require.Equal(t, []string{
			"listener told", "listener stopped", "loop told", "loop stopped", "registry told", "registry stopped",
		}, d.lines)
		require.Equal(t, time.Minute+3*time.Second, time.Since(began))
	})
}

func TestOneFailureStopsAllAndIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(diary)
		broken := errors.New("queue is gone")
		late := errors.New("flush failed")
		err := lifecycle.Run(t.Context(), 0, nil,
			d.worker("registry", 0),
			lifecycle.Component{Name: "store", Run: func(ctx context.Context) error { <-ctx.Done(); return late }},
			failing("loop", time.Second, broken),
			d.worker("listener", 0))
		require.ErrorIs(t, err, broken)
		require.ErrorIs(t, err, late)
		require.EqualError(t, err, "store: flush failed\nloop: queue is gone")
		require.Equal(t, []string{"listener told", "listener stopped", "registry told", "registry stopped"}, d.lines)
	})
}

func TestAComponentThatIsThroughDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(diary)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		require.NoError(t, lifecycle.Run(ctx, 0, nil, d.worker("loop", 0), failing("demo", time.Second, nil)))
		require.Equal(t, time.Minute, time.Since(began))

		require.NoError(t, lifecycle.Run(t.Context(), 0, nil, failing("a", time.Second, nil), failing("b", time.Minute, nil)))
		require.NoError(t, lifecycle.Run(t.Context(), 0, nil))
	})
}

func TestACancelOfItsOwnIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := lifecycle.Run(t.Context(), 0, nil, failing("loop", time.Second, context.Canceled))
		require.EqualError(t, err, "loop: context canceled")
	})
}

func TestWhoDoesNotStopIsNamedAndDoesNotKeepTheOthersRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(diary)
		release := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var logs bytes.Buffer
		began := time.Now()
		err := lifecycle.Run(ctx, 20*time.Second, slog.New(slog.NewTextHandler(&logs, nil)),
			d.worker("registry", time.Second), d.worker("store", 0), stuck("loop", release), d.worker("listener", 0), stuck("poller", release))
		require.ErrorIs(t, err, lifecycle.ErrStuck)
		require.EqualError(t, err, "did not stop in time: loop, poller")
		require.Equal(t, 20*time.Second, time.Since(began))
		require.Contains(t, d.lines, "registry stopped")
		require.Contains(t, d.lines, "store stopped")
		require.Contains(t, logs.String(), "poller")
		close(release)
	})
}

func TestValuesOfTheContextAreKept(t *testing.T) {
	type key struct{}
	var got any
	require.NoError(t, lifecycle.Run(context.WithValue(t.Context(), key{}, "v"), 0, nil,
		lifecycle.Component{Name: "a", Run: func(ctx context.Context) error { got = ctx.Value(key{}); return nil }}))
	require.Equal(t, "v", got)
}

func TestRunKeepsItsOwnContract(t *testing.T) {
	lifecycletest.Check(t, func() lifecycletest.Runner {
		d := new(diary)
		return func(ctx context.Context) error {
			return lifecycle.Run(ctx, 0, nil, d.worker("a", 0), d.worker("b", time.Millisecond))
		}
	})
}

// probe takes the place of a test, to see Check fail.
type probe struct {
	testing.TB
	failed bool
}

func (p *probe) Errorf(string, ...any) { p.failed = true }
func (p *probe) Fatalf(string, ...any) { p.failed = true; panic(p) }
func (p *probe) Log(...any)            {}

func TestCheckFindsBrokenRunners(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	for name, run := range map[string]lifecycletest.Runner{
		"leaves a goroutine": func(ctx context.Context) error {
			go func() { <-release }()
			<-ctx.Done()
			return nil
		},
		"stops with an error": func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("broken")
		},
	} {
		p := &probe{TB: t}
		lifecycletest.Check(p, func() lifecycletest.Runner { return run })
		require.True(t, p.failed, name)
	}
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		p := &probe{TB: t}
		require.Panics(t, func() {
			lifecycletest.Check(p, func() lifecycletest.Runner { return func(context.Context) error { <-hang; return nil } })
		})
		require.True(t, p.failed)
		close(hang)
	})
}
