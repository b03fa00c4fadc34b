package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// maxLength bounds an expression, in bytes; a full list of every field is shorter.
const maxLength = 1024

// Error says which field of an expression is at fault, and why.
type Error struct {
	Field  string // "minute", "hour", "day of month", "month", "day of week"; empty: the whole
	Text   string // what was read
	Reason string // with the limit that was passed
}

func (e *Error) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("cron: %q: %s", e.Text, e.Reason)
	}
	return fmt.Sprintf("cron: %s %q: %s", e.Field, e.Text, e.Reason)
}

// Expression is a parsed cron expression. The zero value is not usable: see
// [Parse].
type Expression struct {
	text                string
	fields              [5]string // as written, after a descriptor is replaced
	minutes             uint64    // bits 0-59
	hours               uint32    // bits 0-23
	months              uint32    // bits 1-12
	dom                 uint32    // bits 1-31
	domBack             uint32    // bit n: n days before the month's last
	dow                 uint32    // bits 0-6
	dowNth              [6]uint32 // [n] bits 0-6: the nth of the month; [0]: the last
	domStar, dowStar    bool
	followsRealTime     bool
	minuteStar, hourAll bool
}

// String returns the expression as it was given to [Parse].
func (e *Expression) String() string { return e.text }

// FollowsRealTime reports whether the hour field is *, has a step or names every
// hour, so that the expression fires at each instant whose wall clock matches.
func (e *Expression) FollowsRealTime() bool { return e.followsRealTime }

func descriptor(name string) (string, bool) {
	switch name {
	case "@yearly", "@annually":
		return "0 0 1 1 *", true
	case "@monthly":
		return "0 0 1 * *", true
	case "@weekly":
		return "0 0 * * 0", true
	case "@daily", "@midnight":
		return "0 0 * * *", true
	case "@hourly":
		return "0 * * * *", true
	}
	return "", false
}

// field is what one field may hold.
type field struct {
	name     string
	min, max int
	names    string // three letters each, the first stands for the value base
	base     int
	question bool // ? is *
}

func fieldOf(i int) field {
	return [5]field{
		{name: "minute", max: 59},
		{name: "hour", max: 23},
		{name: "day of month", min: 1, max: 31, question: true},
		{name: "month", min: 1, max: 12, names: "janfebmaraprmayjunjulaugsepoctnovdec", base: 1},
		{name: "day of week", max: 7, names: "sunmontuewedthufrisat", question: true},
	}[i]
}

// Parse reads an expression; the package comment has the grammar. The error is
// an *[Error].
func Parse(expr string) (*Expression, error) {
	if len(expr) > maxLength {
		return nil, &Error{Text: expr[:16] + "…", Reason: fmt.Sprintf("%d bytes are over the limit of %d", len(expr), maxLength)}
	}
	text := strings.ToLower(strings.TrimSpace(expr))
	if strings.HasPrefix(text, "@") {
		five, ok := descriptor(text)
		if !ok {
			return nil, &Error{Text: expr, Reason: "is none of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly"}
		}
		text = five
	}
	words := strings.Fields(text)
	if len(words) != 5 {
		return nil, &Error{Text: expr, Reason: fmt.Sprintf(
			"has %d fields where 5 are needed: minute hour day-of-month month day-of-week", len(words))}
	}
	e := &Expression{text: expr, fields: [5]string(words)}
	for i, word := range words {
		if err := e.read(i, word); err != nil {
			return nil, err
		}
	}
	e.minuteStar = e.minutes == 1<<60-1
	e.hourAll = e.hours == 1<<24-1
	e.followsRealTime = e.hourAll || strings.ContainsAny(words[1], "*/")
	if !e.canFire() {
		return nil, &Error{Text: expr, Reason: "never fires: no month it names has a day it names"}
	}
	return e, nil
}

func (e *Expression) read(i int, word string) error {
	f := fieldOf(i)
	star := word == "*" || word == "*/1" || (f.question && word == "?")
	if star {
		word = "*"
	}
	var set uint64
	for item := range strings.SplitSeq(word, ",") {
		special, reason := e.readSpecial(i, f, item)
		if reason == "" && !special {
			var b uint64
			b, reason = f.read(item)
			set |= b
		}
		if reason != "" {
			return &Error{Field: f.name, Text: item, Reason: reason}
		}
	}
	switch i {
	case 0:
		e.minutes = set
	case 1:
		e.hours = uint32(set) //nolint:gosec // bits 0-23
	case 2:
		e.dom, e.domStar = uint32(set), star //nolint:gosec // bits 1-31
	case 3:
		e.months = uint32(set) //nolint:gosec // bits 1-12
	case 4:
		set |= set >> 7 // 7 is Sunday
		e.dow, e.dowStar = uint32(set&0x7f), star
	}
	return nil
}

// readSpecial takes L, L-n, 5#3, 5#L and 5L, and reports whether item was one.
func (e *Expression) readSpecial(i int, f field, item string) (bool, string) {
	switch {
	case i == 2 && item == "l":
		e.domBack |= 1
		return true, ""
	case i == 2 && strings.HasPrefix(item, "l-"):
		n, ok := number(item[2:])
		if !ok || n < 1 || n > 30 {
			return true, "L- needs a number of days from 1 to 30"
		}
		e.domBack |= 1 << n
		return true, ""
	case i != 4:
		return false, ""
	}
	day, nth, found := strings.Cut(item, "#")
	if !found {
		if day, found = strings.CutSuffix(item, "l"); !found || day == "" {
			return false, ""
		}
		nth = "l"
	}
	d, reason := f.value(day)
	if reason != "" {
		return true, reason
	}
	n, ok := number(nth)
	if nth != "l" && (!ok || n < 1 || n > 5) {
		return true, "# needs 1 to 5, or L for the last"
	}
	e.dowNth[n] |= 1 << (d % 7)
	return true, ""
}

// read returns the values of one list item, or why it cannot be read.
func (f field) read(item string) (uint64, string) {
	span, step, stepped := strings.Cut(item, "/")
	by := 1
	if stepped {
		n, ok := number(step)
		if !ok || n < 1 || n > f.max {
			return 0, fmt.Sprintf("a step is a number from 1 to %d", f.max)
		}
		by = n
	}
	lo, hi := f.min, f.max
	if f.name == "day of week" {
		hi = 6
	}
	if span != "*" {
		from, to, ranged := strings.Cut(span, "-")
		first, reason := f.value(from)
		if reason != "" {
			return 0, reason
		}
		switch {
		case ranged:
			if hi, reason = f.value(to); reason != "" {
				return 0, reason
			}
			if f.name == "day of week" && hi == 0 {
				hi = 7
			}
			if first > hi {
				return 0, "the range runs backwards; split it in two"
			}
		case !stepped || first > hi:
			hi = first
		}
		lo = first
	}
	var set uint64
	for v := lo; v <= hi; v += by {
		set |= 1 << v
	}
	return set, ""
}

// value reads a number or a name.
func (f field) value(s string) (int, string) {
	limits := fmt.Sprintf("%d-%d", f.min, f.max)
	if f.names != "" {
		limits += fmt.Sprintf(" or %s-%s", f.names[:3], f.names[len(f.names)-3:])
		if len(s) == 3 {
			if at := strings.Index(f.names, s); at >= 0 && at%3 == 0 {
				return at/3 + f.base, ""
			}
		}
	}
	n, ok := number(s)
	switch {
	case s == "":
		return 0, "a value is missing; the field takes " + limits
	case !ok:
		return 0, "is not a value; the field takes " + limits
	case n < f.min || n > f.max:
		return 0, fmt.Sprintf("%d is outside the limits %s", n, limits)
	}
	return n, ""
}

// number reads one to four digits and nothing else.
func number(s string) (int, bool) {
	if s == "" || len(s) > 4 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// canFire looks at every month of every shape; each of them comes in 400 years.
func (e *Expression) canFire() bool {
	for month := 1; month <= 12; month++ {
		for weekday := range 7 {
			if e.days(month, daysIn(2000, month), weekday) != 0 {
				return true
			}
		}
	}
	return false
}

// perDay is how many wall times a matching day has.
func (e *Expression) perDay() int64 {
	return int64(bits.OnesCount64(e.minutes)) * int64(bits.OnesCount32(e.hours))
}
