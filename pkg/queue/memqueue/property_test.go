package memqueue_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
)

// Whatever is sent, received, released, extended and deleted in whatever order:
// a message is deliverable until it is deleted, never before its delay, never
// while it is in flight, and in order within a FIFO group.
func TestNoOrderOfOperationsLosesOrDoublesAMessage(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fifo := rapid.Bool().Draw(rt, "fifo")
		seed := rapid.SliceOfN(rapid.Uint16(), 1, 120).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) { play(t, fifo, seed) })
	})
}

type flight struct {
	queue.Received
	until time.Time
}

func play(t *testing.T, fifo bool, steps []uint16) {
	t.Helper()
	e := memqueue.New(memqueue.Options{})
	name := map[bool]string{false: "q", true: "q.fifo"}[fifo]
	url := create(t, e, queue.Spec{Name: name, FIFO: fifo})
	waiting := map[string]time.Time{} // body: visible from
	var flights []flight
	next, done := 0, map[string]int{} // done: next number to finish, by group

	land := func() { // flights whose visibility ended
		kept := flights[:0]
		for _, f := range flights {
			if f.until.After(time.Now()) {
				kept = append(kept, f)
			} else {
				waiting[f.Body] = f.until
			}
		}
		flights = kept
	}
	receive := func(wait time.Duration) int {
		got := receive(t, e, url, queue.ReceiveOptions{Max: 4, Wait: wait, Visibility: 10 * time.Second})
		land()
		for _, r := range got {
			from, ok := waiting[r.Body]
			require.True(t, ok, "%s came though deleted or in flight", r.Body)
			require.False(t, from.After(time.Now()), "%s came %s early", r.Body, time.Until(from))
			delete(waiting, r.Body)
			flights = append(flights, flight{r, time.Now().Add(10 * time.Second)})
		}
		return len(got)
	}
	finish := func(i int) {
		f := flights[i]
		require.NoError(t, e.Delete(t.Context(), url, []string{f.Receipt})[0])
		flights = append(flights[:i], flights[i+1:]...)
	}
	for _, s := range steps {
		land()
		arg := int(s / 8)
		switch s % 8 {
		case 0, 1, 2:
			group := fmt.Sprint("g", arg%3)
			m := queue.Message{Body: fmt.Sprint(group, ".", next), Group: group, Dedup: fmt.Sprint(next)}
			if !fifo {
				m.Delay = time.Duration(arg%4) * time.Second
			}
			next++
			send(t, e, url, m)
			waiting[m.Body] = time.Now().Add(m.Delay)
		case 3, 4:
			receive(time.Duration(arg%3) * time.Second)
		case 5:
			if len(flights) > 0 {
				finish(arg % len(flights))
			}
		case 6:
			if len(flights) > 0 {
				f := &flights[arg%len(flights)]
				d := time.Duration(arg%3) * 20 * time.Second
				require.NoError(t, e.ChangeVisibility(t.Context(), url, []queue.Visibility{{Receipt: f.Receipt, Timeout: d}})[0])
				f.until = time.Now().Add(d)
			}
		case 7:
			time.Sleep(time.Duration(arg%12) * time.Second)
		}
		land()
		require.Len(t, e.Messages(url), len(waiting)+len(flights))
	}
	// Everything left comes, in the order of its group on a FIFO queue.
	time.Sleep(time.Minute)
	land()
	for len(waiting) > 0 {
		require.Positive(t, receive(20*time.Second), "%v never come", waiting)
		for len(flights) > 0 {
			if fifo {
				var group string
				var n int
				_, err := fmt.Sscanf(flights[0].Body, "g%1s.%d", &group, &n)
				require.NoError(t, err)
				require.GreaterOrEqual(t, n, done[group])
				done[group] = n
			}
			finish(0)
		}
	}
	depth, err := e.Depth(t.Context(), url)
	require.NoError(t, err)
	require.Zero(t, depth)
}
