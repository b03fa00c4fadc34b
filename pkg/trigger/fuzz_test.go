package trigger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func FuzzParseHandle(f *testing.F) {
	var v handleVectors
	readVectors(f, "handles.json", &v)
	for _, c := range v.Accept {
		f.Add(c.Handle)
	}
	for _, c := range v.Reject {
		f.Add(c.Handle)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := trigger.ParseHandle(s)
		if err != nil {
			require.ErrorIs(t, err, trigger.ErrHandle)
			return
		}
		require.Equal(t, s, h.String())
		_, err = trigger.ParseKey(h.Key().P(), h.Key().S())
		require.NoError(t, err)
	})
}

func FuzzParseKey(f *testing.F) {
	var v keyVectors
	readVectors(f, "keys.json", &v)
	for _, c := range v.Rows {
		f.Add(c.P, c.S)
	}
	for _, c := range v.Reject {
		f.Add(c.P, c.S)
	}
	f.Fuzz(func(t *testing.T, p, s string) {
		k, err := trigger.ParseKey(p, s)
		if err != nil {
			return
		}
		require.Equal(t, row{p, s}, row{k.P(), k.S()})
		require.Equal(t, k.Due, k.DueTime().UnixMilli())
	})
}

func FuzzDecodeInbound(f *testing.F) {
	var v inboundVectors
	readVectors(f, "inbound.json", &v)
	for _, c := range v.Accept {
		f.Add([]byte(c.Body), v.SentMs)
	}
	for _, c := range v.Reject {
		f.Add([]byte(c.Body), v.SentMs)
	}
	f.Fuzz(func(t *testing.T, body []byte, sentMs int64) {
		got, err := trigger.DecodeInbound(body, time.UnixMilli(sentMs).UTC(), func(time.Time) int { return 64 })
		if err != nil {
			require.NotEmpty(t, fields(err))
			for _, name := range fields(err) {
				require.False(t, strings.HasPrefix(name, "no field: "), "%v", err)
			}
			return
		}
		// Its own due time is a time of submission that every due time may have.
		require.NoError(t, got.Validate(got.Due))
		again, err := trigger.EncodeInbound(&got, time.Time{})
		require.NoError(t, err)
		require.True(t, trigger.SQSText(string(again)))
		back, err := trigger.DecodeInbound(again, got.Due, func(time.Time) int { return -1 })
		require.NoError(t, err)
		require.Equal(t, got, back)

		h, err := trigger.ParseHandle(got.Handle().String())
		require.NoError(t, err)
		require.Equal(t, got.Key(), h.Key())
		key, err := trigger.ParseKey(got.Key().P(), got.Key().S())
		require.NoError(t, err)
		require.Equal(t, got.Key(), key)
	})
}

func FuzzReadDelivered(f *testing.F) {
	// Case 17: whatever the payload, it arrives as it left.
	for _, payload := range []string{"", "-", "{}", "a\x00b", "\xff\xfe", "\xed\xa0\x80", "\ufffe", "\uffff", "\t\r\n", "☃"} {
		f.Add([]byte(payload), "remind", "t1", "k", "v", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", int64(1798794000000), true)
	}
	f.Fuzz(func(t *testing.T, payload []byte, name, tenant, header, value, trace string, dueMs int64, fifo bool) {
		want := valid()
		want.Due = time.UnixMilli(dueMs).UTC()
		want.Name, want.Tenant, want.Traceparent = name, tenant, trace
		if len(payload) > 0 {
			want.Payload = payload
		}
		if header != "" {
			want.Headers = map[string]string{header: value}
		}
		if want.Validate(want.Due) != nil {
			return
		}
		d := trigger.Deliver(&want, fifo)
		require.NotEmpty(t, d.Body)
		require.True(t, trigger.SQSText(d.Body))
		require.LessOrEqual(t, len(d.Attributes), 10)
		for k, v := range d.Attributes {
			require.NotEmpty(t, v, k)
			require.True(t, trigger.SQSText(v), k)
		}
		require.True(t, d.Group != "" || !fifo)
		got, err := trigger.ReadDelivered(d.Body, d.Attributes)
		require.NoError(t, err)
		// These three do not travel.
		got.Service, got.Lane, got.N = want.Service, want.Lane, want.N
		require.Equal(t, want, got)
	})
}

func FuzzReadDeliveredForeign(f *testing.F) {
	f.Add("hi", "0b7e1f3a-6a52-4b7c-9d1e-2f4a5b6c7d8e", "1798794000000", "base64")
	f.Add("aGk=", "0B7E1F3A-6A52-4B7C-9D1E-2F4A5B6C7D8E", "+1", "empty")
	f.Fuzz(func(t *testing.T, body, id, due, encoding string) {
		got, err := trigger.ReadDelivered(body, map[string]string{
			trigger.AttrID: id, trigger.AttrDue: due, trigger.AttrEncoding: encoding,
		})
		if err != nil {
			require.Len(t, fields(err), 1)
			return
		}
		_, err = trigger.ParseKey("s.000", trigger.SortKey(got.Due.UnixMilli(), got.ID))
		require.NoError(t, err)
	})
}
