package memqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func create(t *testing.T, e *memqueue.Engine, s queue.Spec) string {
	t.Helper()
	url, err := e.Create(t.Context(), s)
	require.NoError(t, err)
	return url
}

func send(t *testing.T, s queue.Sender, url string, msgs ...queue.Message) {
	t.Helper()
	for _, err := range s.SendBatch(t.Context(), url, msgs) {
		require.NoError(t, err)
	}
}

func receive(t *testing.T, e *memqueue.Engine, url string, o queue.ReceiveOptions) []queue.Received {
	t.Helper()
	got, err := e.Receive(t.Context(), url, o)
	require.NoError(t, err)
	return got
}

func bodies(rs []queue.Received) []string {
	var out []string
	for _, r := range rs {
		out = append(out, r.Body)
	}
	return out
}

func TestLongPollWakesTheMomentADelayEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memqueue.New(memqueue.Options{})
		url := create(t, e, queue.Spec{Name: "q"})
		start := time.Now()
		send(t, e, url, queue.Message{Body: "late", Delay: 7 * time.Second})
		got := receive(t, e, url, queue.ReceiveOptions{Wait: 20 * time.Second})
		require.Equal(t, []string{"late"}, bodies(got))
		require.Equal(t, 7*time.Second, time.Since(start))
	})
}

func TestLongPollWakesTheMomentVisibilityEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memqueue.New(memqueue.Options{})
		url := create(t, e, queue.Spec{Name: "q", Visibility: 5 * time.Second})
		send(t, e, url, queue.Message{Body: "a"})
		require.Len(t, receive(t, e, url, queue.ReceiveOptions{}), 1)
		start := time.Now()
		got := receive(t, e, url, queue.ReceiveOptions{Wait: 20 * time.Second})
		require.Equal(t, 2, got[0].ReceiveCount)
		require.Equal(t, 5*time.Second, time.Since(start))
	})
}

func TestManyPollersShareTheMessagesAndNoneIsLeftLying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memqueue.New(memqueue.Options{})
		url := create(t, e, queue.Spec{Name: "q"})
		got := make(chan string, 1000)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		const pollers = 20
		for range pollers {
			go func() {
				defer func() { done <- struct{}{} }()
				for ctx.Err() == nil {
					rs, _ := e.Receive(ctx, url, queue.ReceiveOptions{Max: 3, Wait: 20 * time.Second})
					for _, r := range rs {
						got <- r.Body
						e.Delete(ctx, url, []string{r.Receipt})
					}
				}
			}()
		}
		synctest.Wait()
		for i := range 500 {
			send(t, e, url, queue.Message{Body: fmt.Sprint("m", i), Delay: time.Duration(i%7) * time.Second})
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		require.Len(t, got, 500)
		stop()
		for range pollers {
			<-done
		}
		depth, err := e.Depth(t.Context(), url)
		require.NoError(t, err)
		require.Zero(t, depth)
	})
}

func TestNoisyGroupDoesNotDelayOthers(t *testing.T) {
	e := memqueue.New(memqueue.Options{})
	url := create(t, e, queue.Spec{Name: "fair"})
	for i := range 1000 {
		send(t, e, url, queue.Message{Body: fmt.Sprint("noisy", i), Group: "noisy"})
	}
	send(t, e, url, queue.Message{Body: "quiet", Group: "quiet"})
	require.Contains(t, bodies(receive(t, e, url, queue.ReceiveOptions{Max: 2})), "quiet")
}

func TestFIFOGroupIsLockedWhileInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memqueue.New(memqueue.Options{})
		url := create(t, e, queue.Spec{Name: "q.fifo", FIFO: true, Visibility: 10 * time.Second})
		for i := range 4 {
			send(t, e, url, queue.Message{Body: fmt.Sprint(i), Group: "g", Dedup: fmt.Sprint(i)})
		}
		send(t, e, url, queue.Message{Body: "other", Group: "h", Dedup: "h"})
		first := receive(t, e, url, queue.ReceiveOptions{Max: 2})
		require.Equal(t, []string{"0", "1"}, bodies(first))
		require.Equal(t, []string{"other"}, bodies(receive(t, e, url, queue.ReceiveOptions{})))
		require.Empty(t, receive(t, e, url, queue.ReceiveOptions{}))

		require.NoError(t, e.Delete(t.Context(), url, []string{first[0].Receipt})[0])
		require.Empty(t, receive(t, e, url, queue.ReceiveOptions{}), "one of the group is still in flight")
		start := time.Now()
		require.Equal(t, []string{"1", "2", "3"}, bodies(receive(t, e, url, queue.ReceiveOptions{Wait: 20 * time.Second}))[:3])
		require.Equal(t, 10*time.Second, time.Since(start))
		require.ErrorIs(t, e.Delete(t.Context(), url, []string{first[1].Receipt})[0], queue.ErrReceipt)
	})
}

func TestDeduplicationEndsAfterFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		e := memqueue.New(memqueue.Options{OnSend: func(string, queue.Message) { sent++ }})
		url := create(t, e, queue.Spec{Name: "q.fifo", FIFO: true})
		m := queue.Message{Body: "x", Group: "g", Dedup: "d"}
		send(t, e, url, m)
		time.Sleep(5*time.Minute - time.Second)
		send(t, e, url, m)
		require.Equal(t, 1, sent)
		time.Sleep(time.Second)
		send(t, e, url, m)
		require.Equal(t, 2, sent)
	})
}

func TestFIFOMessageBehindAFailedOneOfItsGroupIsNotSent(t *testing.T) {
	e := memqueue.New(memqueue.Options{Faults: func(en memqueue.Entry) memqueue.Fault {
		if en.Op == memqueue.OpSend && en.Message.Body == "2" {
			return memqueue.Fault{Err: queue.ErrThrottled}
		}
		return memqueue.Fault{}
	}})
	url := create(t, e, queue.Spec{Name: "q.fifo", FIFO: true})
	var msgs []queue.Message
	for i := range 4 {
		msgs = append(msgs, queue.Message{Body: fmt.Sprint(i), Group: "g", Dedup: fmt.Sprint(i)})
	}
	msgs = append(msgs, queue.Message{Body: "other", Group: "h", Dedup: "h"})
	errs := e.SendBatch(t.Context(), url, msgs)
	require.NoError(t, errors.Join(errs[0], errs[1], errs[4]))
	require.ErrorIs(t, errs[2], queue.ErrThrottled)
	require.ErrorIs(t, errs[3], queue.ErrNotSent)
	require.Len(t, e.Messages(url), 3)
}

func TestVisibilityHasATwelveHourCeilingFromTheReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memqueue.New(memqueue.Options{})
		url := create(t, e, queue.Spec{Name: "q"})
		send(t, e, url, queue.Message{Body: "x"})
		r := receive(t, e, url, queue.ReceiveOptions{Visibility: 11 * time.Hour})[0]
		time.Sleep(10 * time.Hour)
		extend := func(d time.Duration) error {
			return e.ChangeVisibility(t.Context(), url, []queue.Visibility{{Receipt: r.Receipt, Timeout: d}})[0]
		}
		require.NoError(t, extend(2*time.Hour))
		require.ErrorContains(t, extend(2*time.Hour+time.Second), "beyond 12h")
	})
}

func TestStaleReceiptDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memqueue.New(memqueue.Options{})
		url := create(t, e, queue.Spec{Name: "q", Visibility: time.Second})
		send(t, e, url, queue.Message{Body: "x"})
		old := receive(t, e, url, queue.ReceiveOptions{})[0]
		time.Sleep(time.Second)
		cur := receive(t, e, url, queue.ReceiveOptions{})[0]
		require.NoError(t, e.Delete(t.Context(), url, []string{old.Receipt})[0])
		require.Len(t, e.Messages(url), 1)
		vis := []queue.Visibility{{Receipt: old.Receipt, Timeout: time.Minute}}
		require.ErrorIs(t, e.ChangeVisibility(t.Context(), url, vis)[0], queue.ErrReceipt)
		for range 2 { // deleting twice succeeds
			require.NoError(t, e.Delete(t.Context(), url, []string{cur.Receipt})[0])
		}
		require.Empty(t, e.Messages(url))
	})
}

func TestRecreatedQueueIsEmptyAndKnowsNoOldReceipts(t *testing.T) {
	e := memqueue.New(memqueue.Options{})
	url := create(t, e, queue.Spec{Name: "q"})
	send(t, e, url, queue.Message{Body: "x"}, queue.Message{Body: "y"})
	r := receive(t, e, url, queue.ReceiveOptions{Max: 1})[0]
	require.NoError(t, e.DeleteQueue(t.Context(), url))
	require.ErrorIs(t, e.SendBatch(t.Context(), url, []queue.Message{{Body: "z"}})[0], queue.ErrMissing)
	require.NoError(t, e.Recreate(t.Context(), url))
	require.Empty(t, receive(t, e, url, queue.ReceiveOptions{}))
	require.ErrorIs(t, e.Delete(t.Context(), url, []string{r.Receipt})[0], queue.ErrReceipt)
	require.ErrorIs(t, e.Recreate(t.Context(), url+"-other"), queue.ErrMissing)
}

func TestDeletingAQueueEndsItsLongPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memqueue.New(memqueue.Options{})
		url := create(t, e, queue.Spec{Name: "q"})
		ended := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := e.Receive(t.Context(), url, queue.ReceiveOptions{Wait: 20 * time.Second})
				ended <- err
			}()
		}
		synctest.Wait()
		start := time.Now()
		require.NoError(t, e.DeleteQueue(t.Context(), url))
		for range 3 {
			require.ErrorIs(t, <-ended, queue.ErrMissing)
		}
		require.Zero(t, time.Since(start))
	})
}

func TestSenderIDIsThatOfTheView(t *testing.T) {
	e := memqueue.New(memqueue.Options{SenderID: "AIDA1"})
	url := create(t, e, queue.Spec{Name: "q"})
	send(t, e, url, queue.Message{Body: "a"})
	send(t, e.SendAs("AROA2:session"), url, queue.Message{Body: "b"})
	got := receive(t, e, url, queue.ReceiveOptions{})
	require.Equal(t, "AIDA1", got[0].SenderID)
	require.Equal(t, "AROA2:session", got[1].SenderID)
}

func TestMessageIsGoneAfterItsRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memqueue.New(memqueue.Options{})
		url := create(t, e, queue.Spec{Name: "q"})
		send(t, e, url, queue.Message{Body: "a"})
		time.Sleep(14*24*time.Hour - time.Second)
		require.Len(t, receive(t, e, url, queue.ReceiveOptions{Visibility: time.Second}), 1)
		time.Sleep(time.Second)
		require.Empty(t, receive(t, e, url, queue.ReceiveOptions{}))
		require.Empty(t, e.Messages(url))
	})
}

func TestShortPollAtTheInFlightLimitIsThrottledAndALongPollStaysEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memqueue.New(memqueue.Options{MaxInFlight: 1})
		url := create(t, e, queue.Spec{Name: "q"})
		send(t, e, url, queue.Message{Body: "a"}, queue.Message{Body: "b"})
		require.Len(t, receive(t, e, url, queue.ReceiveOptions{Max: 1}), 1)
		_, err := e.Receive(t.Context(), url, queue.ReceiveOptions{})
		require.ErrorIs(t, err, queue.ErrThrottled)
		require.Empty(t, receive(t, e, url, queue.ReceiveOptions{Wait: time.Second}))
	})
}

func TestMessagesSQSWouldRefuseAreRejected(t *testing.T) {
	many := map[string]string{}
	for i := range 11 {
		many[fmt.Sprint("a", i)] = "v"
	}
	e := memqueue.New(memqueue.Options{})
	url := create(t, e, queue.Spec{Name: "q"})
	bad := map[string]queue.Message{
		"empty body":        {},
		"control character": {Body: "a\x01"},
		"not UTF-8":         {Body: "a\xff"},
		"too many":          {Body: "a", Attributes: many},
		"too large":         {Body: strings.Repeat("a", queue.MaxMessageBytes+1)},
		"attribute name":    {Body: "a", Attributes: map[string]string{"AWS.x": "v"}},
		"attribute value":   {Body: "a", Attributes: map[string]string{"x": ""}},
		"delay":             {Body: "a", Delay: queue.MaxDelay + time.Second},
		"group":             {Body: "a", Group: "with space"},
	}
	for name, m := range bad {
		errs := e.SendBatch(t.Context(), url, []queue.Message{{Body: "ok"}, m, {Body: "ok"}})
		require.NoError(t, errors.Join(errs[0], errs[2]), name)
		require.ErrorIs(t, errs[1], queue.ErrRejected, name)
	}
	require.Len(t, e.Messages(url), 2*len(bad))
}
