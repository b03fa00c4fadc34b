package table

import (
	"bytes"
	"encoding/json"
	"math/big"
	"reflect"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// attr is a name and an attribute value as it was written: {"S":"x"}.
type attr struct {
	name string
	raw  []byte
}

// attrs are the members of an item, or of a request's values, in the order
// written.
type attrs []attr

// UnmarshalJSON implements json.Unmarshaler. It keeps slices of b.
func (a *attrs) UnmarshalJSON(b []byte) error {
	parsed, ok := parseAttrs(b)
	if !ok {
		return wire.Malformed()
	}
	*a = parsed
	return nil
}

func parseAttrs(b []byte) (a attrs, ok bool) {
	c := wire.Over(b)
	c.Open('{')
	for {
		name, more := c.Member()
		if !more {
			return a, !c.Bad()
		}
		a = append(a, attr{textOf(name), c.Raw()})
	}
}

// textOf is a member's name without its escapes.
func textOf(name []byte) string {
	if bytes.IndexByte(name, '\\') < 0 {
		return string(name)
	}
	return wire.Text(append(append([]byte{'"'}, name...), '"'))
}

func (a attrs) get(name string) []byte {
	for i := range a {
		if a[i].name == name {
			return a[i].raw
		}
	}
	return nil
}

// typed takes an attribute value apart: S and the raw "x".
func typed(raw []byte) (kind string, value []byte) {
	c := wire.Over(raw)
	if !c.Open('{') {
		return "", nil
	}
	name, ok := c.Member()
	if !ok {
		return "", nil
	}
	return kindOf(name), c.Raw()
}

// kindOf is string(name) without memory for the names there are.
func kindOf(name []byte) string {
	switch string(name) {
	case "S":
		return "S"
	case "N":
		return "N"
	case "B":
		return "B"
	case "BOOL":
		return "BOOL"
	case "NULL":
		return "NULL"
	case "M":
		return "M"
	case "L":
		return "L"
	}
	return string(name)
}

// keyText is what the attribute value of a key that is a string says.
func keyText(raw []byte) ([]byte, bool) {
	const head, tail = `{"S":"`, `"}`
	if len(raw) > len(head)+len(tail) && string(raw[:len(head)]) == head && bytes.IndexByte(raw, '\\') < 0 {
		return raw[len(head) : len(raw)-len(tail)], true
	}
	kind, value := typed(raw)
	text := wire.Plain(value)
	return text, kind == "S" && len(text) > 0
}

// keyValue is the attribute value of a key.
func keyValue(dst, text []byte) []byte {
	dst = append(dst, `{"S":`...)
	dst = wire.AppendString(dst, text)
	return append(dst, '}')
}

// sizeOf is the size of an attribute value as DynamoDB bills it. Source:
// "DynamoDB item sizes and formats" in the DynamoDB developer guide.
func sizeOf(raw []byte) int {
	kind, value := typed(raw)
	switch kind {
	case "S":
		n, _ := wire.TextSize(value)
		return n
	case "B":
		n := len(value) - 2
		return n/4*3 - bytes.Count(value[max(0, len(value)-3):], []byte{'='})
	case "N":
		return (len(value)-1)/2 + 1
	case "M":
		n := 3
		members, _ := parseAttrs(value)
		for _, m := range members {
			n += 1 + len(m.name) + sizeOf(m.raw)
		}
		return n
	case "L", "SS", "NS", "BS":
		n := 3
		c := wire.Over(value)
		c.Open('[')
		for c.Element() {
			if e := c.Raw(); kind == "L" {
				n += 1 + sizeOf(e)
			} else {
				n += len(e)
			}
		}
		return n
	}
	return 1 // BOOL, NULL
}

// same reports whether two attribute values are equal, however written.
func same(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	c, ok := compare(a, b)
	if ok {
		return c == 0
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// compare orders two strings, numbers or binaries; false for anything else, or
// of two kinds.
func compare(a, b []byte) (int, bool) {
	kind, x := typed(a)
	other, y := typed(b)
	if kind != other {
		return 0, false
	}
	switch kind {
	case "S":
		return bytes.Compare(wire.Plain(x), wire.Plain(y)), true
	case "N":
		m, ok1 := new(big.Float).SetString(wire.Text(x))
		n, ok2 := new(big.Float).SetString(wire.Text(y))
		if !ok1 || !ok2 {
			return 0, false
		}
		return m.Cmp(n), true
	case "B":
		var m, n []byte
		if json.Unmarshal(x, &m) != nil || json.Unmarshal(y, &n) != nil {
			return 0, false
		}
		return bytes.Compare(m, n), true
	}
	return 0, false
}
