package journal

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// Call is one request, read.
type Call struct {
	Op    string // such as SendMessageBatch
	SQS   bool
	Queue string // name of the queue, for SQS
	// Entries are the parts with an outcome of their own, in the order of the
	// request; a call of one part has one. Nil where it touches no trigger.
	Entries []Entry
}

// Entry is one part of a call.
type Entry struct {
	Ref      string // the entry's Id in the batch; of statements, their number
	ID       string // trigger; empty if it concerns none
	What     What
	Key      string
	From, To string
	message  string
}

type message struct {
	ID                string `json:"Id"`
	MessageID         string `json:"MessageId"`
	ReceiptHandle     string
	Body, MessageBody string
	Attributes        map[string]string
	MessageAttributes map[string]struct{ StringValue string }
}

// trigger returns the id a message carries, delivered or submitted.
func (m *message) trigger() string {
	if a, ok := m.MessageAttributes[trigger.AttrID]; ok {
		return a.StringValue
	}
	var in struct{ ID string }
	if json.Unmarshal([]byte(m.Body+m.MessageBody), &in) != nil {
		return "" // not ours, or not a submission
	}
	return in.ID
}

// value is an attribute value of DynamoDB; only strings matter here.
type value struct{ S string }

type write struct {
	TableName                 string
	Item, Key                 map[string]value
	ExpressionAttributeValues map[string]value
}

type request struct {
	message
	QueueURL      string `json:"QueueUrl"`
	Entries       []message
	TransactItems []struct{ Put, Update, Delete *write }
	Statements    []struct {
		Statement  string
		Parameters []value
	}
	write
}

// Read reads a request. It never fails: what it does not know has no entries.
func (j *Journal) Read(target string, body []byte) *Call {
	service, op, _ := strings.Cut(target, ".")
	c := &Call{Op: op, SQS: service == "AmazonSQS"}
	var r request
	if json.Unmarshal(body, &r) != nil {
		return c
	}
	if c.SQS {
		c.Queue = QueueName(r.QueueURL)
		j.readSQS(c, &r)
		return c
	}
	switch op {
	case "PutItem":
		c.table(Insert, r.Item, &r.write)
	case "UpdateItem":
		c.table(Change, r.Key, &r.write)
	case "DeleteItem":
		c.table(Remove, r.Key, &r.write)
	case "TransactWriteItems":
		for _, t := range r.TransactItems {
			switch {
			case t.Put != nil:
				c.table(Put, t.Put.Item, t.Put)
			case t.Update != nil:
				c.table(Move, t.Update.Key, t.Update)
			}
		}
	case "BatchExecuteStatement":
		for _, s := range r.Statements {
			c.statement(s.Statement, s.Parameters)
		}
	}
	return c
}

func (j *Journal) readSQS(c *Call, r *request) {
	var what What
	kind := j.names.Kind(c.Queue)
	switch c.Op {
	case "SendMessage", "SendMessageBatch":
		what = map[Kind]What{Buffer: Submit, Service: Deliver, DeadLetters: Letter}[kind]
	case "DeleteMessage", "DeleteMessageBatch":
		what = map[Kind]What{Buffer: Forget, Service: Done}[kind]
	}
	if what == "" {
		return
	}
	if r.Entries == nil {
		r.Entries = []message{r.message}
	}
	for i := range r.Entries {
		m := &r.Entries[i]
		e := Entry{Ref: m.ID, What: what}
		if m.ReceiptHandle != "" {
			of := j.of(m.ReceiptHandle)
			e.ID, e.message = of.id, of.message
		} else {
			e.ID = m.trigger()
		}
		c.Entries = append(c.Entries, e)
	}
}

// table adds a write of one item.
func (c *Call) table(what What, key map[string]value, w *write) {
	e := Entry{Ref: strconv.Itoa(len(c.Entries)), What: what, Key: key["p"].S + "/" + key["s"].S}
	_, e.ID, _ = strings.Cut(key["s"].S, "#")
	e.From, e.To = w.ExpressionAttributeValues[":from"].S, w.ExpressionAttributeValues[":to"].S
	if what == Insert || what == Put {
		e.To = key["st"].S
	}
	c.Entries = append(c.Entries, e.settled())
}

// statement adds a write of PartiQL: texts of a state, then the key, then a
// state, as the table's adapter orders them.
func (c *Call) statement(text string, params []value) {
	verb, _, _ := strings.Cut(text, " ")
	e := Entry{Ref: strconv.Itoa(len(c.Entries))}
	e.What = map[string]What{"INSERT": Insert, "UPDATE": Change, "DELETE": Remove}[verb]
	for _, p := range params {
		switch due, id, ok := strings.Cut(p.S, "#"); {
		case ok && len(due) == 13 && len(id) == 36:
			e.ID, e.Key = id, p.S
		case !state(p.S):
		case e.What == Change && e.To == "" || e.What == Insert:
			e.To = p.S
		default:
			e.From = p.S
		}
	}
	c.Entries = append(c.Entries, e.settled())
}

func state(s string) bool {
	switch s {
	case "S", "S!", "C", "C!", "D":
		return true
	}
	return strings.HasPrefix(s, "A.")
}

func (e Entry) settled() Entry {
	if e.What == Insert && strings.HasPrefix(e.To, "C") {
		e.What = Bar
	}
	return e
}

// Outcome is what became of a call.
type Outcome struct {
	By string
	// Began is when the call came in; Done when the endpoint had answered it.
	// Zero: now.
	Began, Done time.Time
	Status      int    // of the endpoint; 0 if it was not reached
	Body        []byte // of the endpoint
	Answered    bool
	Fault       string
	// Refused are entries that were not forwarded, with what was injected.
	Refused map[string]string
}

type answer struct {
	Messages   []message
	MessageID  string `json:"MessageId"`
	Successful []struct {
		ID        string `json:"Id"`
		MessageID string `json:"MessageId"`
	}
	Failed    []struct{ ID string }
	Responses []struct{ Error *struct{ Code string } }
}

// Log adds a call with its outcome to the histories it belongs to. It returns
// the call's number, for [Journal.Unheard].
func (j *Journal) Log(c *Call, o *Outcome) int64 {
	n := j.number()
	now := time.Now()
	began, done := cmp.Or(o.Began, now), cmp.Or(o.Done, now)
	if c.Entries == nil && c.Op != "ReceiveMessage" {
		return n
	}
	var a answer
	ok := o.Status == http.StatusOK && json.Unmarshal(o.Body, &a) == nil
	if c.Op == "ReceiveMessage" {
		if ok {
			j.received(c, o, &Event{Began: began, At: done, By: o.By, Answered: o.Answered, call: n}, a.Messages)
		}
		return n
	}
	applied := make(map[string]bool, len(c.Entries))
	for _, s := range a.Successful {
		applied[s.ID] = ok
	}
	next := 0 // among the statements that were forwarded
	for i := range c.Entries {
		e := &c.Entries[i]
		v := Event{
			Began: began, At: done, By: o.By, What: e.What, Key: e.Key, From: e.From, To: e.To, Message: e.message, Queue: c.Queue,
			Answered: o.Answered, Fault: o.Fault, call: n,
		}
		fault, refused := o.Refused[e.Ref]
		switch {
		case refused:
			v.Fault = fault
		case strings.HasSuffix(c.Op, "MessageBatch"):
			v.Applied = applied[e.Ref]
		case c.Op == "BatchExecuteStatement":
			v.Applied = ok && next < len(a.Responses) && a.Responses[next].Error == nil
			next++
		default:
			v.Applied = ok
		}
		for _, s := range a.Successful {
			if s.ID == e.Ref && s.MessageID != "" {
				v.Message = s.MessageID
			}
		}
		if a.MessageID != "" {
			v.Message = a.MessageID
		}
		if e.ID != "" {
			j.add(e.ID, &v)
		}
	}
	return n
}

// Copy is the mark in the receipts of messages that the proxy repeated.
const Copy = "chaos-copy-"

// received notes messages; all have in common what of says.
func (j *Journal) received(c *Call, o *Outcome, of *Event, messages []message) {
	what := map[Kind]What{Buffer: Drain, Service: Receive}[j.names.Kind(c.Queue)]
	for i := range messages {
		m := &messages[i]
		id := m.trigger()
		if id == "" || what == "" {
			continue
		}
		j.remember(m.ReceiptHandle, carried{id, m.MessageID})
		ms, _ := strconv.ParseInt(m.Attributes["SentTimestamp"], 10, 64) // zero where it was not asked for
		v := *of
		v.What, v.Message, v.Queue, v.Sent, v.Applied, v.Fault = what, m.MessageID, c.Queue, time.UnixMilli(ms), true, o.Fault
		if strings.HasPrefix(m.ReceiptHandle, Copy) {
			v.Fault = "a copy"
		}
		j.add(id, &v)
	}
}
