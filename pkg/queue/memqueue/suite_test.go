package memqueue_test

import (
	"testing"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/queue/queuetest"
)

func TestContract(t *testing.T) {
	queuetest.Run(t, func(*testing.T) queue.Queues {
		return memqueue.New(memqueue.Options{})
	}, queuetest.Caps{Virtual: true})
}
