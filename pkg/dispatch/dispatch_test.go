package dispatch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/clock"
	"github.com/myosin-jobs/myosin/pkg/dispatch"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// script is a queue that answers as told, call by call; then it takes everything.
type script struct {
	mu      sync.Mutex
	answers [][]error // one list a call; a single error stands for every entry
	latency time.Duration
	calls   [][]queue.Message
	at      []time.Time
}

func (s *script) SendBatch(_ context.Context, _ string, msgs []queue.Message) []error {
	s.mu.Lock()
	s.calls = append(s.calls, msgs)
	s.at = append(s.at, time.Now())
	errs := make([]error, len(msgs))
	if len(s.answers) > 0 {
		a := s.answers[0]
		s.answers = s.answers[1:]
		for i := range errs {
			errs[i] = a[min(i, len(a)-1)]
		}
	}
	latency := s.latency
	s.mu.Unlock()
	time.Sleep(latency)
	return errs
}

// sent returns the calls so far and when they came.
func (s *script) sent() ([][]queue.Message, []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls), slices.Clone(s.at)
}

// answer sets what the next calls are told.
func (s *script) answer(answers ...[]error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = answers
}

type bench struct {
	t       *testing.T
	table   *memstore.Store
	out     *script
	d       *dispatch.Dispatcher
	mu      sync.Mutex
	ended   map[trigger.ID]dispatch.Outcome
	release map[trigger.ID]trigger.State
}

func newBench(t *testing.T, svc registry.Service, change func(*dispatch.Options)) *bench {
	b := &bench{t: t, table: memstore.New(memstore.Options{}), out: &script{}, ended: map[trigger.ID]dispatch.Outcome{}, release: map[trigger.ID]trigger.State{}}
	svc.Name, svc.QueueURL = "svc", "http://q/1/svc"
	gates := dispatch.NewGates(dispatch.GateOptions{Services: lookup{registry.NewStatic(svc)}, Clock: clock.Trusted(nil)})
	gates.For("svc").Refresh(t.Context())
	o := dispatch.Options{Table: b.table, Sender: b.out, Gates: gates, Clock: clock.Trusted(nil)}
	if change != nil {
		change(&o)
	}
	var err error
	b.d, err = dispatch.New(o)
	require.NoError(t, err)
	return b
}

// claim stores an acquired row and hands it to the dispatcher.
func (b *bench) claim(due time.Time, from trigger.State) trigger.ID {
	row := store.Row{Trigger: trigger.Trigger{ID: trigger.NewID(), Service: "svc", Due: due.UTC().Truncate(time.Millisecond), N: 1, Payload: []byte("x")}}
	row.State = trigger.AcquiredBy("me", time.Now())
	claimed := row.State
	r := b.table.Write(b.t.Context(), []store.Op{{Kind: store.Insert, Key: row.Key(), Row: &row}})
	require.NoError(b.t, r[0].Err)
	row.State = from
	b.d.Add(&dispatch.Claim{Key: row.Key(), Row: row, Claimed: claimed, At: time.Now(), Done: func(c *dispatch.Claim, o dispatch.Outcome) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ended[c.Row.ID] = o
		b.release[c.Row.ID] = c.ReleasedTo
	}})
	return row.ID
}

func (b *bench) outcome(id trigger.ID) (dispatch.Outcome, trigger.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended[id], b.release[id]
}

func TestClaimsGoOutTogetherWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, registry.Service{}, nil)
		due := time.Now().Add(50 * time.Millisecond).Truncate(time.Millisecond)
		for i := range 23 {
			b.claim(due.Add(time.Duration(i%3)*time.Millisecond), trigger.StateScheduled)
		}
		time.Sleep(time.Second)
		require.Zero(t, b.d.Open())
		require.Zero(t, b.table.Len())
		calls, times := b.out.sent()
		require.Len(t, calls, 3)
		for _, at := range times {
			require.False(t, at.Before(due))
		}
	})
}

func TestAnUnknownOutcomeIsSentAgainAndNeverReleasedAsUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, registry.Service{}, nil)
		reset := errors.New("connection reset")
		b.out.answer([]error{reset})
		again := b.claim(time.Now(), trigger.StateScheduled)
		time.Sleep(5 * time.Second)
		out, _ := b.outcome(again)
		require.Equal(t, dispatch.Delivered, out)
		calls, _ := b.out.sent()
		require.Len(t, calls, 2)

		b.out.answer([]error{reset}, []error{queue.ErrDenied})
		id := b.claim(time.Now(), trigger.StateScheduled)
		time.Sleep(5 * time.Second)
		out, state := b.outcome(id)
		require.Equal(t, dispatch.Released, out)
		require.Equal(t, trigger.StateMaybeSent, state, "the first send may have arrived")
	})
}

func TestASurelyUnsentClaimIsReleasedAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for from, want := range map[trigger.State]trigger.State{
			trigger.StateScheduled: trigger.StateScheduled, trigger.StateMaybeSent: trigger.StateMaybeSent,
		} {
			b := newBench(t, registry.Service{}, nil)
			b.out.answer([]error{queue.ErrMissing})
			id := b.claim(time.Now(), from)
			time.Sleep(time.Second)
			out, state := b.outcome(id)
			require.Equal(t, dispatch.Released, out)
			require.Equal(t, want, state)
			require.Equal(t, want, b.table.Rows()[0].State)
		}
	})
}

func TestAnOldClaimIsDroppedNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, registry.Service{}, nil)
		id := b.claim(time.Now().Add(21*time.Second), trigger.StateScheduled)
		time.Sleep(30 * time.Second)
		out, _ := b.outcome(id)
		require.Equal(t, dispatch.Dropped, out)
		calls, _ := b.out.sent()
		require.Empty(t, calls)
		require.Equal(t, trigger.Acquired, b.table.Rows()[0].State.Kind(), "left for the sweep")
	})
}

func TestOneRefusedEntryIsBuriedAndTheOthersDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, registry.Service{}, nil)
		b.out.answer([]error{nil, nil, nil, queue.ErrRejected, nil})
		due := time.Now().Truncate(time.Millisecond)
		for i := range 5 {
			b.claim(due.Add(time.Duration(i)*time.Millisecond), trigger.StateScheduled)
		}
		time.Sleep(time.Second)
		page, err := b.table.Dead(t.Context(), "svc", nil, 0)
		require.NoError(t, err)
		require.Len(t, page.Rows, 1)
		require.Equal(t, 1, b.table.Len())
	})
}

func TestACompletionIsRepeatedUntilTheTableTakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		b := newBench(t, registry.Service{}, nil)
		b.table = memstore.New(memstore.Options{Faults: func(op string, _ trigger.Key) memstore.Fault {
			if down.Load() && op == memstore.OpDelete {
				return memstore.Fault{Err: store.ErrThrottled}
			}
			return memstore.Fault{}
		}})
		gates := dispatch.NewGates(dispatch.GateOptions{Services: lookup{registry.NewStatic(registry.Service{Name: "svc", QueueURL: "http://q/1/svc"})}, Clock: clock.Trusted(nil)})
		gates.For("svc").Refresh(t.Context())
		var err error
		b.d, err = dispatch.New(dispatch.Options{Table: b.table, Sender: b.out, Gates: gates, Clock: clock.Trusted(nil)})
		require.NoError(t, err)
		id := b.claim(time.Now(), trigger.StateScheduled)
		time.Sleep(time.Minute)
		calls, _ := b.out.sent()
		require.Len(t, calls, 1, "sent once, however long the table is down")
		down.Store(false)
		time.Sleep(10 * time.Second)
		out, _ := b.outcome(id)
		require.Equal(t, dispatch.Delivered, out)
		require.Zero(t, b.table.Len())
	})
}

func TestDrainSendsWhatIsDueAndReleasesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, registry.Service{}, nil)
		soon := b.claim(time.Now().Add(80*time.Millisecond), trigger.StateScheduled)
		far := b.claim(time.Now().Add(8*time.Second), trigger.StateScheduled)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		require.NoError(t, b.d.Drain(ctx))
		require.Less(t, time.Since(start), time.Second)
		out, _ := b.outcome(soon)
		require.Equal(t, dispatch.Delivered, out)
		out, state := b.outcome(far)
		require.Equal(t, dispatch.Released, out)
		require.Equal(t, trigger.StateScheduled, state)
	})
}

func TestDrainEndsWithItsContextWhenTheTableIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := memstore.New(memstore.Options{Faults: func(op string, _ trigger.Key) memstore.Fault {
			if op == memstore.OpDelete {
				return memstore.Fault{Err: store.ErrThrottled}
			}
			return memstore.Fault{}
		}})
		b := newBench(t, registry.Service{}, func(o *dispatch.Options) { o.Table = table })
		b.table = table
		id := b.claim(time.Now(), trigger.StateScheduled)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, b.d.Drain(ctx), context.DeadlineExceeded)
		require.Less(t, time.Since(start), 6*time.Second)
		out, _ := b.outcome(id)
		require.Equal(t, dispatch.Dropped, out)
	})
}

func TestAFIFOQueueKeepsItsOrderOverARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, registry.Service{FIFO: true}, nil)
		b.out.answer([]error{queue.ErrThrottled})
		due := time.Now().Truncate(time.Millisecond)
		var want, got []string
		for i := range 25 {
			id := b.claim(due.Add(time.Duration(i)*20*time.Millisecond), trigger.StateScheduled)
			want = append(want, id.String())
		}
		time.Sleep(5 * time.Second)
		calls, _ := b.out.sent()
		for _, call := range calls[1:] {
			for _, m := range call {
				got = append(got, m.Attributes[trigger.AttrID])
				require.Equal(t, m.Attributes[trigger.AttrID], m.Dedup)
				require.NotEmpty(t, m.Group)
			}
		}
		require.Equal(t, want, got)
	})
}

func TestRoomFollowsWhatTheQueueTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, registry.Service{}, nil)
		b.out.latency = 500 * time.Millisecond // before anything is sent
		first := b.d.Room("svc")
		for range first {
			b.claim(time.Now(), trigger.StateScheduled)
		}
		require.Zero(t, b.d.Room("svc"), "a slow queue does not take the lane's claims")
		time.Sleep(20 * time.Second)
		require.Positive(t, b.d.Room("svc"))
		require.Zero(t, b.d.Open())
	})
}

func TestOptionsReportEveryProblem(t *testing.T) {
	_, err := dispatch.New(dispatch.Options{Linger: time.Minute, MaxClaimAge: time.Minute})
	for _, part := range []string{"Table", "Sender", "Gates", "Clock", "Linger", "MaxClaimAge"} {
		require.ErrorContains(t, err, part)
	}
}
