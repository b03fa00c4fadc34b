package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// A cancel must look where inbound would insert: the two lists are one.
func TestPlacesOfAHandleAreThePlacesOfItsKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := trigger.Handle{
			N: rapid.IntRange(1, 64).Draw(t, "n"), Due: time.UnixMilli(1e12), Service: "payments",
			ID: trigger.KeyedID("payments", "", rapid.String().Draw(t, "key")),
		}
		if rapid.Bool().Draw(t, "random") {
			h.ID[6] = 0x40
		}
		var epochs trigger.Epochs
		n := 0
		for i := range rapid.IntRange(1, 5).Draw(t, "epochs") {
			n += rapid.IntRange(1, 40).Draw(t, "more")
			epochs = append(epochs, trigger.Epoch{N: n, From: time.Unix(int64(i), 0)})
		}
		var keys []trigger.Key
		for _, p := range places(h, epochs) {
			keys = append(keys, p.Key())
		}
		require.Equal(t, epochs.Places(h.Key()), keys)
	})
}
