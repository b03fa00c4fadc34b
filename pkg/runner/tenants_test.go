package runner_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/runner"
)

// tenants answers reads of tenants as told, after a while.
type tenants struct {
	jobstore.Records
	mu    sync.Mutex
	reads int
	takes time.Duration
	err   error
}

func (s *tenants) set(takes time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes, s.err = takes, err
}

func (s *tenants) Tenant(ctx context.Context, id string) (jobstore.Tenant, error) {
	s.mu.Lock()
	s.reads++
	n, takes, err := s.reads, s.takes, s.err
	s.mu.Unlock()
	select {
	case <-time.After(takes):
		return jobstore.Tenant{ID: id, MaxConcurrent: n}, err
	case <-ctx.Done():
		return jobstore.Tenant{}, ctx.Err()
	}
}

func TestATenantIsReadOnceForAllAndASlowStoreHoldsNobodyUpWhoKnowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tenants{takes: time.Second}
		c, err := runner.NewTenants(runner.TenantsOptions{Store: s})
		require.NoError(t, err)
		for range 5 {
			go func() {
				got, err := c.Get(t.Context(), "acme")
				if err != nil || got.MaxConcurrent != 1 {
					t.Errorf("got %+v, %v", got, err)
				}
			}()
		}
		time.Sleep(2 * time.Second)
		s.mu.Lock()
		require.Equal(t, 1, s.reads)
		s.mu.Unlock()

		s.set(time.Hour, nil)
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = c.Get(ctx, "acme") }()
		synctest.Wait()
		before := time.Now()
		got, err := c.Get(t.Context(), "acme")
		require.NoError(t, err)
		require.Equal(t, 1, got.MaxConcurrent)
		require.Equal(t, before, time.Now(), "what was known is used at once")
		cancel()

		// Who knows nothing yet waits, but only as long as it wants to.
		go func() { _, _ = c.Get(t.Context(), "new") }()
		synctest.Wait()
		short, done := context.WithTimeout(t.Context(), time.Second)
		defer done()
		_, err = c.Get(short, "new")
		require.ErrorIs(t, err, context.DeadlineExceeded)

		s.set(0, errors.New("down"))
		time.Sleep(time.Hour)
		got, err = c.Get(t.Context(), "acme")
		require.NoError(t, err, "what was known before stays in use")
		require.Equal(t, 1, got.MaxConcurrent)
		time.Sleep(time.Hour)
	})
}
