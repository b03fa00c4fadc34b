package wire_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// walk reads a whole text with cursors.
func walk(raw []byte) bool {
	c := wire.Over(raw)
	switch {
	case len(raw) > 0 && raw[0] == '{':
		for c.Open('{'); ; {
			if _, ok := c.Member(); !ok {
				return !c.Bad()
			}
			if v := c.Raw(); v == nil || !walk(v) {
				return false
			}
		}
	case len(raw) > 0 && raw[0] == '[':
		for c.Open('['); c.Element(); {
			if v := c.Raw(); v == nil || !walk(v) {
				return false
			}
		}
		return !c.Bad()
	}
	return len(raw) > 0
}

func FuzzACursorReadsWhatIsJSON(f *testing.F) {
	for _, text := range []string{`{"a":[1,{"b":"\"\\"},"]}"],"c":null}`, `[]`, `{}`, `{"a"`, `[1,`, `{"\\":"\\\\"}`, `"a\\\"b"`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.TrimSpace(b)
		if fine := walk(b); json.Valid(b) {
			require.True(t, fine, "%q", b)
		}
	})
}

func FuzzTheSizeOfATextAndWhetherSQSTakesIt(f *testing.F) {
	for _, text := range []string{"plain", "q\"\\/\b\f\n\r\t", "\u0007", "é漢😀\u2028", "\uffff\ufffe", "<&>", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw, err := json.Marshal(s)
		require.NoError(t, err)
		var said string
		require.NoError(t, json.Unmarshal(raw, &said))
		n, fit := wire.TextSize(raw)
		require.Equal(t, len(said), n)
		require.Equal(t, trigger.SQSText(said), fit)
		require.Equal(t, said, wire.Text(raw))
		require.Equal(t, said, string(wire.Plain(raw)))
		var back string
		require.NoError(t, json.Unmarshal(wire.AppendString(nil, s), &back))
		require.Equal(t, said, back)
	})
}
