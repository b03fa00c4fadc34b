package target

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestRetryAfterIsReadInBothFormsAndCut(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"0": 0, "120": 2 * time.Minute, " 7 ": 7 * time.Second, "007": 7 * time.Second,
		"3600": time.Hour, "3601": time.Hour, "99999999999999999999999999": time.Hour,
		now.Add(time.Minute).Format(http.TimeFormat):    time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat):   0,
		now.Add(48 * time.Hour).Format(http.TimeFormat): time.Hour,
		"Friday, 02-Jan-26 03:04:15 GMT":                10 * time.Second,
	} {
		got, ok := RetryAfter(value, now, time.Hour)
		require.True(t, ok, value)
		require.Equal(t, want, got, value)
	}
	for _, value := range []string{"", "-1", "+1", "1.5", "1s", "soon", "0x10", "٣"} {
		_, ok := RetryAfter(value, now, time.Hour)
		require.False(t, ok, value)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "1", "9999999999999999999", "Fri, 02 Jan 2026 03:04:05 GMT", "-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		d, ok := RetryAfter(value, time.Unix(1e9, 0), time.Hour)
		require.True(t, d >= 0 && d <= time.Hour)
		require.True(t, ok || d == 0)
	})
}

func TestExcerptsAreFitForStoring(t *testing.T) {
	for in, want := range map[string]string{
		"":                  "",
		"plain\ttext\n":     "plain\ttext\n",
		"a\r\nb\rc":         "a\nb\uFFFDc",
		"nul\x00 esc\x1b[1": "nul\uFFFD esc\uFFFD[1",
		"\xff\xfe":          "\uFFFD\uFFFD",
		"a\u202eb\u0085":    "a\uFFFDb\uFFFD",
		"żółw":              "żółw",
	} {
		require.Equal(t, want, Excerpt([]byte(in), 100), "%q", in)
	}
	require.Equal(t, "żó", Excerpt([]byte("żółw"), 5), "cut between characters")
	require.Len(t, Excerpt([]byte(strings.Repeat("x", 9000)), 4096), 4096)
}

func FuzzExcerpt(f *testing.F) {
	f.Add([]byte("a\x00\xffż\r\n"), 3)
	f.Fuzz(func(t *testing.T, b []byte, limit int) {
		s := Excerpt(b, limit)
		require.True(t, utf8.ValidString(s))
		require.LessOrEqual(t, len(s), max(limit, 0))
		require.False(t, strings.ContainsAny(s, "\x00\r\x1b\x7f"))
	})
}

func TestHeadersThatAreNotTheJobsAreRefusedByName(t *testing.T) {
	for _, name := range []string{
		"Connection", "keep-alive", "Proxy-Connection", "TE", "Trailer", "Upgrade", "Expect", "Proxy-Authorization",
		"Transfer-Encoding", "transfer-encoding", "Content-Length", "HOST", "Idempotency-Key", "traceparent",
		"Myosin-Run-Id", "myosin-anything", "Webhook-Signature", "webhook-id",
		"", "a b", "a:", "a\r\nHost", "ż",
	} {
		err := CheckHeaders(map[string]string{name: "1", "X-Good": "1"})
		var he *HeaderError
		require.ErrorAs(t, err, &he, name)
		require.Equal(t, Excerpt([]byte(name), 64), he.Name)
		require.NotContains(t, err.Error(), "X-Good")
	}
	require.ErrorContains(t, CheckHeaders(map[string]string{"X-A": "a\r\nHost: b"}), `"X-A"`)
	require.ErrorContains(t, CheckHeaders(map[string]string{"X-A": "a", "x-a": "b"}), "twice")
	require.ErrorContains(t, CheckHeaders(map[string]string{"X-A": strings.Repeat("a", maxHeaderBytes)}), "bytes")
	require.NoError(t, CheckHeaders(map[string]string{"Authorization": "Bearer x", "Content-Type": "text/plain", "Cookie": "a=b", "X-Empty": ""}))

	err := CheckHeaders(map[string]string{"Host": "a", "Content-Length": "1"})
	require.ErrorContains(t, err, "Host")
	require.ErrorContains(t, err, "Content-Length", "all are named")
}

func TestMethodsAreThoseOfACall(t *testing.T) {
	for _, m := range []string{"", "POST", "PUT", "PATCH", "DELETE", "GET", "HEAD"} {
		require.NoError(t, CheckMethod(m))
	}
	for _, m := range []string{"CONNECT", "TRACE", "post", "GET /\r\n", "OPTIONS"} {
		require.Error(t, CheckMethod(m), m)
	}
}
