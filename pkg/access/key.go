package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
)

// KeyPrefix begins every API key. A whole key matches KeyPattern; secret
// scanners can be given it as it stands.
const (
	KeyPrefix  = "myo_"
	KeyPattern = `myo_[a-z2-7]{16}_[a-z2-7]{56}`
)

const (
	idBytes     = 10 // 16 characters
	secretBytes = 32 // with the checksum, 56 characters and no spare bit
	sumBytes    = 3
	idChars     = 16
	secretChars = 56
	redacted    = "[redacted]"

	maxName = 128
)

// ErrNotAKey means that a text is not an API key: a typo, a cut, another
// product's token. It is told from the text alone.
var ErrNotAKey = errors.New("not an API key")

func encode(b []byte) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

func decode(s string) ([]byte, bool) {
	if s != strings.ToLower(s) {
		return nil, false
	}
	b, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(s))
	// The decoder skips line ends, so only what it would write itself counts.
	return b, err == nil && encode(b) == s
}

// Plaintext is a whole API key, myo_<id>_<secret>. However it is printed,
// marshalled or logged it reads [redacted]; only [Plaintext.Reveal] shows it.
// Two of them are not to be compared by ==.
type Plaintext struct {
	id string
	// A pointer, because fmt does not call methods of what unexported fields of
	// other structs hold: there it prints an address.
	text *string
}

// ParseKey reads an API key. The secret ends in a checksum over all before it,
// so that typos and look-alikes are refused ([ErrNotAKey]) without a read of any
// table; the checksum needs no secret to compute and proves nothing else.
func ParseKey(s string) (Plaintext, error) {
	rest, ok := strings.CutPrefix(s, KeyPrefix)
	if !ok || len(rest) != idChars+1+secretChars || rest[idChars] != '_' {
		return Plaintext{}, ErrNotAKey
	}
	id, secret := rest[:idChars], rest[idChars+1:]
	if _, ok := decode(id); !ok {
		return Plaintext{}, ErrNotAKey
	}
	b, ok := decode(secret)
	if !ok || subtle.ConstantTimeCompare(b[secretBytes:], checksum(id, b[:secretBytes])) != 1 {
		return Plaintext{}, ErrNotAKey
	}
	return Plaintext{id: id, text: &s}, nil
}

func checksum(id string, secret []byte) []byte {
	h := sha256.New()
	_, _ = io.WriteString(h, KeyPrefix+id+"_checksum_")
	_, _ = h.Write(secret)
	return h.Sum(nil)[:sumBytes]
}

// ID returns the public half, by which the record is found.
func (p Plaintext) ID() string { return p.id }

// Reveal returns the key itself, to be shown once to whoever asked for it.
// The zero value has none and returns "".
func (p Plaintext) Reveal() string {
	if p.text == nil {
		return ""
	}
	return *p.text
}

// Format hides the key from every verb of fmt.
func (Plaintext) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue hides the key from slog.
func (Plaintext) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the key from encoders.
func (Plaintext) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// hash is a plain SHA-256: the secret is 256 random bits, so there is no
// dictionary to slow down, and a slow hash would only make each request dear
// and offer a cheap way to burn the API's processors. The id is hashed along,
// so a hash copied into another record verifies nothing.
func (p Plaintext) hash() [sha256.Size]byte { return sha256.Sum256([]byte(p.Reveal())) }

// Grant is what a key is made for.
type Grant struct {
	// Tenant whose things the key may touch, or [Platform], with Admin only.
	Tenant string
	Role   Role
	// Name is for people: what the key is used by. At most 128 bytes.
	Name string
	// Expires ends the key; zero: never.
	Expires time.Time
}

// Validate reports every fault together.
func (g Grant) Validate() error {
	var errs []error
	if g.Tenant != Platform && !validTenant(g.Tenant) {
		errs = append(errs, errors.New(`tenant: want 1 to 64 of a-z, A-Z, 0-9, '-', '_' and '.', or "*"`))
	}
	if !g.Role.valid() {
		errs = append(errs, errors.New("role: want read, write or admin"))
	}
	if g.Tenant == Platform && g.Role != Admin {
		errs = append(errs, errors.New(`role: a key for every tenant ("*") is admin or nothing`))
	}
	if len(g.Name) > maxName {
		errs = append(errs, fmt.Errorf("name: %d bytes; at most %d", len(g.Name), maxName))
	}
	return errors.Join(errs...)
}

// validTenant is the rule that jobs have for a tenant's name.
func validTenant(s string) bool {
	for _, c := range s {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// Key is the record of an API key. Nothing in it lets anyone use the key.
type Key struct {
	ID   string            // 16 of a-z, 2-7; public
	Hash [sha256.Size]byte `json:"-"` // of the whole key
	Grant
	Created time.Time
	// LastUsed is at most as fresh as the caller writes what
	// [Authenticator.TakeUsed] tells; zero: not known to have been used.
	LastUsed time.Time
	// Revoked ends the key at once; zero: not revoked.
	Revoked time.Time
}

// NewKey makes a key of 256 random bits. The record is to be stored, the
// plaintext to be shown once and forgotten. An error is the grant's.
func NewKey(g Grant, now time.Time) (Key, Plaintext, error) {
	if err := g.Validate(); err != nil {
		return Key{}, Plaintext{}, fmt.Errorf("new key: %w", err)
	}
	if !g.Expires.IsZero() && !g.Expires.After(now) {
		return Key{}, Plaintext{}, errors.New("new key: expires: is in the past")
	}
	var random [idBytes + secretBytes]byte
	_, _ = rand.Read(random[:]) // never fails: it ends the process instead
	id, secret := encode(random[:idBytes]), random[idBytes:]
	text := KeyPrefix + id + "_" + encode(append(secret, checksum(id, secret)...))
	p := Plaintext{id: id, text: &text}
	return Key{ID: id, Hash: p.hash(), Grant: g, Created: now.UTC()}, p, nil
}

// Verify tells whether p is this key, in time that does not depend on how much
// of it is right. It does not look at expiry or revocation.
func (k *Key) Verify(p Plaintext) bool {
	h := p.hash()
	return subtle.ConstantTimeCompare(h[:], k.Hash[:])&subtle.ConstantTimeCompare([]byte(p.id), []byte(k.ID)) == 1
}
