package flat_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/tools/bench/internal/flat"
)

func TestFiguresAreRoundedAndNamedForOneFlatObject(t *testing.T) {
	require.Equal(t, "sqs_send_message_batch", flat.Call("SQS.SendMessageBatch"))
	require.Equal(t, "dynamodb_query", flat.Call("DynamoDB.Query"))
	require.InDelta(t, 1.235, flat.Millis(1234567*time.Nanosecond), 0)
	require.InDelta(t, 0.333, flat.PerJob(1, 3), 0)
	require.InDelta(t, 5, flat.PerJob(5, 0), 0, "no job at all")
	require.InDelta(t, 1.5, flat.MiB(3<<19), 0)
	var out strings.Builder
	require.NoError(t, flat.Write(&out, map[string]any{"b": 1, "a": 0.5}))
	require.Equal(t, "{\n  \"a\": 0.5,\n  \"b\": 1\n}\n", out.String())
}
