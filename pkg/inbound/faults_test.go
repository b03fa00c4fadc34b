package inbound_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/inbound"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

var errInjected = errors.New("injected")

func errOf(fail bool) error {
	if fail {
		return errInjected
	}
	return nil
}

func acquire(key trigger.Key, to trigger.State) []store.Op {
	return []store.Op{{Kind: store.Transition, Key: key, From: trigger.StateScheduled, To: to}}
}

// Case 8.
func TestPoisonLandsInTheDeadLetterQueueWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.service("locked", func(s *registry.Service) { s.Senders = []string{"AIDAGOOD", "AROA*"} })
		set := func(k string, v any) string { return raw(func(m map[string]any) { m[k] = v }) }
		huge := raw(func(m map[string]any) { m["payload"] = strings.Repeat(`"\`+"\n", 200_000) })[:queue.MaxMessageBytes-2000]
		poison := map[string]string{ // by field
			"body":             `{"v":1,`,
			"due":              set("due", "20000-01-01T00:00:00Z"),
			"v":                set("v", 2),
			"service":          set("service", ""),
			"id":               set("id", "42"),
			"submitted":        set("submitted", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)),
			"delay_ms":         set("delay_ms", 5),
			"headers.":         raw(func(m map[string]any) { m["headers"] = map[string]string{"": "x"} }),
			"payload":          set("payload", "%%%"),
			"lane":             set("lane", "express"),
			"body (not JSON)":  "\u2028" + strings.Repeat(`"`, 500_000),
			"service (sender)": set("service", "locked"),
		}
		attributes := map[string]string{}
		for i := range 10 {
			attributes[fmt.Sprint("a", i)] = strings.Repeat("x", 100)
		}
		errs := w.queues.SendBatch(t.Context(), w.urls.Inbound[trigger.Standard], []queue.Message{{Body: huge, Attributes: attributes}})
		require.NoError(t, errs[0])
		for range 50 {
			for _, body := range poison {
				w.send(trigger.Standard, "", body)
			}
		}
		var good []client.Scheduled
		for range 100 {
			good = append(good, w.schedule("payments", client.In(time.Hour)))
		}
		errs = w.queues.SendAs("AROAX:session").SendBatch(t.Context(), w.urls.Inbound[trigger.Standard], []queue.Message{{Body: poison["service (sender)"]}})
		require.NoError(t, errs[0])
		unknown := trigger.NewID()
		w.send(trigger.Standard, "", raw(func(m map[string]any) { m["id"], m["service"] = unknown.String(), "later" }))
		p := w.start("i1", nil)
		time.Sleep(3 * time.Second)
		for _, s := range good {
			require.Len(t, w.rows(s.ID), 1)
		}
		require.Equal(t, trigger.StateScheduled, w.rows(unknown)[0].State, "an unknown service is stored, for the schedulers to park")
		w.empty()
		letters := w.letters()
		require.Len(t, letters, 50*len(poison)+1)
		found := map[string]int{}
		for _, d := range letters {
			require.NotEmpty(t, d.Errors)
			require.Equal(t, "tester", d.Sender)
			require.False(t, d.Sent.IsZero())
			original, err := d.Original()
			if d.Truncated {
				require.ErrorIs(t, err, inbound.ErrTruncated)
				require.True(t, strings.HasPrefix(huge, original))
				require.Greater(t, len(original), 250_000)
				_, err = d.Redrive()
				require.ErrorIs(t, err, inbound.ErrTruncated)
				found["truncated"]++
				continue
			}
			require.NoError(t, err)
			for name, body := range poison {
				if body == original {
					field, _, _ := strings.Cut(name, " ")
					require.True(t, strings.HasPrefix(d.Errors[0].Field, field), "%s: %v", name, d.Errors)
					want := inbound.ReasonInvalid
					if strings.Contains(name, "sender") {
						want = inbound.ReasonSender
					}
					require.Equal(t, want, d.Reason)
					found[name]++
				}
			}
		}
		require.Equal(t, 1, found["truncated"])
		for name := range poison {
			require.Equal(t, 50, found[name], name)
		}
		require.Equal(t, len(letters), p.count(t, "myosin_inbound_dead_letters_total"))
		require.LessOrEqual(t, w.mostReceives(), 1)
	})
}

func TestARedrivenSubmissionKeepsItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.service("locked", func(s *registry.Service) { s.Senders = []string{"AIDAGOOD"} })
		w.start("i1", nil)
		id, at := trigger.NewID(), time.Now().UTC()
		w.send(trigger.Urgent, "locked", raw(func(m map[string]any) {
			delete(m, "due")
			m["id"], m["service"], m["delay_ms"], m["submitted"] = id.String(), "locked", 3_600_000, at.Format(time.RFC3339Nano)
		}))
		time.Sleep(10 * time.Minute)
		d := w.letters()[0]
		require.Equal(t, trigger.Urgent, d.Lane)
		w.service("locked", nil)
		m, err := d.Redrive()
		require.NoError(t, err)
		require.Equal(t, "locked", m.Group)
		w.send(d.Lane, m.Group, m.Body)
		time.Sleep(time.Second)
		require.Equal(t, at.Add(time.Hour).UnixMilli(), w.rows(id)[0].Due.UnixMilli())
		require.Len(t, w.letters(), 1)
	})
}

func TestPoisonWaitsInTheBufferWhileTheDeadLetterQueueFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sends := 0
		w.faults(nil, func(e memqueue.Entry) memqueue.Fault {
			if e.Op == memqueue.OpSend && e.URL == w.urls.DLQ {
				w.mu.Lock()
				sends++
				w.mu.Unlock()
				return memqueue.Fault{Err: queue.ErrDenied}
			}
			return memqueue.Fault{}
		})
		p := w.start("i1", nil)
		for range 2000 { // more than a lane holds
			w.send(trigger.Standard, "", "poison")
		}
		time.Sleep(10 * time.Second)
		at := time.Now()
		s := w.schedule("payments", client.In(time.Hour))
		time.Sleep(10 * time.Minute)
		require.WithinRange(t, w.insertedAt(s.ID), at, at.Add(10*time.Second), "the drain goes on")
		require.Empty(t, w.letters())
		d := w.depth()
		require.Equal(t, 2000, d.Visible+d.InFlight, "nothing is dropped")
		require.LessOrEqual(t, w.mostReceives(), 8, "and nothing spins")
		require.LessOrEqual(t, sends, 2000*40)
		w.faults(nil, nil)
		time.Sleep(6 * time.Minute)
		require.Len(t, w.letters(), 2000)
		w.empty()
		require.NoError(t, p.stop())
	})
}

func TestALetterTooLargeForTheDeadLetterQueueIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.faults(nil, func(e memqueue.Entry) memqueue.Fault {
			if e.Op == memqueue.OpSend && e.URL == w.urls.DLQ && e.Message.Size() > 256<<10 {
				return memqueue.Fault{Err: queue.ErrRejected}
			}
			return memqueue.Fault{}
		})
		w.start("i1", nil)
		w.send(trigger.Standard, "", strings.Repeat("x", 900_000))
		time.Sleep(5 * time.Second)
		require.Len(t, w.letters(), 1)
		require.True(t, w.letters()[0].Truncated)
		require.Greater(t, len(w.letters()[0].Body), 200_000)
		w.empty()
	})
}

func TestAThrottledTableBurnsNoReceiveCounts(t *testing.T) {
	for name, fault := range map[string]memstore.Fault{
		"throttled": {Err: store.ErrThrottled}, "failing": {Err: errInjected}, "silent": {Delay: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				p := w.start("i1", nil)
				time.Sleep(time.Second)
				w.faults(func(string, trigger.Key) memstore.Fault { return fault }, nil)
				var want []client.Scheduled
				for range 3000 {
					want = append(want, w.later("payments", time.Hour))
				}
				time.Sleep(10 * time.Minute)
				require.Zero(t, w.table.Len())
				require.ErrorContains(t, p.in.Ready(), "trigger table")
				require.Equal(t, 1, p.count(t, "myosin_inbound_sick", "lane", "standard"))
				w.mu.Lock()
				total := 0
				for _, n := range w.receives {
					total += n
				}
				w.mu.Unlock()
				require.LessOrEqual(t, w.mostReceives(), 5)
				require.LessOrEqual(t, total, 1000, "receives of 3000 messages in ten minutes")
				w.faults(nil, nil)
				time.Sleep(6 * time.Minute)
				require.Equal(t, len(want), w.table.Len())
				for _, s := range want {
					require.False(t, w.insertedAt(s.ID).IsZero())
				}
				w.empty()
				require.NoError(t, p.in.Ready())
				require.Zero(t, p.count(t, "myosin_inbound_sick"))
			})
		})
	}
}

func TestOneRowThatAlwaysFailsStopsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		bad := trigger.NewID()
		w.faults(func(op string, key trigger.Key) memstore.Fault {
			return memstore.Fault{Err: errOf(op == memstore.OpInsert && key.ID == bad)}
		}, nil)
		w.start("i1", nil)
		w.send(trigger.Standard, "payments", raw(func(m map[string]any) { m["id"] = bad.String() }))
		for range 100 {
			time.Sleep(300 * time.Millisecond)
			at := time.Now()
			s := w.later("payments", time.Hour)
			synctest.Wait()
			time.Sleep(2 * time.Second)
			require.WithinRange(t, w.insertedAt(s.ID), at, at.Add(2*time.Second))
		}
		require.LessOrEqual(t, w.mostReceives(), 4)
	})
}

func TestLostRepliesLoseAndDoubleNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rnd := rand.New(rand.NewPCG(1, 2))
		chance := func(p float64) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return rnd.Float64() < p
		}
		w.faults(func(op string, _ trigger.Key) memstore.Fault {
			switch {
			case op == memstore.OpInsert && chance(.1):
				return memstore.Fault{LostReply: true}
			case op == memstore.OpInsert && chance(.1):
				return memstore.Fault{Err: errInjected}
			case op == memstore.OpInsert && chance(.1):
				return memstore.Fault{Err: store.ErrThrottled}
			case op == memstore.OpDelete && chance(.2):
				return memstore.Fault{LostReply: true}
			}
			return memstore.Fault{}
		}, func(e memqueue.Entry) memqueue.Fault {
			inboundURL := e.URL == w.urls.Inbound[trigger.Standard]
			switch {
			case e.Op == memqueue.OpDelete && chance(.3):
				return memqueue.Fault{LoseReply: true}
			case e.Op == memqueue.OpDelete && chance(.3):
				return memqueue.Fault{Err: errInjected}
			case e.Op == memqueue.OpDeliver && inboundURL && chance(.2):
				return memqueue.Fault{Duplicate: true, DuplicateAfter: 2 * time.Second}
			case e.Op == memqueue.OpReceive && chance(.2):
				return memqueue.Fault{LoseReply: true}
			}
			return memqueue.Fault{}
		})
		w.start("i1", nil)
		var later, now []client.Scheduled
		for range 300 {
			later = append(later, w.later("payments", time.Hour))
			now = append(now, w.later("payments", 0))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(10 * time.Minute)
		for _, s := range later {
			require.Len(t, w.rows(s.ID), 1)
			require.Equal(t, 1, w.inserts[s.ID])
		}
		for _, s := range now {
			if rows := w.rows(s.ID); len(rows) > 0 { // left to the schedulers
				require.Len(t, rows, 1)
				require.Zero(t, w.deliveries(s.ID))
				continue
			}
			require.Equal(t, 1, w.deliveries(s.ID))
		}
		w.empty()
		require.Empty(t, w.letters())
	})
}

func TestEpochsThatCannotBeReadStopTheDrainBeforeTheyMislead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start("i1", nil)
		time.Sleep(10 * time.Second)
		w.faults(func(op string, _ trigger.Key) memstore.Fault {
			return memstore.Fault{Err: errOf(op == memstore.OpEpochs)}
		}, nil)
		time.Sleep(20 * time.Second)
		bare := func() trigger.ID {
			id := trigger.NewID()
			w.send(trigger.Standard, "payments", raw(func(m map[string]any) { m["id"] = id.String() }))
			return id
		}
		early := bare()
		time.Sleep(time.Second)
		require.Len(t, w.rows(early), 1, "what is known is still right")
		time.Sleep(time.Minute)
		late := bare()
		time.Sleep(10 * time.Second)
		require.Empty(t, w.rows(late), "a growth may have been announced meanwhile")
		w.faults(nil, nil)
		require.NoError(t, w.table.SetEpochs(t.Context(), trigger.Epochs{{N: 16}}, trigger.Epochs{{N: 16}, {N: 64, From: time.Now().Add(-30 * time.Second)}}))
		time.Sleep(2 * time.Minute)
		require.Equal(t, 64, w.rows(late)[0].N)
	})
}

func TestSendersAreNotGuessedWhileTheRegistryFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.service("locked", func(s *registry.Service) { s.Senders = []string{"AIDAGOOD"} })
		w.services.Fail(errInjected)
		w.start("i1", nil)
		w.send(trigger.Standard, "locked", raw(func(m map[string]any) { m["service"] = "locked" }))
		time.Sleep(5 * time.Minute)
		require.Empty(t, w.letters())
		require.Zero(t, w.table.Len())
		w.services.Fail(nil)
		time.Sleep(3 * time.Minute)
		require.Equal(t, inbound.ReasonSender, w.letters()[0].Reason)
	})
}

// later submits by hand, without asking the table anything.
func (w *world) later(service string, delay time.Duration) client.Scheduled {
	w.t.Helper()
	tr := trigger.Trigger{ID: trigger.NewID(), Service: service, Due: time.Now().Add(delay).UTC().Truncate(time.Millisecond), N: 16, Payload: []byte("{}")}
	b, err := trigger.EncodeInbound(&tr, time.Now())
	require.NoError(w.t, err)
	w.send(trigger.Standard, service, string(b))
	return client.Scheduled{ID: tr.ID, Handle: tr.Handle().String(), Due: tr.Due}
}
