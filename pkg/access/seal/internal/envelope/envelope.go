// Package envelope is the format of sealed texts, the same for every kind of
// key: a header in the clear, a random nonce, and AES-256-GCM over the plaintext
// with the header and the bind map as additional data.
//
//	version 1 | kind 1 | length 1, key id | length 2, wrapped key | nonce 12 | text | tag 16
//
// It owns the bytes and refuses to know where keys come from. Its functions keep
// nothing and may be used concurrently.
package envelope

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/myosin-jobs/myosin/pkg/access"
)

const (
	// KeySize is the length of a key in bytes.
	KeySize = 32
	// MaxKeyID is how long the id of a key may be, in bytes.
	MaxKeyID = 255
	// MaxWrapped is how long a wrapped key may be, in bytes; KMS writes up to 6144.
	MaxWrapped = 1<<16 - 1

	version  = 1
	overhead = 12 + 16
)

// Kind tells who keeps the key. The values are stored.
type Kind byte

// Kinds.
const (
	Local Kind = 1 // the process was given it; no wrapped key
	KMS   Kind = 2 // wrapped by AWS KMS
)

// Header is what can be read without a key, and is worth only as much as the
// opening that follows.
type Header struct {
	Kind    Kind
	KeyID   string // 1 to MaxKeyID bytes
	Wrapped []byte // up to MaxWrapped bytes
}

// NewAEAD returns the cipher for a key of KeySize bytes. It makes nonces itself;
// one key is good for 2^32 texts.
func NewAEAD(key []byte) (cipher.AEAD, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("key: %d bytes; want %d", len(key), KeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	return aead, nil
}

// Seal writes the header and what aead makes of the plaintext.
func Seal(aead cipher.AEAD, h Header, plaintext []byte, bind map[string]string) ([]byte, error) {
	if h.KeyID == "" || len(h.KeyID) > MaxKeyID || len(h.Wrapped) > MaxWrapped {
		return nil, fmt.Errorf("seal: key id of %d bytes, wrapped key of %d: out of range", len(h.KeyID), len(h.Wrapped))
	}
	out := make([]byte, 0, 5+len(h.KeyID)+len(h.Wrapped)+overhead+len(plaintext))
	out = append(out, version, byte(h.Kind), byte(len(h.KeyID))) //nolint:gosec // held against MaxKeyID above.
	out = append(out, h.KeyID...)
	out = binary.BigEndian.AppendUint16(out, uint16(len(h.Wrapped))) //nolint:gosec // held against MaxWrapped above.
	out = append(out, h.Wrapped...)
	return aead.Seal(out, nil, plaintext, additional(out, bind)), nil //nolint:gosec // NewAEAD's makes its own nonce.
}

// Parse splits a sealed text. head is the header's bytes and rest what follows,
// both for [Open]. The error is [access.ErrNotOpened].
func Parse(sealed []byte) (h Header, head, rest []byte, err error) {
	bad := func(what string) (Header, []byte, []byte, error) {
		return Header{}, nil, nil, fmt.Errorf("%w: %s", access.ErrNotOpened, what)
	}
	if len(sealed) < 3 || sealed[0] != version {
		return bad("not of a known version")
	}
	id := int(sealed[2])
	at := 3 + id + 2
	if id == 0 || len(sealed) < at {
		return bad("cut short")
	}
	wrapped := int(binary.BigEndian.Uint16(sealed[at-2:]))
	if len(sealed) < at+wrapped+overhead {
		return bad("cut short")
	}
	h = Header{Kind: Kind(sealed[1]), KeyID: string(sealed[3 : 3+id]), Wrapped: sealed[at : at+wrapped]}
	return h, sealed[:at+wrapped], sealed[at+wrapped:], nil
}

// Open returns the plaintext. The error is [access.ErrNotOpened].
func Open(aead cipher.AEAD, head, rest []byte, bind map[string]string) ([]byte, error) {
	plaintext, err := aead.Open(nil, nil, rest, additional(head, bind))
	if err != nil {
		return nil, fmt.Errorf("%w: changed, or bound to something else", access.ErrNotOpened)
	}
	return plaintext, nil
}

// additional is the header, which tells its own length, and the bind map sorted,
// each part with its length before it: no two maps are the same bytes.
func additional(head []byte, bind map[string]string) []byte {
	out := binary.BigEndian.AppendUint64(slices.Clone(head), uint64(len(bind)))
	for _, k := range slices.Sorted(maps.Keys(bind)) {
		for _, part := range []string{k, bind[k]} {
			out = append(binary.BigEndian.AppendUint64(out, uint64(len(part))), part...)
		}
	}
	return out
}
