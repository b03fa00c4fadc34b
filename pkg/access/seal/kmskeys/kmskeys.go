// Package kmskeys seals with data keys that AWS KMS wraps: what is stored holds
// its own wrapped key, and only KMS can unwrap it.
//
// It owns the calls to KMS and a small memory of data keys, so that KMS is asked
// once in a few minutes for a tenant and not for each secret. To KMS goes, as
// the encryption context, the tenant alone, for its policies and its audit
// trail; all of the bind map is held by the encryption itself. It refuses
// aliases as keys. A [Sealer] may be used concurrently and starts no goroutine.
package kmskeys

import (
	"context"
	"crypto/cipher"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/access/seal/internal/envelope"
)

const (
	// TenantKey is the entry of a bind map that becomes the encryption context.
	TenantKey = "tenant"
	// DefaultLifetime is how long a data key is used, and so how long after KMS
	// was told to refuse a key that may go unnoticed.
	DefaultLifetime = 5 * time.Minute
	// DefaultUses of a data key.
	DefaultUses = 1000
	// DefaultMaxKept bounds the data keys in memory, for sealing and, apart, for
	// opening.
	DefaultMaxKept = 1000
)

// Client is what this package needs of KMS; a *kms.Client is one.
type Client interface {
	GenerateDataKey(ctx context.Context, in *kms.GenerateDataKeyInput, opts ...func(*kms.Options)) (*kms.GenerateDataKeyOutput, error)
	Decrypt(ctx context.Context, in *kms.DecryptInput, opts ...func(*kms.Options)) (*kms.DecryptOutput, error)
}

// NewClient returns KMS itself.
func NewClient(cfg aws.Config) Client { return kms.NewFromConfig(cfg) }

// Options configure a [Sealer]. Zero values mean the defaults named.
type Options struct {
	// Client of KMS. Required.
	Client Client
	// Keys are ids or ARNs of symmetric KMS keys: the first seals, all open. What
	// is sealed names its key by the id at the end of the ARN. An alias is
	// refused: it can be pointed elsewhere, and what it sealed would be lost.
	Keys []string
	// Lifetime of a data key, at most an hour; 0: [DefaultLifetime].
	Lifetime time.Duration
	// Uses of a data key, at most 2^20; 0: [DefaultUses].
	Uses int
	// MaxKept data keys; 0: [DefaultMaxKept].
	MaxKept int
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Validate reports every option at fault, joined.
func (o *Options) Validate() error {
	var errs []error
	if o.Client == nil {
		errs = append(errs, errors.New("client: missing"))
	}
	if len(o.Keys) == 0 {
		errs = append(errs, errors.New("keys: none"))
	}
	seen := map[string]bool{}
	for _, k := range o.Keys {
		id := keyID(k)
		switch {
		case id == "" || len(id) > envelope.MaxKeyID || strings.Contains(k, "alias/"):
			errs = append(errs, fmt.Errorf("keys: %q: want the id or the ARN of a key, not an alias", k))
		case seen[id]:
			errs = append(errs, fmt.Errorf("keys: %q: given twice", k))
		}
		seen[id] = true
	}
	if o.Lifetime < 0 || o.Lifetime > time.Hour {
		errs = append(errs, fmt.Errorf("lifetime: %s; want 0 (the default) to 1h", o.Lifetime))
	}
	if o.Uses < 0 || o.Uses > 1<<20 {
		errs = append(errs, fmt.Errorf("uses: %d; want 0 (the default) to %d", o.Uses, 1<<20))
	}
	if o.MaxKept < 0 {
		errs = append(errs, fmt.Errorf("max kept: %d; want 0 (the default) or more", o.MaxKept))
	}
	return errors.Join(errs...)
}

// keyID is the key's id of its ARN, arn:aws:kms:region:account:key/id.
func keyID(k string) string {
	k = strings.TrimSpace(k)
	if at := strings.LastIndex(k, ":key/"); at >= 0 {
		return k[at+len(":key/"):]
	}
	return k
}

// Sealer implements [access.Sealer]. Bind maps need a "tenant".
type Sealer struct {
	client  Client
	first   string
	keys    map[string]string // what KMS is told, by id
	sealing *kept[string]
	opening *kept[[sha256.Size]byte]
}

var _ access.Sealer = (*Sealer)(nil)

// New asks nobody.
func New(o Options) (*Sealer, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("kms sealing keys: %w", err)
	}
	if o.Lifetime == 0 {
		o.Lifetime = DefaultLifetime
	}
	if o.Uses == 0 {
		o.Uses = DefaultUses
	}
	if o.MaxKept == 0 {
		o.MaxKept = DefaultMaxKept
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Sealer{
		client: o.Client, first: keyID(o.Keys[0]), keys: map[string]string{},
		sealing: newKept[string](o), opening: newKept[[sha256.Size]byte](o),
	}
	for _, k := range o.Keys {
		s.keys[keyID(k)] = strings.TrimSpace(k)
	}
	return s, nil
}

// Seal implements [access.Sealer].
func (s *Sealer) Seal(ctx context.Context, plaintext []byte, bind map[string]string) ([]byte, error) {
	tenant := bind[TenantKey]
	if tenant == "" {
		return nil, errors.New("seal: bind map without a tenant")
	}
	k, err := s.sealing.get(tenant, func() (dataKey, error) {
		out, err := s.client.GenerateDataKey(ctx, &kms.GenerateDataKeyInput{
			KeyId: aws.String(s.keys[s.first]), KeySpec: types.DataKeySpecAes256, EncryptionContext: map[string]string{TenantKey: tenant},
		})
		if err != nil {
			return dataKey{}, fmt.Errorf("%w: generate data key: %w", access.ErrSealerUnavailable, err)
		}
		return newDataKey(out.Plaintext, out.CiphertextBlob)
	})
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return envelope.Seal(k.aead, envelope.Header{Kind: envelope.KMS, KeyID: s.first, Wrapped: k.wrapped}, plaintext, bind)
}

// Open implements [access.Sealer].
func (s *Sealer) Open(ctx context.Context, sealed []byte, bind map[string]string) ([]byte, error) {
	h, head, rest, err := envelope.Parse(sealed)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	key := s.keys[h.KeyID]
	if h.Kind != envelope.KMS || key == "" {
		return nil, fmt.Errorf("open: %w: kind %d, id %.64q", access.ErrUnknownSealKey, h.Kind, h.KeyID)
	}
	tenant := bind[TenantKey]
	if tenant == "" || len(h.Wrapped) == 0 {
		return nil, fmt.Errorf("open: %w: no wrapped key, or a bind map without a tenant", access.ErrNotOpened)
	}
	k, err := s.opening.get(openingKey(h, tenant), func() (dataKey, error) {
		out, err := s.client.Decrypt(ctx, &kms.DecryptInput{
			KeyId: aws.String(key), CiphertextBlob: h.Wrapped, EncryptionContext: map[string]string{TenantKey: tenant},
		})
		if err != nil {
			return dataKey{}, decryptError(err)
		}
		return newDataKey(out.Plaintext, nil)
	})
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	plaintext, err := envelope.Open(k.aead, head, rest, bind)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return plaintext, nil
}

// Format keeps the data keys out of every verb of fmt.
func (s *Sealer) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[kms sealing keys]") }

// openingKey is everything that KMS is asked with: what it granted for one
// tenant is not taken for another.
func openingKey(h envelope.Header, tenant string) [sha256.Size]byte {
	sum := sha256.New()
	for _, part := range []string{h.KeyID, tenant} {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	_, _ = sum.Write(h.Wrapped)
	return [sha256.Size]byte(sum.Sum(nil))
}

// decryptError tells what will never open from what may later.
func decryptError(err error) error {
	_, invalid := errors.AsType[*types.InvalidCiphertextException](err)
	_, other := errors.AsType[*types.IncorrectKeyException](err)
	kind := access.ErrSealerUnavailable
	if invalid || other {
		kind = access.ErrNotOpened
	}
	return fmt.Errorf("%w: decrypt data key: %w", kind, err)
}

// dataKey is a key and, for sealing, what KMS wrapped it into.
type dataKey struct {
	aead    cipher.AEAD
	wrapped []byte
}

// newDataKey takes the key over and wipes it where it lay.
func newDataKey(key, wrapped []byte) (dataKey, error) {
	defer clear(key)
	aead, err := envelope.NewAEAD(key)
	if err != nil {
		return dataKey{}, fmt.Errorf("%w: data key of KMS: %w", access.ErrSealerUnavailable, err)
	}
	return dataKey{aead: aead, wrapped: wrapped}, nil
}
