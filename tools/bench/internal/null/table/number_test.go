package table

import (
	"bytes"
	"cmp"
	"fmt"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestKeysOfNumbersAreOrderedAsTheNumbersAreAndTellThem(t *testing.T) {
	number := rapid.Custom(func(t *rapid.T) string {
		text := rapid.StringMatching(`-?[0-9]{1,9}(\.[0-9]{1,9})?`).Draw(t, "number")
		if exp := rapid.IntRange(-40, 40).Draw(t, "exponent"); exp != 0 {
			text += fmt.Sprintf("E%d", exp)
		}
		return text
	})
	value := func(t *rapid.T, text string) *big.Rat {
		r, ok := new(big.Rat).SetString(text)
		require.True(t, ok, text)
		return r
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		ka, ok := numberKey(a)
		require.True(t, ok, a)
		kb, ok := numberKey(b)
		require.True(t, ok, b)
		require.Equal(t, value(t, a).Cmp(value(t, b)), cmp.Compare(bytes.Compare(ka, kb), 0), "%s %s", a, b)
		require.Zero(t, value(t, a).Cmp(value(t, numberText(ka))), "%s came back as %s", a, numberText(ka))
		require.NotContains(t, string(ka), "\x00")
	})
	for _, text := range []string{"", "x", "1x", "-", ".", "1e", "1e999", "--"} {
		_, ok := numberKey(text)
		require.False(t, ok, text)
	}
}

func TestSumsAreExact(t *testing.T) {
	for _, c := range [][3]string{{"1", "2", "3"}, {"0.1", "0.2", "0.3"}, {"-5", "5", "0"}, {"99999999999999999999999999999999999999", "-1", "99999999999999999999999999999999999998"}} {
		got, ok := sum([]byte(`{"N":"`+c[0]+`"}`), []byte(`{"N":"`+c[1]+`"}`))
		require.True(t, ok)
		require.JSONEq(t, `{"N":"`+c[2]+`"}`, string(got))
	}
	_, ok := sum([]byte(`{"S":"1"}`), []byte(`{"N":"1"}`))
	require.False(t, ok)
	got, ok := sum(nil, []byte(`{"N":"7"}`))
	require.True(t, ok)
	require.JSONEq(t, `{"N":"7"}`, string(got))
}
