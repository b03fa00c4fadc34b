package journal_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/chaos/internal/journal"
)

const (
	id  = "0b7e1f3a-6a52-4b7c-9d1e-2f4a5b6c7d8e"
	s   = "1796073713733#" + id
	key = `{"p":{"S":"u.003"},"s":{"S":"` + s + `"}}`
)

func TestEveryWriteOfARowIsRead(t *testing.T) {
	row := func(st string) string { return `{"p":{"S":"u.003"},"s":{"S":"` + s + `"},"st":{"S":"` + st + `"}}` }
	for name, c := range map[string]struct {
		target, body, answer string
		want                 journal.Event
	}{
		"insert":    {"PutItem", `{"Item":` + row("S") + `}`, `{}`, journal.Event{What: journal.Insert, Key: "u.003/" + s, To: "S", Applied: true}},
		"tombstone": {"PutItem", `{"Item":` + row("C!") + `}`, `{}`, journal.Event{What: journal.Bar, Key: "u.003/" + s, To: "C!", Applied: true}},
		"acquire": {
			"UpdateItem", `{"Key":` + key + `,"ExpressionAttributeValues":{":from":{"S":"S"},":to":{"S":"A.x.1"}}}`, `{}`,
			journal.Event{What: journal.Change, Key: "u.003/" + s, From: "S", To: "A.x.1", Applied: true},
		},
		"complete": {
			"DeleteItem", `{"Key":` + key + `,"ExpressionAttributeValues":{":from":{"S":"A.x.1"}}}`, `{}`,
			journal.Event{What: journal.Remove, Key: "u.003/" + s, From: "A.x.1", Applied: true},
		},
		"move, the new row": {
			"TransactWriteItems", `{"TransactItems":[{"Put":{"Item":` + row("S") + `}}]}`, `{}`,
			journal.Event{What: journal.Put, Key: "u.003/" + s, To: "S", Applied: true},
		},
		"move, the old row": {
			"TransactWriteItems", `{"TransactItems":[{"Update":{"Key":` + key + `,"ExpressionAttributeValues":{":from":{"S":"S"}}}}]}`, `{}`,
			journal.Event{What: journal.Move, Key: "u.003/" + s, From: "S", Applied: true},
		},
		"insert in a batch": {
			"BatchExecuteStatement", `{"Statements":[{"Statement":"INSERT INTO \"t\" VALUE {}","Parameters":[{"S":"u.003"},{"S":"` + s + `"},{"S":"S"},{"N":"3"}]}]}`,
			`{"Responses":[{}]}`, journal.Event{What: journal.Insert, Key: s, To: "S", Applied: true},
		},
		"acquire in a batch": {
			"BatchExecuteStatement", `{"Statements":[{"Statement":"UPDATE \"t\" SET st = ?","Parameters":[{"S":"A.x.1"},{"S":"u.003"},{"S":"` + s + `"},{"S":"S!"}]}]}`,
			`{"Responses":[{}]}`, journal.Event{What: journal.Change, Key: s, From: "S!", To: "A.x.1", Applied: true},
		},
		"one that lost its race": {
			"BatchExecuteStatement", `{"Statements":[{"Statement":"DELETE FROM \"t\"","Parameters":[{"S":"u.003"},{"S":"` + s + `"},{"S":"A.x.1"}]}]}`,
			`{"Responses":[{"Error":{"Code":"ConditionalCheckFailed"}}]}`, journal.Event{What: journal.Remove, Key: s, From: "A.x.1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := journal.New(journal.Names{Prefix: "c"})
			j.Log(j.Read("DynamoDB_20120810."+c.target, []byte(c.body)), &journal.Outcome{By: "x", Status: http.StatusOK, Body: []byte(c.answer), Answered: true})
			got := j.Of(id)
			require.Len(t, got, 1)
			c.want.Began, c.want.At, c.want.By, c.want.Answered = got[0].Began, got[0].At, "x", true
			require.Equal(t, c.want, got[0])
		})
	}
}

func TestQueuesAreToldApart(t *testing.T) {
	n := journal.Names{Prefix: "c"}
	for name, want := range map[string]journal.Kind{
		"c-inbound": journal.Buffer, "c-inbound-urgent": journal.Buffer, "c-inbound-dlq": journal.DeadLetters,
		"c-svc-orders": journal.Service, "c-svc-orders-urgent": journal.Service, "c-svc-orders-dlq": journal.DeadLetters,
		"d-inbound": journal.Other, "c-else": journal.Other,
	} {
		require.Equal(t, want, n.Kind(name), name)
	}
}

func TestWhatIsNoCallOfOursIsLeftAlone(t *testing.T) {
	j := journal.New(journal.Names{Prefix: "c"})
	for _, target := range []string{"", "x", "AmazonSQS.SendMessage", "AmazonSQS.ReceiveMessage", "DynamoDB_20120810.PutItem", "DynamoDB_20120810.BatchExecuteStatement"} {
		for _, body := range []string{"", "{}", "[]", `{"Entries":[{}],"Statements":[{}],"Item":{},"TransactItems":[{}]}`} {
			j.Log(j.Read(target, []byte(body)), &journal.Outcome{Status: http.StatusOK, Body: []byte(body)})
		}
	}
	require.Empty(t, j.IDs())
}
