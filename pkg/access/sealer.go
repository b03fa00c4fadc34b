package access

import (
	"context"
	"errors"
)

// Sealer encrypts small secrets for storage. Plaintext, of any length, opens
// only with the bind map it was sealed with: what it belongs to, such as its
// tenant and its id, so that a sealed text copied into another's record is
// worth nothing there. The bind map is not stored and is no secret.
//
// Errors never quote the plaintext or a key. Those to act on are
// [ErrNotOpened], [ErrUnknownSealKey] and [ErrSealerUnavailable].
type Sealer interface {
	Seal(ctx context.Context, plaintext []byte, bind map[string]string) ([]byte, error)
	Open(ctx context.Context, sealed []byte, bind map[string]string) ([]byte, error)
}

// What a [Sealer] fails with.
var (
	// ErrNotOpened: not what Seal returned, changed since, or sealed with another
	// bind map. Which of them cannot be told; trying again does not help.
	ErrNotOpened = errors.New("sealed text does not open")
	// ErrUnknownSealKey: sealed with a key that this process was not given.
	ErrUnknownSealKey = errors.New("sealed with an unknown key")
	// ErrSealerUnavailable: whoever keeps the key does not answer, or does not
	// let it be used now.
	ErrSealerUnavailable = errors.New("sealing key cannot be used now")
)
