package null_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null"
)

const benchTable = "myosin-triggers"

// call makes a request that must succeed.
func call(t testing.TB, e *null.Endpoint, target string, body string) string {
	t.Helper()
	var out []byte
	if op, ok := strings.CutPrefix(target, "DynamoDB."); ok {
		answer, err := e.Tables.Do(op, []byte(body), nil)
		require.Nil(t, err, "%v", err)
		out = answer
	} else {
		answer, err := e.Queues.Do(t.Context(), strings.TrimPrefix(target, "SQS."), "null", []byte(body), nil)
		require.Nil(t, err, "%v", err)
		out = answer
	}
	return string(out)
}

func newTable(t testing.TB, o null.Options) *null.Endpoint {
	t.Helper()
	e, err := null.New(o)
	require.NoError(t, err)
	call(t, e, "DynamoDB.CreateTable", `{"TableName":"`+benchTable+`","KeySchema":[{"AttributeName":"p","KeyType":"HASH"},{"AttributeName":"s","KeyType":"RANGE"}],
		"GlobalSecondaryIndexes":[{"IndexName":"dead","KeySchema":[{"AttributeName":"ds","KeyType":"HASH"},{"AttributeName":"s","KeyType":"RANGE"}]}]}`)
	return e
}

// The requests are those that pkg/store/dynamostore and pkg/queue/sqsqueue send.

func keyOf(i int) (p, s string) {
	var id trigger.ID
	copy(id[:], fmt.Sprintf("%016x", uint64(i)*0x9E3779B97F4A7C15))
	return trigger.PartitionKey(trigger.Standard, i%64), trigger.SortKey(1_900_000_000_000+int64(i), id)
}

func batchOf(n int, one func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = `{` + one(i) + `,"ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`
	}
	return `{"Statements":[` + strings.Join(list, ",") + `]}`
}

func inserts(from, n int) string {
	body := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("payload.", 38)))
	return batchOf(n, func(i int) string {
		p, s := keyOf(from + i)
		return `"Parameters":[{"S":"` + p + `"},{"S":"` + s + `"},{"S":"S"},{"S":"payments"},{"N":"64"},{"N":"1900000000000"},{"B":"` + body + `"},{"S":"remind"}],` +
			`"Statement":"INSERT INTO \"` + benchTable + `\" VALUE {'p': ?, 's': ?, 'st': ?, 'v': ?, 'n': ?, 'c': ?, 'b': ?, 'j': ?}"`
	})
}

func transitions(from, n int, was, is string) string {
	return batchOf(n, func(i int) string {
		p, s := keyOf(from + i)
		return `"Parameters":[{"S":"` + is + `"},{"S":"` + p + `"},{"S":"` + s + `"},{"S":"` + was + `"}],` +
			`"Statement":"UPDATE \"` + benchTable + `\" SET st = ? WHERE p = ? AND s = ? AND st = ?"`
	})
}

func deletes(from, n int, was string) string {
	return batchOf(n, func(i int) string {
		p, s := keyOf(from + i)
		return `"Parameters":[{"S":"` + p + `"},{"S":"` + s + `"},{"S":"` + was + `"}],` +
			`"Statement":"DELETE FROM \"` + benchTable + `\" WHERE p = ? AND s = ? AND st = ?"`
	})
}

func rangeOf(partition, limit int) string {
	return fmt.Sprintf(`{"TableName":"%s","KeyConditionExpression":"p = :p AND s BETWEEN :low AND :high","ExpressionAttributeValues":{":p":{"S":"s.%03d"},":low":{"S":"0000000000000"},":high":{"S":"9999999999999$"}},"ConsistentRead":false,"Limit":%d}`,
		benchTable, partition, limit)
}

func messages(queue string, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"DelaySeconds":0,"Id":"%d","MessageAttributes":{"Myosin-Id":{"DataType":"String","StringValue":"0af76519-16cd-43dd-8448-eb211c80319c"},"Myosin-Due":{"DataType":"String","StringValue":"1900000000000"},"Myosin-Name":{"DataType":"String","StringValue":"remind"}},"MessageBody":"{\"n\":%d,\"text\":\"%s\"}"}`,
			i, i, strings.Repeat("payload.", 36))
	}
	return `{"Entries":[` + strings.Join(list, ",") + `],"QueueUrl":"http://null/000000000000/` + queue + `"}`
}

const benchState = "A.host-0123456789abcdef.1900000000000"

func BenchmarkBatchOf25(b *testing.B) {
	const rows = 64_000
	e := newTable(b, null.Options{})
	for i := 0; i < rows; i += 25 {
		call(b, e, "DynamoDB.BatchExecuteStatement", inserts(i, 25))
	}
	var all [3][]byte
	all[0], all[1], all[2] = []byte(inserts(rows, 25)), []byte(transitions(rows, 25, "S", benchState)), []byte(deletes(rows, 25, benchState))
	b.Run("insert, acquire, complete", func(b *testing.B) {
		b.ReportAllocs()
		var out []byte
		for b.Loop() { // three requests
			for _, body := range all {
				answer, err := e.Tables.Do("BatchExecuteStatement", body, out[:0])
				if err != nil {
					b.Fatal(err)
				}
				out = answer
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(3*b.N), "µs/request")
	})
	conflict := []byte(transitions(0, 25, benchState, "S"))
	b.Run("conflict with the old item", func(b *testing.B) {
		b.ReportAllocs()
		var out []byte
		for b.Loop() {
			out, _ = e.Tables.Do("BatchExecuteStatement", conflict, out[:0])
		}
	})
}

func BenchmarkQuery(b *testing.B) {
	for _, rows := range []int{0, 10_000, 1_000_000} {
		for _, limit := range []int{1, 100} {
			b.Run(fmt.Sprintf("%d rows, page of %d", rows, limit), func(b *testing.B) {
				e := newTable(b, null.Options{})
				for i := 0; i < min(rows, 64_000); i += 25 {
					call(b, e, "DynamoDB.BatchExecuteStatement", inserts(i, 25))
				}
				if rows > 64_000 {
					fill(b, e, rows)
				}
				body := []byte(rangeOf(7, limit))
				b.ReportAllocs()
				var out []byte
				for b.Loop() {
					answer, err := e.Tables.Do("Query", body, out[:0])
					if err != nil {
						b.Fatal(err)
					}
					out = answer
				}
			})
		}
	}
}

func BenchmarkQueue(b *testing.B) {
	for _, sink := range []bool{false, true} {
		b.Run(fmt.Sprintf("ten sent, received, deleted, sink %t", sink), func(b *testing.B) {
			o := null.Options{}
			o.Queues.Sink, o.Queues.SinkIDs = sink, true
			e, err := null.New(o)
			require.NoError(b, err)
			const name = "myosin-svc-payments"
			call(b, e, "SQS.CreateQueue", `{"QueueName":"`+name+`"}`)
			send := []byte(messages(name, 10))
			receive := []byte(`{"MaxNumberOfMessages":10,"MessageAttributeNames":["All"],"QueueUrl":"http://null/000000000000/` + name + `","WaitTimeSeconds":0}`)
			b.ReportAllocs()
			var out []byte
			for b.Loop() {
				out, _ = e.Queues.Do(b.Context(), "SendMessageBatch", "null", send, out[:0])
				if sink {
					continue
				}
				out, _ = e.Queues.Do(b.Context(), "ReceiveMessage", "null", receive, out[:0])
				remove := deleteOf(name, string(out))
				if _, err := e.Queues.Do(b.Context(), "DeleteMessageBatch", "null", remove, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// deleteOf deletes what a receive answered.
func deleteOf(queue, answer string) []byte {
	out := []byte(`{"Entries":[`)
	for i, part := range strings.Split(answer, `"ReceiptHandle":"`)[1:] {
		if i > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, `{"Id":"%d","ReceiptHandle":"%s"}`, i, part[:strings.IndexByte(part, '"')])
	}
	return append(out, `],"QueueUrl":"http://null/000000000000/`+queue+`"}`...)
}

func fill(t testing.TB, e *null.Endpoint, rows int) {
	t.Helper()
	status, text := own(e, http.MethodPost, fmt.Sprintf("/_fill?table=%s&rows=%d", benchTable, rows))
	require.Equal(t, http.StatusOK, status, text)
}
