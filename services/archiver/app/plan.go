package app

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

// Where objects lie in the bucket.
const (
	runsPrefix        = "runs/"
	undecodablePrefix = "undecodable/"
)

// record is a removal of a batch.
type record struct {
	raw     json.RawMessage
	index   int    // in the batch
	seq     string // sequence number
	eventID string
}

// object is one thing to put. All its records are of one day, or it is one
// record that nobody can read.
type object struct {
	key         string
	first, last int // indexes of its first and last record in the batch
	seq         string
	rows        []Row
	raw         json.RawMessage // of an undecodable record
}

// head is what is read of a record before all of it is.
type head struct {
	EventID      string                       `json:"eventID"`
	EventName    string                       `json:"eventName"`
	UserIdentity *events.DynamoDBUserIdentity `json:"userIdentity"`
	Change       struct {
		SequenceNumber string `json:"SequenceNumber"`
	} `json:"dynamodb"`
}

// expired reports whether the table's time to live removed the item, not somebody.
func (h *head) expired() bool {
	return h.UserIdentity != nil && h.UserIdentity.Type == "Service" && h.UserIdentity.PrincipalID == "dynamodb.amazonaws.com"
}

// objectName names an object by its first record alone, so that a batch that
// comes again with another end, or in parts, writes over what it wrote before.
// Numbers are padded so that names sort; the event's id tells shards apart.
func objectName(seq, eventID string) string {
	const digits = 40 // a sequence number's most
	return strings.Repeat("0", max(0, digits-len(seq))) + clean(seq) + "-" + clean(eventID)
}

// id is the event's id; of a record whose id cannot be read, one of its bytes.
func (r *record) id() string {
	if r.eventID != "" {
		return r.eventID
	}
	sum := sha256.Sum256(r.raw)
	return hex.EncodeToString(sum[:16])
}

// clean keeps what is not a letter, digit or '-' out of a key.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '-':
			return r
		}
		return '_'
	}, s)
}

// plan orders a batch into objects, by first record. Unread are the records that
// nobody can read, with why.
func (a *Archiver) plan(records []record) (objects []*object, unread []error) {
	days := map[string]*object{}
	for _, rec := range records {
		day, row, err := a.read(rec)
		if err != nil {
			unread = append(unread, fmt.Errorf("record %s: %w", rec.seq, err))
			objects = append(objects, &object{
				key:   undecodablePrefix + objectName(rec.seq, rec.id()) + ".json",
				first: rec.index, last: rec.index, seq: rec.seq, raw: rec.raw,
			})
			continue
		}
		o := days[day]
		if o == nil {
			o = &object{
				key:   runsPrefix + "day=" + day + "/" + objectName(rec.seq, rec.id()) + ".parquet",
				first: rec.index, seq: rec.seq,
			}
			days[day] = o
			objects = append(objects, o)
		}
		o.last = rec.index
		o.rows = append(o.rows, row)
	}
	return objects, unread
}

// resume returns the object from whose first record a batch must come again, when
// objects[:written] are in the bucket and objects[written] is not: the earliest
// one such that no object holds records from both before and after it. Then
// every object with a record that comes again is written over by name.
func resume(objects []*object, written int) *object {
	at := written
	for i := written - 1; i >= 0; i-- {
		if objects[i].last > objects[at].first {
			at = i
		}
	}
	return objects[at]
}
