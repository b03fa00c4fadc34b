// Package queuetest is the suite that every implementation of queue.Queues
// passes: one subtest per sentence of the contract.
//
// It makes its own queues under random names and deletes them, so that it may
// run against a shared endpoint. Subtests of engines in real time run in
// parallel and wait a second or two each.
package queuetest

import (
	"crypto/rand"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/queue"
)

// Caps say how an engine is run, and what it is known not to do. Every
// exception names what SQS itself does, which the zero value asserts.
type Caps struct {
	// Virtual runs each subtest, and open with it, in a testing/synctest bubble:
	// for engines in memory. False: real time.
	Virtual bool
	// ZeroDelayIgnored: an explicit delay of zero is taken for the queue's own
	// delay. SQS delivers at once.
	ZeroDelayIgnored bool
	// PollsDeaf: a long poll is woken by a send only. SQS also wakes it when a
	// delay or a visibility timeout ends.
	PollsDeaf bool
	// AbandonedPollsTake: a long poll goes on after its client hung up, and hands
	// messages to nobody. SQS stops it, but for the moment of hanging up.
	AbandonedPollsTake bool
	// NoSenderID: received messages do not tell their sender.
	NoSenderID bool
	// NoGroup: received messages do not tell their group.
	NoGroup bool
	// DeleteOnce: a second delete of a message gives ErrReceipt. SQS succeeds.
	DeleteOnce bool
	// DedupForgets: a deduplication id may be used again once its message was
	// received. SQS remembers it for five minutes, whatever became of the message.
	DedupForgets bool
}

// Run runs the suite. open returns the engine for one subtest; it may return
// the same one each time.
func Run(t *testing.T, open func(t *testing.T) queue.Queues, caps Caps) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if !caps.Virtual {
				t.Parallel()
				c.run(&env{T: t, Queues: open(t), caps: caps})
				return
			}
			synctest.Test(t, func(t *testing.T) {
				c.run(&env{T: t, Queues: open(t), caps: caps})
			})
		})
	}
}

type testCase struct {
	name string
	run  func(e *env)
}

var cases = []testCase{
	{"ABatchOf37AllArrives", batchArrives},
	{"TenMessagesOf150KiBAreSplitByBytesAndAllArrive", splitByBytes},
	{"ARefusedEntryFailsAlone", refusedAlone},
	{"NothingToSendIsNoError", nothingToSend},
	{"BodyAndAttributesArriveAsSent", roundTrip},
	{"AnExplicitZeroDelayBeatsTheQueuesOwn", zeroDelay},
	{"ADelayedMessageComesNotBeforeItsTime", delayHolds},
	{"AnEndedContextSendsNothing", endedContext},
	{"AMissingQueueIsErrMissingEverywhere", missingQueue},
	{"CreateFindsTheQueueAndURLToo", createFinds},
	{"DepthCountsVisibleInFlightAndDelayed", depthCounts},

	{"AReceiveWithoutWaitAnswersAtOnce", shortPoll},
	{"AReceiveReturnsAtMostMax", atMostMax},
	{"ALongPollEndsWhenAMessageArrives", longPollArrival},
	{"ALongPollEndsWhenADelayEnds", longPollDelay},
	{"ACancelledLongPollReturnsSoonAndStrandsNothing", cancelledPoll},
	{"SentAtReceiveCountAndSenderAreTold", systemAttributes},
	{"AMessageInFlightIsInvisibleUntilItsTimeout", visibilityEnds},
	{"AVisibilityOfZeroReleasesAtOnce", release},
	{"AnExtendedVisibilityHoldsLonger", extend},
	{"AnInvalidReceiptFailsAloneInAVisibilityChange", badVisibility},
	{"AnInvalidReceiptFailsAloneInADelete", badDelete},
	{"DeletingTwiceSucceeds", deleteTwice},
	{"AMessageReceivedTooOftenGoesToTheDeadLetterQueue", redrive},
	{"ConcurrentReceiversShareTheMessages", concurrent},

	{"AFIFOGroupKeepsItsOrder", fifoOrder},
	{"AFIFOGroupInFlightIsLockedAndOthersAreNot", fifoLock},
	{"AFIFOQueueDropsARepeatedDeduplicationID", fifoDedup},
	{"FIFOMessagesNeedAGroup", fifoNeedsGroup},
}

// env is one subtest at work.
type env struct {
	*testing.T
	queue.Queues
	caps Caps
}

// make creates a queue of a random name.
func (e *env) make(s queue.Spec) string {
	e.Helper()
	if s.Name == "" {
		s.Name = "qt-" + strings.ToLower(rand.Text()[:16])
		if s.FIFO {
			s.Name += ".fifo"
		}
	}
	url, err := e.Create(e.Context(), s)
	require.NoError(e, err)
	return url
}

func (e *env) send(url string, msgs ...queue.Message) {
	e.Helper()
	errs := e.SendBatch(e.Context(), url, msgs)
	require.Len(e, errs, len(msgs))
	for _, err := range errs {
		require.NoError(e, err)
	}
}

func (e *env) receive(url string, o queue.ReceiveOptions) []queue.Received {
	e.Helper()
	got, err := e.Receive(e.Context(), url, o)
	require.NoError(e, err)
	return got
}

// collect receives until n messages came, and asserts that they did within the
// given time. It does not delete them.
func (e *env) collect(url string, n int, within time.Duration) []queue.Received {
	e.Helper()
	var got []queue.Received
	for end := time.Now().Add(within); len(got) < n; {
		require.True(e, time.Now().Before(end), "%d of %d messages after %s", len(got), n, within)
		got = append(got, e.receive(url, queue.ReceiveOptions{Wait: time.Second})...)
	}
	require.Len(e, got, n)
	return got
}

func (e *env) one(url string, o queue.ReceiveOptions) queue.Received {
	e.Helper()
	got := e.receive(url, o)
	require.Len(e, got, 1)
	return got[0]
}

func (e *env) none(url string) {
	e.Helper()
	require.Empty(e, e.receive(url, queue.ReceiveOptions{}))
}

func (e *env) delete(url string, rs ...queue.Received) {
	e.Helper()
	for _, err := range e.Delete(e.Context(), url, receipts(rs)) {
		require.NoError(e, err)
	}
}

// pass lets time go by.
func (e *env) pass(d time.Duration) { <-time.After(d) }

func receipts(rs []queue.Received) []string {
	out := make([]string, len(rs))
	for i := range rs {
		out[i] = rs[i].Receipt
	}
	return out
}

func bodies(rs []queue.Received) []string {
	out := make([]string, len(rs))
	for i := range rs {
		out[i] = rs[i].Body
	}
	return out
}
