package core

import (
	"context"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/batch"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const (
	// A second poll of a queue catches what comes while the first is answered; with
	// many queues each has so little to do that one is enough.
	fewServices  = 10
	consumerWait = 5 * time.Second
	ackLinger    = time.Second
	ackTimeout   = 10 * time.Second
	retryPause   = 200 * time.Millisecond
)

// receipt is what a consumer tells of one poll: a line of JSON.
type receipt struct {
	At       int64     `json:"a,omitempty"` // Unix nanoseconds
	Messages []message `json:"m,omitempty"`
	Trouble  string    `json:"e,omitempty"` // a poll or delete that failed
}

type message struct {
	ID   string `json:"q"` // the queue's own
	Job  string `json:"i"` // its Myosin-Id, as it came
	Due  string `json:"d"` // its Myosin-Due, as it came
	Sent int64  `json:"s"` // Unix milliseconds
}

// consumer empties one queue: each message is told and deleted.
type consumer struct {
	url   string
	queue queue.Receiver
	tell  func(receipt)
	acks  *batch.Batcher[string]
}

func newConsumer(url string, q queue.Receiver, tell func(receipt)) (*consumer, error) {
	c := &consumer{url: url, queue: q, tell: tell}
	var err error
	c.acks, err = batch.New(batch.Options[string]{Size: queue.MaxBatch, Linger: ackLinger, Workers: 1, Flush: c.delete})
	return c, err
}

// run polls until ctx ends.
func (c *consumer) run(ctx context.Context, polls int) {
	var polling sync.WaitGroup
	for range polls {
		polling.Go(func() { c.poll(ctx) })
	}
	polling.Wait()
	c.acks.Drain()
}

func (c *consumer) poll(ctx context.Context) {
	for ctx.Err() == nil {
		msgs, err := c.queue.Receive(ctx, c.url, queue.ReceiveOptions{Wait: consumerWait})
		told := receipt{At: time.Now().UnixNano()}
		if err != nil && ctx.Err() == nil {
			told.Trouble = err.Error()
		}
		receipts := make([]string, len(msgs))
		for i := range msgs {
			m := &msgs[i]
			told.Messages = append(told.Messages, message{
				ID: m.ID, Job: m.Attributes[trigger.AttrID], Due: m.Attributes[trigger.AttrDue], Sent: m.SentAt.UnixMilli(),
			})
			receipts[i] = m.Receipt
		}
		if told.Trouble != "" || len(msgs) > 0 {
			c.tell(told)
		}
		c.acks.Add(receipts...)
		if told.Trouble != "" {
			_ = pause(ctx, retryPause)
		}
	}
}

func (c *consumer) delete(receipts []string) {
	ctx, cancel := context.WithTimeout(context.Background(), ackTimeout)
	defer cancel()
	for _, err := range c.queue.Delete(ctx, c.url, receipts) {
		if err != nil {
			c.tell(receipt{Trouble: err.Error()})
		}
	}
}
