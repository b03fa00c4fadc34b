package trigger

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxPartitions is the largest partition count of a lane.
const MaxPartitions = 1000

// maxDueMs is the last due time that keeps 13 digits: in the year 2286.
const maxDueMs = 9_999_999_999_999

const (
	dueDigits = 13
	idLen     = 36
)

// Key is the primary key of a trigger's row.
type Key struct {
	Lane      Lane
	Partition int   // 0 ≤ Partition < MaxPartitions
	Due       int64 // epoch milliseconds, UTC
	ID        ID
}

// KeyOf returns the key of a trigger stored by a sender that used n partitions.
func KeyOf(lane Lane, id ID, due time.Time, n int) Key {
	return Key{Lane: lane, Partition: Partition(id, n), Due: due.UnixMilli(), ID: id}
}

// PartitionKey returns the hash key of a partition's rows, such as "s.017".
func PartitionKey(lane Lane, partition int) string {
	if partition < 0 || partition >= MaxPartitions {
		return fmt.Sprintf("%c.%03d", lane.letter(), partition)
	}
	return string([]byte{lane.letter(), '.', digit(partition / 100), digit(partition / 10 % 10), digit(partition % 10)})
}

// SortKey returns the range key of a row: 13 digits of due time and the id.
func SortKey(due int64, id ID) string {
	var b [dueDigits + 1 + idLen]byte
	putDue(b[:dueDigits], due)
	b[dueDigits] = '#'
	id.put(b[dueDigits+1:])
	return string(b[:])
}

// SortFrom returns the smallest range key of rows due at or after the given
// epoch millisecond. Times outside 13 digits are brought to the nearest end.
func SortFrom(due int64) string {
	var b [dueDigits]byte
	putDue(b[:], due)
	return string(b[:])
}

// putDue writes the digits of a due time, the last first. These keys are made
// and parsed several times a job: hence no fmt.
func putDue(b []byte, due int64) {
	due = min(max(due, 0), maxDueMs)
	for i := dueDigits - 1; i >= 0; i-- {
		b[i] = digit(int(due % 10))
		due /= 10
	}
}

func digit(n int) byte { return "0123456789"[n] }

// P returns the row's hash key.
func (k Key) P() string { return PartitionKey(k.Lane, k.Partition) }

// S returns the row's range key.
func (k Key) S() string { return SortKey(k.Due, k.ID) }

// String returns both halves, for logs and messages.
func (k Key) String() string { return k.P() + "/" + k.S() }

// DueTime returns the due time, UTC.
func (k Key) DueTime() time.Time { return time.UnixMilli(k.Due).UTC() }

// Compare orders the keys of one partition as the table does: by due time, then id.
func (k Key) Compare(o Key) int {
	switch {
	case k.Due < o.Due:
		return -1
	case k.Due > o.Due:
		return 1
	}
	return strings.Compare(string(k.ID[:]), string(o.ID[:]))
}

var errKey = errors.New("not a row key")

// ParseKey reads the two halves of a row's key.
func ParseKey(p, s string) (Key, error) {
	var k Key
	lane, num, ok := strings.Cut(p, ".")
	switch {
	case !ok:
		return k, fmt.Errorf("%w: partition %q", errKey, clip(p, 32))
	case lane == "s":
		k.Lane = Standard
	case lane == "u":
		k.Lane = Urgent
	default:
		return k, fmt.Errorf("%w: lane of %q", errKey, clip(p, 32))
	}
	n, err := strconv.Atoi(num)
	if err != nil || n < 0 || n >= MaxPartitions || PartitionKey(k.Lane, n) != p {
		return Key{}, fmt.Errorf("%w: partition %q", errKey, clip(p, 32))
	}
	k.Partition = n
	if len(s) != dueDigits+1+idLen || s[dueDigits] != '#' {
		return Key{}, fmt.Errorf("%w: sort key %q", errKey, clip(s, 64))
	}
	due, err := strconv.ParseUint(s[:dueDigits], 10, 63)
	if err != nil {
		return Key{}, fmt.Errorf("%w: due time of %q", errKey, clip(s, 64))
	}
	k.Due = int64(due)
	if k.ID, err = ParseID(s[dueDigits+1:]); err != nil || k.ID.String() != s[dueDigits+1:] {
		return Key{}, fmt.Errorf("%w: id of %q", errKey, clip(s, 64))
	}
	return k, nil
}

// clip cuts foreign text for an error message.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
