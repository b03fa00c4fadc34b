package seal

import (
	"context"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/access/seal/internal/envelope"
)

const maxID = 64

// Local seals with keys that the process was given.
type Local struct {
	first string
	keys  map[string]cipher.AEAD
}

var _ access.Sealer = (*Local)(nil)

// NewLocal reads keys as "id:base64,id2:base64", 32 random bytes each. The first
// seals and all open: to change keys, put a new one in front, seal again what
// there is, and then drop the old one. Ids are 1 to 64 of a-z, A-Z, 0-9, '-', '_'
// and '.'; they are stored with what is sealed, so an id keeps its key. Errors
// count keys from 1 and quote none.
func NewLocal(keys string) (*Local, error) {
	l := &Local{keys: map[string]cipher.AEAD{}}
	var errs []error
	for i, one := range strings.Split(keys, ",") {
		id, aead, err := parseKey(strings.TrimSpace(one))
		if err == nil && l.keys[id] != nil {
			err = errors.New("its id was given before")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("key %d: %w", i+1, err))
			continue
		}
		if l.first == "" {
			l.first = id
		}
		l.keys[id] = aead
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("local sealing keys: %w", err)
	}
	return l, nil
}

func parseKey(s string) (string, cipher.AEAD, error) {
	id, text, ok := strings.Cut(s, ":")
	if !ok || !validID(id) {
		return "", nil, errors.New("want id:base64, the id 1 to 64 of a-z, A-Z, 0-9, '-', '_' and '.'")
	}
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil { // not wrapped: it tells where in the key
		return "", nil, errors.New("not base64")
	}
	aead, err := envelope.NewAEAD(key)
	return id, aead, err
}

func validID(s string) bool {
	const chars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	return s != "" && len(s) <= maxID && strings.Trim(s, chars) == ""
}

// Seal implements [access.Sealer]. It asks nobody.
func (l *Local) Seal(_ context.Context, plaintext []byte, bind map[string]string) ([]byte, error) {
	return envelope.Seal(l.keys[l.first], envelope.Header{Kind: envelope.Local, KeyID: l.first}, plaintext, bind)
}

// Open implements [access.Sealer]. It asks nobody.
func (l *Local) Open(_ context.Context, sealed []byte, bind map[string]string) ([]byte, error) {
	h, head, rest, err := envelope.Parse(sealed)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	aead := l.keys[h.KeyID]
	if h.Kind != envelope.Local || aead == nil {
		return nil, fmt.Errorf("open: %w: kind %d, id %.64q", access.ErrUnknownSealKey, h.Kind, h.KeyID)
	}
	plaintext, err := envelope.Open(aead, head, rest, bind)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return plaintext, nil
}

// Format keeps the keys out of every verb of fmt.
func (l *Local) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[local sealing keys]") }
