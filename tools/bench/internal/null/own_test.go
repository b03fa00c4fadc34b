package null_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/dynamostore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null/table"
)

// own asks the endpoint's own interface.
func own(e *null.Endpoint, method, path string) (status int, text string) {
	status, answer := e.Own(method, path)
	return status, string(answer)
}

func TestFilledRowsAreReadWrittenAndDeletedLikeAnyOthers(t *testing.T) {
	e, cfg := start(t, null.Options{})
	s, name := triggers(t, cfg, dynamostore.Options{})
	const rows, partitions = 2000, 8
	status, text := own(e, http.MethodPost, fmt.Sprintf(
		"/_fill?table=%s&rows=%d&partitions=%d&services=3&payload=10&from=2040-01-01T00:00:00Z&to=2040-01-02T00:00:00Z", name, rows, partitions))
	require.Equal(t, http.StatusOK, status, text)
	require.Equal(t, rows, e.Stats().DynamoDB.Rows[name])

	// Rows of the usual kind lie between them.
	from := time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 20 {
		r := &store.Row{Trigger: trigger.Trigger{ID: trigger.NewID(), Service: "mine", Due: from.Add(time.Duration(i) * time.Hour), N: partitions, Payload: []byte("x")}, State: trigger.StateScheduled}
		require.NoError(t, s.Write(t.Context(), []store.Op{{Kind: store.Insert, Key: r.Key(), Row: r}})[0].Err)
	}
	read := func() (all []store.Row) {
		for p := range partitions {
			q := store.Range{Partition: p, To: from.Add(48 * time.Hour).UnixMilli(), Limit: 99, Consistent: true}
			for {
				page, err := s.Range(t.Context(), q)
				require.NoError(t, err)
				for i := range page.Rows {
					if n := len(all); n > 0 && all[n-1].Key().Partition == p {
						require.Negative(t, all[n-1].Key().Compare(page.Rows[i].Key()))
					}
					all = append(all, page.Rows[i])
				}
				if q.After = page.Next; q.After == nil {
					break
				}
			}
		}
		return all
	}
	all := read()
	require.Len(t, all, rows+20)

	// One is changed, one deleted, one inserted again in vain.
	filled := func(i int) *store.Row {
		for ; all[i].Service == "mine"; i++ {
			require.Less(t, i, len(all))
		}
		return &all[i]
	}
	a, b, c := filled(100), filled(200), filled(300)
	require.Len(t, a.Payload, 10)
	res := s.Write(t.Context(), []store.Op{
		{Kind: store.Transition, Key: a.Key(), From: trigger.StateScheduled, To: trigger.StateMaybeSent},
		{Kind: store.Delete, Key: b.Key(), From: trigger.StateScheduled},
		{Kind: store.Insert, Key: c.Key(), Row: c},
	})
	require.NoError(t, res[0].Err)
	require.NoError(t, res[1].Err)
	require.ErrorIs(t, res[2].Err, store.ErrConflict)
	require.Equal(t, c.Key(), res[2].Found.Key())
	got, err := s.Get(t.Context(), a.Key())
	require.NoError(t, err)
	require.Equal(t, trigger.StateMaybeSent, got.State)
	require.Equal(t, a.Payload, got.Payload)
	got, err = s.Get(t.Context(), b.Key())
	require.NoError(t, err)
	require.Nil(t, got)
	require.Len(t, read(), rows+19)
	require.Equal(t, rows+19, e.Stats().DynamoDB.Rows[name])
}

func TestAFillThatCannotBeIsRefused(t *testing.T) {
	e := newTable(t, null.Options{})
	for _, query := range []string{"table=none&rows=1", "table=" + benchTable, "table=" + benchTable + "&rows=many", "table=" + benchTable + "&rows=1&from=now",
		"table=" + benchTable + "&rows=1&lane=fast", "table=" + benchTable + "&rows=1&partitions=100000"} {
		status, _ := own(e, http.MethodPost, "/_fill?"+query)
		require.Equal(t, http.StatusBadRequest, status, query)
	}
	status, _ := own(e, http.MethodGet, "/_reset")
	require.Equal(t, http.StatusNotFound, status, "only a POST changes anything")
}

func TestASinkTellsHowLateMessagesCameAndKeepsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := null.Options{}
		o.Queues.Sink, o.Queues.SinkIDs = true, true
		e, err := null.New(o)
		require.NoError(t, err)
		for _, name := range []string{"m-svc-a", "m-svc-a-urgent", "m-svc-a-dlq", "m-inbound"} {
			call(t, e, "SQS.CreateQueue", `{"QueueName":"`+name+`"}`)
		}
		now := time.Now().UnixMilli()
		send := func(queue, id string, due int64) {
			call(t, e, "SQS.SendMessageBatch", fmt.Sprintf(`{"QueueUrl":"http://h/0/%s","Entries":[{"Id":"0","MessageBody":"x","MessageAttributes":{"Myosin-Id":{"DataType":"String","StringValue":"%s"},"Myosin-Due":{"DataType":"String","StringValue":"%d"}}}]}`, queue, id, due))
		}
		for i := range 100 {
			send("m-svc-a", fmt.Sprint("id-", i), now-int64(i+1))
		}
		send("m-svc-a", "id-7", now-5)
		send("m-svc-a-urgent", "id-u", now+2000)
		send("m-svc-a-dlq", "id-d", now)
		send("m-inbound", "id-i", now)

		stats := e.Stats().SQS
		require.Equal(t, int64(102), stats.Sink.Messages)
		require.Equal(t, int64(101), stats.Sink.Distinct)
		require.Equal(t, int64(1), stats.Sink.Duplicates)
		standard, urgent := stats.Sink.Lanes["standard"], stats.Sink.Lanes["urgent"]
		require.Equal(t, int64(101), standard.Messages)
		require.Zero(t, standard.Early)
		require.InDelta(t, 50, standard.P50Ms, 1.1)
		require.InDelta(t, 100, standard.MaxMs, 1.1)
		require.Equal(t, int64(1), urgent.Early)
		require.InDelta(t, 2000, urgent.EarliestMs, 1)
		require.Equal(t, int64(101), stats.Sink.Queues["m-svc-a"].Messages)
		whole, err := hdrhistogram.Decode([]byte(standard.Histogram))
		require.NoError(t, err)
		require.Equal(t, int64(101), whole.TotalCount())
		require.Equal(t, 1, stats.Queues["m-svc-a-dlq"].Visible)
		require.Equal(t, 1, stats.Queues["m-inbound"].Visible)
		require.NotContains(t, call(t, e, "SQS.ReceiveMessage", `{"QueueUrl":"http://h/0/m-svc-a"}`), "Messages")

		own(e, http.MethodPost, "/_reset?keep=data")
		stats = e.Stats().SQS
		require.Zero(t, stats.Sink.Messages)
		require.Equal(t, 1, stats.Queues["m-inbound"].Visible)
		own(e, http.MethodPost, "/_reset")
		require.Empty(t, e.Stats().SQS.Queues)
	})
}

func TestStatsAreReadOverHTTP(t *testing.T) {
	e, cfg := start(t, null.Options{})
	triggers(t, cfg, dynamostore.Options{})
	status, text := own(e, http.MethodGet, "/_stats")
	require.Equal(t, http.StatusOK, status)
	var stats null.Stats
	require.NoError(t, json.Unmarshal([]byte(text), &stats))
	require.Equal(t, int64(1), stats.Operations["DynamoDB.CreateTable"].Requests)
	require.Positive(t, stats.Operations["DynamoDB.CreateTable"].BytesIn)
	require.Positive(t, stats.CPUMs)
	for _, key := range []string{`"write_units"`, `"throttled_statements"`, `"lateness_p99_ms"`, `"uptime_s"`} {
		require.Contains(t, text, key)
	}
}

// answers counts what became of the statements of a batch.
func answers(text string) (fine, throttled int) {
	throttled = strings.Count(text, `"ProvisionedThroughputExceeded"`)
	return strings.Count(text, `"TableName"`) - throttled, throttled
}

func TestAPhysicalPartitionTakesItsShareAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTable(t, null.Options{Tables: table.AWSLimits()})
		second := func() (fine, throttled int) {
			for i := range 100 {
				body := strings.NewReplacer(`"s.`, `"s.hot`).Replace(transitions(i*25, 25, "S", "S"))
				for p := range 64 { // one hash key
					body = strings.ReplaceAll(body, fmt.Sprintf(`"s.hot%03d"`, p), `"s.hot"`)
				}
				f, th := answers(call(t, e, "DynamoDB.BatchExecuteStatement", body))
				fine, throttled = fine+f, throttled+th
			}
			return fine, throttled
		}
		fine, throttled := second()
		require.Equal(t, 1000, fine)
		require.Equal(t, 1500, throttled)
		time.Sleep(time.Second)
		fine, _ = second()
		require.Equal(t, 1000, fine)
		require.Equal(t, int64(3000), e.Stats().DynamoDB.ThrottledStatements)
		require.InDelta(t, 2000, e.Stats().DynamoDB.WriteUnits, 0.1)
	})
}

func TestATableTakesItsLimitOverAllPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTable(t, null.Options{Tables: table.Limits{Writes: 4000, PhysicalWrites: 1000, Physical: 64}})
		fine := 0
		for i := range 300 {
			f, _ := answers(call(t, e, "DynamoDB.BatchExecuteStatement", inserts(i*25, 25)))
			fine += f
		}
		require.Equal(t, 4000, fine)
	})
}

func TestABurstSpendsWhatWasNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTable(t, null.Options{Tables: table.Limits{Writes: 100, Burst: 10 * time.Second}})
		fine := 0
		for i := range 60 {
			f, _ := answers(call(t, e, "DynamoDB.BatchExecuteStatement", inserts(i*25, 25)))
			fine += f
		}
		require.Equal(t, 1000, fine)
	})
}

func TestReadsAreThrottledByTheCallAndReadersGetThroughInTheEnd(t *testing.T) {
	e := newTable(t, null.Options{Tables: table.Limits{PhysicalReads: 2}})
	body := []byte(rangeOf(1, 10))
	refused := 0
	for range 20 {
		if _, err := e.Tables.Do("Query", body, nil); err != nil {
			require.Equal(t, "ProvisionedThroughputExceededException", err.Type)
			refused++
		}
	}
	require.Positive(t, refused)
	require.Equal(t, int64(refused), e.Stats().DynamoDB.ThrottledCalls)
}

func TestLatencyIsWaitedForAndItsMeanHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := null.New(null.Options{LatencyDynamoDB: 5 * time.Millisecond, LatencySQS: 10 * time.Millisecond})
		require.NoError(t, err)
		ask := func(target string) time.Duration {
			began := time.Now()
			status, _ := e.Do(t.Context(), target, "null", []byte(`{}`), nil)
			require.Equal(t, http.StatusOK, status)
			return time.Since(began)
		}
		for target, mean := range map[string]time.Duration{"DynamoDB_20120810.ListTables": 5 * time.Millisecond, "AmazonSQS.ListQueues": 10 * time.Millisecond} {
			var sum time.Duration
			const n = 2000
			for range n {
				d := ask(target)
				require.GreaterOrEqual(t, d, mean*4/5)
				sum += d
			}
			require.InDelta(t, mean.Seconds(), (sum / n).Seconds(), mean.Seconds()/20)
		}
	})
}

func TestEvenlySpreadHashKeysUseAllPhysicalPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := func(even bool) (fine int) {
			e := newTable(t, null.Options{Tables: table.Limits{PhysicalWrites: 10, Physical: 64, Even: even}})
			for i := range 100 { // 2500 writes, some 39 to each of 64 hash keys
				f, _ := answers(call(t, e, "DynamoDB.BatchExecuteStatement", inserts(i*25, 25)))
				fine += f
			}
			return fine
		}
		require.Equal(t, 640, taken(true))
		require.Less(t, taken(false), 500, "by hashes, some partitions hold several keys and others none")
	})
}

func TestALaterFillLeavesTheRowsOfAnEarlierOne(t *testing.T) {
	e, cfg := start(t, null.Options{})
	s, name := triggers(t, cfg, dynamostore.Options{})
	lay := func(rows int, from string) {
		status, text := own(e, http.MethodPost, fmt.Sprintf("/_fill?table=%s&rows=%d&partitions=2&from=%s&to=2041-01-01T00:00:00Z&seed=%d", name, rows, from, rows))
		require.Equal(t, http.StatusOK, status, text)
	}
	keys := func() (n int, first trigger.Key) {
		for p := range 2 {
			q := store.Range{Partition: p, To: time.Date(2042, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), Limit: 10_000, Consistent: true}
			page, err := s.Range(t.Context(), q)
			require.NoError(t, err)
			require.Nil(t, page.Next)
			for i := 1; i < len(page.Rows); i++ {
				require.Negative(t, page.Rows[i-1].Key().Compare(page.Rows[i].Key()))
			}
			n, first = n+len(page.Rows), page.Rows[0].Key()
		}
		return n, first
	}
	lay(1000, "2040-01-01T00:00:00Z")
	_, gone := keys()
	require.NoError(t, s.Write(t.Context(), []store.Op{{Kind: store.Delete, Key: gone, From: trigger.StateScheduled}})[0].Err)
	lay(500, "2039-01-01T00:00:00Z")
	n, _ := keys()
	require.Equal(t, 1499, n, "what was deleted does not come back")
	require.Equal(t, 1499, e.Stats().DynamoDB.Rows[name])
}
