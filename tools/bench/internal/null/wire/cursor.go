// Package wire reads and writes JSON as the AWS protocols use it, for as little
// processor time as can be: a cursor over a text in memory that copies nothing,
// functions that append, and the error answer.
//
// It refuses texts that are cut off or out of shape, but checks no more of a
// value that is passed over than where it ends. It holds no state.
package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Cursor walks over one JSON text. What it returns points into that text.
type Cursor struct {
	b   []byte
	i   int
	bad bool
}

// Over returns a cursor at the beginning of b.
func Over(b []byte) Cursor { return Cursor{b: b} }

// Bad reports whether the text was found out of shape: from then on there are
// no more members, elements or values.
func (c *Cursor) Bad() bool { return c.bad }

func (c *Cursor) fail() { c.bad, c.i = true, len(c.b) }

// next passes white space and returns the byte at the cursor; 0 at the end.
func (c *Cursor) next() byte {
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; ch {
		case ' ', '\t', '\n', '\r':
			c.i++
		default:
			return ch
		}
	}
	return 0
}

// Open enters an object ('{') or an array ('['), or reports that there is none.
func (c *Cursor) Open(kind byte) bool {
	if c.next() != kind {
		c.fail()
		return false
	}
	c.i++
	return true
}

// Member goes to the next member of an object and returns its name as it is
// written, without quotes; false at the end of the object, which it leaves.
func (c *Cursor) Member() (name []byte, ok bool) {
	ch := c.next()
	if ch == ',' {
		c.i++
		ch = c.next()
	}
	if ch != '"' {
		if ch != '}' {
			c.fail()
			return nil, false
		}
		c.i++
		return nil, false
	}
	from := c.i
	if !c.passString() {
		return nil, false
	}
	name = c.b[from+1 : c.i-1]
	if c.next() != ':' {
		c.fail()
		return nil, false
	}
	c.i++
	return name, true
}

// Element goes to the next element of an array; false at its end, which it leaves.
func (c *Cursor) Element() bool {
	ch := c.next()
	if ch == ',' {
		c.i++
		ch = c.next()
	}
	switch ch {
	case ']':
		c.i++
		return false
	case 0:
		c.fail()
		return false
	}
	return true
}

// Raw returns the value at the cursor as it is written, and goes behind it.
func (c *Cursor) Raw() []byte {
	ch := c.next()
	from := c.i
	switch ch {
	case '"':
		c.passString()
	case '{', '[':
		c.passNested()
	case 0:
		c.fail()
	default:
		for c.i < len(c.b) && !ends(c.b[c.i]) {
			c.i++
		}
		if c.i == from {
			c.fail()
		}
	}
	if c.bad {
		return nil
	}
	return c.b[from:c.i]
}

func ends(ch byte) bool {
	switch ch {
	case ',', '}', ']', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}

// passString goes behind the string that begins at the cursor.
func (c *Cursor) passString() bool {
	for i := c.i + 1; ; {
		j := bytes.IndexByte(c.b[i:], '"')
		if j < 0 {
			c.fail()
			return false
		}
		i += j
		k := i
		for c.b[k-1] == '\\' { // ends at the opening quote at the latest
			k--
		}
		i++
		if (i-1-k)%2 == 0 {
			c.i = i
			return true
		}
	}
}

func (c *Cursor) passNested() {
	for depth := 0; c.i < len(c.b); {
		switch c.b[c.i] {
		case '"':
			if !c.passString() {
				return
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		c.i++
		if depth == 0 {
			return
		}
	}
	c.fail()
}

// Text is what a raw string says; empty for anything else.
func Text(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	_ = json.Unmarshal(raw, &s) // what is no string is empty
	return s
}

// Plain is the bytes of a raw string that has no escapes; else they are made.
func Plain(raw []byte) []byte {
	if len(raw) >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	return []byte(Text(raw))
}

// Int reads a raw number, or a raw string of one.
func Int(raw []byte) (int64, bool) {
	if len(raw) >= 2 && raw[0] == '"' {
		raw = raw[1 : len(raw)-1]
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil
}

// True reports whether a raw value is true.
func True(raw []byte) bool { return string(raw) == "true" }

// TextSize is the length in bytes of what a raw string says, and whether all of
// it is text that SQS takes.
func TextSize(raw []byte) (n int, fit bool) {
	if len(raw) < 2 {
		return 0, false
	}
	s := raw[1 : len(raw)-1]
	fit = utf8.Valid(s) && !bytes.Contains(s, []byte{0xEF, 0xBF, 0xBE}) && !bytes.Contains(s, []byte{0xEF, 0xBF, 0xBF})
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 || i+1 >= len(s) {
			return n + len(s), fit
		}
		n += i
		switch s[i+1] {
		case 'u':
			r, used := escaped(s[i:])
			n += utf8.RuneLen(r)
			fit = fit && (r >= ' ' || r == '\t' || r == '\n' || r == '\r') && r != 0xFFFE && r != 0xFFFF
			s = s[i+used:]
			continue
		case 'b', 'f':
			fit = false
		}
		n++
		s = s[i+2:]
	}
}

// escaped reads \uXXXX, or a pair of them, at the beginning of s.
func escaped(s []byte) (r rune, used int) {
	one := func(s []byte) rune {
		if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
			return -1
		}
		v, err := strconv.ParseUint(string(s[2:6]), 16, 32)
		if err != nil {
			return -1
		}
		return rune(v) //nolint:gosec // 16 bits.
	}
	r = one(s)
	switch {
	case r < 0:
		return utf8.RuneError, min(len(s), 2)
	case r >= 0xD800 && r < 0xDC00:
		if low := one(s[6:]); low >= 0xDC00 && low < 0xE000 {
			return (r-0xD800)<<10 + (low - 0xDC00) + 0x10000, 12
		}
		return utf8.RuneError, 6
	case r >= 0xDC00 && r < 0xE000:
		return utf8.RuneError, 6
	}
	return r, 6
}
