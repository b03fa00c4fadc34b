package sqsqueue_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/sqsqueue"
)

const (
	standardURL = "https://sqs.us-east-1.amazonaws.com/000000000000/q" // never dialled: the endpoint counts
	fifoURL     = standardURL + ".fifo"
)

func messages(bodies ...string) []queue.Message {
	out := make([]queue.Message, len(bodies))
	for i, b := range bodies {
		out[i].Body = b
	}
	return out
}

func numbered(n int) []queue.Message {
	out := make([]queue.Message, n)
	for i := range out {
		out[i].Body = fmt.Sprint(i)
	}
	return out
}

func TestZeroDelayAndZeroWaitAreOnTheWire(t *testing.T) {
	f := newFake(t, func(_ int, c call) (int, string) {
		if c.Op == "ReceiveMessage" {
			return 200, `{}`
		}
		return sent(c, nil)
	})
	q := open(t, f.URL, sqsqueue.Options{})
	msgs := messages("zero", "some", "half")
	msgs[1].Delay, msgs[2].Delay = 3*time.Second, 500*time.Millisecond
	require.NoError(t, errors.Join(q.SendBatch(t.Context(), standardURL, msgs)...))
	_, err := q.Receive(t.Context(), standardURL, queue.ReceiveOptions{})
	require.NoError(t, err)

	calls := f.seen()
	require.Len(t, calls, 2)
	for i, want := range []int{0, 3, 1} {
		require.Equal(t, &want, calls[0].Entries[i].DelaySeconds)
	}
	zero := 0
	require.Equal(t, &zero, calls[1].WaitTimeSeconds)
}

func TestFIFOSendsCarryNoDelay(t *testing.T) {
	f := newFake(t, func(_ int, c call) (int, string) { return sent(c, nil) })
	q := open(t, f.URL, sqsqueue.Options{})
	m := queue.Message{Body: "a", Group: "g", Dedup: "d", Delay: 3 * time.Second}
	require.NoError(t, q.SendBatch(t.Context(), fifoURL, []queue.Message{m})[0])
	require.Nil(t, f.seen()[0].Entries[0].DelaySeconds)
	require.Contains(t, f.seen()[0].Raw, `"MessageDeduplicationId":"d"`)
	require.Contains(t, f.seen()[0].Raw, `"MessageGroupId":"g"`)
}

func TestSendIsSplitByCountAndBytes(t *testing.T) {
	f := newFake(t, func(_ int, c call) (int, string) { return sent(c, nil) })
	q := open(t, f.URL, sqsqueue.Options{Parallel: 1})
	big := strings.Repeat("x", 400<<10)
	msgs := append(numbered(11), messages(big, big, big, strings.Repeat("x", queue.MaxMessageBytes))...)
	require.NoError(t, errors.Join(q.SendBatch(t.Context(), standardURL, msgs)...))
	var sizes []int
	for _, c := range f.seen() {
		sizes = append(sizes, len(c.Entries))
	}
	require.Equal(t, []int{10, 3, 1, 1}, sizes)
}

func TestEachEntryHasItsOwnOutcome(t *testing.T) {
	codes := map[string]string{
		"1": "InvalidMessageContents/sender", "2": "ThrottlingException", "3": "KmsAccessDenied/sender",
		"4": "AWS.SimpleQueueService.NonExistentQueue/sender", "5": "InternalError", "6": "NeverHeardOf/sender", "7": "RequestThrottled/sender",
	}
	f := newFake(t, func(_ int, c call) (int, string) { return sent(c, codes) })
	errs := open(t, f.URL, sqsqueue.Options{}).SendBatch(t.Context(), standardURL, numbered(9))
	for i, want := range []error{nil, queue.ErrRejected, queue.ErrThrottled, queue.ErrDenied, queue.ErrMissing, nil, queue.ErrRejected, queue.ErrThrottled, nil} {
		if i == 5 {
			require.Error(t, errs[i])
			require.False(t, queue.SurelyUnsent(errs[i]), "an internal error tells nothing")
			continue
		}
		require.ErrorIs(t, errs[i], want, "%d", i)
	}
	require.Len(t, f.seen(), 1)
}

func TestAnAnswerThatForgetsAnEntryLeavesItsOutcomeUnknown(t *testing.T) {
	f := newFake(t, func(int, call) (int, string) {
		return 200, `{"Successful":[{"Id":"1","MessageId":"m"},{"Id":"77"},{}]}`
	})
	errs := open(t, f.URL, sqsqueue.Options{}).SendBatch(t.Context(), standardURL, numbered(2))
	require.Error(t, errs[0])
	require.False(t, queue.SurelyUnsent(errs[0]))
	require.NoError(t, errs[1])
}

func TestASendIsNeverRepeatedAndAFailedCallIsMapped(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   error // nil: unknown
	}{
		{500, "InternalError", nil},
		{503, "ServiceUnavailable", nil},
		{0, "", nil},
		{400, "com.amazonaws.sqs#RequestThrottled", queue.ErrThrottled},
		{400, "ThrottlingException", queue.ErrThrottled},
		{400, "com.amazonaws.sqs#QueueDoesNotExist", queue.ErrMissing},
		{400, "AWS.SimpleQueueService.NonExistentQueue", queue.ErrMissing},
		{400, "AccessDeniedException", queue.ErrDenied},
		{400, "KMS.AccessDeniedException", queue.ErrDenied},
		{403, "", queue.ErrDenied},
		{429, "", queue.ErrThrottled},
	} {
		f := newFake(t, func(int, call) (int, string) { return c.status, apiError(c.code) })
		errs := open(t, f.URL, sqsqueue.Options{}).SendBatch(t.Context(), standardURL, numbered(3))
		for _, err := range errs {
			require.Error(t, err)
			if c.want == nil {
				require.False(t, queue.SurelyUnsent(err), "%d %s: %v", c.status, c.code, err)
			} else {
				require.ErrorIs(t, err, c.want, "%d %s", c.status, c.code)
			}
		}
		require.Len(t, f.seen(), 1, "%d %s", c.status, c.code)
	}
}

func TestABatchRefusedAsAWholeIsSentOneByOne(t *testing.T) {
	f := newFake(t, func(_ int, c call) (int, string) {
		if strings.Contains(c.Raw, "poison") {
			return 400, apiError("InvalidParameterValue")
		}
		return sent(c, nil)
	})
	errs := open(t, f.URL, sqsqueue.Options{}).SendBatch(t.Context(), standardURL, messages("a", "poison", "b"))
	require.NoError(t, errors.Join(errs[0], errs[2]))
	require.ErrorIs(t, errs[1], queue.ErrRejected)
	require.Len(t, f.seen(), 4)
}

func TestAServerThatIsNotThereMeansNotSent(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, endpoint := range []string{gone.URL, "http://nowhere.invalid"} {
		err := open(t, endpoint, sqsqueue.Options{}).SendBatch(t.Context(), standardURL, messages("a"))[0]
		require.ErrorIs(t, err, queue.ErrNotSent, endpoint)
	}
}

func TestASendThatTimesOutAfterWritingIsOfUnknownOutcome(t *testing.T) {
	release := make(chan struct{})
	f := newFake(t, func(_ int, c call) (int, string) { <-release; return sent(c, nil) })
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := open(t, f.URL, sqsqueue.Options{}).SendBatch(ctx, standardURL, messages("a"))[0]
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.False(t, queue.SurelyUnsent(err))
}

func TestFIFOMessagesBehindAFailedOneOfTheirGroupAreHeldBack(t *testing.T) {
	f := newFake(t, func(_ int, c call) (int, string) { return sent(c, map[string]string{"g5": "ThrottlingException"}) })
	var msgs []queue.Message
	for i := range 15 {
		for _, g := range []string{"g", "h"} {
			msgs = append(msgs, queue.Message{Body: fmt.Sprint(g, i), Group: g, Dedup: fmt.Sprint(g, i)})
		}
	}
	errs := open(t, f.URL, sqsqueue.Options{}).SendBatch(t.Context(), fifoURL, msgs)
	var order []string
	for _, c := range f.seen() {
		for _, e := range c.Entries {
			order = append(order, e.MessageBody)
		}
	}
	for i, m := range msgs {
		switch {
		case m.Body == "g5":
			require.ErrorIs(t, errs[i], queue.ErrThrottled)
		case m.Group == "g" && i >= 20: // later calls than the one that failed
			require.ErrorIs(t, errs[i], queue.ErrNotSent, m.Body)
			require.NotContains(t, order, m.Body)
		default:
			require.NoError(t, errs[i], m.Body)
		}
	}
	require.Equal(t, []string{"h10", "h11", "h12", "h13", "h14"}, order[len(order)-5:])
}

func TestCallsOfOneSendRunInBoundedParallel(t *testing.T) {
	var now, most atomic.Int32
	var mu sync.Mutex
	f := newFake(t, func(_ int, c call) (int, string) {
		n := now.Add(1)
		mu.Lock()
		most.Store(max(most.Load(), n))
		mu.Unlock()
		<-time.After(20 * time.Millisecond)
		now.Add(-1)
		return sent(c, nil)
	})
	errs := open(t, f.URL, sqsqueue.Options{Parallel: 3}).SendBatch(t.Context(), standardURL, numbered(120))
	require.NoError(t, errors.Join(errs...))
	require.Len(t, f.seen(), 12)
	require.Equal(t, int32(3), most.Load())
}

func TestGateIsAskedBeforeEachCallAndItsRefusalSendsNothing(t *testing.T) {
	f := newFake(t, func(_ int, c call) (int, string) { return sent(c, nil) })
	var asked []string
	closed := errors.New("closed")
	q := open(t, f.URL, sqsqueue.Options{Parallel: 1, Gate: func(_ context.Context, op, url string, n int) error {
		asked = append(asked, fmt.Sprint(op, " ", url == standardURL, " ", n))
		if op == "receive" || n == 2 {
			return closed
		}
		return nil
	}})
	errs := q.SendBatch(t.Context(), standardURL, numbered(12))
	require.NoError(t, errors.Join(errs[:10]...))
	require.ErrorIs(t, errs[11], queue.ErrNotSent)
	require.ErrorIs(t, errs[11], closed)
	_, err := q.Receive(t.Context(), standardURL, queue.ReceiveOptions{Max: 7})
	require.ErrorIs(t, err, closed)
	require.Equal(t, []string{"send true 10", "send true 2", "receive true 7"}, asked)
	require.Len(t, f.seen(), 1)
}

func TestMetricsCountByOperationAndClass(t *testing.T) {
	f := newFake(t, func(_ int, c call) (int, string) {
		if c.Op == "ReceiveMessage" {
			return 400, apiError("AccessDenied")
		}
		return sent(c, map[string]string{"3": "ThrottlingException"})
	})
	reg := prometheus.NewRegistry()
	q := open(t, f.URL, sqsqueue.Options{Metrics: reg})
	open(t, f.URL, sqsqueue.Options{Metrics: reg}) // shares them
	q.SendBatch(t.Context(), standardURL, append(numbered(5), queue.Message{}))
	_, err := q.Receive(t.Context(), standardURL, queue.ReceiveOptions{})
	require.ErrorIs(t, err, queue.ErrDenied)
	require.Equal(t, map[string]float64{
		"myosin_queue_errors_total denied receive": 1,
		"myosin_queue_errors_total rejected send":  1,
		"myosin_queue_errors_total throttled send": 1,
		"myosin_queue_messages_total send":         5,
		"myosin_queue_message_bytes_total send":    5,
		"myosin_queue_requests_total receive":      1,
		"myosin_queue_requests_total send":         1,
	}, counters(t, reg))
}

// counters returns every counter by its name and label values.
func counters(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetCounter() == nil {
				continue
			}
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			out[name] = m.GetCounter().GetValue()
		}
	}
	return out
}

func TestOptionsReportEveryProblemTogether(t *testing.T) {
	err := sqsqueue.Options{Parallel: -1, MaxPoll: 21 * time.Second, CancelGrace: -1}.Validate()
	for _, part := range []string{"parallel", "max poll", "cancel grace"} {
		require.ErrorContains(t, err, part)
	}
}
