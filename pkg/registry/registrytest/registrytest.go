// Package registrytest holds the suite every registry source passes.
package registrytest

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Full returns a service with every field set.
func Full(name string) registry.Service {
	const account = "https://sqs.us-east-1.amazonaws.com/123456789012/myosin-svc-"
	return registry.Service{
		Name:           name,
		QueueURL:       account + name,
		UrgentQueueURL: account + name + "-urgent",
		DLQURL:         account + name + "-dlq",
		Rate:           12.5,
		FIFO:           true,
		Senders:        []string{"AROAEXAMPLE:*", "AIDAEXAMPLE"},
		Owner:          "payments@example.com",
		Alert:          "arn:aws:sns:us-east-1:123456789012:payments",
		Paused:         true,
	}
}

// Source runs the suite. open returns an empty source each time.
func Source(t *testing.T, open func(t *testing.T) registry.Source) {
	t.Run("what was put is read", func(t *testing.T) {
		src := open(t)
		full, bare := Full("payments"), registry.Service{Name: "email", QueueURL: "http://localhost:4566/000000000000/myosin-svc-email"}
		require.NoError(t, src.Put(t.Context(), full))
		require.NoError(t, src.Put(t.Context(), bare))
		for _, want := range []registry.Service{full, bare} {
			require.Equal(t, want, untimed(t, src, want.Name))
		}
		all, err := src.List(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 2)
	})
	t.Run("put replaces every field", func(t *testing.T) {
		src := open(t)
		require.NoError(t, src.Put(t.Context(), Full("payments")))
		bare := registry.Service{Name: "payments", QueueURL: "http://localhost:4566/000000000000/other"}
		require.NoError(t, src.Put(t.Context(), bare))
		require.Equal(t, bare, untimed(t, src, "payments"))
	})
	t.Run("put refuses with every field at fault", func(t *testing.T) {
		src := open(t)
		err := src.Put(t.Context(), registry.Service{Name: "Bad Name", Rate: -1})
		for _, field := range []string{"name:", "queue_url:", "rate:"} {
			require.ErrorContains(t, err, field)
		}
		all, err := src.List(t.Context())
		require.NoError(t, err)
		require.Empty(t, all)
	})
	t.Run("changes apply to services that exist", func(t *testing.T) {
		src := open(t)
		svc := Full("payments")
		require.NoError(t, src.Put(t.Context(), svc))
		require.NoError(t, src.SetPaused(t.Context(), "payments", false))
		require.NoError(t, src.SetRate(t.Context(), "payments", 0))
		svc.Paused, svc.Rate = false, 0
		require.Equal(t, svc, untimed(t, src, "payments"))
		require.NoError(t, src.SetPaused(t.Context(), "payments", true))
		require.NoError(t, src.SetRate(t.Context(), "payments", 2000))
		svc.Paused, svc.Rate = true, 2000
		require.Equal(t, svc, untimed(t, src, "payments"))
		for _, rate := range []float64{-1, math.NaN(), math.Inf(1)} {
			var field *trigger.FieldError
			require.ErrorAs(t, src.SetRate(t.Context(), "payments", rate), &field)
			require.Equal(t, "rate", field.Field)
		}
		require.NoError(t, src.Delete(t.Context(), "payments"))
		_, err := src.Get(t.Context(), "payments")
		require.ErrorIs(t, err, registry.ErrUnknown)
	})
	t.Run("nothing is created for an unknown name", func(t *testing.T) {
		src := open(t)
		_, err := src.Get(t.Context(), "ghost")
		require.ErrorIs(t, err, registry.ErrUnknown)
		require.ErrorContains(t, err, "ghost")
		require.ErrorIs(t, src.SetPaused(t.Context(), "ghost", true), registry.ErrUnknown)
		require.ErrorIs(t, src.SetRate(t.Context(), "ghost", 1), registry.ErrUnknown)
		require.ErrorIs(t, src.Delete(t.Context(), "ghost"), registry.ErrUnknown)
		all, err := src.List(t.Context())
		require.NoError(t, err)
		require.Empty(t, all)
	})
	t.Run("writes say when they were made", func(t *testing.T) {
		src := open(t)
		before := time.Now().Truncate(time.Millisecond)
		svc := Full("payments")
		svc.Updated = time.Unix(1, 0)
		require.NoError(t, src.Put(t.Context(), svc))
		got, err := src.Get(t.Context(), "payments")
		require.NoError(t, err)
		require.False(t, got.Updated.Before(before))
		require.Equal(t, time.UTC, got.Updated.Location())
		require.NoError(t, src.SetPaused(t.Context(), "payments", false))
		after, err := src.Get(t.Context(), "payments")
		require.NoError(t, err)
		require.False(t, after.Updated.Before(got.Updated))
	})
	t.Run("a failure is not unknown", func(t *testing.T) {
		src := open(t)
		ctx, cancel := cancelled(t)
		defer cancel()
		_, err := src.Get(ctx, "payments")
		require.Error(t, err)
		require.NotErrorIs(t, err, registry.ErrUnknown)
		_, err = src.List(ctx)
		require.Error(t, err)
		require.Error(t, src.Put(ctx, Full("payments")))
	})
}

// untimed reads a service and clears Updated, which must be set.
func untimed(t *testing.T, src registry.Source, name string) registry.Service {
	t.Helper()
	got, err := src.Get(t.Context(), name)
	require.NoError(t, err)
	require.False(t, got.Updated.IsZero())
	got.Updated = time.Time{}
	return got
}

func cancelled(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}
