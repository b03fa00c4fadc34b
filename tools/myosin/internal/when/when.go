// Package when reads the times and durations that people type.
//
// It owns the notation and refuses what could be read in two ways: a number
// without a unit, a time without a zone. It keeps no state; everything may be
// used concurrently.
package when

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration reads a duration as [time.ParseDuration] does, with d (24 hours) and
// w (7 days) as further units: "90s", "3d12h", "1.5w". A sign may come first.
func Duration(s string) (time.Duration, error) {
	rest, negative := strings.CutPrefix(s, "-")
	if !negative {
		rest = strings.TrimPrefix(rest, "+")
	}
	switch {
	case rest == "":
		return 0, errors.New("empty; want a duration such as 90s or 3d12h")
	case rest == "0":
		return 0, nil
	}
	var sum time.Duration
	for rest != "" {
		end := strings.IndexFunc(rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
		if end < 0 {
			return 0, fmt.Errorf("%q: %s has no unit; want w, d, h, m, s or ms", s, rest)
		}
		number := rest[:end]
		rest = rest[end:]
		if end = strings.IndexFunc(rest, func(r rune) bool { return r == '.' || r >= '0' && r <= '9' }); end < 0 {
			end = len(rest)
		}
		one, err := part(number, rest[:end])
		if err != nil {
			return 0, fmt.Errorf("%q: %w", s, err)
		}
		if sum > math.MaxInt64-one {
			return 0, fmt.Errorf("%q: %w", s, errLong)
		}
		sum += one
		rest = rest[end:]
	}
	if negative {
		sum = -sum
	}
	return sum, nil
}

var (
	errLong = errors.New("longer than 292 years")
	errPart = errors.New("want a duration such as 90s or 3d12h (units w, d, h, m, s, ms)")
)

// part reads one number with its unit.
func part(number, unit string) (time.Duration, error) {
	hours := time.Duration(0)
	switch unit {
	case "d":
		hours = 24
	case "w":
		hours = 7 * 24
	case "h", "m", "s", "ms", "us", "µs", "ns":
	default:
		return 0, errPart
	}
	if hours == 0 {
		d, err := time.ParseDuration(number + unit)
		if err != nil {
			return 0, errPart
		}
		return d, nil
	}
	d, err := time.ParseDuration(number + "h")
	if err != nil {
		return 0, errPart
	}
	if d > math.MaxInt64/hours {
		return 0, errLong
	}
	return d * hours, nil
}

// layouts are the forms of RFC 3339 that are read; all have a zone.
func layouts() []string {
	return []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00"}
}

// Time reads a point in time: RFC 3339 with its zone (seconds may be left out),
// thirteen digits of epoch milliseconds, "now", or a duration counted from now: with
// a sign, as in "+90m", "-1d" and "now+2h", or in words, as in "in 5m" and "2h ago".
// The answer is UTC.
func Time(s string, now time.Time) (time.Time, error) {
	if s == "now" {
		return now.UTC(), nil
	}
	if rel := strings.TrimPrefix(s, "now"); rel != "" && (rel[0] == '+' || rel[0] == '-') {
		d, err := Duration(rel)
		if err != nil {
			return time.Time{}, err
		}
		return now.Add(d).UTC(), nil
	}
	later, isLater := strings.CutPrefix(s, "in ")
	earlier, isEarlier := strings.CutSuffix(s, " ago")
	if isLater != isEarlier {
		d, err := Duration(strings.TrimSpace(map[bool]string{true: later, false: earlier}[isLater]))
		switch {
		case err != nil:
			return time.Time{}, err
		case isEarlier:
			d = -d
		}
		return now.Add(d).UTC(), nil
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		if len(s) != 13 {
			return time.Time{}, fmt.Errorf("%q: a number is read as epoch milliseconds, of 13 digits", s)
		}
		return time.UnixMilli(ms).UTC(), nil
	}
	for _, layout := range layouts() {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q: want a time with its zone such as 2027-01-01T09:00:00Z, or one from now such as +90m or \"in 90m\"", s)
}

// Until says how far a time is from now, for people: "in 3d 12h", "4.2s ago".
func Until(t, now time.Time) string {
	d := t.Sub(now)
	if d < 0 {
		return Short(-d) + " ago"
	}
	return "in " + Short(d)
}

// Short rounds a duration to its two largest units, for people: "3d 12h", "4.2s".
func Short(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "-" + Short(-d)
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	for _, u := range []struct {
		large, small time.Duration
		l, s         string
	}{{365 * day, day, "y", "d"}, {day, time.Hour, "d", "h"}, {time.Hour, time.Minute, "h", "m"}, {time.Minute, time.Second, "m", "s"}} {
		if d < u.large {
			continue
		}
		d = d.Round(u.small)
		text := strconv.Itoa(int(d/u.large)) + u.l
		if rest := d % u.large / u.small; rest > 0 {
			text += " " + strconv.Itoa(int(rest)) + u.s
		}
		return text
	}
	return d.String()
}
