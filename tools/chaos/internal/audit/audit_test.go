package audit_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/audit"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/journal"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/owner"
)

const id = "0b7e1f3a-6a52-4b7c-9d1e-2f4a5b6c7d8e"

// story is the life of one trigger, told call by call.
type story struct {
	l       *audit.Ledger
	j       *journal.Journal
	handled []owner.Handled
	facts   audit.Facts
	due     time.Time
	sent    int
}

// outcome is what became of a call, other than well.
type outcome struct {
	fault             string
	unapplied, unsaid bool
	began             time.Time // of one that was long on its way
}

func newStory() *story {
	s := &story{
		l: audit.NewLedger(), j: journal.New(journal.Names{Prefix: "c"}), due: time.Now(),
		facts: audit.Facts{Start: time.Now(), Deleted: map[string][]time.Time{}, ClockOff: func(string, time.Time) bool { return false }},
	}
	s.l.Offer(audit.Order{ID: id, Service: "orders", Payload: "x"}, s.due)
	s.l.Accepted(id, "handle")
	return s
}

func (s *story) call(by, target, request, answer string, o outcome) {
	time.Sleep(time.Millisecond)
	c := s.j.Read(target, []byte(request))
	out := &journal.Outcome{By: by, Status: http.StatusOK, Body: []byte(answer), Answered: !o.unsaid, Fault: o.fault, Began: o.began}
	if o.unapplied {
		out.Status = 0
	}
	s.j.Log(c, out)
	time.Sleep(time.Millisecond)
}

func (s *story) submission(by string, o outcome) {
	s.call(by, "AmazonSQS.ReceiveMessage", `{"QueueUrl":"http://x/0/c-inbound"}`,
		fmt.Sprintf(`{"Messages":[{"MessageId":"in","ReceiptHandle":"r0","Body":"{\"id\":\"%s\"}"}]}`, id), o)
}

func (s *story) insert(by string, o outcome) {
	s.call(by, "DynamoDB_20120810.PutItem", fmt.Sprintf(`{"Item":{"p":{"S":"s.1"},"s":{"S":"1796073713733#%s"},"st":{"S":"S"}}}`, id), `{}`, o)
}

// deliver sends the trigger and returns the message's id.
func (s *story) deliver(by string, o outcome) string {
	s.sent++
	m := fmt.Sprintf("m%d", s.sent)
	s.call(by, "AmazonSQS.SendMessageBatch",
		fmt.Sprintf(`{"QueueUrl":"http://x/0/c-svc-orders","Entries":[{"Id":"0","MessageBody":"x","MessageAttributes":{"Myosin-Id":{"StringValue":%q}}}]}`, id),
		fmt.Sprintf(`{"Successful":[{"Id":"0","MessageId":%q}]}`, m), o)
	return m
}

func (s *story) complete(by string, o outcome) {
	s.call(by, "DynamoDB_20120810.DeleteItem", fmt.Sprintf(`{"Key":{"p":{"S":"s.1"},"s":{"S":"1796073713733#%s"}}}`, id), `{}`, o)
}

func (s *story) receive(by, message, receipt string) {
	s.call(by, "AmazonSQS.ReceiveMessage", `{"QueueUrl":"http://x/0/c-svc-orders"}`, fmt.Sprintf(
		`{"Messages":[{"MessageId":%q,"ReceiptHandle":%q,"Body":"x","MessageAttributes":{"Myosin-Id":{"StringValue":%q}}}]}`, message, receipt, id), outcome{})
}

func (s *story) handle(by, message string) {
	s.handled = append(s.handled, owner.Handled{
		ID: id, Message: message, Service: "orders", Payload: "x", Due: s.due, Sent: s.due, At: time.Now(), By: by,
	})
}

func (s *story) done(by, receipt string, o outcome) {
	s.call(by, "AmazonSQS.DeleteMessage", fmt.Sprintf(`{"QueueUrl":"http://x/0/c-svc-orders","ReceiptHandle":%q}`, receipt), `{}`, o)
}

// disturb notes a kill that is now, or a freeze or roll that ends now.
func (s *story) disturb(kind, by string, since time.Duration) {
	d := audit.Disturbance{By: by, Kind: kind, From: time.Now().Add(-since)}
	if kind != audit.Killed {
		d.To = time.Now()
	}
	s.facts.Disturbances = append(s.facts.Disturbances, d)
	time.Sleep(time.Millisecond)
}

func TestTheAuditorExplainsWhatItMayAndFindsWhatItMust(t *testing.T) {
	lost := outcome{unsaid: true, fault: "reset-after"}
	refused := outcome{unapplied: true, fault: "throttle"}
	once := func(s *story) {
		s.insert("i", outcome{})
		s.handle("w", s.deliver("a", outcome{}))
		s.complete("a", outcome{})
	}
	twice := func(first, between func(s *story)) func(s *story) {
		return func(s *story) {
			s.submission("i", outcome{})
			s.insert("i", outcome{})
			first(s)
			between(s)
			s.handle("w", s.deliver("b", outcome{}))
			s.complete("b", outcome{})
		}
	}
	sentBy := func(by string, o outcome) func(s *story) { return func(s *story) { s.handle("w", s.deliver(by, o)) } }
	for name, c := range map[string]struct {
		tell   func(s *story)
		breach string // part of the one; empty: none
		why    string // of the one duplicate
	}{
		"delivered once":                         {tell: once},
		"never delivered":                        {tell: func(*story) {}, breach: "lost"},
		"on its queue, never handled":            {tell: func(s *story) { s.deliver("a", outcome{}) }, breach: "lost"},
		"cancelled, not delivered":               {tell: func(s *story) { s.l.Cancelled(id, client.CancelResult{Outcome: client.OutcomeCancelled}, nil) }},
		"too late to cancel, not delivered":      {tell: func(s *story) { s.l.Cancelled(id, client.CancelResult{Outcome: client.OutcomeTooLate}, nil) }},
		"being delivered, and then not":          {tell: func(s *story) { s.l.Cancelled(id, client.CancelResult{Outcome: client.OutcomeBeingDelivered}, nil) }, breach: "lost"},
		"cancelled, then delivered":              {tell: func(s *story) { s.l.Cancelled(id, client.CancelResult{Outcome: client.OutcomeCancelled}, nil); once(s) }, breach: "cancelled at"},
		"delivered, then called cancelled":       {tell: func(s *story) { once(s); s.l.Cancelled(id, client.CancelResult{Outcome: client.OutcomeCancelled}, nil) }, breach: "cancelled at"},
		"early":                                  {tell: func(s *story) { once(s); s.handled[0].Sent = s.due.Add(-time.Millisecond) }, breach: "1ms early"},
		"another payload":                        {tell: func(s *story) { once(s); s.handled[0].Payload = "y" }, breach: "not what was submitted"},
		"another time":                           {tell: func(s *story) { once(s); s.handled[0].Due = s.due.Add(1 * time.Second) }, breach: "none of its due times"},
		"of nobody's":                            {tell: func(s *story) { once(s); s.handled = append(s.handled, owner.Handled{ID: "other"}) }, breach: "never submitted"},
		"sent twice, completed twice":            {tell: twice(sentBy("a", outcome{}), func(s *story) { s.complete("a", outcome{}) }), breach: "nothing explains"},
		"sent twice by two, no fault":            {tell: twice(sentBy("a", outcome{}), func(*story) {}), breach: "nothing explains"},
		"reply lost":                             {tell: twice(sentBy("a", lost), func(*story) {}), why: "reply to a send lost"},
		"reply lost, but completed all the same": {tell: twice(sentBy("a", lost), func(s *story) { s.complete("a", outcome{}) }), breach: "nothing explains"},
		"killed before completion":               {tell: twice(sentBy("a", outcome{}), func(s *story) { s.disturb("killed", "a", 0) }), why: "killed between send and completion"},
		"another one killed":                     {tell: twice(sentBy("a", outcome{}), func(s *story) { s.disturb("killed", "c", 0) }), breach: "nothing explains"},
		"killed before it was sent":              {tell: func(s *story) { s.disturb("killed", "b", 0); twice(sentBy("a", outcome{}), func(*story) {})(s) }, breach: "nothing explains"},
		"killed after completion": {
			tell:   twice(sentBy("a", outcome{}), func(s *story) { s.complete("a", outcome{}); s.disturb("killed", "a", 0) }),
			breach: "nothing explains",
		},
		"frozen before completion": {
			tell: twice(sentBy("a", outcome{}), func(s *story) { time.Sleep(time.Minute); s.disturb("frozen", "a", time.Minute) }),
			why:  "frozen between claim and completion",
		},
		"no completion got through":                {tell: twice(sentBy("a", outcome{}), func(s *story) { s.complete("a", refused) }), why: "no completion got through"},
		"a completion failed without a fault":      {tell: twice(sentBy("a", outcome{}), func(s *story) { s.complete("a", outcome{unapplied: true}) }), breach: "nothing explains"},
		"stored again, from a second receipt":      {tell: twice(sentBy("a", outcome{}), func(s *story) { s.complete("a", outcome{}); s.submission("i", outcome{}); s.insert("i", outcome{}) }), why: "submission came again after the delivery"},
		"stored again, from nothing":               {tell: twice(sentBy("a", outcome{}), func(s *story) { s.complete("a", outcome{}); s.insert("i", outcome{}) }), breach: "nothing explains"},
		"stored again, from a receipt unheard":     {tell: twice(sentBy("a", outcome{}), func(s *story) { s.complete("a", outcome{}); s.submission("i", lost); s.insert("i", outcome{}) }), breach: "nothing explains"},
		"stored again, by another who received it": {tell: twice(sentBy("a", outcome{}), func(s *story) { s.complete("a", outcome{}); s.submission("j", outcome{}); s.insert("j", outcome{}) }), why: "submission came again after the delivery"},
		"stored again, by another who did not":     {tell: twice(sentBy("a", outcome{}), func(s *story) { s.complete("a", outcome{}); s.submission("i", outcome{}); s.insert("j", outcome{}) }), breach: "nothing explains"},
		"stored again, the second receipt used": {
			tell:   twice(func(s *story) { s.submission("i", outcome{}); s.insert("i", outcome{}); sentBy("a", outcome{})(s) }, func(s *story) { s.complete("a", outcome{}); s.insert("i", outcome{}) }),
			breach: "nothing explains",
		},
		"stored again, the reply to the insert lost": {
			tell: func(s *story) {
				s.submission("i", outcome{})
				s.insert("i", lost)
				s.handle("w", s.deliver("a", outcome{}))
				s.complete("a", outcome{})
				s.insert("i", outcome{})
				s.handle("w", s.deliver("b", outcome{}))
			},
			why: "reply to an insert lost, and the row delivered before the next",
		},
		"handled twice, for no reason": {tell: func(s *story) { once(s); s.receive("w", "m1", "r2"); s.handle("w", "m1") }, breach: "nothing explains"},
		"handled twice, a copy":        {tell: func(s *story) { once(s); s.receive("w", "m1", journal.Copy+"1"); s.handle("w", "m1") }, why: "the queue delivered a copy"},
		"handled twice, a copy first": {tell: func(s *story) {
			s.deliver("a", outcome{})
			s.receive("w", "m1", journal.Copy+"1")
			s.handle("w", "m1")
			s.done("w", journal.Copy+"1", outcome{unapplied: true})
			s.receive("v", "m1", "r2")
			s.handle("v", "m1")
		}, why: "the queue delivered a copy"},
		"handled twice, another had a copy": {tell: func(s *story) {
			s.deliver("a", outcome{})
			s.receive("u", "m1", journal.Copy+"1")
			s.receive("w", "m1", "r1")
			s.handle("w", "m1")
			s.receive("v", "m1", "r2")
			s.handle("v", "m1")
		}, breach: "nothing explains"},
		"handled twice, a copy first, though deleted between": {tell: func(s *story) {
			s.deliver("a", outcome{})
			s.receive("w", "m1", journal.Copy+"1")
			s.handle("w", "m1")
			s.receive("u", "m1", "r1")
			s.done("u", "r1", outcome{})
			s.receive("v", "m1", "r2")
			s.handle("v", "m1")
		}, breach: "nothing explains"},
		"handled twice, the delete refused": {
			tell: func(s *story) {
				s.handle("w", s.deliver("a", outcome{}))
				s.receive("w", "m1", "r1")
				s.done("w", "r1", refused)
				s.receive("v", "m1", "r2")
				s.handle("v", "m1")
			},
			why: "the worker's delete did not get through",
		},
		"handled twice, though deleted": {
			tell: func(s *story) {
				s.handle("w", s.deliver("a", outcome{}))
				s.receive("w", "m1", "r1")
				s.done("w", "r1", outcome{})
				s.receive("v", "m1", "r2")
				s.handle("v", "m1")
			},
			breach: "nothing explains",
		},
		"handled twice, the worker killed": {
			tell: func(s *story) {
				s.handle("w", s.deliver("a", outcome{}))
				s.disturb("killed", "w", 0)
				s.receive("v", "m1", "r2")
				s.handle("v", "m1")
			},
			why: "the worker was killed or frozen",
		},
		"moved, then delivered for the old time": {
			tell: func(s *story) {
				s.l.Moving(id, s.due.Add(time.Minute))
				s.l.Moved(id, s.due.Add(time.Minute))
				once(s)
			},
			breach: "after it was moved away",
		},
		"a move of unknown outcome": {tell: func(s *story) { s.l.Moving(id, s.due.Add(time.Minute)); once(s) }},
		"gone with its queue": {tell: func(s *story) {
			s.deliver("a", outcome{})
			s.facts.Deleted["c-svc-orders"] = []time.Time{time.Now()}
		}},
		"sent while its queue was deleted": {tell: func(s *story) {
			began := time.Now()
			time.Sleep(time.Millisecond)
			s.facts.Deleted["c-svc-orders"] = []time.Time{time.Now()}
			s.deliver("a", outcome{began: began})
		}},
		"sent after its queue was made again": {tell: func(s *story) {
			s.facts.Deleted["c-svc-orders"] = []time.Time{time.Now()}
			s.deliver("a", outcome{})
		}, breach: "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStory()
				c.tell(s)
				a := audit.Verdict(s.l, s.j, s.handled, s.facts)
				if c.breach == "" {
					require.Empty(t, a.Breaches)
				} else {
					require.NotEmpty(t, a.Breaches, "it found nothing")
					require.Contains(t, strings.Join(a.Breaches, "\n"), c.breach)
				}
				if c.why != "" {
					require.Equal(t, map[string]int{c.why: 1}, a.Why)
				}
			})
		})
	}
}

func TestAClockThatMayBeOffExcusesNoMoreThanItsTolerance(t *testing.T) {
	for early, breaches := range map[time.Duration]int{audit.Tolerance: 0, audit.Tolerance + time.Millisecond: 1} {
		synctest.Test(t, func(t *testing.T) {
			s := newStory()
			s.facts.ClockOff = func(by string, _ time.Time) bool { return by == "a" }
			s.handle("w", s.deliver("a", outcome{}))
			s.handled[0].Sent = s.due.Add(-early)
			a := audit.Verdict(s.l, s.j, s.handled, s.facts)
			require.Len(t, a.Breaches, breaches)
			require.Equal(t, breaches, a.Early)
		})
	}
}
