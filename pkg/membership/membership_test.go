package membership_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/lifecycle/lifecycletest"
	"github.com/myosin-jobs/myosin/pkg/membership"
)

var (
	_ membership.Provider = (*membership.Static)(nil)
	_ membership.Provider = (*membership.Manual)(nil)
)

func TestStaticNamesItselfAmongSortedMembers(t *testing.T) {
	s, err := membership.NewStatic(2, 11)
	require.NoError(t, err)
	require.Equal(t, "2", s.View().Self)
	require.Equal(t, []string{"0", "1", "10", "2", "3", "4", "5", "6", "7", "8", "9"}, s.View().Members)
}

func TestStaticReportsEveryFault(t *testing.T) {
	_, err := membership.NewStatic(3, 3)
	require.ErrorContains(t, err, "member index: 3")
	_, err = membership.NewStatic(-1, 0)
	require.ErrorContains(t, err, "member index: -1")
	require.ErrorContains(t, err, "member count: 0")
	_, err = membership.NewStatic(0, membership.MaxStatic+1)
	require.ErrorContains(t, err, "member count")
}

func TestRunKeepsTheLifecycleContract(t *testing.T) {
	s, err := membership.NewStatic(0, 1)
	require.NoError(t, err)
	for _, p := range []membership.Provider{s, membership.NewManual(membership.View{})} {
		lifecycletest.Check(t, func() lifecycletest.Runner { return p.Run })
	}
}

func pending(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestEveryReaderIsToldOfAChange(t *testing.T) {
	m := membership.NewManual(membership.View{Self: "a", Members: []string{"a"}})
	one, two := m.Changes(), m.Changes()
	require.False(t, pending(one))

	m.Set(membership.View{Self: "a", Members: []string{"b", "a", "b"}})
	m.Set(membership.View{Self: "a", Members: []string{"c", "a"}})
	for _, ch := range []<-chan struct{}{one, two} {
		require.True(t, pending(ch), "the change was not told")
		require.False(t, pending(ch), "two changes unread are one wake-up")
	}
	require.Equal(t, []string{"a", "c"}, m.View().Members)

	m.Set(membership.View{Self: "a", Members: []string{"a", "c"}})
	require.False(t, pending(one), "an equal view is no change")
	m.Set(membership.View{Members: []string{"a", "c"}})
	require.True(t, pending(one), "leaving is a change")
}

func TestALateWakeUpSeesTheLastView(t *testing.T) {
	m := membership.NewManual(membership.View{})
	ch := m.Changes()
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 100 {
			m.Set(membership.View{Self: "a", Members: []string{"a", string(rune('b' + i%20))}})
		}
		m.Set(membership.View{Self: "a", Members: []string{"last"}})
	})
	for m.View().Members == nil || m.View().Members[0] != "last" {
		<-ch
	}
	wg.Wait()
}

func TestSetDoesNotKeepTheCallersSlice(t *testing.T) {
	in := []string{"b", "a"}
	m := membership.NewManual(membership.View{Members: in})
	in[0] = "z"
	require.Equal(t, []string{"a", "b"}, m.View().Members)
}
