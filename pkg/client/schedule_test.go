package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// known is a registry that holds the given services.
type known []registry.Service

func (k known) Lookup(_ context.Context, name string) (registry.Service, error) {
	for _, s := range k {
		if s.Name == name {
			return s, nil
		}
	}
	return registry.Service{}, fmt.Errorf("lookup: %w", registry.ErrUnknown)
}

type bed struct {
	*client.Client
	q                *memqueue.Engine
	inbound, urgent  string
	payments, orders string // queues; that of orders is FIFO
}

// newBed makes a client over queues in memory. change may alter its options.
func newBed(t *testing.T, faults func(memqueue.Entry) memqueue.Fault, change func(*client.Options)) *bed {
	t.Helper()
	b := &bed{q: memqueue.New(memqueue.Options{Faults: faults})}
	for name, url := range map[string]*string{
		"inbound": &b.inbound, "inbound-urgent": &b.urgent, "svc-payments": &b.payments, "svc-orders.fifo": &b.orders,
	} {
		var err error
		*url, err = b.q.Create(t.Context(), queue.Spec{Name: name, FIFO: strings.HasSuffix(name, ".fifo")})
		require.NoError(t, err)
	}
	o := client.Options{
		Sender: b.q, InboundURL: b.inbound, UrgentInboundURL: b.urgent,
		Services: known{
			{Name: "payments", QueueURL: b.payments}, {Name: "email", QueueURL: b.payments},
			{Name: "orders", QueueURL: b.orders, FIFO: true}, {Name: "asleep", QueueURL: b.payments, Paused: true},
		},
	}
	if change != nil {
		change(&o)
	}
	var err error
	b.Client, err = client.New(o)
	require.NoError(t, err)
	return b
}

// submissions receives and reads everything in a buffer, as inbound does.
func (b *bed) submissions(t *testing.T, url string) []trigger.Trigger {
	t.Helper()
	var list []trigger.Trigger
	for {
		got, err := b.q.Receive(t.Context(), url, queue.ReceiveOptions{})
		require.NoError(t, err)
		if len(got) == 0 {
			return list
		}
		for _, m := range got {
			tr, err := trigger.DecodeInbound([]byte(m.Body), m.SentAt, func(time.Time) int { return -1 })
			require.NoError(t, err)
			require.Equal(t, tr.Service, m.Group, "the buffer is fair by service")
			list = append(list, tr)
		}
	}
}

func TestScheduleSendsWhatTheOptionsSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, nil, nil)
		now := time.Now().UTC()
		traceparent := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		job, err := b.Schedule(t.Context(), "payments", map[string]int{"order": 42}, client.In(5*time.Minute),
			client.Name("remind"), client.Tenant("t1"), client.Group("g"), client.Header("k", "v"), client.Traceparent(traceparent))
		require.NoError(t, err)
		require.Equal(t, now.Add(5*time.Minute), job.Due)
		got := b.submissions(t, b.inbound)
		require.Len(t, got, 1)
		require.Equal(t, trigger.Trigger{
			ID: job.ID, Service: "payments", Due: job.Due, N: trigger.DefaultPartitions, Payload: []byte(`{"order":42}`),
			Name: "remind", Tenant: "t1", Group: "g", Headers: map[string]string{"k": "v"}, Traceparent: traceparent,
		}, got[0])
		require.Equal(t, got[0].Handle().String(), job.Handle)
	})
}

func TestPayloadsOfBytesAndTextGoAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, nil, nil)
		for payload, want := range map[any]string{"text": "text", 7: "7", nil: ""} {
			_, err := b.Schedule(t.Context(), "payments", payload)
			require.NoError(t, err)
			require.Equal(t, want, string(b.submissions(t, b.inbound)[0].Payload))
		}
		_, err := b.Schedule(t.Context(), "payments", []byte{0, 255})
		require.NoError(t, err)
		require.Equal(t, []byte{0, 255}, b.submissions(t, b.inbound)[0].Payload)
	})
}

func TestUrgentJobsTakeTheirOwnBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, nil, nil)
		_, err := b.Schedule(t.Context(), "payments", "x", client.UrgentLane())
		require.NoError(t, err)
		require.Empty(t, b.submissions(t, b.inbound))
		require.Equal(t, trigger.Urgent, b.submissions(t, b.urgent)[0].Lane)

		none := newBed(t, nil, func(o *client.Options) { o.UrgentInboundURL = "" })
		_, err = none.Schedule(t.Context(), "payments", "x", client.UrgentLane())
		requireField(t, err, "lane")
	})
}

func TestJobsAreNeverEarlyByTheFractionOfAMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, nil, nil)
		at := time.Now().Add(time.Hour + 300*time.Microsecond)
		job, err := b.Schedule(t.Context(), "payments", "x", client.At(at))
		require.NoError(t, err)
		require.False(t, job.Due.Before(at))
		require.Less(t, job.Due.Sub(at), time.Millisecond)
	})
}

func requireField(t *testing.T, err error, field string) {
	t.Helper()
	var f *trigger.FieldError
	require.ErrorAs(t, err, &f)
	require.Equal(t, field, f.Field, "%v", err)
}

func TestSubmissionErrorsNameTheField(t *testing.T) {
	b := newBed(t, nil, nil)
	for _, c := range []struct {
		field   string
		service string
		payload any
		opts    []client.Option
	}{
		{"service", "", "x", nil},
		{"service", "No Such Name", "x", nil},
		{"service", "unknown", "x", nil},
		{"payload", "payments", make(chan int), nil},
		{"payload", "payments", make([]byte, trigger.MaxPayload+1), nil},
		{"due", "payments", "x", []client.Option{client.In(1), client.At(time.Now())}},
		{"due", "payments", "x", []client.Option{client.At(time.Now().AddDate(11, 0, 0))}},
		{"due", "payments", "x", []client.Option{client.At(time.Now().AddDate(0, 0, -2))}},
		{"due", "payments", "x", []client.Option{client.At(time.Time{})}},
		{"delay_ms", "payments", "x", []client.Option{client.In(-time.Second)}},
		{"delay_ms", "payments", "x", []client.Option{client.In(11 * 366 * 24 * time.Hour)}},
		{"submitted", "payments", "x", []client.Option{client.In(time.Minute), client.Key("k")}},
		{"submitted", "payments", "x", []client.Option{client.Key("k")}},
		{"key", "payments", "x", []client.Option{client.Key(""), client.At(time.Now())}},
		{"name", "payments", "x", []client.Option{client.Name("a b")}},
		{"tenant", "payments", "x", []client.Option{client.Tenant(strings.Repeat("t", 65))}},
		{"group", "payments", "x", []client.Option{client.Group("ü")}},
		{"traceparent", "payments", "x", []client.Option{client.Traceparent("nonsense")}},
		{"headers.Myosin-Id", "payments", "x", []client.Option{client.Header("Myosin-Id", "1")}},
		{"headers", "payments", "x", []client.Option{client.Headers(map[string]string{"a": "1", "b": "1", "c": "1", "d": "1", "e": "1"})}},
	} {
		t.Run(c.field, func(t *testing.T) {
			_, err := b.Schedule(t.Context(), c.service, c.payload, c.opts...)
			requireField(t, err, c.field)
		})
	}
	require.Empty(t, b.submissions(t, b.inbound), "nothing is sent that is refused")
	_, err := b.Schedule(t.Context(), "unknown", "x")
	require.ErrorIs(t, err, registry.ErrUnknown)
	_, err = b.Schedule(t.Context(), "payments", "x", client.Name(" "), client.Group(" "))
	require.ErrorContains(t, err, "name: ")
	require.ErrorContains(t, err, "group: ", "all faults are told at once")
}

func TestTwoServicesWithOneKeyAreTwoTriggers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, nil, nil)
		at := client.At(time.Date(2000, 1, 2, 9, 0, 0, 0, time.UTC))
		payments, err := b.Schedule(t.Context(), "payments", "x", at, client.Key("order-42"))
		require.NoError(t, err)
		email, err := b.Schedule(t.Context(), "email", "x", at, client.Key("order-42"))
		require.NoError(t, err)
		again, err := b.Schedule(t.Context(), "payments", "x", at, client.Key("order-42"))
		require.NoError(t, err)
		require.NotEqual(t, payments.ID, email.ID)
		require.NotEqual(t, payments.Handle, email.Handle)
		require.Equal(t, payments, again)
	})
}

func TestARepeatWithOneSubmittedTimeIsTheSameTrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, nil, nil)
		base := time.Now()
		opts := []client.Option{client.Key("k"), client.In(time.Hour), client.Submitted(base)}
		first, err := b.Schedule(t.Context(), "payments", "x", opts...)
		require.NoError(t, err)
		time.Sleep(10 * time.Minute)
		second, err := b.Schedule(t.Context(), "payments", "x", opts...)
		require.NoError(t, err)
		require.Equal(t, first, second)
		require.Len(t, b.submissions(t, b.inbound), 2, "the stamp on the wire is the time of sending, so none is refused")
	})
}

func TestAttemptsThatFailAreRepeatedWithTheSameIDAndAFreshStamp(t *testing.T) {
	for name, fault := range map[string]memqueue.Fault{
		"throttled":  {Err: queue.ErrThrottled},
		"not sent":   {Err: queue.ErrNotSent},
		"unknown":    {Err: errors.New("connection reset")},
		"lost reply": {LoseReply: true},
		"no answer":  {Delay: time.Hour},
		"late reply": {ReplyDelay: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sends := 0
				b := newBed(t, func(e memqueue.Entry) memqueue.Fault {
					if e.Op != memqueue.OpSend {
						return memqueue.Fault{}
					}
					if sends++; sends <= 3 {
						return fault
					}
					return memqueue.Fault{}
				}, nil)
				job, err := b.Schedule(t.Context(), "payments", "x", client.In(time.Minute))
				require.NoError(t, err)
				require.Equal(t, 4, sends)
				for _, got := range b.submissions(t, b.inbound) { // fails where a stamp is off
					require.Equal(t, job.ID, got.ID)
					require.Equal(t, job.Due, got.Due)
				}
			})
		})
	}
}

func TestASubmissionThatNeverAnsweredIsUncertainAndKeepsItsHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(e memqueue.Entry) memqueue.Fault { return memqueue.Fault{LoseReply: e.Op == memqueue.OpSend} }, nil)
		job, err := b.Schedule(t.Context(), "payments", "x")
		require.ErrorIs(t, err, client.ErrUncertain)
		require.NotEmpty(t, job.Handle)
		require.Len(t, b.submissions(t, b.inbound), 6)
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(e memqueue.Entry) memqueue.Fault { return memqueue.Fault{Err: queue.ErrThrottled} }, nil)
		job, err := b.Schedule(t.Context(), "payments", "x")
		require.ErrorIs(t, err, queue.ErrThrottled)
		require.NotErrorIs(t, err, client.ErrUncertain)
		require.Zero(t, job)
	})
}

func TestScheduleEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, func(memqueue.Entry) memqueue.Fault { return memqueue.Fault{Delay: time.Hour} }, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err := b.Schedule(ctx, "payments", "x")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 3*time.Second, time.Since(start))
	})
}

func TestABatchHasOneResultForEachRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		refused := map[string]bool{}
		b := newBed(t, func(e memqueue.Entry) memqueue.Fault {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case e.Op != memqueue.OpSend:
			case strings.Contains(e.Message.Body, `"name":"j7"`):
				return memqueue.Fault{Err: queue.ErrRejected}
			case !refused[e.Message.Body] && len(refused) < 5:
				refused[e.Message.Body] = true
				return memqueue.Fault{Err: queue.ErrThrottled}
			}
			return memqueue.Fault{}
		}, nil)
		requests := make([]client.Request, 95)
		for i := range requests {
			requests[i] = client.Request{Service: "payments", Payload: i, Options: []client.Option{client.Name(fmt.Sprint("j", i))}}
			if i%3 == 0 {
				requests[i].Options = append(requests[i].Options, client.UrgentLane())
			}
		}
		requests[11].Service = "unknown"
		results := b.ScheduleBatch(t.Context(), requests)
		got := map[trigger.ID]string{}
		for _, url := range []string{b.inbound, b.urgent} {
			for _, tr := range b.submissions(t, url) {
				require.Equal(t, url == b.urgent, tr.Lane == trigger.Urgent)
				got[tr.ID] = tr.Name
			}
		}
		require.Len(t, got, 93)
		for i, r := range results {
			switch i {
			case 7:
				require.ErrorIs(t, r.Err, queue.ErrRejected)
			case 11:
				require.ErrorIs(t, r.Err, registry.ErrUnknown)
			default:
				require.NoError(t, r.Err)
				require.Equal(t, fmt.Sprint("j", i), got[r.ID])
			}
		}
	})
}

func TestAMissingBufferIsToldAtOnce(t *testing.T) {
	b := newBed(t, nil, func(o *client.Options) { o.InboundURL += "-gone" })
	_, err := b.Schedule(t.Context(), "payments", "x")
	require.ErrorIs(t, err, queue.ErrMissing)
}

func TestPrepareBuildsTheRowAndSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, nil, nil)
		row, job, err := b.Prepare(t.Context(), "payments", "x", client.In(time.Hour), client.Name("n"))
		require.NoError(t, err)
		require.Equal(t, trigger.StateScheduled, row.State)
		require.Equal(t, time.Now().UTC(), row.Created)
		require.Equal(t, row.Handle().String(), job.Handle)
		require.Equal(t, time.Now().UTC().Add(time.Hour), row.Due)
		require.Empty(t, b.submissions(t, b.inbound))
		_, _, err = b.Prepare(t.Context(), "unknown", "x")
		requireField(t, err, "service")
	})
}

func TestOptionsReportEveryFault(t *testing.T) {
	_, err := client.New(client.Options{PartitionsFor: time.Hour, AttemptTimeout: time.Minute, Attempts: -1})
	for _, name := range []string{"Sender", "InboundURL", "PartitionsFor", "AttemptTimeout", "Attempts"} {
		require.ErrorContains(t, err, name)
	}
}

// counts is a source of epochs that can fail.
type counts struct {
	epochs trigger.Epochs
	err    error
	reads  int
}

func (c *counts) Epochs(context.Context) (trigger.Epochs, error) {
	c.reads++
	return c.epochs, c.err
}

func TestSendersUseTheCountInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &counts{epochs: trigger.Epochs{{N: 16}}}
		b := newBed(t, nil, func(o *client.Options) { o.Partitions = src })
		n := func() int {
			job, err := b.Schedule(t.Context(), "payments", "x")
			require.NoError(t, err)
			h, err := trigger.ParseHandle(job.Handle)
			require.NoError(t, err)
			return h.N
		}
		require.Equal(t, 16, n())
		require.Equal(t, 16, n())
		require.Equal(t, 1, src.reads, "the counts are kept for a while")
		src.epochs = trigger.Epochs{{N: 16}, {N: 32, From: time.Now().Add(time.Minute)}}
		time.Sleep(16 * time.Second)
		require.Equal(t, 16, n(), "announced, not in force")
		src.err = errors.New("table is down")
		time.Sleep(45 * time.Second)
		require.Equal(t, 32, n(), "what was announced holds while the table is down")

		down := newBed(t, nil, func(o *client.Options) { o.Partitions = &counts{err: src.err} })
		_, err := down.Schedule(t.Context(), "payments", "x")
		require.ErrorIs(t, err, src.err)
	})
}
