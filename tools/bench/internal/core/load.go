package core

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/batch"
	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/lifecycle"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const (
	// submitters bounds the submissions under way; beyond it the load falls behind
	// its rate, which the report shows.
	submitters = 64
	// Of each queue. A second poll catches what comes while the first is answered.
	consumers    = 2
	consumerWait = 2 * time.Second
	ackLinger    = 200 * time.Millisecond
	ackTimeout   = 10 * time.Second
	shortEach    = 5 // with Short
)

// submit submits at the rate, and returns how long it took. Submissions start
// at their times whether or not those before have been answered.
func (b *bench) submit(ctx context.Context) time.Duration {
	began := time.Now()
	total := int(b.o.Rate * b.o.Duration.Seconds())
	slots := make(chan struct{}, submitters)
	var under sync.WaitGroup
	for next := 0; next < total && ctx.Err() == nil; {
		at := began.Add(time.Duration(float64(next) / b.o.Rate * float64(time.Second)))
		if wait := time.Until(at); wait > 0 && pause(ctx, wait) != nil {
			break
		}
		n, first := min(b.o.Batch, total-next), next
		next += n
		slots <- struct{}{}
		under.Go(func() {
			b.submission(ctx, first, n)
			<-slots
		})
	}
	under.Wait()
	return time.Since(began)
}

// submission submits jobs number first to first+n-1.
func (b *bench) submission(ctx context.Context, first, n int) {
	began := time.Now()
	reqs := make([]client.Request, n)
	lanes := make([]trigger.Lane, n)
	for i := range reqs {
		if rand.Float64() < b.o.Urgent { //nolint:gosec // a load, not a secret.
			lanes[i] = trigger.Urgent
		}
		reqs[i] = client.Request{
			Service: b.services[(first+i)%len(b.services)].Name, Payload: payload(b.o.Payload),
			Options: []client.Option{client.At(began.Add(b.lead(first + i))), client.Lane(lanes[i])},
		}
	}
	results := b.client.ScheduleBatch(ctx, reqs)
	took := time.Since(began)
	for i, r := range results {
		b.jobs.submitted(r.ID, r.Due, began, lanes[i], r.Err, took)
	}
}

// lead is how far ahead a job is due.
func (b *bench) lead(number int) time.Duration {
	s := b.o.Lead
	if b.o.Short && number%shortEach == 0 {
		s = Span{0, b.o.needs()}
	}
	return s.Min + rand.N(s.Max-s.Min+1) //nolint:gosec // a load, not a secret.
}

// payload is text that compresses about as little as small JSON does.
func payload(n int) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	p := make([]byte, n)
	for i := range p {
		p[i] = letters[rand.IntN(len(letters))] //nolint:gosec // a load, not a secret.
	}
	return p
}

// openConsumers makes the owning services' side: every queue is polled, each
// message recorded and deleted.
func (b *bench) openConsumers(ctx context.Context) error {
	p, err := b.open(ctx, compConsumer)
	if err != nil {
		return err
	}
	var all []*consumer
	for _, svc := range b.services {
		for _, lane := range trigger.Lanes {
			c := &consumer{url: svc.Queue(lane), queue: p.Queues, jobs: b.jobs}
			c.acks, err = batch.New(batch.Options[string]{Size: queue.MaxBatch, Linger: ackLinger, Workers: consumers, Flush: c.delete})
			if err != nil {
				return err
			}
			all = append(all, c)
		}
	}
	b.parts = append(b.parts, lifecycle.Component{Name: compConsumer, Run: func(ctx context.Context) error {
		var running sync.WaitGroup
		for _, c := range all {
			running.Go(func() { c.run(ctx) })
		}
		running.Wait()
		return nil
	}})
	return nil
}

// consumer empties one queue.
type consumer struct {
	url   string
	queue queue.Receiver
	jobs  *ledger
	acks  *batch.Batcher[string]
}

func (c *consumer) run(ctx context.Context) {
	var polls sync.WaitGroup
	for range consumers {
		polls.Go(func() { c.poll(ctx) })
	}
	polls.Wait()
	c.acks.Drain()
}

func (c *consumer) poll(ctx context.Context) {
	for ctx.Err() == nil {
		msgs, err := c.queue.Receive(ctx, c.url, queue.ReceiveOptions{Wait: consumerWait})
		now := time.Now()
		if err != nil && ctx.Err() == nil {
			c.jobs.trouble(err)
			_ = pause(ctx, consumerWait/10)
		}
		receipts := make([]string, len(msgs))
		for i := range msgs {
			c.jobs.received(&msgs[i], now)
			receipts[i] = msgs[i].Receipt
		}
		c.acks.Add(receipts...)
	}
}

func (c *consumer) delete(receipts []string) {
	ctx, cancel := context.WithTimeout(context.Background(), ackTimeout)
	defer cancel()
	for _, err := range c.queue.Delete(ctx, c.url, receipts) {
		if err != nil {
			c.jobs.trouble(err)
		}
	}
}
