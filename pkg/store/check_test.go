package store_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/store"
)

func TestReasonsAreCutBetweenCharacters(t *testing.T) {
	for _, unit := range []string{"x", "ü", "€", "😀"} {
		for pad := range 4 {
			long := strings.Repeat("x", pad) + strings.Repeat(unit, store.MaxReason)
			cut := store.CutReason(long)
			require.True(t, utf8.ValidString(cut))
			require.True(t, strings.HasPrefix(long, cut))
			require.LessOrEqual(t, len(cut), store.MaxReason)
			require.Greater(t, len(cut), store.MaxReason-utf8.UTFMax)
		}
	}
	require.Equal(t, "short", store.CutReason("short"))
}
