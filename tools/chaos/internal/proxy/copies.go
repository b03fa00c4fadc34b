package proxy

import (
	"encoding/json"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/tools/chaos/internal/journal"
)

// Copies holds the messages that are to be received again: by anybody who
// receives from their queue, as standard queues do now and then.
type Copies struct {
	mu      sync.Mutex
	serial  int
	waiting map[string][]waiting // by queue
}

type waiting struct {
	at      time.Time
	message map[string]json.RawMessage
}

// NewCopies returns an empty one.
func NewCopies() *Copies { return &Copies{waiting: make(map[string][]waiting)} }

// maxReceive is what one ReceiveMessage may answer.
const maxReceive = 10

// add keeps copies of the messages in an answer, if asked, and puts those that
// are due into it.
func (c *Copies) add(queue string, a *answer, repeat bool, after time.Duration) {
	var fields map[string]json.RawMessage
	var messages []map[string]json.RawMessage
	if json.Unmarshal(a.body, &fields) != nil {
		return
	}
	_ = json.Unmarshal(fields["Messages"], &messages) // absent where there are none
	c.mu.Lock()
	defer c.mu.Unlock()
	due := c.due(queue, maxReceive-len(messages))
	if repeat {
		for _, m := range messages {
			c.waiting[queue] = append(c.waiting[queue], waiting{time.Now().Add(after), c.copied(m)})
		}
	}
	if len(due) == 0 {
		return
	}
	fields["Messages"], _ = json.Marshal(append(messages, due...)) // made of valid JSON
	a.body, _ = json.Marshal(fields)
}

func (c *Copies) due(queue string, room int) (out []map[string]json.RawMessage) {
	var later []waiting
	now := time.Now()
	for _, w := range c.waiting[queue] {
		if w.at.After(now) || len(out) >= room {
			later = append(later, w)
			continue
		}
		out = append(out, w.message)
	}
	c.waiting[queue] = later
	return out
}

// copied returns a message with a receipt of its own.
func (c *Copies) copied(m map[string]json.RawMessage) map[string]json.RawMessage {
	out := maps.Clone(m)
	c.serial++
	out["ReceiptHandle"], _ = json.Marshal(journal.Copy + strconv.Itoa(c.serial))
	return out
}

// Drop forgets the copies that nobody has received.
func (c *Copies) Drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.waiting)
}
