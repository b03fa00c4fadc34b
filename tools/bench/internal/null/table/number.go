package table

import (
	"bytes"
	"math/big"
	"strconv"
	"strings"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// The types of keys that are known.
const (
	kindText   = "S"
	kindNumber = "N"
)

// keyBytes is what a key's attribute value says, in bytes that are ordered as
// the values are: of a text the text itself, of a number what numberKey makes.
func keyBytes(kind string, raw []byte) ([]byte, bool) {
	if kind != kindNumber {
		return keyText(raw)
	}
	written, value := typed(raw)
	if written != kindNumber {
		return nil, false
	}
	return numberKey(wire.Text(value))
}

// appendKeyValue appends the attribute value of a key made by keyBytes.
func appendKeyValue(dst []byte, kind string, k []byte) []byte {
	if kind != kindNumber {
		return keyValue(dst, k)
	}
	dst = append(dst, `{"N":"`...)
	dst = append(dst, numberText(k)...)
	return append(dst, `"}`...)
}

// The first byte of a number's key. Behind it come three digits of the exponent
// and the digits of the mantissa, all turned to their complement of nine where
// the number is negative, which then ends with a byte above every digit.
const (
	negative = '0'
	zero     = '1'
	positive = '2'
	above    = '~'
)

// exponents is added to exponents, so that none is below zero; theirs reach from
// -130 to 126.
const exponents = 500

// numberKey makes bytes of a number that are ordered as numbers are, without a
// zero byte. A number has one key however it is written.
func numberKey(text string) ([]byte, bool) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	exp := 0
	if len(mantissa) != len(text) {
		var err error
		if exp, err = strconv.Atoi(exponent); err != nil {
			return nil, false
		}
	}
	below := strings.HasPrefix(mantissa, "-")
	mantissa = strings.TrimLeft(mantissa, "+-")
	whole, part, _ := strings.Cut(mantissa, ".")
	digits := whole + part
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return nil, false
	}
	exp += len(whole)
	trimmed := strings.TrimLeft(digits, "0")
	exp -= len(digits) - len(trimmed)
	if trimmed = strings.TrimRight(trimmed, "0"); trimmed == "" {
		return []byte{zero}, true
	}
	if exp += exponents; exp < 0 || exp > 999 {
		return nil, false
	}
	k := append([]byte{positive}, strconv.Itoa(1000 + exp)[1:]...)
	k = append(k, trimmed...)
	if below {
		k[0] = negative
		complement(k[1:])
		k = append(k, above)
	}
	return k, true
}

func complement(digits []byte) {
	for i := range digits {
		digits[i] = '0' + '9' - digits[i]
	}
}

// numberText is the number of a key.
func numberText(k []byte) string {
	if k[0] == zero {
		return "0"
	}
	sign, digits := "", bytes.Clone(k[1:])
	if k[0] == negative {
		sign, digits = "-", digits[:len(digits)-1]
		complement(digits)
	}
	exp, _ := strconv.Atoi(string(digits[:3])) // numberKey wrote it
	exp -= exponents
	m := string(digits[3:])
	switch {
	case exp <= 0:
		return sign + "0." + strings.Repeat("0", -exp) + m
	case exp >= len(m):
		return sign + m + strings.Repeat("0", exp-len(m))
	}
	return sign + m[:exp] + "." + m[exp:]
}

// sum is the attribute value of two numbers' sum; false if either is none. a may
// be nil: nothing yet.
func sum(a, b []byte) ([]byte, bool) {
	if a == nil {
		a = []byte(`{"N":"0"}`)
	}
	total := new(big.Rat)
	for _, raw := range [][]byte{a, b} {
		kind, value := typed(raw)
		n, ok := new(big.Rat).SetString(wire.Text(value))
		if kind != kindNumber || !ok {
			return nil, false
		}
		total.Add(total, n)
	}
	text := total.Num().String()
	if !total.IsInt() {
		text = strings.TrimRight(total.FloatString(38), "0")
	}
	return []byte(`{"N":"` + text + `"}`), true
}
