package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// newYear is what the clocks of these examples show.
func newYear() time.Time { return time.Date(2027, 1, 1, 9, 0, 0, 0, time.UTC) }

// newExample returns a client over engines in memory, and a function that
// stores a prepared row as the drain stores a submission.
func newExample() (*client.Client, func(*store.Row)) {
	ctx := context.Background()
	table := memstore.New(memstore.Options{Now: newYear})
	queues := memqueue.New(memqueue.Options{})
	inbound, _ := queues.Create(ctx, queue.Spec{Name: "myosin-inbound"})
	urgent, _ := queues.Create(ctx, queue.Spec{Name: "myosin-inbound-urgent"})
	payments, _ := queues.Create(ctx, queue.Spec{Name: "myosin-svc-payments"})
	triggers, err := client.NewTable(client.TableOptions{Store: table, Now: newYear})
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.New(client.Options{
		Sender: queues, InboundURL: inbound, UrgentInboundURL: urgent, Triggers: triggers,
		Services: known{{Name: "payments", QueueURL: payments}}, Now: newYear,
	})
	if err != nil {
		log.Fatal(err)
	}
	return c, func(r *store.Row) {
		if res := table.Write(ctx, []store.Op{{Kind: store.Insert, Key: r.Key(), Row: r}}); res[0].Err != nil {
			log.Fatal(res[0].Err)
		}
	}
}

// Errors name the field at fault.
func ExampleClient_Schedule() {
	c, _ := newExample()
	job, err := c.Schedule(context.Background(), "payments", map[string]int{"order": 42}, client.In(90*24*time.Hour))
	fmt.Println(job.Due.Format(time.DateOnly), err)

	_, err = c.Schedule(context.Background(), "payment", "typo", client.In(time.Hour))
	var field *trigger.FieldError
	fmt.Println(errors.As(err, &field), field.Field, errors.Is(err, registry.ErrUnknown))
	// Output:
	// 2027-04-01 <nil>
	// true service true
}

func ExampleClient_ScheduleBatch() {
	c, _ := newExample()
	results := c.ScheduleBatch(context.Background(), []client.Request{
		{Service: "payments", Payload: "first", Options: []client.Option{client.In(time.Minute)}},
		{Service: "payments", Payload: "second", Options: []client.Option{client.In(-time.Minute)}},
	})
	for _, r := range results {
		fmt.Println(r.Due.Format(time.TimeOnly), r.Err)
	}
	// Output:
	// 09:01:00 <nil>
	// 00:00:00 schedule: delay_ms: -1m0s; want 0 or more
}

func ExampleOption() {
	c, _ := newExample()
	job, err := c.Schedule(context.Background(), "payments", []byte("any bytes"),
		client.At(newYear().AddDate(5, 0, 0)), // or In; neither: at once
		client.Name("renew"),                  // by which a worker finds the handler
		client.Tenant("t1"),                   // fair queues keep tenants apart
		client.Header("plan", "gold"),         // a message attribute; four at most
		client.UrgentLane(),                   // bulk work cannot delay it
	)
	fmt.Println(job.Due.Format(time.DateOnly), err)
	// Output: 2032-01-01 <nil>
}

// Only one outcome says that the job was not delivered and never will be.
func ExampleClient_Cancel() {
	c, _ := newExample()
	ctx := context.Background()
	for _, delay := range []time.Duration{time.Hour, time.Second} {
		job, err := c.Schedule(ctx, "payments", "x", client.In(delay))
		if err != nil {
			log.Fatal(err)
		}
		got, err := c.Cancel(ctx, job.Handle)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(delay, got.Outcome, got.Outcome == client.OutcomeCancelled)
	}
	// Output:
	// 1h0m0s cancelled true
	// 1s too_late false
}

func ExampleClient_Reschedule() {
	c, store := newExample()
	ctx := context.Background()
	row, job, err := c.Prepare(ctx, "payments", "x", client.In(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.Reschedule(ctx, job.Handle, newYear().Add(2*time.Hour))
	fmt.Println(errors.Is(err, client.ErrNotStored)) // it waits in the buffer: try again
	store(row)

	moved, err := c.Reschedule(ctx, job.Handle, newYear().Add(2*time.Hour))
	fmt.Println(moved.Due.Format(time.TimeOnly), err)
	if _, err := c.Cancel(ctx, job.Handle); err != nil { // the old handle goes on working
		log.Fatal(err)
	}
	_, err = c.Reschedule(ctx, moved.Handle, newYear().Add(3*time.Hour))
	var conflict *client.ConflictError
	fmt.Println(errors.As(err, &conflict), conflict.State)
	// Output:
	// true
	// 11:00:00 <nil>
	// true cancelled
}

func ExampleClient_Get() {
	c, store := newExample()
	ctx := context.Background()
	row, job, err := c.Prepare(ctx, "payments", "x", client.In(time.Hour), client.Name("remind"))
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.Get(ctx, job.Handle)
	fmt.Println(errors.Is(err, client.ErrNotFound)) // not stored yet, or delivered
	store(row)
	view, err := c.Get(ctx, job.Handle)
	fmt.Println(view.State, view.Name, string(view.Payload), err)
	// Output:
	// true
	// scheduled remind x <nil>
}

// The row goes into a transaction of the caller's own; see the package comment.
func ExampleClient_Prepare() {
	c, _ := newExample()
	row, job, err := c.Prepare(context.Background(), "payments", "x", client.In(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(row.State.Describe(), row.Handle().String() == job.Handle)
	// Output: scheduled true
}

// The cheap path has no handle: the message cannot be moved or cancelled.
func ExampleClient_Direct() {
	c, _ := newExample()
	sent, err := c.Direct(context.Background(), "payments", "x", client.DirectOptions{Delay: 30 * time.Second})
	fmt.Println(sent.Due.Format(time.TimeOnly), err)
	_, err = c.Direct(context.Background(), "payments", "x", client.DirectOptions{Delay: time.Hour})
	fmt.Println(err)
	// Output:
	// 09:00:30 <nil>
	// direct: delay: 1h0m0s; want whole seconds from 0 to 15m0s; Schedule takes any time
}

// An owning service may send to the buffer and call the HTTP API, which tells
// the partition counts too.
func ExampleNewHTTP() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"epochs":[{"n":4}]}`) // services/api, outside tests
	}))
	defer api.Close()
	triggers, err := client.NewHTTP(api.URL, client.HTTPOptions{
		Authorize: func(r *http.Request) error { r.Header.Set("Authorization", "Bearer x"); return nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	queues := memqueue.New(memqueue.Options{})
	inbound, _ := queues.Create(context.Background(), queue.Spec{Name: "myosin-inbound"})
	c, err := client.New(client.Options{Sender: queues, InboundURL: inbound, Triggers: triggers})
	if err != nil {
		log.Fatal(err)
	}
	job, err := c.Schedule(context.Background(), "payments", "x", client.In(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	h, err := trigger.ParseHandle(job.Handle)
	fmt.Println(h.N, err)
	// Output: 4 <nil>
}

// Bytes, strings and raw JSON go as they are.
func ExamplePayload() {
	for _, v := range []any{"text", []byte("bytes"), json.RawMessage(`{"a": 1}`), struct{ Order int }{42}} {
		b, err := client.Payload(v)
		fmt.Println(string(b), err)
	}
	// Output:
	// text <nil>
	// bytes <nil>
	// {"a": 1} <nil>
	// {"Order":42} <nil>
}
