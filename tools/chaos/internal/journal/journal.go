// Package journal owns the history of a run as it went over the wire: for each
// trigger, every call of every process that touched it, whether the endpoint
// applied it and whether the process got the answer.
//
// It reads calls of SQS and DynamoDB as far as the platform makes them, and
// judges nothing: that is package audit's. A [Journal] may be used concurrently.
package journal

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// What is what a call does to a trigger.
type What string

// The things that happen to a trigger.
const (
	Submit  What = "submit"   // sent to an inbound buffer
	Drain   What = "drain"    // received from it
	Forget  What = "forget"   // deleted from it
	Insert  What = "insert"   // a row that can move, put where none was
	Bar     What = "bar"      // a tombstone, put where no row was
	Change  What = "change"   // another state
	Remove  What = "complete" // the row deleted
	Move    What = "move"     // to another due time
	Put     What = "put"      // the row of another due time
	Deliver What = "deliver"  // sent to the queue of its service
	Receive What = "receive"  // by the service's worker
	Done    What = "done"     // deleted by the worker
	Letter  What = "letter"   // sent to a dead-letter queue
)

// Event is one call, as far as it concerns one trigger.
type Event struct {
	Began    time.Time // when the call came from the process
	At       time.Time // when the endpoint had answered, or the call was cut
	By       string    // the process start, such as scheduler-1.2
	What     What
	Key      string // of the row
	From, To string // states; empty where the call names none
	Message  string // the queue's id of the message
	Queue    string // its name
	Sent     time.Time
	Applied  bool // by the endpoint, as it answered
	Answered bool // the endpoint's answer went out to the process, and was heard
	call     int64
	Fault    string // what was injected; empty for nothing
}

func (e *Event) text(start time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%8.3fs %-12s %-8s", e.At.Sub(start).Seconds(), e.By, e.What)
	if took := e.At.Sub(e.Began); took >= time.Second {
		fmt.Fprintf(&b, " (took %.1fs)", took.Seconds())
	}
	for _, s := range []string{e.Key, e.Queue, e.Message} {
		if s != "" {
			b.WriteString(" " + s)
		}
	}
	switch {
	case e.From != "" && e.To != "":
		fmt.Fprintf(&b, " %s -> %s", e.From, e.To)
	case e.From+e.To != "":
		b.WriteString(" " + e.From + e.To)
	}
	if !e.Applied {
		b.WriteString(" (not applied)")
	}
	if !e.Answered {
		b.WriteString(" (no answer came)")
	}
	if e.Fault != "" {
		b.WriteString(" [" + e.Fault + "]")
	}
	return b.String()
}

// Journal holds the events of a run.
type Journal struct {
	names   Names
	mu      sync.Mutex
	events  map[string][]Event // by trigger
	owner   map[string]carried // by receipt: which message it is of
	calls   int64
	unheard map[int64]bool
}

// carried is what a received message carries.
type carried struct{ id, message string }

// New returns an empty journal of an installation.
func New(n Names) *Journal {
	return &Journal{names: n, events: make(map[string][]Event), owner: make(map[string]carried), unheard: make(map[int64]bool)}
}

func (j *Journal) add(id string, e *Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events[id] = append(j.events[id], *e)
}

// Note puts something in a trigger's history that went over no wire.
func (j *Journal) Note(id, by, text string) {
	now := time.Now()
	j.add(id, &Event{Began: now, At: now, By: by, What: What(text), Applied: true, Answered: true})
}

// Of returns a trigger's events in the order of their times.
func (j *Journal) Of(id string) []Event {
	j.mu.Lock()
	events := slices.Clone(j.events[id])
	for i := range events {
		if j.unheard[events[i].call] {
			events[i].Answered = false
			events[i].Fault = strings.TrimSpace(events[i].Fault + " given up by the process")
		}
		events[i].call = 0
	}
	j.mu.Unlock()
	slices.SortStableFunc(events, func(a, b Event) int { return a.At.Compare(b.At) })
	return events
}

// number gives a call the number that Log returns.
func (j *Journal) number() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls++
	return j.calls
}

// Unheard notes that the process had given a call up when its answer came.
func (j *Journal) Unheard(call int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unheard[call] = true
}

// GivenUp returns how many calls were.
func (j *Journal) GivenUp() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.unheard)
}

// IDs returns every trigger there are events of.
func (j *Journal) IDs() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	ids := make([]string, 0, len(j.events))
	for id := range j.events {
		ids = append(ids, id)
	}
	return ids
}

// Text is a trigger's history, one event a line, with times since start.
func (j *Journal) Text(id string, start time.Time) string {
	var b strings.Builder
	for _, e := range j.Of(id) {
		b.WriteString("    " + e.text(start) + "\n")
	}
	return b.String()
}

// remember notes which message a receipt is of.
func (j *Journal) remember(receipt string, c carried) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.owner[receipt] = c
}

// of returns what the message of a receipt carries; the receipt of a message is
// used to the end once at most, but may be asked for again.
func (j *Journal) of(receipt string) carried {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.owner[receipt]
}
