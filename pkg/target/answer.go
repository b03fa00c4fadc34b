package target

import (
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const maxErrorText = 512

// RetryAfter reads a Retry-After (RFC 9110, 10.2.3): seconds, or an HTTP date,
// which counts from now. What lies in the past is zero, what lies further off
// than limit is limit. false: neither form.
func RetryAfter(value string, now time.Time, limit time.Duration) (time.Duration, bool) {
	value = strings.Trim(value, " \t")
	if value == "" {
		return 0, false
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds := int64(0)
		for _, c := range []byte(value) {
			if seconds = seconds*10 + int64(c-'0'); seconds >= int64(limit/time.Second)+1 {
				return limit, true
			}
		}
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), limit), true
}

// Excerpt returns the beginning of a body in a form fit for storing and showing:
// at most limit bytes of valid UTF-8, cut between characters. What is not UTF-8,
// control characters other than tab and newline, and characters that change the
// direction of text become U+FFFD.
func Excerpt(body []byte, limit int) string {
	var b strings.Builder
	for len(body) > 0 {
		r, n := utf8.DecodeRune(body)
		body = body[n:]
		switch {
		case r == '\r' && len(body) > 0 && body[0] == '\n':
			continue
		case r == '\t', r == '\n':
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029':
			r = utf8.RuneError
		}
		if b.Len()+utf8.RuneLen(r) > limit {
			return b.String()
		}
		b.WriteRune(r)
	}
	return b.String()
}
