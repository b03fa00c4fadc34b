package trigger

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Epoch is a partition count and the time from which senders use it.
type Epoch struct {
	N    int
	From time.Time // UTC; zero for the first
}

// Epochs lists the partition counts of a table in the order they came into
// force. Counts only grow.
type Epochs []Epoch

// DefaultPartitions is the partition count of a lane in a new table.
const DefaultPartitions = 64

// Validate reports an empty list, counts outside 1 to [MaxPartitions], and
// entries that do not grow in count and time.
func (e Epochs) Validate() error {
	if len(e) == 0 {
		return errors.New("partition epochs: none")
	}
	for i, ep := range e {
		if ep.N < 1 || ep.N > MaxPartitions {
			return fmt.Errorf("partition epochs: n is %d; want 1 to %d", ep.N, MaxPartitions)
		}
		if i > 0 && (ep.N <= e[i-1].N || !ep.From.After(e[i-1].From)) {
			return fmt.Errorf("partition epochs: %d from %s does not grow on %d from %s",
				ep.N, stamp(ep.From), e[i-1].N, stamp(e[i-1].From))
		}
	}
	return nil
}

// At returns the count in force at a time.
func (e Epochs) At(t time.Time) int {
	n := e[0].N
	for _, ep := range e[1:] {
		if !t.Before(ep.From) {
			n = ep.N
		}
	}
	return n
}

// Max returns the largest count: the one that is scanned.
func (e Epochs) Max() int { return e[len(e)-1].N }

// Places returns the keys under which a trigger with a keyed id may lie: the
// given one first, then those of the table's other partition counts. Two
// submissions of one key may carry different counts. Random ids are submitted
// with one count only and have one place.
func (e Epochs) Places(k Key) []Key {
	places := []Key{k}
	if !k.ID.Keyed() {
		return places
	}
	for _, ep := range e {
		other := k
		other.Partition = Partition(k.ID, ep.N)
		if !slices.Contains(places, other) {
			places = append(places, other)
		}
	}
	return places
}
