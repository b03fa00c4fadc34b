package table

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAnOrderedListIsASortedMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list ordered[*entry]
		model := map[string]*entry{}
		n := rapid.IntRange(1, 4*blockMax).Draw(t, "steps")
		span := rapid.IntRange(1, 3*blockMax).Draw(t, "keys")
		step := rapid.IntRange(1, 997).Draw(t, "stride")
		for i := range n {
			k := fmt.Appendf(nil, "%05d", i*step%span)
			if i%5 == 4 {
				k = fmt.Appendf(nil, "%05d", rapid.IntRange(0, span).Draw(t, "key"))
				if p, found := list.seek(k); found {
					list.remove(p)
				}
				delete(model, string(k))
				continue
			}
			e := &entry{k: k}
			list.put(e)
			model[string(k)] = e
		}
		require.Equal(t, len(model), list.n)
		keys := make([]string, 0, len(model))
		for k := range model {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		low := fmt.Sprintf("%05d", rapid.IntRange(0, span).Draw(t, "low"))
		at, _ := list.seek([]byte(low))
		from, _ := slices.BinarySearch(keys, low)
		for _, k := range keys[from:] {
			e, ok := list.at(at)
			require.True(t, ok)
			require.Same(t, model[k], e)
			at = list.after(at)
		}
		_, ok := list.at(at)
		require.False(t, ok)
		for _, b := range list.blocks {
			require.NotEmpty(t, b)
			require.LessOrEqual(t, len(b), blockMax)
		}
	})
}
