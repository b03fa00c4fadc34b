package cli_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/inbound"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/myosin/internal/cli"
)

// refuse puts a submission into the inbound dead-letter queue, as the drain does.
func (r *rig) refuse(reason, body string) {
	r.t.Helper()
	letter, err := json.Marshal(inbound.DeadLetter{
		V: 1, Reason: reason, Errors: []inbound.DeadLetterFault{{Field: "payload", Msg: "too large"}},
		Lane: trigger.Urgent, Message: "m", Sent: time.Now().Add(-time.Hour).UTC(), Received: time.Now().UTC(), Body: body,
	})
	require.NoError(r.t, err)
	r.toDLQ(string(letter))
}

func (r *rig) toDLQ(body string) {
	r.t.Helper()
	require.NoError(r.t, r.Queues.SendBatch(r.t.Context(), r.buffers.DLQ, []queue.Message{{Body: body}})[0])
}

func TestRefusedSubmissionsAreListedAndSubmittedAgain(t *testing.T) {
	r := newRig(t)
	require.Equal(t, "[]\n", r.run("inbound", "dlq", "list", "--json").is(cli.ExitOK, "").out)
	id := trigger.NewID().String()
	r.refuse(inbound.ReasonSender, `{"v":1,"id":"`+id+`","service":"hello","delay_ms":60000,"lane":"urgent","payload":"c2VjcmV0","submitted":"2020-01-01T00:00:00Z"}`)
	r.refuse(inbound.ReasonInvalid, "not json at all")
	other := trigger.NewID().String()
	r.toDLQ(`{"v":1,"id":"` + other + `","service":"hello","due":"2027-01-01T09:00:00Z"}`)

	type refused struct {
		MessageID string `json:"message_id"`
		Reason    string
		Service   string
		ID        string
		Lane      string
		Bytes     int
		Errors    []inbound.DeadLetterFault
	}
	var list []refused
	for range 2 { // what was looked at is there for the next
		res := r.run("inbound", "dlq", "list", "--json").is(cli.ExitOK, "").json(&list)
		require.NotContains(t, res.out, "c2VjcmV0")
		require.Len(t, list, 3)
	}
	byReason := make(map[string]refused)
	for _, one := range list {
		byReason[one.Reason] = one
	}
	sender := byReason[inbound.ReasonSender]
	require.Equal(t, id, sender.ID)
	require.Equal(t, "urgent", sender.Lane)
	require.Equal(t, "hello", sender.Service)
	require.Equal(t, "payload", sender.Errors[0].Field)
	require.Equal(t, other, byReason["received_too_often"].ID)
	require.Contains(t, r.run("inbound", "dlq", "list").out, "payload: too large")

	r.run("inbound", "dlq", "redrive").is(cli.ExitUsage, "--all")
	r.run("inbound", "dlq", "redrive", "--all").is(cli.ExitUsage, "give --yes")
	r.run("inbound", "dlq", "redrive", sender.MessageID, "--yes").is(cli.ExitOK, "1 submitted again")
	stored := r.drain(trigger.Urgent)
	require.Len(t, stored, 1, "in the buffer it came from")
	require.Equal(t, id, stored[0].ID.String())
	require.WithinDuration(t, time.Now().Add(-59*time.Minute), stored[0].Due, 10*time.Second, "the delay counts from the first submission")
	r.run("inbound", "dlq", "redrive", sender.MessageID, "--yes").is(cli.ExitNotFound, sender.MessageID)
	r.run("inbound", "dlq", "redrive", "--all", "--yes").is(cli.ExitOK, "2 submitted again")
	require.Equal(t, "[]\n", r.run("inbound", "dlq", "list", "--json").out)
	got, err := r.Queues.Receive(t.Context(), r.buffers.Inbound[trigger.Standard], queue.ReceiveOptions{})
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Contains(t, got[0].Body, other)
}

func TestACutOffSubmissionStaysInTheDeadLetterQueue(t *testing.T) {
	r := newRig(t)
	letter, err := json.Marshal(inbound.DeadLetter{V: 1, Reason: inbound.ReasonInvalid, Sent: time.Now(), Truncated: true, Body: "{"})
	require.NoError(t, err)
	r.toDLQ(string(letter))
	res := r.run("inbound", "dlq", "redrive", "--all", "--yes", "--json").is(cli.ExitFailed, "1 were not")
	require.Equal(t, false, res.keys()["redriven"])
	var list []map[string]any
	r.run("inbound", "dlq", "list", "--json").json(&list)
	require.Len(t, list, 1)
	require.Equal(t, true, list[0]["truncated"])
}
