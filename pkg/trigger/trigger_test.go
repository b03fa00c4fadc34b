package trigger_test

import (
	"crypto/sha1"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

var submitted = time.Date(2026, 12, 31, 23, 0, 0, 123e6, time.UTC)

func rawURL(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	require.NoError(t, err)
	return b
}

// uuid5 finishes the recipe of WIRE.md without this package's code.
func uuid5(hashInput []byte) string {
	sum := sha1.Sum(hashInput)
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x50
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

func valid() trigger.Trigger {
	id, _ := trigger.ParseID("0b7e1f3a-6a52-4b7c-9d1e-2f4a5b6c7d8e")
	return trigger.Trigger{ID: id, Service: "payments", Due: submitted.Add(10 * time.Hour), N: 64}
}

func TestEachLimitHoldsJustInsideAndRefusesJustOutside(t *testing.T) {
	const longest = 10 * 366 * 24 * time.Hour
	cases := []struct {
		field   string
		inside  func(*trigger.Trigger)
		outside func(*trigger.Trigger)
	}{
		{"id", func(t *trigger.Trigger) { t.ID = trigger.ID{15: 1} }, func(t *trigger.Trigger) { t.ID = trigger.ID{} }},
		{"service", func(t *trigger.Trigger) { t.Service = strings.Repeat("a", 48) }, func(t *trigger.Trigger) { t.Service = strings.Repeat("a", 49) }},
		{"service", func(t *trigger.Trigger) { t.Service = "a-1" }, func(t *trigger.Trigger) { t.Service = "a--1" }},
		{"service", func(t *trigger.Trigger) { t.Service = "z" }, func(t *trigger.Trigger) { t.Service = "" }},
		{"n", func(t *trigger.Trigger) { t.N = 1 }, func(t *trigger.Trigger) { t.N = 0 }},
		{"n", func(t *trigger.Trigger) { t.N = 1000 }, func(t *trigger.Trigger) { t.N = 1001 }},
		{"lane", func(t *trigger.Trigger) { t.Lane = trigger.Urgent }, func(t *trigger.Trigger) { t.Lane = 2 }},
		{"due", func(t *trigger.Trigger) { t.Due = submitted.Add(longest) }, func(t *trigger.Trigger) { t.Due = submitted.Add(longest + time.Millisecond) }},
		{"due", func(t *trigger.Trigger) { t.Due = submitted.Add(-24 * time.Hour) }, func(t *trigger.Trigger) { t.Due = submitted.Add(-24*time.Hour - time.Millisecond) }},
		{"due", func(t *trigger.Trigger) { t.Due = submitted }, func(t *trigger.Trigger) { t.Due = time.Time{} }},
		{"payload", func(t *trigger.Trigger) { t.Payload = make([]byte, 256<<10) }, func(t *trigger.Trigger) { t.Payload = make([]byte, 256<<10+1) }},
		{"name", func(t *trigger.Trigger) { t.Name = strings.Repeat("n", 128) }, func(t *trigger.Trigger) { t.Name = strings.Repeat("n", 129) }},
		{"name", func(t *trigger.Trigger) { t.Name = "!~" }, func(t *trigger.Trigger) { t.Name = "a b" }},
		{"tenant", func(t *trigger.Trigger) { t.Tenant = strings.Repeat("t", 64) }, func(t *trigger.Trigger) { t.Tenant = strings.Repeat("t", 65) }},
		{"group", func(t *trigger.Trigger) { t.Group = strings.Repeat("g", 128) }, func(t *trigger.Trigger) { t.Group = strings.Repeat("g", 129) }},
		{"headers", func(t *trigger.Trigger) { t.Headers = headers(4) }, func(t *trigger.Trigger) { t.Headers = headers(5) }},
		{"headers.k", func(t *trigger.Trigger) { t.Headers = map[string]string{"k": strings.Repeat("v", 1024)} }, func(t *trigger.Trigger) { t.Headers = map[string]string{"k": strings.Repeat("v", 1025)} }},
		{"headers.k", func(t *trigger.Trigger) { t.Headers = map[string]string{"k": "\t\r\n"} }, func(t *trigger.Trigger) { t.Headers = map[string]string{"k": "\v"} }},
		{"headers.k", func(t *trigger.Trigger) { t.Headers = map[string]string{"k": " "} }, func(t *trigger.Trigger) { t.Headers = map[string]string{"k": ""} }},
		{"headers." + strings.Repeat("h", 40) + "…", func(t *trigger.Trigger) { t.Headers = map[string]string{strings.Repeat("h", 128): "v"} }, func(t *trigger.Trigger) { t.Headers = map[string]string{strings.Repeat("h", 129): "v"} }},
		{"traceparent", func(t *trigger.Trigger) { t.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" }, func(t *trigger.Trigger) { t.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1" }},
	}
	for _, c := range cases {
		tr := valid()
		c.inside(&tr)
		require.NoError(t, tr.Validate(submitted))
		tr = valid()
		c.outside(&tr)
		err := tr.Validate(submitted)
		require.Equal(t, []string{c.field}, fields(err), "%v", err)
		require.True(t, strings.HasPrefix(err.Error(), c.field+": "), err.Error())
	}
}

func headers(n int) map[string]string {
	h := make(map[string]string, n)
	for i := range n {
		h[string(rune('a'+i))] = "v"
	}
	return h
}

func TestEveryFieldAtFaultIsReportedAtOnceAndInTheSameOrder(t *testing.T) {
	tr := trigger.Trigger{
		Service: "Payments", N: -1, Lane: 9, Due: submitted.AddDate(11, 0, 0), Payload: make([]byte, 1<<20),
		Name: "a b", Tenant: "ä", Group: "\x00", Traceparent: "x",
		Headers: map[string]string{"b": "", "a": "", "Myosin-Id": "x", "c": "\x00", "d\x00": "v"},
	}
	want := []string{
		"id", "service", "n", "lane", "due", "payload", "name", "tenant", "group",
		"headers", "headers.Myosin-Id", "headers.a", "headers.b", "headers.c", `headers."d\x00"`, "traceparent",
	}
	for range 20 {
		require.Equal(t, want, fields(tr.Validate(submitted)))
	}
}

func TestADueTimeThatDoesNotFitTheRowKeyIsRefused(t *testing.T) {
	for _, at := range []time.Time{time.UnixMilli(-1), time.UnixMilli(10_000_000_000_000)} {
		tr := valid()
		tr.Due = at
		require.Equal(t, []string{"due"}, fields(tr.Validate(at)))
	}
	for _, at := range []time.Time{time.UnixMilli(0), time.UnixMilli(9_999_999_999_999)} {
		tr := valid()
		tr.Due = at
		require.NoError(t, tr.Validate(at))
	}
}

func TestErrorsSayWhatWasWrongAndWhatIsRight(t *testing.T) {
	one := func(time.Time) int { return 1 }
	for body, want := range map[string]string{
		`{"v":2}`:              "v: version 2; this release reads 1",
		`{}`:                   "v: missing; this release reads version 1",
		`{"v":1,"due":5}`:      "due: want a string, found a JSON number",
		`{"v":1,"n":"64"}`:     "n: want a whole number, found a JSON string",
		`{"v":1,"headers":[]}`: "headers: want an object of strings, found a JSON array",
		`{"v":1,"delay_ms":0.5,"service":"a","id":"0b7e1f3a-6a52-4b7c-9d1e-2f4a5b6c7d8e"}`:                                  "delay_ms: want a whole number, found a JSON number 0.5",
		`{"v":1,"due":"tomorrow","service":"a","id":"0b7e1f3a-6a52-4b7c-9d1e-2f4a5b6c7d8e"}`:                                `due: "tomorrow" is not an RFC 3339 time with a zone, such as 2027-01-01T09:00:00.000Z`,
		`{"v":1,"delay_ms":1,"service":"Pay","id":"0b7e1f3a-6a52-4b7c-9d1e-2f4a5b6c7d8e"}`:                                  `service: "Pay"; want 1 to 48 of a-z, 0-9 and single '-', starting with a letter`,
		`{"v":1,"delay_ms":1,"service":"a","id":"7"}`:                                                                       "id: want a UUID of 36 characters, such as 0b7e1f3a-6a52-4b7c-9d1e-2f4a5b6c7d8e",
		`{"v":1,"delay_ms":1,"service":"a","id":"0b7e1f3a-6a52-4b7c-9d1e-2f4a5b6c7d8e","lane":"fast"}`:                      `lane: want standard or urgent, not "fast"`,
		`{"v":1,"delay_ms":1,"service":"a","id":"0b7e1f3a-6a52-4b7c-9d1e-2f4a5b6c7d8e","submitted":"2026-12-31T22:00:00Z"}`: "submitted: 2026-12-31T22:00:00.000Z is 1h0m0.123s away from the queue's 2026-12-31T23:00:00.123Z; at most 30s: check the sender's clock",
	} {
		_, err := trigger.DecodeInbound([]byte(body), submitted, one)
		require.EqualError(t, err, want, body)
	}
}

func TestForeignTextInAnErrorIsCutAndPrintable(t *testing.T) {
	long := strings.Repeat("\x01ä", 5000)
	tr := valid()
	tr.Service, tr.Name = long, long[:120]
	tr.Headers = map[string]string{long: "v"}
	err := tr.Validate(submitted)
	require.Equal(t, []string{"service", "name", fields(err)[2]}, fields(err))
	require.Less(t, len(err.Error()), 1000)
	require.True(t, trigger.SQSText(err.Error()), "%q", err.Error())
}

func TestADelayCountsFromSubmissionHoweverLateItIsRead(t *testing.T) {
	// Case 4: submitted with 60 s while inbound was stopped for 40 s. What the
	// reader's clock says has no way into the result.
	one := func(time.Time) int { return 1 }
	const head = `{"v":1,"id":"0b7e1f3a-6a52-4b7c-9d1e-2f4a5b6c7d8e","service":"a","delay_ms":60000`
	got, err := trigger.DecodeInbound([]byte(head+`}`), submitted, one)
	require.NoError(t, err)
	require.Equal(t, submitted.Add(time.Minute), got.Due)

	// A sender that names its own time gets a due time, and so a handle, that it
	// can work out before it sends.
	mine := submitted.Add(-700 * time.Millisecond)
	got, err = trigger.DecodeInbound([]byte(head+`,"submitted":"`+mine.Format(time.RFC3339Nano)+`"}`), submitted, one)
	require.NoError(t, err)
	require.Equal(t, mine.Add(time.Minute), got.Due)
	require.Equal(t, trigger.Handle{N: 1, Due: mine.Add(time.Minute), ID: got.ID, Service: "a"}, got.Handle())
}

func TestOverdueIsJudgedAgainstSubmissionSoAnOutageRefusesNothing(t *testing.T) {
	tr := valid()
	tr.Due = submitted.Add(-time.Hour)
	body, err := trigger.EncodeInbound(&tr, submitted)
	require.NoError(t, err)
	// Read a week later or at once: sent is all that the decoder is told.
	got, err := trigger.DecodeInbound(body, submitted.Add(time.Second), func(time.Time) int { return 1 })
	require.NoError(t, err)
	require.Equal(t, tr.Due, got.Due)
}

func TestWhatCouldBeReadComesBesideTheError(t *testing.T) {
	body := `{"v":1,"id":"0b7e1f3a-6a52-4b7c-9d1e-2f4a5b6c7d8e","service":"payments","due":"never","name":"remind"}`
	got, err := trigger.DecodeInbound([]byte(body), submitted, func(time.Time) int { return 64 })
	require.Equal(t, []string{"due"}, fields(err))
	require.Equal(t, "payments", got.Service)
	require.Equal(t, "remind", got.Name)
	require.Equal(t, valid().ID, got.ID)
}

func TestOneKeyOfTwoServicesMakesTwoTriggers(t *testing.T) {
	// Case 16b.
	due := time.Date(2027, 1, 1, 9, 0, 0, 0, time.UTC)
	payments, email := trigger.KeyedID("payments", "", "order-42"), trigger.KeyedID("email", "", "order-42")
	require.NotEqual(t, payments, email)
	require.NotEqual(t, trigger.KeyOf(trigger.Standard, payments, due, 64), trigger.KeyOf(trigger.Standard, email, due, 64))
	require.Equal(t, payments, trigger.KeyedID("payments", "", "order-42"))
	require.True(t, payments.Keyed())
	require.False(t, trigger.NewID().Keyed())
}

func TestTextFormsRoundTripThroughJSON(t *testing.T) {
	tr := valid()
	tr.Lane = trigger.Urgent
	for _, l := range trigger.Lanes {
		b, err := l.MarshalText()
		require.NoError(t, err)
		var back trigger.Lane
		require.NoError(t, back.UnmarshalText(b))
		require.Equal(t, l, back)
	}
	b, err := tr.Handle().MarshalText()
	require.NoError(t, err)
	var h trigger.Handle
	require.NoError(t, h.UnmarshalText(b))
	require.Equal(t, tr.Handle(), h)
	require.ErrorIs(t, h.UnmarshalText([]byte("x")), trigger.ErrHandle)
	require.Equal(t, tr.Handle(), h, "a failed read leaves the value alone")

	b, err = tr.ID.MarshalText()
	require.NoError(t, err)
	var id trigger.ID
	require.NoError(t, id.UnmarshalText(b))
	require.Equal(t, tr.ID, id)
	require.Error(t, id.UnmarshalText([]byte("x")))
	require.Error(t, new(trigger.Lane).UnmarshalText([]byte("x")))
}

func TestEpochsMustGrowInCountAndTime(t *testing.T) {
	at := func(h int) time.Time { return submitted.Add(time.Duration(h) * time.Hour) }
	require.NoError(t, trigger.Epochs{{N: 64}}.Validate())
	require.NoError(t, trigger.Epochs{{N: 1}, {N: 1000, From: at(0)}}.Validate())
	for want, e := range map[string]trigger.Epochs{
		"none":                       {},
		"n is 0":                     {{N: 0}},
		"n is 1001":                  {{N: 1001}},
		"does not grow on 64":        {{N: 64}, {N: 64, From: at(0)}},
		"does not grow on 65":        {{N: 65}, {N: 64, From: at(0)}},
		"128 from 2026-12-31T23:00":  {{N: 16}, {N: 64, From: at(0)}, {N: 128, From: at(0)}},
		"128 from 2026-12-31T22:00:": {{N: 16}, {N: 64, From: at(0)}, {N: 128, From: at(-1)}},
	} {
		require.ErrorContains(t, e.Validate(), want)
	}
}
