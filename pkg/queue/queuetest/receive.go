package queuetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
)

func shortPoll(e *env) {
	url := e.make(queue.Spec{})
	start := time.Now()
	e.none(url)
	require.Less(e, time.Since(start), time.Second)
}

func atMostMax(e *env) {
	url := e.make(queue.Spec{})
	e.send(url, make3()...)
	require.Len(e, e.receive(url, queue.ReceiveOptions{Max: 2, Wait: time.Second}), 2)
	for _, bad := range []queue.ReceiveOptions{{Max: 11}, {Max: -1}, {Wait: 21 * time.Second}, {Visibility: 13 * time.Hour}} {
		_, err := e.Receive(e.Context(), url, bad)
		require.Error(e, err, "%+v", bad)
	}
}

func make3() []queue.Message { return []queue.Message{{Body: "a"}, {Body: "b"}, {Body: "c"}} }

// poll runs one receive beside the test.
func (e *env) poll(ctx context.Context, url string, o queue.ReceiveOptions) <-chan polled {
	ch := make(chan polled, 1)
	go func() {
		start := time.Now()
		got, err := e.Receive(ctx, url, o)
		ch <- polled{got, err, time.Since(start)}
	}()
	return ch
}

type polled struct {
	got  []queue.Received
	err  error
	took time.Duration
}

func longPollArrival(e *env) {
	url := e.make(queue.Spec{})
	ch := e.poll(e.Context(), url, queue.ReceiveOptions{Wait: 10 * time.Second})
	e.pass(300 * time.Millisecond)
	e.send(url, queue.Message{Body: "a"})
	p := <-ch
	require.NoError(e, p.err)
	require.Equal(e, []string{"a"}, bodies(p.got))
	require.Less(e, p.took, 5*time.Second)
}

func longPollDelay(e *env) {
	if e.caps.PollsDeaf {
		e.Skip("a long poll of this engine is woken by a send only")
	}
	url := e.make(queue.Spec{})
	start := time.Now()
	e.send(url, queue.Message{Body: "a", Delay: time.Second})
	e.one(url, queue.ReceiveOptions{Wait: 10 * time.Second, Visibility: time.Second})
	require.Equal(e, 2, e.one(url, queue.ReceiveOptions{Wait: 10 * time.Second}).ReceiveCount)
	require.Less(e, time.Since(start), 8*time.Second)
}

func cancelledPoll(e *env) {
	url := e.make(queue.Spec{Visibility: time.Second})
	ctx, cancel := context.WithCancel(e.Context())
	ch := e.poll(ctx, url, queue.ReceiveOptions{Wait: 10 * time.Second})
	e.pass(300 * time.Millisecond)
	start := time.Now()
	cancel()
	p := <-ch
	require.Less(e, time.Since(start), 2*time.Second)
	require.ErrorIs(e, p.err, context.Canceled)
	e.pass(200 * time.Millisecond) // the engine notices that the connection is gone
	e.send(url, queue.Message{Body: "a"})
	if e.caps.AbandonedPollsTake {
		e.collect(url, 1, 5*time.Second)
		return
	}
	require.Equal(e, 1, e.one(url, queue.ReceiveOptions{Wait: time.Second}).ReceiveCount)
}

func systemAttributes(e *env) {
	url := e.make(queue.Spec{Visibility: time.Second})
	before := time.Now()
	e.send(url, queue.Message{Body: "a"})
	after := time.Now()
	first := e.one(url, queue.ReceiveOptions{Wait: time.Second})
	require.Equal(e, 1, first.ReceiveCount)
	require.WithinRange(e, first.SentAt, before.Add(-time.Second), after.Add(time.Second))
	require.Equal(e, time.UTC, first.SentAt.Location())
	if !e.caps.NoSenderID {
		require.NotEmpty(e, first.SenderID)
	}
	second := e.collect(url, 1, 10*time.Second)[0]
	require.Equal(e, 2, second.ReceiveCount)
	require.Equal(e, first.ID, second.ID)
	require.Equal(e, first.SentAt, second.SentAt)
}

func visibilityEnds(e *env) {
	url := e.make(queue.Spec{Visibility: time.Minute})
	e.send(url, queue.Message{Body: "a"})
	start := time.Now()
	e.one(url, queue.ReceiveOptions{Wait: time.Second, Visibility: 2 * time.Second})
	e.none(url)
	require.Equal(e, 2, e.collect(url, 1, 10*time.Second)[0].ReceiveCount)
	require.GreaterOrEqual(e, time.Since(start), 2*time.Second-20*time.Millisecond)
}

func release(e *env) {
	url := e.make(queue.Spec{Visibility: time.Minute})
	e.send(url, queue.Message{Body: "a"})
	r := e.one(url, queue.ReceiveOptions{Wait: time.Second})
	require.NoError(e, e.ChangeVisibility(e.Context(), url, []queue.Visibility{{Receipt: r.Receipt}})[0])
	start := time.Now()
	require.Equal(e, 2, e.collect(url, 1, 5*time.Second)[0].ReceiveCount)
	require.Less(e, time.Since(start), 3*time.Second)
}

func extend(e *env) {
	url := e.make(queue.Spec{Visibility: time.Second})
	e.send(url, queue.Message{Body: "a"})
	r := e.one(url, queue.ReceiveOptions{Wait: time.Second})
	require.NoError(e, e.ChangeVisibility(e.Context(), url, []queue.Visibility{{Receipt: r.Receipt, Timeout: time.Minute}})[0])
	e.pass(1500 * time.Millisecond)
	e.none(url)
	e.delete(url, r)
}

const badReceipt = "bm90IGEgcmVjZWlwdA=="

func badVisibility(e *env) {
	url := e.make(queue.Spec{Visibility: time.Minute})
	e.send(url, make3()...)
	got := e.collect(url, 3, 5*time.Second)
	entries := []queue.Visibility{{Receipt: got[0].Receipt}, {Receipt: badReceipt}, {Receipt: got[1].Receipt}, {Receipt: ""}}
	errs := e.ChangeVisibility(e.Context(), url, entries)
	require.NoError(e, errs[0])
	require.ErrorIs(e, errs[1], queue.ErrReceipt)
	require.NoError(e, errs[2])
	require.ErrorIs(e, errs[3], queue.ErrReceipt)
	e.collect(url, 2, 5*time.Second)
}

func badDelete(e *env) {
	url := e.make(queue.Spec{Visibility: time.Minute})
	msgs := make([]queue.Message, 12)
	for i := range msgs {
		msgs[i].Body = fmt.Sprint(i)
	}
	e.send(url, msgs...)
	rs := receipts(e.collect(url, len(msgs), 5*time.Second))
	rs = append(rs[:3], append([]string{badReceipt, ""}, rs[3:]...)...)
	for i, err := range e.Delete(e.Context(), url, rs) {
		if i == 3 || i == 4 {
			require.ErrorIs(e, err, queue.ErrReceipt)
		} else {
			require.NoError(e, err)
		}
	}
	depth, err := e.Depth(e.Context(), url)
	require.NoError(e, err)
	require.Zero(e, depth)
}

func deleteTwice(e *env) {
	url := e.make(queue.Spec{})
	e.send(url, queue.Message{Body: "a"})
	r := e.one(url, queue.ReceiveOptions{Wait: time.Second})
	e.delete(url, r)
	err := e.Delete(e.Context(), url, []string{r.Receipt})[0]
	if e.caps.DeleteOnce {
		require.ErrorIs(e, err, queue.ErrReceipt)
	} else {
		require.NoError(e, err)
	}
}

func redrive(e *env) {
	dlq := e.make(queue.Spec{})
	url := e.make(queue.Spec{Visibility: time.Second, DeadLetterURL: dlq, MaxReceives: 2})
	e.send(url, queue.Message{Body: "poison", Attributes: map[string]string{"k": "v"}})
	for n := 1; n <= 2; n++ {
		require.Equal(e, n, e.collect(url, 1, 5*time.Second)[0].ReceiveCount)
	}
	e.none(dlq)
	var dead []queue.Received
	for end := time.Now().Add(10 * time.Second); len(dead) == 0 && time.Now().Before(end); {
		require.Empty(e, e.receive(url, queue.ReceiveOptions{Wait: time.Second}))
		dead = e.receive(dlq, queue.ReceiveOptions{})
	}
	require.Equal(e, []string{"poison"}, bodies(dead))
	require.Equal(e, map[string]string{"k": "v"}, dead[0].Attributes)
}

func concurrent(e *env) {
	url := e.make(queue.Spec{Visibility: time.Minute})
	const n, workers = 120, 6
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for w := range workers {
		wg.Go(func() {
			msgs := make([]queue.Message, n/workers)
			for i := range msgs {
				msgs[i].Body = fmt.Sprint(w, "-", i)
			}
			for _, err := range e.SendBatch(e.Context(), url, msgs) {
				if err != nil {
					e.Error(err)
				}
			}
		})
		wg.Go(func() {
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
				mu.Lock()
				done := len(seen) == n
				mu.Unlock()
				if done {
					return
				}
				got, err := e.Receive(e.Context(), url, queue.ReceiveOptions{Wait: time.Second})
				if err != nil {
					e.Error(err)
					return
				}
				e.Delete(e.Context(), url, receipts(got))
				mu.Lock()
				for _, r := range got {
					seen[r.Body]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(e, seen, n)
	for body, times := range seen {
		require.Equal(e, 1, times, body)
	}
}
