package worker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

// delivered returns an engine in memory with a queue, a dead-letter queue, and
// one job on the queue, as the scheduler delivers it.
func delivered(name, payload string) (queues *memqueue.Engine, url, dlq string) {
	ctx := context.Background()
	queues = memqueue.New(memqueue.Options{})
	url, _ = queues.Create(ctx, queue.Spec{Name: "myosin-svc-payments"})
	dlq, _ = queues.Create(ctx, queue.Spec{Name: "myosin-svc-payments-dlq"})
	d := trigger.Deliver(&trigger.Trigger{ID: trigger.NewID(), Due: time.Now(), Name: name, Payload: []byte(payload)}, false)
	queues.SendBatch(ctx, url, []queue.Message{{Body: d.Body, Attributes: d.Attributes}})
	return queues, url, dlq
}

// The payload is decoded into the handler's type. On the same job's second
// delivery Attempt is 2.
func ExampleHandle() {
	queues, url, _ := delivered("remind", `{"invoice":"A-17"}`)
	w, err := worker.New(worker.Options{Receiver: queues, QueueURL: url, Wait: time.Second})
	if err != nil {
		panic(err)
	}
	ctx, done := context.WithCancel(context.Background())
	type reminder struct {
		Invoice string `json:"invoice"`
	}
	worker.Handle(w, "remind", func(_ context.Context, job worker.Job[reminder]) error {
		defer done()
		fmt.Println(job.Payload.Invoice, job.Attempt)
		return nil // the message is deleted
	})
	fmt.Println(w.Run(ctx))
	// Output:
	// A-17 1
	// <nil>
}

// A result may choose the delay of the retry instead of the backoff.
func ExampleRetryAfter() {
	queues, url, _ := delivered("charge", "x")
	w, err := worker.New(worker.Options{Receiver: queues, QueueURL: url, Wait: time.Second})
	if err != nil {
		panic(err)
	}
	ctx, done := context.WithCancel(context.Background())
	worker.Handle(w, "charge", func(_ context.Context, job worker.Job[string]) error {
		fmt.Println("attempt", job.Attempt)
		if job.Attempt == 1 {
			return worker.RetryAfter(0, errors.New("bank is busy"))
		}
		done()
		return nil
	})
	fmt.Println(w.Run(ctx))
	// Output:
	// attempt 1
	// attempt 2
	// <nil>
}

// What can never succeed goes to the dead-letter queue at once, with the reason.
func ExampleDeadLetter() {
	queues, url, dlq := delivered("charge", "x")
	w, err := worker.New(worker.Options{
		Receiver: queues, QueueURL: url, DeadLetterURL: dlq, Sender: queues, Wait: time.Second,
	})
	if err != nil {
		panic(err)
	}
	ctx, done := context.WithCancel(context.Background())
	worker.Handle(w, "charge", func(context.Context, worker.Job[string]) error {
		defer done()
		return worker.DeadLetter("the account is closed")
	})
	fmt.Println(w.Run(ctx))
	dead, err := queues.Receive(context.Background(), dlq, queue.ReceiveOptions{})
	fmt.Println(dead[0].Attributes[worker.AttrReason], err)
	// Output:
	// <nil>
	// the account is closed <nil>
}

// What is no longer wanted is deleted, with a line in the log.
func ExampleDrop() {
	queues, url, _ := delivered("charge", "x")
	w, err := worker.New(worker.Options{Receiver: queues, QueueURL: url, Wait: time.Second})
	if err != nil {
		panic(err)
	}
	ctx, done := context.WithCancel(context.Background())
	worker.Handle(w, "charge", func(context.Context, worker.Job[string]) error {
		defer done()
		return worker.Drop("the order was cancelled meanwhile")
	})
	fmt.Println(w.Run(ctx))
	left, err := queues.Receive(context.Background(), url, queue.ReceiveOptions{})
	fmt.Println(len(left), err)
	// Output:
	// <nil>
	// 0 <nil>
}

// Middleware sees every job and its result. A payload that does not decode is
// retried, since another version may read it; here it is given up instead.
func ExampleWorker_Use() {
	queues, url, dlq := delivered("charge", "no JSON")
	w, err := worker.New(worker.Options{
		Receiver: queues, QueueURL: url, DeadLetterURL: dlq, Sender: queues, Wait: time.Second,
	})
	if err != nil {
		panic(err)
	}
	ctx, done := context.WithCancel(context.Background())
	w.Use(func(next worker.Handler) worker.Handler {
		return func(ctx context.Context, job worker.Job[[]byte]) error {
			defer done()
			err := next(ctx, job)
			if _, unread := errors.AsType[*worker.PayloadError](err); unread {
				fmt.Println(job.Name, "cannot be read")
				return worker.DeadLetter("payload cannot be read")
			}
			return err
		}
	})
	worker.Handle(w, "charge", func(context.Context, worker.Job[struct{ Cents int }]) error { return nil })
	fmt.Println(w.Run(ctx))
	// Output:
	// charge cannot be read
	// <nil>
}

// Stop ends a worker as the end of Run's context does, and waits.
func ExampleWorker_Stop() {
	queues, url, _ := delivered("anything", "x")
	w, err := worker.New(worker.Options{Receiver: queues, QueueURL: url, Wait: time.Second})
	if err != nil {
		panic(err)
	}
	handled := make(chan string, 1)
	w.HandleDefault(func(_ context.Context, job worker.Job[[]byte]) error {
		handled <- job.Name
		return nil
	})
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.Background()) }()
	fmt.Println(<-handled)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println(w.Stop(ctx), <-ended)
	// Output:
	// anything
	// <nil> <nil>
}
