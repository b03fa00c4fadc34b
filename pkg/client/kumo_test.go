package client_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/dynamostore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// The rules of cancel and move, against an engine's own conditions, transactions
// and Date.
func TestCancelAndMoveHoldOnAnEngine(t *testing.T) {
	server := kumo.NewServer()
	t.Cleanup(server.Close)
	api := dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(server.URL), Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""),
	})
	name := "client-" + trigger.NewID().String()
	require.NoError(t, dynamostore.CreateTable(t.Context(), api, name))
	s, err := dynamostore.New(dynamostore.Options{API: api, Table: name})
	require.NoError(t, err)
	require.NoError(t, s.SetEpochs(t.Context(), nil, trigger.Epochs{{N: 16}, {N: 32, From: time.Now().Add(time.Minute)}}))
	table, err := client.NewTable(client.TableOptions{Store: s})
	require.NoError(t, err)
	put := func(r *store.Row, n int) error {
		row := *r
		row.N = n
		places := trigger.Epochs{{N: 16}, {N: 32}}.Places(row.Key())
		return s.Write(t.Context(), []store.Op{{Kind: store.Insert, Key: row.Key(), Row: &row, Absent: places[1:]}})[0].Err
	}
	cancel := func(h trigger.Handle, want client.Outcome) {
		t.Helper()
		got, err := table.Cancel(t.Context(), h)
		require.NoError(t, err)
		require.Equal(t, want, got.Outcome)
	}

	// Not stored yet: in time, and too late.
	for due, want := range map[time.Duration]client.Outcome{time.Hour: client.OutcomeCancelled, time.Second: client.OutcomeTooLate} {
		r := keyed(rowDue(due), spread(t), 16)
		for range 2 {
			cancel(r.Handle(), want)
			require.ErrorIs(t, put(r, 16), store.ErrConflict)
			require.ErrorIs(t, put(r, 32), store.ErrConflict)
		}
	}

	// Stored, moved twice (once back), found by its first handle under the other count.
	r := keyed(rowDue(2*time.Hour), spread(t), 16)
	require.NoError(t, put(r, 16))
	asked := r.Handle()
	asked.N = 32
	for _, due := range []time.Time{r.Due.Add(time.Hour), r.Due, r.Due.Add(3 * time.Hour)} {
		moved, err := table.Reschedule(t.Context(), asked, due)
		require.NoError(t, err)
		require.True(t, due.Equal(moved.Due))
		view, err := table.Get(t.Context(), asked)
		require.NoError(t, err)
		require.Equal(t, moved.Handle, view.Handle)
		require.Equal(t, r.Payload, view.Payload)
	}
	require.ErrorIs(t, put(r, 32), store.ErrConflict)
	cancel(asked, client.OutcomeCancelled)
	view, err := table.Get(t.Context(), r.Handle())
	require.NoError(t, err)
	require.Equal(t, "cancelled", view.State)
	_, err = table.Reschedule(t.Context(), r.Handle(), r.Due)
	var conflict *client.ConflictError
	require.ErrorAs(t, err, &conflict)

	// Buried, listed, dug up.
	dead := rowDue(-time.Minute)
	dead.State = trigger.AcquiredBy("me", time.Now())
	require.NoError(t, put(dead, 16))
	cancel(dead.Handle(), client.OutcomeBeingDelivered)
	require.NoError(t, s.Bury(t.Context(), dead.Key(), dead.State, "refused", time.Now().Add(time.Hour)).Err)
	cancel(dead.Handle(), client.OutcomeDead)
	list, _, err := table.Dead(t.Context(), "payments", nil, 0)
	require.NoError(t, err)
	require.Len(t, list, 1)
	_, err = table.DigUp(t.Context(), dead.Handle())
	require.NoError(t, err)
	cancel(dead.Handle(), client.OutcomeTooLate)
}
