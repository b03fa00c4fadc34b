package client_test

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func TestDirectArrivesAfterItsDelayAsADeliveredMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, nil, nil)
		sent, err := b.Direct(t.Context(), "payments", []byte{0, 1}, client.DirectOptions{
			Delay: 15 * time.Minute, Name: "remind", Tenant: "t1", Headers: map[string]string{"k": "v"},
		})
		require.NoError(t, err)
		due := time.Now().Add(15 * time.Minute).UTC()
		time.Sleep(15*time.Minute - time.Second)
		got, err := b.q.Receive(t.Context(), b.payments, queue.ReceiveOptions{})
		require.NoError(t, err)
		require.Empty(t, got)
		time.Sleep(time.Second)
		got, err = b.q.Receive(t.Context(), b.payments, queue.ReceiveOptions{})
		require.NoError(t, err)
		require.Len(t, got, 1)
		tr, err := trigger.ReadDelivered(got[0].Body, got[0].Attributes)
		require.NoError(t, err)
		require.Equal(t, trigger.Trigger{
			ID: sent.ID, Due: due, Payload: []byte{0, 1}, Name: "remind", Tenant: "t1", Headers: map[string]string{"k": "v"},
		}, tr)
		require.Equal(t, due, sent.Due)
		require.Equal(t, "t1", got[0].Group)
		require.Empty(t, b.submissions(t, b.inbound))
	})
}

func TestDirectHasNoHandle(t *testing.T) {
	_, has := reflect.TypeFor[client.Direct]().FieldByName("Handle")
	require.False(t, has, "a direct message cannot be cancelled, and its type must not suggest it")
}

func TestDirectRefusesWhatTheQueueCannotDo(t *testing.T) {
	b := newBed(t, nil, nil)
	for _, d := range []time.Duration{-time.Second, 1500 * time.Millisecond, 15*time.Minute + time.Second} {
		_, err := b.Direct(t.Context(), "payments", "x", client.DirectOptions{Delay: d})
		requireField(t, err, "delay")
	}
	_, err := b.Direct(t.Context(), "orders", "x", client.DirectOptions{Delay: time.Second})
	requireField(t, err, "delay")
	_, err = b.Direct(t.Context(), "unknown", "x", client.DirectOptions{})
	requireField(t, err, "service")
	require.ErrorIs(t, err, registry.ErrUnknown)
	_, err = b.Direct(t.Context(), "payments", "x", client.DirectOptions{Name: "a b"})
	requireField(t, err, "name")
	_, err = b.Direct(t.Context(), "asleep", "x", client.DirectOptions{})
	require.ErrorIs(t, err, client.ErrPaused)
	blind := newBed(t, nil, func(o *client.Options) { o.Services = nil })
	_, err = blind.Direct(t.Context(), "payments", "x", client.DirectOptions{})
	require.ErrorContains(t, err, "Options.Services")
}

func TestDirectRepeatsALostAnswerOnFIFOOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := 0
		b := newBed(t, func(e memqueue.Entry) memqueue.Fault {
			if e.Op == memqueue.OpSend && lost > 0 {
				lost--
				return memqueue.Fault{LoseReply: true}
			}
			return memqueue.Fault{}
		}, nil)
		lost = 1
		sent, err := b.Direct(t.Context(), "payments", "x", client.DirectOptions{})
		require.ErrorIs(t, err, client.ErrUncertain)
		require.NotZero(t, sent.ID)
		require.Len(t, b.q.Messages(b.payments), 1)
		lost = 2
		_, err = b.Direct(t.Context(), "orders", "x", client.DirectOptions{})
		require.NoError(t, err)
		require.Len(t, b.q.Messages(b.orders), 1, "the queue drops the repeats")
	})
}

func TestDirectRepeatsWhatWasSurelyNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		b := newBed(t, func(e memqueue.Entry) memqueue.Fault {
			if n++; n < 4 {
				return memqueue.Fault{Err: queue.ErrThrottled}
			}
			return memqueue.Fault{}
		}, nil)
		_, err := b.Direct(t.Context(), "payments", "x", client.DirectOptions{})
		require.NoError(t, err)
		require.Len(t, b.q.Messages(b.payments), 1)
	})
}
