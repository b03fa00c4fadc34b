package trigger

import "fmt"

// Lane separates urgent triggers from the rest: each lane has its own inbound
// queue, partitions, workers and share of the table's capacity.
type Lane uint8

// The lanes. The zero value is the standard lane.
const (
	Standard Lane = iota
	Urgent
)

// Lanes lists every lane, urgent first: the order in which work is shed last.
//
//nolint:gochecknoglobals // a constant in all but name.
var Lanes = [...]Lane{Urgent, Standard}

// String returns the lane's name on the wire: "standard" or "urgent".
func (l Lane) String() string {
	if l == Urgent {
		return "urgent"
	}
	return "standard"
}

// ParseLane reads a lane's name; the empty string is the standard lane.
func ParseLane(s string) (Lane, error) {
	switch s {
	case "", "standard":
		return Standard, nil
	case "urgent":
		return Urgent, nil
	}
	return 0, fmt.Errorf("want standard or urgent, not %q", clip(s, 32))
}

func (l Lane) letter() byte {
	if l == Urgent {
		return 'u'
	}
	return 's'
}

// MarshalText implements encoding.TextMarshaler.
func (l Lane) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Lane) UnmarshalText(b []byte) error {
	parsed, err := ParseLane(string(b))
	if err != nil {
		return err
	}
	*l = parsed
	return nil
}
