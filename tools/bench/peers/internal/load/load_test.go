package load_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/bench/peers/internal/load"
)

func TestAPayloadNamesItsJobAndHasItsSize(t *testing.T) {
	due := time.UnixMilli(1_800_000_000_123)
	for _, size := range []int{32, 300} {
		p := load.Payload(999_999, due, size)
		require.Len(t, p, size)
		number, got, err := load.Read(p)
		require.NoError(t, err)
		require.Equal(t, 999_999, number)
		require.True(t, due.Equal(got))
	}
	for _, bad := range []string{"", "1", "1 2", "a 2 x", "1 b x"} {
		_, _, err := load.Read([]byte(bad))
		require.Error(t, err, bad)
	}
}

func TestEveryJobIsSubmittedAtItsTimeAndAccountedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := load.Load{Jobs: 100, Rate: 10, Payload: 300, LeadMin: time.Second, LeadMax: 2 * time.Second, Patience: time.Second}
		require.NoError(t, l.Validate())
		ledger := load.NewLedger(99)
		s := l.Submit(t.Context(), func(ctx context.Context, due time.Time, payload []byte) error {
			number, named, err := load.Read(payload)
			require.NoError(t, err)
			require.True(t, due.Equal(named))
			require.LessOrEqual(t, time.Until(due), 2*time.Second)
			if number == 7 {
				return errors.New("no")
			}
			// Handled 5 ms late, one 3 ms early, one twice.
			by := 5 * time.Millisecond
			if number == 8 {
				by = -3 * time.Millisecond
			}
			go func() {
				_ = load.Pause(ctx, time.Until(due)+by)
				ledger.Start(payload)
				if number == 9 {
					ledger.Start(payload)
				}
			}()
			return nil
		})
		require.Equal(t, 99, s.Accepted)
		require.Equal(t, 1, s.Refused)
		require.Equal(t, "no", s.Trouble)
		require.Equal(t, 9900*time.Millisecond, s.Took)
		<-ledger.All()
		synctest.Wait()
		ledger.Start([]byte("nothing"))
		h := ledger.Handled()
		require.Equal(t, 99, h.Jobs)
		require.Equal(t, 1, h.Repeated)
		require.Equal(t, 1, h.Early)
		require.Equal(t, 1, h.Strange)
		require.Equal(t, load.Figures{
			Min: -3 * time.Millisecond, P50: 5 * time.Millisecond, P90: 5 * time.Millisecond, P99: 5 * time.Millisecond, Max: 5 * time.Millisecond,
		}, h.Lateness)
	})
}

func TestALoadOutOfRangeIsRefusedWithEveryReason(t *testing.T) {
	err := new(load.Load).Validate()
	for _, part := range []string{"--jobs", "--rate", "payload", "patience"} {
		require.ErrorContains(t, err, part)
	}
}
