package job

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func policy() Retry {
	return Retry{MaxAttempts: 5, Base: 10 * time.Second, Max: time.Hour, Also: []int{408}}
}

func TestEveryRowOfTheOutcomeTable(t *testing.T) {
	for _, c := range []struct {
		code int
		kind ErrKind
		want Verdict
	}{
		{200, "", VerdictSuccess}, {201, "", VerdictSuccess}, {204, "", VerdictSuccess}, {299, "", VerdictSuccess},
		{202, "", VerdictAccepted},
		{300, "", VerdictDead}, {301, "", VerdictDead}, {307, "", VerdictDead}, {399, "", VerdictDead},
		{400, "", VerdictDead}, {404, "", VerdictDead}, {409, "", VerdictDead}, {499, "", VerdictDead},
		{408, "", VerdictRetry}, {410, "", VerdictDeadPause}, {429, "", VerdictRetry},
		{500, "", VerdictRetry}, {503, "", VerdictRetry}, {599, "", VerdictRetry},
		{0, "", VerdictRetry}, {101, "", VerdictRetry}, {999, "", VerdictRetry},
		{0, ErrInvalid, VerdictDead}, {0, ErrRefused, VerdictDead}, {0, ErrCancelled, VerdictNone},
		{0, ErrDNS, VerdictRetry}, {0, ErrConnect, VerdictRetry}, {0, ErrTLS, VerdictRetry},
		{0, ErrTimeout, VerdictRetry}, {200, ErrTimeout, VerdictRetry}, {200, ErrReset, VerdictRetry},
		{0, ErrHeaders, VerdictRetry}, {0, ErrProtocol, VerdictRetry}, {0, "new", VerdictRetry},
	} {
		require.Equal(t, c.want, policy().Judge(c.code, c.kind), "%d %q", c.code, c.kind)
	}
	require.Equal(t, VerdictDead, Retry{}.Judge(408, ""))
}

func TestRetryNamesEveryFieldOutOfItsLimits(t *testing.T) {
	require.NoError(t, policy().Validate())
	err := Retry{Base: time.Hour, Max: time.Minute, Also: []int{404, 410, 500}}.Validate()
	require.EqualError(t, err, "retry.max_attempts: 0; want 1 to 100\n"+
		"retry.base: 1h0m0s; want 1ms to retry.max (1m0s)\n"+
		"retry.also[1]: 410; want 400 to 499 and not 410\n"+
		"retry.also[2]: 500; want 400 to 499 and not 410")
	require.ErrorContains(t, Retry{MaxAttempts: 101, Base: 1, Max: 25 * time.Hour}.Validate(), "retry.max: 25h0m0s; want 1ms to 24h0m0s")
}

func TestWaitDoublesUpToTheCapAndHonoursRetryAfter(t *testing.T) {
	r := policy()
	for n, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
		require.Equal(t, want, r.Wait(n, 0, 0.5), strconv.Itoa(n))
	}
	require.Equal(t, 30*time.Minute, r.Wait(50, 0, 0.5))
	require.Equal(t, time.Minute, r.Wait(0, time.Minute, 0.9))
	require.Equal(t, time.Hour, r.Wait(0, 48*time.Hour, 0))
	require.Equal(t, 9*time.Second, r.Wait(0, time.Second, 0.9))
	require.Zero(t, r.Wait(3, -time.Second, math.NaN()))
}

func TestWaitStaysWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Retry{MaxAttempts: 1, Max: time.Duration(rapid.Int64Range(int64(minBase), int64(maxWait)).Draw(t, "max"))}
		r.Base = time.Duration(rapid.Int64Range(int64(minBase), int64(r.Max)).Draw(t, "base"))
		after := time.Duration(rapid.Int64().Draw(t, "after"))
		wait := r.Wait(rapid.Int().Draw(t, "n"), after, rapid.Float64().Draw(t, "jitter"))
		require.GreaterOrEqual(t, wait, time.Duration(0))
		require.LessOrEqual(t, wait, r.Max)
		require.GreaterOrEqual(t, wait, min(after, r.Max))
	})
}
