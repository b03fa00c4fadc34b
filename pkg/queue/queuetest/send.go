package queuetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
)

func batchArrives(e *env) {
	url := e.make(queue.Spec{})
	msgs := make([]queue.Message, 37)
	var want []string
	for i := range msgs {
		msgs[i].Body = fmt.Sprint("message ", i)
		want = append(want, msgs[i].Body)
	}
	e.send(url, msgs...)
	got := e.collect(url, len(msgs), 10*time.Second)
	require.ElementsMatch(e, want, bodies(got))
	e.delete(url, got...)
	e.none(url)
}

func splitByBytes(e *env) {
	url := e.make(queue.Spec{})
	msgs := make([]queue.Message, 10)
	for i := range msgs {
		msgs[i].Body = fmt.Sprint(i) + strings.Repeat("x", 150<<10)
	}
	e.send(url, msgs...)
	seen := map[byte]bool{}
	for _, r := range e.collect(url, len(msgs), 10*time.Second) {
		require.Len(e, r.Body, 150<<10+1)
		seen[r.Body[0]] = true
	}
	require.Len(e, seen, len(msgs))
}

func refusedAlone(e *env) {
	url := e.make(queue.Spec{})
	eleven := map[string]string{}
	for i := range 11 {
		eleven[fmt.Sprint("a", i)] = "v"
	}
	for name, bad := range map[string]queue.Message{
		"control character": {Body: "\x01"},
		"not UTF-8":         {Body: "\xff"},
		"empty":             {},
		"too large":         {Body: strings.Repeat("x", queue.MaxMessageBytes+1)},
		"eleven attributes": {Body: "x", Attributes: eleven},
		"empty attribute":   {Body: "x", Attributes: map[string]string{"a": ""}},
	} {
		msgs := make([]queue.Message, 7)
		for i := range msgs {
			msgs[i].Body = fmt.Sprint(i)
		}
		msgs[4] = bad
		for i, err := range e.SendBatch(e.Context(), url, msgs) {
			if i == 4 {
				require.ErrorIs(e, err, queue.ErrRejected, name)
				require.True(e, queue.SurelyUnsent(err), name)
			} else {
				require.NoError(e, err, name)
			}
		}
		got := e.collect(url, 6, 10*time.Second)
		require.ElementsMatch(e, []string{"0", "1", "2", "3", "5", "6"}, bodies(got), name)
		e.delete(url, got...)
	}
}

func nothingToSend(e *env) {
	url := e.make(queue.Spec{})
	require.Empty(e, e.SendBatch(e.Context(), url, nil))
	require.Empty(e, e.Delete(e.Context(), url, nil))
	require.Empty(e, e.ChangeVisibility(e.Context(), url, nil))
}

func roundTrip(e *env) {
	url := e.make(queue.Spec{})
	m := queue.Message{
		Body:       "tab\tnewline\r\n\"quoted\\\" <&> ünïcödé 漢字 \U0001F600 \u2028",
		Attributes: map[string]string{"traceparent": "00-1-2-01", "Myosin-Id": "ü<&>\"漢\U0001F600", "x.y_z-1": " "},
		Group:      "tenant-1",
	}
	for i := range 7 {
		m.Attributes[fmt.Sprint("more", i)] = fmt.Sprint("value ", i)
	}
	e.send(url, m)
	got := e.one(url, queue.ReceiveOptions{Wait: 2 * time.Second})
	require.Equal(e, m.Body, got.Body)
	require.Equal(e, m.Attributes, got.Attributes)
	require.NotEmpty(e, got.ID)
	if !e.caps.NoGroup {
		require.Equal(e, m.Group, got.Group)
	}
}

func zeroDelay(e *env) {
	if e.caps.ZeroDelayIgnored {
		e.Skip("this engine takes an explicit zero for the queue's own delay")
	}
	url := e.make(queue.Spec{Delay: 5 * time.Second})
	start := time.Now()
	e.send(url, queue.Message{Body: "now"})
	require.Equal(e, "now", e.one(url, queue.ReceiveOptions{Wait: time.Second}).Body)
	require.Less(e, time.Since(start), 4*time.Second)
}

func delayHolds(e *env) {
	url := e.make(queue.Spec{})
	start := time.Now()
	e.send(url, queue.Message{Body: "later", Delay: 2 * time.Second}, queue.Message{Body: "now"})
	require.Equal(e, "now", e.one(url, queue.ReceiveOptions{}).Body)
	require.Equal(e, "later", e.collect(url, 1, 10*time.Second)[0].Body)
	// Engines count whole seconds from a time of their own.
	require.GreaterOrEqual(e, time.Since(start), 2*time.Second-20*time.Millisecond)
}

func endedContext(e *env) {
	url := e.make(queue.Spec{})
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	for _, err := range e.SendBatch(ctx, url, make([]queue.Message, 12)) {
		require.True(e, queue.SurelyUnsent(err), "%v", err)
	}
	_, err := e.Receive(ctx, url, queue.ReceiveOptions{})
	require.ErrorIs(e, err, context.Canceled)
	e.none(url)
}

func missingQueue(e *env) {
	url := e.make(queue.Spec{})
	require.NoError(e, e.DeleteQueue(e.Context(), url))
	for _, err := range e.SendBatch(e.Context(), url, []queue.Message{{Body: "a"}, {Body: "b"}}) {
		require.ErrorIs(e, err, queue.ErrMissing)
	}
	_, err := e.Receive(e.Context(), url, queue.ReceiveOptions{})
	require.ErrorIs(e, err, queue.ErrMissing)
	_, err = e.Depth(e.Context(), url)
	require.ErrorIs(e, err, queue.ErrMissing)
	require.ErrorIs(e, e.Delete(e.Context(), url, []string{"r"})[0], queue.ErrMissing)
	require.ErrorIs(e, e.ChangeVisibility(e.Context(), url, []queue.Visibility{{Receipt: "r"}})[0], queue.ErrMissing)
	require.ErrorIs(e, e.DeleteQueue(e.Context(), url), queue.ErrMissing)
	_, err = e.URL(e.Context(), url[strings.LastIndexByte(url, '/')+1:])
	require.ErrorIs(e, err, queue.ErrMissing)
}

func createFinds(e *env) {
	url := e.make(queue.Spec{})
	name := url[strings.LastIndexByte(url, '/')+1:]
	again, err := e.Create(e.Context(), queue.Spec{Name: name})
	require.NoError(e, err)
	require.Equal(e, url, again)
	other, err := e.Create(e.Context(), queue.Spec{Name: name, Visibility: time.Minute})
	require.NoError(e, err, "a queue of other settings is found too")
	require.Equal(e, url, other)
	found, err := e.URL(e.Context(), name)
	require.NoError(e, err)
	require.Equal(e, url, found)
}

func depthCounts(e *env) {
	url := e.make(queue.Spec{})
	e.send(url, queue.Message{Body: "a"}, queue.Message{Body: "b"}, queue.Message{Body: "c"},
		queue.Message{Body: "d", Delay: time.Minute})
	e.one(url, queue.ReceiveOptions{Max: 1, Wait: time.Second})
	depth, err := e.Depth(e.Context(), url)
	require.NoError(e, err)
	require.Equal(e, queue.Depth{Visible: 2, InFlight: 1, Delayed: 1}, depth)
}

func fifo(i int, group string) queue.Message {
	return queue.Message{Body: fmt.Sprint(group, i), Group: group, Dedup: fmt.Sprint(group, i)}
}

func fifoOrder(e *env) {
	url := e.make(queue.Spec{FIFO: true})
	var msgs []queue.Message
	for i := range 25 {
		msgs = append(msgs, fifo(i, "g"), fifo(i, "h"))
	}
	e.send(url, msgs...)
	next := map[string]int{}
	for range len(msgs) { // at most one message per receive at worst
		got := e.receive(url, queue.ReceiveOptions{Wait: time.Second})
		for _, r := range got {
			group := r.Body[:1]
			require.Equal(e, fmt.Sprint(group, next[group]), r.Body)
			next[group]++
		}
		e.delete(url, got...)
		if next["g"]+next["h"] == len(msgs) {
			return
		}
	}
	require.Fail(e, "messages are missing", "%v", next)
}

func fifoLock(e *env) {
	url := e.make(queue.Spec{FIFO: true})
	e.send(url, fifo(0, "g"), fifo(1, "g"))
	first := e.one(url, queue.ReceiveOptions{Max: 1, Wait: time.Second})
	require.Equal(e, "g0", first.Body)
	e.none(url)
	e.send(url, fifo(0, "h"))
	require.Equal(e, "h0", e.one(url, queue.ReceiveOptions{Wait: time.Second}).Body)
	e.delete(url, first)
	require.Equal(e, "g1", e.one(url, queue.ReceiveOptions{Wait: time.Second}).Body)
}

func fifoDedup(e *env) {
	url := e.make(queue.Spec{FIFO: true})
	m := fifo(0, "g")
	e.send(url, m)
	e.send(url, m, fifo(1, "g"))
	got := e.collect(url, 2, 5*time.Second)
	require.Equal(e, []string{"g0", "g1"}, bodies(got))
	e.delete(url, got...)
	if !e.caps.DedupForgets {
		e.send(url, m)
		e.none(url)
	}
}

func fifoNeedsGroup(e *env) {
	url := e.make(queue.Spec{FIFO: true})
	errs := e.SendBatch(e.Context(), url, []queue.Message{fifo(0, "g"), {Body: "x", Dedup: "x"}, fifo(0, "h")})
	require.NoError(e, errors.Join(errs[0], errs[2]))
	require.ErrorIs(e, errs[1], queue.ErrRejected)
}
