package memqueue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
)

// faulty returns an engine whose operation op goes wrong by f, while on.
func faulty(op memqueue.Op, f memqueue.Fault, on *bool) *memqueue.Engine {
	return memqueue.New(memqueue.Options{Faults: func(en memqueue.Entry) memqueue.Fault {
		if en.Op == op && (on == nil || *on) {
			return f
		}
		return memqueue.Fault{}
	}})
}

func TestRefusedSendIsNotApplied(t *testing.T) {
	for _, want := range []error{queue.ErrThrottled, queue.ErrDenied, queue.ErrNotSent, errors.New("connection reset")} {
		e := faulty(memqueue.OpSend, memqueue.Fault{Err: want}, nil)
		url := create(t, e, queue.Spec{Name: "q"})
		require.ErrorIs(t, e.SendBatch(t.Context(), url, []queue.Message{{Body: "a"}})[0], want)
		require.Empty(t, e.Messages(url))
	}
}

func TestLostReplyOfASendIsAppliedAndNotSurelyUnsent(t *testing.T) {
	e := faulty(memqueue.OpSend, memqueue.Fault{LoseReply: true}, nil)
	url := create(t, e, queue.Spec{Name: "q"})
	err := e.SendBatch(t.Context(), url, []queue.Message{{Body: "a"}})[0]
	require.ErrorIs(t, err, memqueue.ErrLost)
	require.False(t, queue.SurelyUnsent(err))
	require.Len(t, e.Messages(url), 1)
}

func TestLostReplyOfAReceiveLeavesTheMessagesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := true
		e := faulty(memqueue.OpReceive, memqueue.Fault{LoseReply: true}, &on)
		url := create(t, e, queue.Spec{Name: "q", Visibility: 3 * time.Second})
		send(t, e, url, queue.Message{Body: "a"})
		_, err := e.Receive(t.Context(), url, queue.ReceiveOptions{})
		require.ErrorIs(t, err, memqueue.ErrLost)
		on = false
		require.Empty(t, receive(t, e, url, queue.ReceiveOptions{}))
		require.Equal(t, 2, receive(t, e, url, queue.ReceiveOptions{Wait: 5 * time.Second})[0].ReceiveCount)
	})
}

func TestLostReplyOfADeleteIsApplied(t *testing.T) {
	e := faulty(memqueue.OpDelete, memqueue.Fault{LoseReply: true}, nil)
	url := create(t, e, queue.Spec{Name: "q"})
	send(t, e, url, queue.Message{Body: "a"})
	r := receive(t, e, url, queue.ReceiveOptions{})[0]
	require.ErrorIs(t, e.Delete(t.Context(), url, []string{r.Receipt})[0], memqueue.ErrLost)
	require.Empty(t, e.Messages(url))
}

func TestDuplicateDeliveryComesThoughTheFirstWasDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := true
		e := faulty(memqueue.OpDeliver, memqueue.Fault{Duplicate: true, DuplicateAfter: 2 * time.Second}, &on)
		url := create(t, e, queue.Spec{Name: "q"})
		send(t, e, url, queue.Message{Body: "a"})
		first := receive(t, e, url, queue.ReceiveOptions{})[0]
		require.NoError(t, e.Delete(t.Context(), url, []string{first.Receipt})[0])
		on = false
		start := time.Now()
		again := receive(t, e, url, queue.ReceiveOptions{Wait: 20 * time.Second})
		require.Len(t, again, 1)
		require.Equal(t, first.ID, again[0].ID)
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

func TestDelayedCallTakesItsTimeAndItsContextEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, late := range []bool{false, true} {
			f := memqueue.Fault{Delay: 3 * time.Second}
			if late {
				f = memqueue.Fault{ReplyDelay: 3 * time.Second}
			}
			e := faulty(memqueue.OpSend, f, nil)
			url := create(t, e, queue.Spec{Name: "q"})
			start := time.Now()
			send(t, e, url, queue.Message{Body: "a"})
			require.Equal(t, 3*time.Second, time.Since(start))

			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := e.SendBatch(ctx, url, []queue.Message{{Body: "b"}})[0]
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.False(t, queue.SurelyUnsent(err))
			require.Len(t, e.Messages(url), map[bool]int{false: 1, true: 2}[late])
		}
	})
}

func TestSendWithAnEndedContextIsSurelyUnsent(t *testing.T) {
	e := memqueue.New(memqueue.Options{})
	url := create(t, e, queue.Spec{Name: "q"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.True(t, queue.SurelyUnsent(e.SendBatch(ctx, url, []queue.Message{{Body: "a"}})[0]))
}

func TestReorderedMessageOvertakesAndHeldMessageIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memqueue.New(memqueue.Options{Faults: func(en memqueue.Entry) memqueue.Fault {
			if en.Op != memqueue.OpSend {
				return memqueue.Fault{}
			}
			return memqueue.Fault{Reorder: en.Message.Body == "last", Hold: map[string]time.Duration{"first": time.Second}[en.Message.Body]}
		}})
		url := create(t, e, queue.Spec{Name: "q"})
		send(t, e, url, queue.Message{Body: "first"}, queue.Message{Body: "mid"}, queue.Message{Body: "last"})
		require.Equal(t, []string{"last", "mid"}, bodies(receive(t, e, url, queue.ReceiveOptions{})))
		require.Equal(t, []string{"first"}, bodies(receive(t, e, url, queue.ReceiveOptions{Wait: time.Second})))
	})
}

// A million messages are sent, received and deleted in time that grows with
// n log n; anything quadratic would not end.
func BenchmarkSendReceiveDelete(b *testing.B) {
	e := memqueue.New(memqueue.Options{MaxInFlight: 1 << 30})
	url, _ := e.Create(b.Context(), queue.Spec{Name: "q"})
	msgs := make([]queue.Message, 10)
	for i := range 100_000 {
		for j := range msgs {
			msgs[j] = queue.Message{Body: "x", Group: fmt.Sprint("g", (i*10+j)%50)}
		}
		e.SendBatch(b.Context(), url, msgs)
	}
	b.ReportAllocs()
	for b.Loop() {
		e.SendBatch(b.Context(), url, msgs)
		rs, _ := e.Receive(b.Context(), url, queue.ReceiveOptions{})
		receipts := make([]string, len(rs))
		for i := range rs {
			receipts[i] = rs[i].Receipt
		}
		e.Delete(b.Context(), url, receipts)
	}
}
