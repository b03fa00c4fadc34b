package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func TestTheLedgerTellsLostRepeatedRedeliveredEarlyAndStrangeApart(t *testing.T) {
	l := newLedger(time.Second)
	due := time.UnixMilli(1_800_000_000_000)
	id := func(n byte) string { return trigger.ID{n}.String() }
	s := submission{Began: due.Add(-5 * time.Second).UnixNano(), Took: int64(time.Second)}
	for n := byte(1); n <= 4; n++ {
		s.Jobs = append(s.Jobs, job{ID: id(n), Due: due.UnixMilli(), Lane: "standard"})
	}
	s.Jobs = append(s.Jobs, job{Lane: "urgent", Error: "the wire is cut"}, job{ID: "no id", Lane: "standard"})
	l.submitted(&s)
	late := submission{Began: due.UnixNano(), Jobs: []job{{ID: id(5), Due: due.Add(500 * time.Millisecond).UnixMilli(), Lane: "urgent"}}}
	l.submitted(&late)

	sent := func(queued string, n byte, after time.Duration) message {
		return message{ID: queued, Job: id(n), Due: "1800000000000", Sent: due.Add(after).UnixMilli()}
	}
	at := due.Add(40 * time.Millisecond).UnixNano()
	l.received(&receipt{At: at, Messages: []message{
		sent("a", 1, 30*time.Millisecond), sent("a", 1, 30*time.Millisecond), // the queue's own
		sent("b", 2, 30*time.Millisecond), sent("c", 2, 31*time.Millisecond), // ours
		sent("d", 3, -time.Millisecond), sent("e", 9, 0),
	}})
	l.received(&receipt{At: at, Messages: []message{{Job: "no id", Due: "1"}}, Trouble: "a poll failed"})

	var r Report
	l.sum(&r)
	require.Equal(t, 5, r.Submitted)
	require.Equal(t, 2, r.Refused)
	require.Equal(t, 3, r.Delivered)
	require.Equal(t, 2, r.Lost, "4, and 5 that came late")
	require.Equal(t, 1, r.Redelivered)
	require.Equal(t, 1, r.Repeated)
	require.Equal(t, 1, r.Early)
	require.Equal(t, 1, r.Unaccounted)
	require.Equal(t, 1, r.Strange)
	require.Equal(t, 1, r.Troubles)
	require.ErrorContains(t, r.Trouble, "the wire is cut")
	require.Equal(t, int64(3), r.Visible[Standard].Count)
	require.InDelta(t, 30, r.Visible[All].P50.Seconds()*1000, 0.1)
	require.InDelta(t, 40, r.Received[All].Max.Seconds()*1000, 0.1)
	require.Equal(t, 30*time.Millisecond, r.Dispatching)
	require.Positive(t, l.missing())
}
