package trigger

import (
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // RFC 9562 defines UUIDv5 over SHA-1; it is a name, not a secret.
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
)

// ID identifies a trigger: a UUID (RFC 9562), written in lower case with dashes.
type ID [16]byte

// namespaceKey is the UUIDv5 namespace of ids derived from idempotency keys.
//
//nolint:gochecknoglobals // a constant in all but name.
var namespaceKey = ID{0x6d, 0x79, 0x6f, 0x73, 0x69, 0x6e, 0x4b, 0x65, 0x81, 0x79, 0x2e, 0x76, 0x31, 0x00, 0x00, 0x01}

// NewID returns a random (version 4) id.
func NewID() ID {
	var id ID
	// crypto/rand.Read never fails: it ends the process instead.
	_, _ = rand.Read(id[:])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// KeyedID returns the id a caller's idempotency key stands for: UUIDv5 of
// (service, tenant, key). Two services using one key get two ids.
func KeyedID(service, tenant, key string) ID {
	h := sha1.New() //nolint:gosec // see the import.
	h.Write(namespaceKey[:])
	for _, part := range []string{service, tenant, key} {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(part))) //nolint:gosec // lengths are limited far below 2^32.
		h.Write(n[:])
		h.Write([]byte(part))
	}
	var id ID
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x50
	id[8] = id[8]&0x3f | 0x80
	return id
}

// Keyed reports whether the id was derived from a name (UUIDv5), so that the
// same id may be submitted more than once on purpose.
func (id ID) Keyed() bool { return id[6]>>4 == 5 }

// IsZero reports whether the id was never set.
func (id ID) IsZero() bool { return id == ID{} }

// String returns the 36-character lower-case form.
func (id ID) String() string {
	var b [idLen]byte
	id.put(b[:])
	return string(b[:])
}

// put writes the 36-character form.
func (id ID) put(b []byte) {
	hex.Encode(b[0:8], id[0:4])
	b[8] = '-'
	hex.Encode(b[9:13], id[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], id[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], id[8:10])
	b[23] = '-'
	hex.Encode(b[24:36], id[10:16])
}

var errID = errors.New("want a UUID of 36 characters, such as 0b7e1f3a-6a52-4b7c-9d1e-2f4a5b6c7d8e")

// ParseID reads the 36-character form, in either case.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, errID
	}
	var h [32]byte
	copy(h[0:8], s[0:8])
	copy(h[8:12], s[9:13])
	copy(h[12:16], s[14:18])
	copy(h[16:20], s[19:23])
	copy(h[20:32], s[24:36])
	if _, err := hex.Decode(id[:], h[:]); err != nil {
		return ID{}, errID
	}
	return id, nil
}

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID) UnmarshalText(b []byte) error {
	parsed, err := ParseID(string(b))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// Partition returns the partition of id among n: xxhash64, seed 0, of the id's
// 36-character form, mod n. It panics if n < 1.
func Partition(id ID, n int) int {
	if n < 1 {
		panic(fmt.Sprintf("trigger: partition count %d", n))
	}
	return int(hash36(id.String()) % uint64(n)) //nolint:gosec // the remainder is below n.
}

const (
	prime1 uint64 = 11400714785074694791
	prime2 uint64 = 14029467366897019727
	prime3 uint64 = 1609587929392839161
	prime4 uint64 = 9650029242287828579
)

// hash36 is xxhash64 with seed 0 for an input of exactly 36 bytes: one stripe
// of 32 and one trailing word of 4. Source: the xxHash specification 0.1.1.
// It stands here, and not in a library, because the partition of an id is part
// of the wire contract and this package depends on nothing; the tests compare
// it with github.com/cespare/xxhash.
func hash36(s string) uint64 {
	b := []byte(s)
	// prime1+prime2 and 0-prime1, modulo 2^64.
	v1, v2, v3, v4 := uint64(6983438078262162902), prime2, uint64(0), uint64(7046029288634856825)
	v1 = round(v1, binary.LittleEndian.Uint64(b[0:8]))
	v2 = round(v2, binary.LittleEndian.Uint64(b[8:16]))
	v3 = round(v3, binary.LittleEndian.Uint64(b[16:24]))
	v4 = round(v4, binary.LittleEndian.Uint64(b[24:32]))
	h := bits.RotateLeft64(v1, 1) + bits.RotateLeft64(v2, 7) + bits.RotateLeft64(v3, 12) + bits.RotateLeft64(v4, 18)
	for _, v := range [...]uint64{v1, v2, v3, v4} {
		h ^= round(0, v)
		h = h*prime1 + prime4
	}
	h += 36
	h ^= uint64(binary.LittleEndian.Uint32(b[32:36])) * prime1
	h = bits.RotateLeft64(h, 23)*prime2 + prime3
	h ^= h >> 33
	h *= prime2
	h ^= h >> 29
	h *= prime3
	h ^= h >> 32
	return h
}

func round(acc, input uint64) uint64 {
	return bits.RotateLeft64(acc+input*prime2, 31) * prime1
}
