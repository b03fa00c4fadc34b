package null_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null/mq"
)

func newQueue(t *testing.T, o mq.Options, name string) *null.Endpoint {
	t.Helper()
	e, err := null.New(null.Options{Queues: o})
	require.NoError(t, err)
	attrs := `{}`
	if strings.HasSuffix(name, ".fifo") {
		attrs = `{"FifoQueue":"true"}`
	}
	call(t, e, "SQS.CreateQueue", `{"QueueName":"`+name+`","Attributes":`+attrs+`}`)
	return e
}

// refusal is the type of a request's error; empty if it has none.
func refusal(t *testing.T, e *null.Endpoint, op, body string) string {
	t.Helper()
	_, err := e.Queues.Do(t.Context(), op, "null", []byte(body), nil)
	if err == nil {
		return ""
	}
	return err.Type
}

func batch(queue string, entries ...string) string {
	return `{"QueueUrl":"http://null/0/` + queue + `","Entries":[` + strings.Join(entries, ",") + `]}`
}

func TestSQSsRulesForBatches(t *testing.T) {
	e := newQueue(t, mq.Options{}, "q")
	entry := func(id int, body string) string { return fmt.Sprintf(`{"Id":"%d","MessageBody":"%s"}`, id, body) }
	var eleven []string
	for i := range 11 {
		eleven = append(eleven, entry(i, "x"))
	}
	half := strings.Repeat("x", 1<<19)
	for want, body := range map[string]string{
		"EmptyBatchRequest":            batch("q"),
		"TooManyEntriesInBatchRequest": batch("q", eleven...),
		"BatchEntryIdsNotDistinct":     batch("q", entry(1, "x"), entry(1, "y")),
		"InvalidBatchEntryId":          batch("q", `{"Id":"a b","MessageBody":"x"}`),
		"BatchRequestTooLong":          batch("q", entry(1, half), entry(2, half), entry(3, "x")),
		"QueueDoesNotExist":            batch("other", entry(1, "x")),
		"SerializationException":       batch("q", entry(1, "x"))[:40],
		"":                             batch("q", entry(1, half), entry(2, half)),
	} {
		require.Equal(t, want, refusal(t, e, "SendMessageBatch", body))
	}
	answer := call(t, e, "SQS.SendMessageBatch", batch("q", entry(1, "fine"), entry(2, `bell \u0007`), entry(4, "\xff"),
		`{"Id":"5"}`, `{"Id":"6","MessageBody":"x","DelaySeconds":901}`, `{"Id":"7","MessageBody":"x","MessageAttributes":{"a":{"DataType":"String","StringValue":""}}}`,
		entry(8, `tab\t é 😀`), entry(9, `￿`)))
	fine, failed, _ := strings.Cut(answer, `"Failed"`)
	require.Equal(t, 2, strings.Count(fine, `"MessageId"`), answer)
	require.Contains(t, fine, `"Id":"8"`)
	require.Equal(t, 3, strings.Count(failed, `"InvalidMessageContents"`), answer)
	require.Equal(t, 2, strings.Count(failed, `"InvalidParameterValue"`), answer)
	require.Equal(t, int64(6), e.Stats().SQS.RefusedEntries)
}

func TestAtTheLimitOfMessagesInFlightAShortPollFailsAndALongOneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newQueue(t, mq.Options{InFlight: 15}, "q")
		for range 3 {
			call(t, e, "SQS.SendMessageBatch", messages("q", 10))
		}
		receive := func(wait int) string {
			return fmt.Sprintf(`{"QueueUrl":"http://null/0/q","MaxNumberOfMessages":10,"WaitTimeSeconds":%d,"VisibilityTimeout":60}`, wait)
		}
		require.Equal(t, 10, strings.Count(call(t, e, "SQS.ReceiveMessage", receive(0)), "ReceiptHandle"))
		require.Equal(t, 5, strings.Count(call(t, e, "SQS.ReceiveMessage", receive(0)), "ReceiptHandle"))
		require.Equal(t, "OverLimit", refusal(t, e, "ReceiveMessage", receive(0)))
		require.Equal(t, int64(1), e.Stats().SQS.ThrottledCalls)
		began := time.Now()
		require.Equal(t, `{}`, call(t, e, "SQS.ReceiveMessage", receive(20)))
		require.GreaterOrEqual(t, time.Since(began), 20*time.Second)
	})
}

func TestAPlainFIFOQueueTakes300CallsASecondAndOneOfHighThroughputMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newQueue(t, mq.AWSOptions(), "q.fifo")
		send := func(n int) (throttled int) {
			for i := range n {
				body := fmt.Sprintf(`{"QueueUrl":"http://null/0/q.fifo","MessageBody":"x","MessageGroupId":"g","MessageDeduplicationId":"%d"}`, i)
				if refusal(t, e, "SendMessage", body) == "RequestThrottled" {
					throttled++
				}
			}
			return throttled
		}
		require.Equal(t, 100, send(400))
		time.Sleep(time.Second)
		require.Zero(t, send(300))
		call(t, e, "SQS.SetQueueAttributes", `{"QueueUrl":"http://null/0/q.fifo","Attributes":{"FifoThroughputLimit":"perMessageGroupId"}}`)
		require.Zero(t, send(1000))
	})
}

func TestPollsShareABacklogAndNoneSleepsWhileThereIsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newQueue(t, mq.Options{}, "q")
		got := make(chan int, 20)
		for range 20 {
			go func() {
				answer, _ := e.Queues.Do(t.Context(), "ReceiveMessage", "null", []byte(`{"QueueUrl":"http://null/0/q","MaxNumberOfMessages":1,"WaitTimeSeconds":20}`), nil)
				got <- strings.Count(string(answer), "ReceiptHandle")
			}()
		}
		synctest.Wait()
		began := time.Now()
		call(t, e, "SQS.SendMessageBatch", messages("q", 10))
		call(t, e, "SQS.SendMessageBatch", messages("q", 10))
		for range 20 {
			require.Equal(t, 1, <-got)
		}
		require.Zero(t, time.Since(began))
	})
}

func TestValuesAreUnderstoodHoweverAClientWritesThem(t *testing.T) {
	e := newTable(t, null.Options{})
	put := `{"TableName": "` + benchTable + `", "Item": {"p": {"S": "s.001"}, "s": {"S": "k\u0031"}, "st": {"S": "S"}, "n": {"N": "64"}, "x": {"S": "a\"b"}}}`
	call(t, e, "DynamoDB.PutItem", put)
	answer := call(t, e, "DynamoDB.BatchExecuteStatement", `{"Statements": [
		{"Statement": "update \"`+benchTable+`\" set st = ? set n = ? where s = ? and p = ? and st = ? and x = ?",
		 "Parameters": [ {"S" : "A.x.1"}, {"N":"65"}, {"S":"k1"}, { "S": "s.001" }, {"S":"\u0053"}, {"S":"a\u0022b"} ]},
		{"Statement": "DELETE FROM \"`+benchTable+`\" WHERE p = ? AND s = ? AND n = ?", "Parameters": [{"S":"s.001"}, {"S":"k1"}, {"N":"64.0"}], "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}],
		"ReturnConsumedCapacity": "TOTAL"}`)
	require.Contains(t, answer, `{"Responses":[{"TableName":"myosin-triggers"},{"Error":{"Code":"ConditionalCheckFailed"`)
	require.Contains(t, answer, `"Item":{"p":{"S":"s.001"},"s":{"S":"k1"},"st":{"S" : "A.x.1"},"n":{"N":"65"},"x":{"S": "a\"b"}}`)
	require.Contains(t, answer, `"ConsumedCapacity":[{"TableName":"myosin-triggers","CapacityUnits":2}]`)
	call(t, e, "DynamoDB.BatchExecuteStatement", `{"Statements": [{"Statement": "DELETE FROM \"`+benchTable+`\" WHERE p = ? AND s = ? AND n = ?", "Parameters": [{"S":"s.001"}, {"S":"k1"}, {"N":"65.0"}]}]}`)
	require.Zero(t, e.Stats().DynamoDB.Rows[benchTable])
}

func TestWhatIsNotKnownIsRefusedAndNotGuessed(t *testing.T) {
	e := newTable(t, null.Options{})
	for _, request := range [][2]string{
		{"BatchExecuteStatement", `{"Statements":[{"Statement":"SELECT * FROM \"` + benchTable + `\""}]}`},
		{"BatchExecuteStatement", `{"Statements":[]}`},
		{"BatchExecuteStatement", `{"Statements":[{"Statement":"DELETE FROM \"` + benchTable + `\" WHERE p = ?","Parameters":[]}]}`},
		{"Query", `{"TableName":"` + benchTable + `","KeyConditionExpression":"size(p) = :p"}`},
		{"Query", `{"TableName":"` + benchTable + `","KeyConditionExpression":"s = :p","ExpressionAttributeValues":{":p":{"S":"x"}}}`},
		{"Query", `{"TableName":"` + benchTable + `","QueryFilter":{}}`},
		{"UpdateItem", `{"TableName":"` + benchTable + `","Key":{"p":{"S":"a"},"s":{"S":"b"}},"UpdateExpression":"SET n = n + :one"}`},
		{"PutItem", `{"TableName":"` + benchTable + `","Item":{"p":{"S":"a"}}}`},
		{"TransactWriteItems", `{"TransactItems":[{}]}`},
	} {
		_, err := e.Tables.Do(request[0], []byte(request[1]), nil)
		require.NotNil(t, err, request)
		require.Equal(t, "ValidationException", err.Type, request)
	}
}
