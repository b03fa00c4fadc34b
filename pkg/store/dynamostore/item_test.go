package dynamostore

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func newTestCodec(t testing.TB) *codec {
	t.Helper()
	c, err := newCodec()
	require.NoError(t, err)
	return c
}

// parseJSON reads an attribute map in DynamoDB's JSON.
func parseJSON(raw map[string]map[string]any) (item, error) {
	it := item{}
	for name, typed := range raw {
		for kind, v := range typed {
			switch kind {
			case "S":
				it[name] = str(fmt.Sprint(v))
			case "N":
				it[name] = &types.AttributeValueMemberN{Value: fmt.Sprint(v)}
			case "BOOL":
				it[name] = &types.AttributeValueMemberBOOL{Value: v == true}
			case "B":
				b, err := base64.StdEncoding.DecodeString(fmt.Sprint(v))
				if err != nil {
					return nil, err
				}
				it[name] = &types.AttributeValueMemberB{Value: b}
			case "M":
				inner := item{}
				for k, s := range v.(map[string]any) {
					inner[k] = str(fmt.Sprint(s.(map[string]any)["S"]))
				}
				it[name] = &types.AttributeValueMemberM{Value: inner}
			default:
				return nil, fmt.Errorf("type %s", kind)
			}
		}
	}
	return it, nil
}

// vectors are the rows of testdata/items_v1.json, as version 1 wrote them.
func vectors() map[string]*store.Row {
	id, err := trigger.ParseID("0b7e1f3a-6a52-4b7c-9d1e-2f4a5b6c7d8e")
	if err != nil {
		panic(err)
	}
	due := time.UnixMilli(1_900_000_000_123).UTC()
	created := time.UnixMilli(1_800_000_000_456).UTC()
	expires := time.Unix(4_000_000_000, 0).UTC()
	base := trigger.Trigger{ID: id, Service: "payments", Due: due, N: 64}
	full := base
	full.Lane, full.Name, full.Tenant, full.Group = trigger.Urgent, "send-reminder", "t-1", "g/1"
	full.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	full.Headers = map[string]string{"x-kind": "a", "X.Other": "ü"}
	full.Payload = bytes.Repeat([]byte(`{"field":"value"},`), 20)
	binary := base
	binary.Payload = []byte{0, 0xff, 0xfe, '\n'}
	return map[string]*store.Row{
		"full, compressed":   {Trigger: full, State: trigger.StateScheduled, Created: created},
		"acquired, binary":   {Trigger: binary, State: "A.pod-1_x.1900000000000", Created: created},
		"nothing optional":   {Trigger: base, State: trigger.StateMaybeSent},
		"cancelled":          {Trigger: base, State: trigger.StateCancelled, Created: created, Expires: expires},
		"cancelled too late": {Trigger: base, State: trigger.StateCancelledLate, Created: created, Expires: expires},
		"dead":               {Trigger: full, State: trigger.StateDead, Reason: "queue is gone", Created: created, Expires: expires},
	}
}

func TestItemsOfVersion1AreStillReadAndWritten(t *testing.T) {
	data, err := os.ReadFile("testdata/items_v1.json")
	require.NoError(t, err)
	var raw map[string]map[string]map[string]any
	require.NoError(t, json.Unmarshal(data, &raw))
	require.Len(t, raw, len(vectors()))
	c := newTestCodec(t)
	for name, want := range vectors() {
		it, err := parseJSON(raw[name])
		require.NoError(t, err)
		got, err := c.row(it)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)

		fresh := c.item(want, want.Key())
		if _, zipped := it[attrZipped]; zipped { // another compressor may pack otherwise
			require.Contains(t, fresh, attrZipped)
			delete(it, attrBody)
			delete(fresh, attrBody)
		}
		require.Equal(t, it, fresh, name)
	}
}

func TestUnknownAttributesAreIgnored(t *testing.T) {
	c := newTestCodec(t)
	want := vectors()["full, compressed"]
	it := c.item(want, want.Key())
	it["zz"] = &types.AttributeValueMemberL{}
	got, err := c.row(it)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestAttributeNamesAreShortAndDistinct(t *testing.T) {
	seen := map[string]bool{}
	names := insertOrder()
	for _, name := range append(names[:], attrEpochs) {
		require.LessOrEqual(t, len(name), 2)
		require.False(t, seen[name], name)
		seen[name] = true
	}
	c := newTestCodec(t)
	for name, row := range vectors() {
		text, params := (&statements{insert: "{"}).insertOf(c.item(row, row.Key()))
		require.Len(t, params, len(c.item(row, row.Key())), "%s: every attribute is in the INSERT", name)
		require.Equal(t, len(params), strings.Count(text, "?"))
	}
}

// itemSize is the size DynamoDB bills: names and text in bytes, numbers at half a
// byte a digit and one, a map three bytes and one an entry. Source: "Item sizes
// and formats" in the DynamoDB developer guide.
func itemSize(it item) int {
	n := 0
	for name, v := range it {
		n += len(name)
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			n += len(v.Value)
		case *types.AttributeValueMemberN:
			n += (len(v.Value)+1)/2 + 1
		case *types.AttributeValueMemberB:
			n += len(v.Value)
		case *types.AttributeValueMemberBOOL:
			n++
		case *types.AttributeValueMemberM:
			n += 3 + len(v.Value) + itemSize(v.Value)
		}
	}
	return n
}

func TestARowWith300BytesOfPayloadStaysBelowAKilobyte(t *testing.T) {
	c := newTestCodec(t)
	payload := make([]byte, 300)
	for i := range payload {
		payload[i] = byte(i*i*31 + i>>3) // does not compress
	}
	row := &store.Row{
		Trigger: trigger.Trigger{
			ID: trigger.NewID(), Service: strings.Repeat("s", trigger.MaxService), Due: time.Now(), N: trigger.MaxPartitions,
			Payload: payload, Name: "a-job-with-a-name", Tenant: "tenant-0123456789", Group: "group-0123456789",
			Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			Headers:     map[string]string{"content-type": "application/json"},
		},
		State:   trigger.AcquiredBy(strings.Repeat("o", 64), time.Now()),
		Created: time.Now(), Expires: time.Now(),
	}
	size := itemSize(c.item(row, row.Key()))
	require.Less(t, size, 1024, "with long names, headers and trace context")
	plain := &store.Row{
		Trigger: trigger.Trigger{ID: trigger.NewID(), Service: "payments", Due: time.Now(), N: 64, Payload: payload},
		State:   trigger.AcquiredBy("scheduler-7d9c5b6f4-x2x9k-1", time.Now()), Created: time.Now(),
	}
	require.Less(t, itemSize(c.item(plain, plain.Key())), 450)
}

func TestItemsRoundTrip(t *testing.T) {
	c := newTestCodec(t)
	text := rapid.StringMatching(`[!-~]{0,20}`)
	rapid.Check(t, func(t *rapid.T) {
		row := &store.Row{
			Trigger: trigger.Trigger{
				ID: trigger.NewID(), Service: "svc", Due: time.UnixMilli(rapid.Int64Range(0, 9_999_999_999_999).Draw(t, "due")).UTC(),
				Lane: rapid.SampledFrom(trigger.Lanes[:]).Draw(t, "lane"), N: rapid.IntRange(1, trigger.MaxPartitions).Draw(t, "n"),
				Name: text.Draw(t, "name"), Tenant: text.Draw(t, "tenant"), Group: text.Draw(t, "group"), Traceparent: text.Draw(t, "trace"),
			},
			State:  trigger.State(rapid.SampledFrom([]string{"S", "S!", "A.me.1", "A.x", "D", "X?"}).Draw(t, "state")),
			Reason: text.Draw(t, "reason"),
		}
		if p := rapid.SliceOfN(rapid.ByteRange(0, 3), 0, 500).Draw(t, "payload"); len(p) > 0 {
			row.Payload = p
		}
		if h := rapid.MapOfN(rapid.StringMatching(`[a-z]{1,9}`), rapid.String(), 0, 4).Draw(t, "headers"); len(h) > 0 {
			row.Headers = h
		}
		if ms := rapid.Int64Range(0, 9_999_999_999_999).Draw(t, "created"); ms > 0 {
			row.Created = time.UnixMilli(ms).UTC()
		}
		if sec := rapid.Int64Range(0, 9_999_999_999).Draw(t, "expires"); sec > 0 {
			row.Expires = time.Unix(sec, 0).UTC()
		}
		got, err := c.row(c.item(row, row.Key()))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(row, got) {
			t.Fatalf("want %+v\ngot  %+v", row, got)
		}
	})
}

func TestPayloadsAreCompressedOnlyWhereTheyShrink(t *testing.T) {
	c := newTestCodec(t)
	random := make([]byte, 5000)
	copy(random, c.enc.EncodeAll(bytes.Repeat([]byte("0123456789abcdef"), 1), nil))
	for i := range random {
		random[i] ^= byte((i * 2654435761) >> 13)
	}
	for size := 0; size < 5000; size += 97 {
		for _, p := range [][]byte{bytes.Repeat([]byte("x"), size), random[:size]} {
			body, zipped := c.pack(p)
			require.LessOrEqual(t, len(body), len(p))
			if zipped {
				require.Less(t, len(body)+2, len(p))
			}
			back, err := c.unpack(body, zipped)
			require.NoError(t, err)
			require.True(t, bytes.Equal(p, back))
		}
	}
}

func TestPayloadsThatUnpackTooLargeAreRefused(t *testing.T) {
	c := newTestCodec(t)
	enc, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	for _, size := range []int{trigger.MaxPayload + 1, 64 << 20} {
		_, err := c.unpack(enc.EncodeAll(make([]byte, size), nil), true)
		require.Error(t, err)
	}
	_, err = c.unpack([]byte("no frame"), true)
	require.Error(t, err)
}

func TestItemsThatWritesWouldNotFindAgainAreRefused(t *testing.T) {
	c := newTestCodec(t)
	row := vectors()["full, compressed"]
	for name, spoil := range map[string]func(item){
		"another count": func(it item) { it[attrN] = num(63) },
		"no count":      func(it item) { delete(it, attrN) },
		"no state":      func(it item) { delete(it, attrState) },
		"no key":        func(it item) { delete(it, attrS) },
		"a number":      func(it item) { it[attrState] = num(1) },
		"a bad number":  func(it item) { it[attrCreated] = &types.AttributeValueMemberN{Value: "1e400"} },
		"a bad header":  func(it item) { it[attrHeaders] = &types.AttributeValueMemberM{Value: item{"a": num(1)}} },
		"a bad payload": func(it item) { it[attrBody] = &types.AttributeValueMemberB{Value: []byte("junk")} },
	} {
		it := c.item(row, row.Key())
		spoil(it)
		_, err := c.row(it)
		require.Error(t, err, name)
	}
}

func FuzzItemsAreReadOrRefused(f *testing.F) {
	c := newTestCodec(f)
	for _, row := range vectors() {
		body, zipped := c.pack(row.Payload)
		f.Add(row.Key().P(), row.Key().S(), string(row.State), "64", "1", "2", body, zipped)
	}
	f.Fuzz(func(t *testing.T, p, s, state, n, created, expires string, body []byte, zipped bool) {
		it := item{
			attrP: str(p), attrS: str(s), attrState: str(state),
			attrN: &types.AttributeValueMemberN{Value: n}, attrCreated: &types.AttributeValueMemberN{Value: created},
			attrExpires: &types.AttributeValueMemberN{Value: expires},
			attrBody:    &types.AttributeValueMemberB{Value: body}, attrZipped: &types.AttributeValueMemberBOOL{Value: zipped},
		}
		row, err := c.row(it)
		if err != nil {
			return
		}
		require.Equal(t, p, row.Key().P())
		require.Equal(t, s, row.Key().S())
		require.LessOrEqual(t, len(row.Payload), max(len(body), trigger.MaxPayload))
		if row.State.Tombstone() {
			return // a tombstone is written without its payload
		}
		again, err := c.row(c.item(row, row.Key()))
		require.NoError(t, err)
		require.True(t, bytes.Equal(row.Payload, again.Payload))
		row.Payload, again.Payload = nil, nil
		require.Equal(t, row, again)
	})
}

func TestEpochsRoundTrip(t *testing.T) {
	for _, e := range []trigger.Epochs{
		{{N: 64}}, {{N: 1}, {N: 1000, From: time.UnixMilli(1_900_000_000_123).UTC()}},
	} {
		got, err := parseEpochs(formatEpochs(e))
		require.NoError(t, err)
		require.Equal(t, e, got)
	}
	require.Equal(t, "64@0,128@1900000000000", formatEpochs(trigger.Epochs{{N: 64}, {N: 128, From: time.UnixMilli(1_900_000_000_000)}}))
	for _, bad := range []string{"", "64", "64@", "@0", "64@0,", "64@0,32@1", "0@0", "x@0"} {
		_, err := parseEpochs(bad)
		require.Error(t, err, bad)
	}
}
