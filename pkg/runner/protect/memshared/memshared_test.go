package memshared_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/runner/protect"
	"github.com/myosin-jobs/myosin/pkg/runner/protect/memshared"
	"github.com/myosin-jobs/myosin/pkg/runner/protect/protecttest"
)

func TestMemoryPassesTheSuite(t *testing.T) {
	protecttest.Shared(t, func(*testing.T) protect.Shared { return &memshared.Shared{} })
}

func TestALostAnswerWasAppliedAndADownExchangeWasNot(t *testing.T) {
	until := time.UnixMilli(1_800_000_000_000)
	report := []protect.Report{{Target: "x", At: until, Next: &protect.State{Gen: 1, Until: until}}}
	for fault, open := range map[memshared.Fault]bool{memshared.Down: false, memshared.Lost: true} {
		s := &memshared.Shared{}
		s.SetFault(func(string) memshared.Fault { return fault })
		_, err := s.Exchange(t.Context(), "a", report)
		require.ErrorIs(t, err, memshared.ErrFault)
		require.Equal(t, open, s.State("x").Open())
	}
}
