// Package lifecycletest hammers the start/stop contract of package lifecycle:
// everything that lives long passes [Check].
package lifecycletest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Within is how long a runner may take to stop.
const Within = 5 * time.Second

// Runner is the Run of a long-lived type.
type Runner func(ctx context.Context) error

// Check runs fresh runners and stops them at every awkward moment: before they
// start, while they start, while they work, twice and from several goroutines,
// and by a deadline. Each must return within [Within], with nil or the context's
// error, and leave no goroutine behind. Servers and clients that a runner needs
// are made before Check, or cleaned up by newRunner with t.Cleanup; connections
// of net/http in their pools are not held against it.
func Check(t testing.TB, newRunner func() Runner) {
	t.Helper()
	before := goleak.IgnoreCurrent()

	t.Log("stopped before it starts")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ends(t, newRunner(), ctx)

	t.Log("stopped while it starts")
	for i := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(time.Duration(i*i)*10*time.Microsecond, cancel)
		ends(t, newRunner(), ctx)
		timer.Stop()
		cancel()
	}

	t.Log("stopped at work, twice, by several")
	ctx, cancel = context.WithCancel(t.Context())
	var stoppers sync.WaitGroup
	for range 3 {
		stoppers.Go(func() {
			after(ctx, 50*time.Millisecond)
			cancel()
			cancel()
		})
	}
	ends(t, newRunner(), ctx)
	stoppers.Wait()

	t.Log("stopped by a deadline")
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	ends(t, newRunner(), ctx)
	cancel()

	if err := goleak.Find(before,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("net/http.(*conn).serve"),
	); err != nil {
		t.Errorf("goroutines left behind: %v", err)
	}
}

// ends runs r until ctx has ended and checks how it returns.
func ends(t testing.TB, r Runner, ctx context.Context) { //nolint:revive // t comes first here.
	t.Helper()
	returned := make(chan error, 1)
	go func() { returned <- r(ctx) }()
	<-ctx.Done()
	timer := time.NewTimer(Within)
	defer timer.Stop()
	select {
	case err := <-returned:
		if err != nil && !errors.Is(err, ctx.Err()) {
			t.Errorf("stopped with %v; want nil", err)
		}
	case <-timer.C:
		t.Fatalf("not stopped within %s", Within)
	}
}

func after(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
