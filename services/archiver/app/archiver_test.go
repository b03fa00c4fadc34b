package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/parquet-go/parquet-go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// memBucket is a bucket in memory. fail says which puts are refused.
type memBucket struct {
	objects map[string][]byte
	fail    func(key string) bool
	onPut   func()
}

var errPut = errors.New("refused")

func (b *memBucket) PutObject(ctx context.Context, in *s3.PutObjectInput, _ ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	if b.onPut != nil {
		b.onPut()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if b.fail != nil && b.fail(*in.Key) {
		return nil, errPut
	}
	body, err := io.ReadAll(in.Body)
	if err != nil {
		return nil, err
	}
	if b.objects == nil {
		b.objects = map[string][]byte{}
	}
	b.objects[*in.Key] = body
	return &s3.PutObjectOutput{}, nil
}

// rows reads every Parquet object.
func (b *memBucket) rows(t require.TestingT) map[string][]Row {
	out := map[string][]Row{}
	for key, body := range b.objects {
		if strings.HasSuffix(key, ".parquet") {
			out[key] = parse(t, body)
		}
	}
	return out
}

func parse(t require.TestingT, body []byte) []Row {
	rows, err := parquet.Read[Row](bytes.NewReader(body), int64(len(body)))
	require.NoError(t, err)
	return rows
}

func newArchiver(t require.TestingT, o ArchiverOptions) *Archiver {
	o.Name = "archive"
	a, err := NewArchiver(o)
	require.NoError(t, err)
	return a
}

var day1 = time.Date(2026, 11, 1, 23, 59, 59, 0, time.UTC)

// removal is the n-th record of a stream: the removal of a run of the day.
func removal(t require.TestingT, n int, nominal time.Time) json.RawMessage {
	id := job.NewRunID(trigger.ID{byte(n >> 8), byte(n), 1}, 1, nominal)
	return rawRecord(t, n, map[string]events.DynamoDBAttributeValue{
		"p": events.NewStringAttribute(strings.Split(string(id), "_")[0]), "s": events.NewStringAttribute(strings.Split(string(id), "_")[1]),
		"g": events.NewNumberAttribute("1"), "n": events.NewNumberAttribute(strconv.FormatInt(nominal.UnixMilli(), 10)),
		"st": events.NewStringAttribute("SUCCEEDED"), "ve": events.NewNumberAttribute("3"),
	})
}

func rawRecord(t require.TestingT, n int, image map[string]events.DynamoDBAttributeValue) json.RawMessage {
	raw, err := json.Marshal(events.DynamoDBEventRecord{
		EventID: fmt.Sprintf("e%d", n), EventName: "REMOVE",
		UserIdentity: &events.DynamoDBUserIdentity{Type: "Service", PrincipalID: "dynamodb.amazonaws.com"},
		Change:       events.DynamoDBStreamRecord{OldImage: image, SequenceNumber: sequence(n)},
	})
	require.NoError(t, err)
	return raw
}

func sequence(n int) string { return strconv.Itoa(1000 + n) }

// removals returns n of them, spread over days by pick.
func removals(t require.TestingT, n int, pick func(i int) int) []json.RawMessage {
	var out []json.RawMessage
	for i := range n {
		out = append(out, removal(t, i, day1.AddDate(0, 0, pick(i))))
	}
	return out
}

func TestOnlyWhatTheTimeToLiveRemovedIsArchived(t *testing.T) {
	t.Parallel()
	expired := removal(t, 0, day1)
	with := func(old, replacement string) json.RawMessage {
		changed := bytes.Replace(expired, []byte(old), []byte(replacement), 1)
		require.NotEqual(t, string(expired), string(changed))
		return changed
	}
	for name, raw := range map[string]json.RawMessage{
		"insert":        with("REMOVE", "INSERT"),
		"modify":        with("REMOVE", "MODIFY"),
		"by somebody":   with(`"Service"`, `"AssumedRole"`),
		"other service": with("dynamodb.amazonaws.com", "lambda.amazonaws.com"),
		"no identity":   with("userIdentity", "unknown"),
	} {
		t.Run(name, func(t *testing.T) {
			b := &memBucket{}
			res, err := newArchiver(t, ArchiverOptions{Bucket: b}).Handle(t.Context(), Event{Records: []json.RawMessage{raw}})
			require.NoError(t, err)
			require.Empty(t, res.BatchItemFailures)
			require.Empty(t, b.objects)

			_, err = newArchiver(t, ArchiverOptions{Bucket: b, AllRemovals: true}).Handle(t.Context(), Event{Records: []json.RawMessage{raw}})
			require.NoError(t, err)
			require.Equal(t, bytes.Contains(raw, []byte("REMOVE")), len(b.objects) == 1)
		})
	}
}

func TestABatchThatComesTwiceGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	b := &memBucket{}
	a := newArchiver(t, ArchiverOptions{Bucket: b})
	e := Event{Records: removals(t, 50, func(i int) int { return i % 3 })}
	_, err := a.Handle(t.Context(), e)
	require.NoError(t, err)
	first := maps.Clone(b.objects)
	require.Len(t, first, 3)
	require.Contains(t, first, "runs/day=2026-11-01/"+strings.Repeat("0", 36)+"1000-e0.parquet")
	_, err = a.Handle(t.Context(), e)
	require.NoError(t, err)
	require.Equal(t, first, b.objects)
}

func TestAFailureIsReportedFromTheFirstRecordThatNoObjectStraddles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		days    []int
		refused int // day
		from    int // record
	}{
		"all of it":             {[]int{0, 0, 1}, 0, 0},
		"days apart":            {[]int{0, 0, 1, 1}, 1, 2},
		"a day on both sides":   {[]int{0, 1, 0}, 1, 0},
		"another on both sides": {[]int{0, 1, 2, 1}, 2, 1},
		"a chain of days":       {[]int{0, 1, 0, 2, 1}, 2, 0},
		"the last of three":     {[]int{0, 0, 1, 2, 1, 3}, 3, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			day := day1.AddDate(0, 0, c.refused).Format(time.DateOnly)
			b := &memBucket{fail: func(key string) bool { return strings.Contains(key, day) }}
			reg := prometheus.NewRegistry()
			a := newArchiver(t, ArchiverOptions{Bucket: b, Registerer: reg})
			res, err := a.Handle(t.Context(), Event{Records: removals(t, len(c.days), func(i int) int { return c.days[i] })})
			require.NoError(t, err)
			require.Equal(t, []events.DynamoDBBatchItemFailure{{ItemIdentifier: sequence(c.from)}}, res.BatchItemFailures)
			require.InDelta(t, 1, testutil.ToFloat64(a.m.failures), 0)
		})
	}
}

// Lambda may cut what comes again as it likes.
func TestHoweverBatchesFailAndComeAgainEveryRunIsInOneObject(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const n = 12
		days := rapid.SliceOfN(rapid.IntRange(0, 4), n, n).Draw(t, "days")
		all := removals(t, n, func(i int) int { return days[i] })
		poison := rapid.IntRange(0, n-1).Draw(t, "poison")
		all[poison] = rawRecord(t, poison, nil)
		b := &memBucket{}
		a := newArchiver(t, ArchiverOptions{Bucket: b})
		tries := 0
		for from := 0; from < n; {
			size := rapid.IntRange(1, n-from).Draw(t, "size")
			refuse := rapid.IntRange(0, 6).Draw(t, "refuse") // the put that fails; many batches go well
			if tries++; tries > 10 {
				refuse = n
			}
			puts := 0
			b.fail = func(string) bool { puts++; return puts-1 == refuse }
			res, err := a.Handle(context.Background(), Event{Records: all[from : from+size]})
			require.NoError(t, err)
			if len(res.BatchItemFailures) == 0 {
				from += size
				continue
			}
			seq, err := strconv.Atoi(res.BatchItemFailures[0].ItemIdentifier)
			require.NoError(t, err)
			require.GreaterOrEqual(t, seq-1000, from)
			from = seq - 1000
		}
		seen := map[string]int{}
		for key, rows := range b.rows(t) {
			for _, r := range rows {
				seen[r.EventID]++
				require.Contains(t, key, "day="+r.Nominal.Format(time.DateOnly)+"/")
			}
		}
		require.Len(t, seen, n-1)
		for id, times := range seen {
			require.Equal(t, 1, times, id)
		}
		require.Equal(t, []byte(all[poison]), b.objects["undecodable/"+objectName(sequence(poison), fmt.Sprintf("e%d", poison))+".json"])
	})
}

func TestARecordThatCannotBeReadIsPutAsideAsItCameAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	good := removal(t, 1, day1)
	with := func(old, replacement string) json.RawMessage {
		changed := bytes.Replace(good, []byte(old), []byte(replacement), 1)
		require.NotEqual(t, string(good), string(changed))
		return changed
	}
	for name, raw := range map[string]json.RawMessage{
		"no image":          rawRecord(t, 1, nil),
		"no id":             with(`"p":`, `"q":`),
		"no state's type":   with(`{"S":"SUCCEEDED"}`, `{"SUCCEEDED":"S"}`),
		"null value":        with(`{"S":"SUCCEEDED"}`, `null`),
		"set of no texts":   with(`{"S":"SUCCEEDED"}`, `{"SS":[1]}`),
		"number no number":  with(`{"N":"3"}`, `{"N":"three"}`),
		"not even a record": json.RawMessage(`[1,2]`),
		"sequence no text":  with(`"SequenceNumber":"1001"`, `"SequenceNumber":{}`),
	} {
		t.Run(name, func(t *testing.T) {
			b := &memBucket{}
			var log bytes.Buffer
			a := newArchiver(t, ArchiverOptions{Bucket: b, Log: logger(&log)})
			res, err := a.Handle(t.Context(), Event{Records: []json.RawMessage{removal(t, 0, day1), raw, removal(t, 2, day1)}})
			require.NoError(t, err)
			require.Empty(t, res.BatchItemFailures)
			keys := slices.Sorted(maps.Keys(b.objects))
			require.Len(t, keys, 2)
			require.Len(t, parse(t, b.objects[keys[0]]), 2)
			require.True(t, strings.HasPrefix(keys[1], "undecodable/"), keys[1])
			require.Equal(t, string(raw), string(b.objects[keys[1]]))
			require.InDelta(t, 1, testutil.ToFloat64(a.m.undecodable), 0)
			require.Contains(t, log.String(), "record cannot be read")
		})
	}
}

func TestTwoRecordsWithoutAnIDAreTwoObjects(t *testing.T) {
	t.Parallel()
	b := &memBucket{}
	_, err := newArchiver(t, ArchiverOptions{Bucket: b}).Handle(t.Context(), Event{Records: []json.RawMessage{
		json.RawMessage(`[1]`), json.RawMessage(`[2]`),
	}})
	require.NoError(t, err)
	require.Len(t, b.objects, 2)
}

func TestItStopsBeforeTheInvocationIsCutOff(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), deadlineMargin-time.Millisecond)
	defer cancel()
	res, err := newArchiver(t, ArchiverOptions{Bucket: &memBucket{}}).Handle(ctx, Event{Records: removals(t, 2, func(int) int { return 0 })})
	require.NoError(t, err)
	require.Equal(t, []events.DynamoDBBatchItemFailure{{ItemIdentifier: sequence(0)}}, res.BatchItemFailures)
	require.NoError(t, ctx.Err(), "there is time left to report it")
}

func TestTenThousandRecordsTakeBoundedMemory(t *testing.T) {
	e := Event{Records: removals(t, 10_000, func(i int) int { return i % 30 })}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most := heap(), uint64(0)
	b := &memBucket{}
	b.onPut = func() {
		most = max(most, heap())
		b.objects = nil // only the archiver's own memory counts
	}
	_, err := newArchiver(t, ArchiverOptions{Bucket: b}).Handle(t.Context(), e)
	require.NoError(t, err)
	require.Positive(t, most)
	const bound = 48 << 20
	t.Logf("held at most %.1f MiB besides the batch", float64(most-min(before, most))/(1<<20))
	require.Less(t, most, before+bound)
}

func TestEveryRowIsReadBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	text := rapid.String()
	at := rapid.Custom(func(t *rapid.T) *time.Time {
		if rapid.Bool().Draw(t, "none") {
			return nil
		}
		return micros(time.UnixMicro(rapid.Int64Range(-1e15, 4e15).Draw(t, "micros")))
	})
	attempt := rapid.Custom(func(t *rapid.T) RowAttempt {
		return RowAttempt{
			Number: rapid.Int64().Draw(t, "number"), Start: at.Draw(t, "start"), End: at.Draw(t, "end"),
			Error: text.Draw(t, "error"), StatusCode: rapid.Int64().Draw(t, "status"),
		}
	})
	row := rapid.Custom(func(t *rapid.T) Row {
		r := Row{
			EventID: text.Draw(t, "event"), RunID: text.Draw(t, "run"), JobID: text.Draw(t, "job"), Tenant: text.Draw(t, "tenant"),
			Kind: text.Draw(t, "kind"), Generation: rapid.Int64().Draw(t, "generation"), Nominal: at.Draw(t, "nominal"),
			State: text.Draw(t, "state"), Reason: text.Draw(t, "reason"),
			Failures: rapid.Int64().Draw(t, "failures"), Crashes: rapid.Int64().Draw(t, "crashes"), OriginalRunID: text.Draw(t, "original"),
			SkippedFrom: at.Draw(t, "from"), SkippedUntil: at.Draw(t, "until"), SkippedCount: rapid.Int64().Draw(t, "count"),
			Ended: at.Draw(t, "ended"),
		}
		if n := rapid.IntRange(0, 3).Draw(t, "attempts"); n > 0 {
			r.Attempts = rapid.SliceOfN(attempt, n, n).Draw(t, "list")
		}
		return r
	})
	codec := newCodec()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(row, 1, 8).Draw(t, "rows")
		var one, two bytes.Buffer
		require.NoError(t, writeRows(&one, want, codec))
		require.NoError(t, writeRows(&two, want, codec))
		require.Equal(t, one.Bytes(), two.Bytes())
		got := parse(t, one.Bytes())
		for i := range got {
			if len(got[i].Attempts) == 0 {
				got[i].Attempts = nil
			}
		}
		require.Equal(t, want, got)
	})
}
