package worker_test

import (
	"context"
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	queues := memqueue.New(memqueue.Options{}) // in production: sqsqueue
	url, _ := queues.Create(ctx, queue.Spec{Name: "myosin-svc-payments"})

	w, err := worker.New(worker.Options{Receiver: queues, QueueURL: url, Wait: time.Second})
	if err != nil {
		panic(err)
	}
	type reminder struct {
		Invoice string `json:"invoice"`
	}
	worker.Handle(w, "remind", func(_ context.Context, job worker.Job[reminder]) error {
		fmt.Println("remind of invoice", job.Payload.Invoice)
		cancel() // a service would run on
		return nil
	})

	d := trigger.Deliver(&trigger.Trigger{
		ID: trigger.NewID(), Due: time.Now(), Name: "remind", Payload: []byte(`{"invoice":"A-17"}`),
	}, false)
	queues.SendBatch(ctx, url, []queue.Message{{Body: d.Body, Attributes: d.Attributes}})

	if err := w.Run(ctx); err != nil {
		panic(err)
	}
	// Output: remind of invoice A-17
}
