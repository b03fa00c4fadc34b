package client_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
)

// A service schedules a job, and cancels it before its time.
func Example() {
	ctx := context.Background()
	queues := memqueue.New(memqueue.Options{}) // sqsqueue, outside tests
	inboundURL, err := queues.Create(ctx, queue.Spec{Name: "myosin-inbound"})
	if err != nil {
		log.Fatal(err)
	}
	// client.NewHTTP, in an owning service
	triggers, err := client.NewTable(client.TableOptions{Store: memstore.New(memstore.Options{})})
	if err != nil {
		log.Fatal(err)
	}

	c, err := client.New(client.Options{Sender: queues, InboundURL: inboundURL, Triggers: triggers})
	if err != nil {
		log.Fatal(err)
	}
	job, err := c.Schedule(ctx, "payments", map[string]int{"order": 42}, client.In(5*time.Minute), client.Name("remind"))
	if err != nil {
		log.Fatal(err)
	}
	result, err := c.Cancel(ctx, job.Handle)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Outcome)
	// Output: cancelled
}

// A repeat with the same key and due time is the same job.
func ExampleKey() {
	ctx := context.Background()
	queues := memqueue.New(memqueue.Options{})
	inboundURL, _ := queues.Create(ctx, queue.Spec{Name: "myosin-inbound"})
	c, err := client.New(client.Options{Sender: queues, InboundURL: inboundURL})
	if err != nil {
		log.Fatal(err)
	}
	ordered := time.Now() // as the order itself says
	remind := func() client.Scheduled {
		job, err := c.Schedule(ctx, "payments", "order 42 is unpaid",
			client.Key("remind-42"), client.In(24*time.Hour), client.Submitted(ordered))
		if err != nil {
			log.Fatal(err)
		}
		return job
	}
	first, second := remind(), remind()
	fmt.Println(first == second)
	// Output: true
}
