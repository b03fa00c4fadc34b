package trigger_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// The vectors in testdata are the contract of version 1: other languages test
// against them too. They are added to, never changed.
func readVectors(tb testing.TB, name string, into any) {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(tb, err)
	require.NoError(tb, json.Unmarshal(b, into))
}

// fields lists what a joined error names, in its order.
func fields(err error) []string {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		var names []string
		for _, e := range joined.Unwrap() {
			names = append(names, fields(e)...)
		}
		return names
	}
	if field, ok := errors.AsType[*trigger.FieldError](err); ok {
		return []string{field.Field}
	}
	if err != nil {
		return []string{fmt.Sprintf("no field: %v", err)}
	}
	return nil
}

type row struct{ P, S string }

type handleVectors struct {
	Accept []struct {
		Name, Handle, ID, Service string
		BytesHex                  string `json:"bytes_hex"`
		Lane                      trigger.Lane
		N                         int
		DueMs                     int64 `json:"due_ms"`
		Row                       row
	}
	Reject []struct{ Name, Handle string }
}

func TestHandleVectorsOfVersion1StillHold(t *testing.T) {
	var v handleVectors
	readVectors(t, "handles.json", &v)
	require.NotEmpty(t, v.Accept)
	for _, c := range v.Accept {
		t.Run(c.Name, func(t *testing.T) {
			h, err := trigger.ParseHandle(c.Handle)
			require.NoError(t, err)
			id, err := trigger.ParseID(c.ID)
			require.NoError(t, err)
			require.Equal(t, trigger.Handle{
				Lane: c.Lane, N: c.N, Due: time.UnixMilli(c.DueMs).UTC(), ID: id, Service: c.Service,
			}, h)
			require.Equal(t, c.Handle, h.String())
			require.Equal(t, c.Row, row{h.Key().P(), h.Key().S()})
		})
	}
	require.NotEmpty(t, v.Reject)
	for _, c := range v.Reject {
		t.Run("refused: "+c.Name, func(t *testing.T) {
			h, err := trigger.ParseHandle(c.Handle)
			require.ErrorIs(t, err, trigger.ErrHandle)
			require.Contains(t, err.Error(), "not a handle: ", "the error says what is wrong")
			if h.Service != "" {
				t.Errorf("a refused handle came back as %+v", h)
			}
		})
	}
}

type keyVectors struct {
	Partitions []struct {
		ID        string
		N         int
		XXHash64  string
		Partition int
	}
	Rows []struct {
		Lane  trigger.Lane
		N     int
		DueMs int64 `json:"due_ms"`
		ID    string
		row
	}
	KeyedIDs []struct {
		Service, Tenant, Key, ID string
		HashInputHex             string `json:"hash_input_hex"`
	} `json:"keyed_ids"`
	Reject []struct {
		Name string
		row
	}
}

func TestKeyVectorsOfVersion1StillHold(t *testing.T) {
	var v keyVectors
	readVectors(t, "keys.json", &v)
	require.NotEmpty(t, v.Partitions)
	for _, c := range v.Partitions {
		id, err := trigger.ParseID(c.ID)
		require.NoError(t, err)
		require.Equal(t, c.Partition, trigger.Partition(id, c.N), "%s mod %d", c.ID, c.N)
		require.Equal(t, c.XXHash64, fmt.Sprintf("%016x", xxhash.Sum64String(c.ID)))
	}
	require.NotEmpty(t, v.Rows)
	for _, c := range v.Rows {
		id, err := trigger.ParseID(c.ID)
		require.NoError(t, err)
		k := trigger.KeyOf(c.Lane, id, time.UnixMilli(c.DueMs), c.N)
		require.Equal(t, c.row, row{k.P(), k.S()})
		back, err := trigger.ParseKey(c.P, c.S)
		require.NoError(t, err)
		require.Equal(t, k, back)
	}
	require.NotEmpty(t, v.KeyedIDs)
	seen := map[string]bool{}
	for _, c := range v.KeyedIDs {
		id := trigger.KeyedID(c.Service, c.Tenant, c.Key)
		require.Equal(t, c.ID, id.String())
		require.True(t, id.Keyed())
		require.False(t, seen[c.ID], "%s twice", c.ID)
		seen[c.ID] = true
	}
	require.NotEmpty(t, v.Reject)
	for _, c := range v.Reject {
		_, err := trigger.ParseKey(c.P, c.S)
		require.ErrorContains(t, err, "not a row key: ", c.Name)
	}
}

type stateVectors struct {
	States []struct {
		State              trigger.State
		Kind               string
		Waiting, Tombstone bool
		Owner              string
		AcquiredMs         *int64 `json:"acquired_ms"`
		InWords            string `json:"in_words"`
	}
}

func TestStateVectorsOfVersion1StillHold(t *testing.T) {
	var v stateVectors
	readVectors(t, "states.json", &v)
	require.NotEmpty(t, v.States)
	for _, c := range v.States {
		require.Equal(t, c.Kind, c.State.Kind().String(), "%q", c.State)
		require.Equal(t, c.Waiting, c.State.Waiting(), "%q", c.State)
		require.Equal(t, c.Tombstone, c.State.Tombstone(), "%q", c.State)
		require.Equal(t, c.InWords, c.State.Describe(), "%q", c.State)
		owner, at := c.State.Owner()
		require.Equal(t, c.Owner, owner, "%q", c.State)
		if c.AcquiredMs == nil {
			require.True(t, at.IsZero(), "%q was acquired at %s", c.State, at)
		} else {
			require.Equal(t, time.UnixMilli(*c.AcquiredMs).UTC(), at, "%q", c.State)
		}
	}
}

// vectorTrigger is a trigger as the vectors write it.
type vectorTrigger struct {
	ID          string
	Service     string
	DueMs       int64 `json:"due_ms"`
	Lane        trigger.Lane
	N           int
	Payload     []byte `json:"payload_base64"`
	Name        string
	Tenant      string
	Group       string
	Headers     map[string]string
	Traceparent string
}

func (v *vectorTrigger) trigger(t *testing.T) trigger.Trigger {
	t.Helper()
	id, err := trigger.ParseID(v.ID)
	require.NoError(t, err)
	return trigger.Trigger{
		ID: id, Service: v.Service, Due: time.UnixMilli(v.DueMs).UTC(), Lane: v.Lane, N: v.N, Payload: v.Payload,
		Name: v.Name, Tenant: v.Tenant, Group: v.Group, Headers: v.Headers, Traceparent: v.Traceparent,
	}
}

type inboundVectors struct {
	SentMs   int64 `json:"sent_ms"`
	NInForce int   `json:"n_in_force"`
	Accept   []struct {
		Name, Body string
		Trigger    vectorTrigger
	}
	Reject []struct {
		Name, Body string
		Fields     []string
	}
}

func TestInboundVectorsOfVersion1StillHold(t *testing.T) {
	var v inboundVectors
	readVectors(t, "inbound.json", &v)
	sent := time.UnixMilli(v.SentMs).UTC()
	countAt := func(at time.Time) int {
		require.Equal(t, sent, at, "the partition count is that of the time of sending")
		return v.NInForce
	}
	require.NotEmpty(t, v.Accept)
	for _, c := range v.Accept {
		t.Run(c.Name, func(t *testing.T) {
			got, err := trigger.DecodeInbound([]byte(c.Body), sent, countAt)
			require.NoError(t, err)
			require.Equal(t, c.Trigger.trigger(t), got)

			again, err := trigger.EncodeInbound(&got, sent)
			require.NoError(t, err)
			back, err := trigger.DecodeInbound(again, sent, func(time.Time) int { return -1 })
			require.NoError(t, err)
			require.Equal(t, got, back)
		})
	}
	require.NotEmpty(t, v.Reject)
	for _, c := range v.Reject {
		t.Run("refused: "+c.Name, func(t *testing.T) {
			_, err := trigger.DecodeInbound([]byte(c.Body), sent, countAt)
			require.Error(t, err)
			require.Equal(t, c.Fields, fields(err), "%v", err)
			require.Less(t, len(err.Error()), 2000, "the error must fit beside the message")
		})
	}
}

type deliveredVectors struct {
	Accept []struct {
		Name      string
		Trigger   vectorTrigger
		FIFOQueue bool `json:"fifo_queue"`
		Message   struct {
			Body       string
			Attributes map[string]string
			Group      string
		}
	}
	Reject []struct {
		Name, Body string
		Attributes map[string]string
		Field      string
	}
}

func TestDeliveredVectorsOfVersion1StillHold(t *testing.T) {
	var v deliveredVectors
	readVectors(t, "delivered.json", &v)
	require.NotEmpty(t, v.Accept)
	for _, c := range v.Accept {
		t.Run(c.Name, func(t *testing.T) {
			want := c.Trigger.trigger(t)
			require.Equal(t, trigger.Delivered(c.Message), trigger.Deliver(&want, c.FIFOQueue))
			got, err := trigger.ReadDelivered(c.Message.Body, c.Message.Attributes)
			require.NoError(t, err)
			want.Group = "" // travels as MessageGroupId alone
			require.Equal(t, want, got)
		})
	}
	require.NotEmpty(t, v.Reject)
	for _, c := range v.Reject {
		t.Run("refused: "+c.Name, func(t *testing.T) {
			_, err := trigger.ReadDelivered(c.Body, c.Attributes)
			require.Equal(t, []string{c.Field}, fields(err), "%v", err)
		})
	}
}

// The two _hex figures are for other languages' authors; they must not lie.
func TestIntermediateFiguresOfTheVectorsAreTrue(t *testing.T) {
	var h handleVectors
	readVectors(t, "handles.json", &h)
	for _, c := range h.Accept {
		require.Equal(t, c.BytesHex, hex.EncodeToString(rawURL(t, c.Handle)), c.Name)
	}
	var k keyVectors
	readVectors(t, "keys.json", &k)
	for _, c := range k.KeyedIDs {
		in, err := hex.DecodeString(c.HashInputHex)
		require.NoError(t, err)
		require.Equal(t, c.ID, uuid5(in))
	}
}
