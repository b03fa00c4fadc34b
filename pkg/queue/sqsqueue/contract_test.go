package sqsqueue_test

import (
	"os"
	"testing"

	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/awsclient"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/queuetest"
	"github.com/myosin-jobs/myosin/pkg/queue/sqsqueue"
)

func open(t *testing.T, endpoint string, o sqsqueue.Options) *sqsqueue.Queues {
	t.Helper()
	cfg, err := awsclient.Load(t.Context(), awsclient.Options{Endpoint: endpoint, Region: "us-east-1"})
	require.NoError(t, err)
	q, err := sqsqueue.New(cfg, o)
	require.NoError(t, err)
	return q
}

// TestContractOnKumo also shows that queue URLs of another host than the
// endpoint work: kumo's name localhost:4566, where nothing listens.
func TestContractOnKumo(t *testing.T) {
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	queuetest.Run(t, func(t *testing.T) queue.Queues {
		return open(t, srv.URL, sqsqueue.Options{})
	}, queuetest.Caps{
		ZeroDelayIgnored: true, // TestZeroDelayAndZeroWaitAreOnTheWire shows that it is sent
		PollsDeaf:        true, NoSenderID: true, NoGroup: true, DeleteOnce: true, DedupForgets: true,
	})
}

func TestContractOnMinistack(t *testing.T) {
	endpoint := os.Getenv("MYOSIN_MINISTACK_URL")
	if endpoint == "" {
		t.Skip("MYOSIN_MINISTACK_URL is not set: `make e2e` runs this on ministack")
	}
	queuetest.Run(t, func(t *testing.T) queue.Queues {
		return open(t, endpoint, sqsqueue.Options{})
	}, queuetest.Caps{DeleteOnce: true, AbandonedPollsTake: true})
}
