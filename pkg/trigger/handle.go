package trigger

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Handle is what a caller keeps to look up, move or cancel a trigger: it
// addresses the row's key directly.
type Handle struct {
	Lane    Lane
	N       int // partition count the sender used
	Due     time.Time
	ID      ID
	Service string
}

const handleVersion = 1

// handleFixed is the packed size without the service: version, lane, n (2),
// due (6, epoch ms), id (16).
const handleFixed = 1 + 1 + 2 + 6 + 16

// Key returns the key of the row the handle addresses.
func (h Handle) Key() Key { return KeyOf(h.Lane, h.ID, h.Due, h.N) }

// String packs the handle: version, lane, n, due, id, length of service,
// service; big-endian; base64url without padding.
func (h Handle) String() string {
	b := make([]byte, 0, handleFixed+1+len(h.Service))
	b = append(b, handleVersion, byte(h.Lane))
	b = binary.BigEndian.AppendUint16(b, uint16(h.N)) //nolint:gosec // n ≤ MaxPartitions.
	var due [8]byte
	binary.BigEndian.PutUint64(due[:], uint64(h.Due.UnixMilli()))
	b = append(b, due[2:]...)
	b = append(b, h.ID[:]...)
	b = append(b, byte(len(h.Service))) //nolint:gosec // at most MaxService.
	b = append(b, h.Service...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// ErrHandle is returned for text that is no handle of a known version.
var ErrHandle = errors.New("not a handle")

// ParseHandle reads what [Handle.String] packed. Any text that is not exactly
// one handle of a known version gives an error that wraps [ErrHandle].
func ParseHandle(s string) (Handle, error) {
	var h Handle
	if len(s) > 200 {
		return h, fmt.Errorf("%w: %d characters, at most 200", ErrHandle, len(s))
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") { // the decoder skips line ends
		return h, fmt.Errorf("%w: not base64url", ErrHandle)
	}
	if len(b) < handleFixed+1 {
		return h, fmt.Errorf("%w: too short", ErrHandle)
	}
	if b[0] != handleVersion {
		return h, fmt.Errorf("%w: version %d, this release reads %d", ErrHandle, b[0], handleVersion)
	}
	if b[1] > byte(Urgent) {
		return h, fmt.Errorf("%w: lane %d", ErrHandle, b[1])
	}
	h.Lane = Lane(b[1])
	h.N = int(binary.BigEndian.Uint16(b[2:4]))
	if h.N < 1 || h.N > MaxPartitions {
		return Handle{}, fmt.Errorf("%w: partition count %d", ErrHandle, h.N)
	}
	var due [8]byte
	copy(due[2:], b[4:10])
	ms := binary.BigEndian.Uint64(due[:])
	if ms > maxDueMs {
		return Handle{}, fmt.Errorf("%w: due time", ErrHandle)
	}
	h.Due = time.UnixMilli(int64(ms)).UTC()
	copy(h.ID[:], b[10:26])
	h.Service = string(b[handleFixed+1:])
	if int(b[handleFixed]) != len(h.Service) {
		return Handle{}, fmt.Errorf("%w: cut or extended", ErrHandle)
	}
	if err := ValidService(h.Service); err != nil {
		return Handle{}, fmt.Errorf("%w: service: %w", ErrHandle, err)
	}
	return h, nil
}

// MarshalText implements encoding.TextMarshaler.
func (h Handle) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Handle) UnmarshalText(b []byte) error {
	parsed, err := ParseHandle(string(b))
	if err != nil {
		return err
	}
	*h = parsed
	return nil
}
