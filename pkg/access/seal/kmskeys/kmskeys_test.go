package kmskeys_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/access/seal/kmskeys"
)

// fake is a KMS that holds each data key to its key and encryption context, as
// the real one does.
type fake struct {
	mu                  sync.Mutex
	wrapped             map[string]wrapped
	generates, decrypts int
	down                error
	short               bool
	given               [][]byte // the plaintext buffers that were handed out
}

type wrapped struct {
	keyID   string
	context map[string]string
	key     []byte
}

func (f *fake) hand(key []byte) []byte {
	b := bytes.Clone(key)
	f.given = append(f.given, b)
	return b
}

func (f *fake) GenerateDataKey(_ context.Context, in *kms.GenerateDataKeyInput, _ ...func(*kms.Options)) (*kms.GenerateDataKeyOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.generates++
	if f.down != nil {
		return nil, f.down
	}
	key := make([]byte, 32)
	rand.Read(key)
	if f.short {
		key = key[:16]
	}
	blob := fmt.Appendf(nil, "blob-%d", f.generates)
	if f.wrapped == nil {
		f.wrapped = map[string]wrapped{}
	}
	f.wrapped[string(blob)] = wrapped{*in.KeyId, in.EncryptionContext, key}
	return &kms.GenerateDataKeyOutput{Plaintext: f.hand(key), CiphertextBlob: blob}, nil
}

func (f *fake) Decrypt(_ context.Context, in *kms.DecryptInput, _ ...func(*kms.Options)) (*kms.DecryptOutput, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decrypts++
	w, ok := f.wrapped[string(in.CiphertextBlob)]
	switch {
	case f.down != nil:
		return nil, f.down
	case !ok || !maps.Equal(w.context, in.EncryptionContext):
		return nil, &types.InvalidCiphertextException{}
	case w.keyID != *in.KeyId:
		return nil, &types.IncorrectKeyException{}
	}
	return &kms.DecryptOutput{Plaintext: f.hand(w.key)}, nil
}

const keyARN = "arn:aws:kms:eu-west-1:111122223333:key/one"

type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func open(t *testing.T, o kmskeys.Options) (*kmskeys.Sealer, *fake, *clock) {
	t.Helper()
	f, c := &fake{}, &clock{time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	o.Client, o.Now = f, c.now
	if o.Keys == nil {
		o.Keys = []string{keyARN}
	}
	s, err := kmskeys.New(o)
	require.NoError(t, err)
	return s, f, c
}

func bind(tenant, secret string) map[string]string {
	return map[string]string{"tenant": tenant, "secret": secret}
}

func sealed(t *testing.T, s *kmskeys.Sealer, b map[string]string) []byte {
	t.Helper()
	out, err := s.Seal(t.Context(), []byte("secret"), b)
	require.NoError(t, err)
	return out
}

func TestADataKeyServesATenantForAWhile(t *testing.T) {
	s, f, c := open(t, kmskeys.Options{})
	for i := range 10 {
		b := bind("acme", fmt.Sprint(i))
		text := sealed(t, s, b)
		got, err := s.Open(t.Context(), text, b)
		require.NoError(t, err)
		require.Equal(t, "secret", string(got))
	}
	require.Equal(t, []int{1, 1}, []int{f.generates, f.decrypts})
	sealed(t, s, bind("other", "x"))
	require.Equal(t, 2, f.generates, "tenants share no data key")

	text := sealed(t, s, bind("acme", "x"))
	c.t = c.t.Add(kmskeys.DefaultLifetime)
	sealed(t, s, bind("acme", "x"))
	_, err := s.Open(t.Context(), text, bind("acme", "x"))
	require.NoError(t, err)
	require.Equal(t, []int{3, 2}, []int{f.generates, f.decrypts}, "asked again when its time is over")
	for _, b := range f.given {
		require.Equal(t, make([]byte, 32), b, "the plaintext key is wiped where the client left it")
	}
}

func TestADataKeyServesANumberOfUses(t *testing.T) {
	s, f, _ := open(t, kmskeys.Options{Uses: 3})
	var text []byte
	for range 7 {
		text = sealed(t, s, bind("acme", "x"))
	}
	require.Equal(t, 3, f.generates)
	for range 7 {
		_, err := s.Open(t.Context(), text, bind("acme", "x"))
		require.NoError(t, err)
	}
	require.Equal(t, 3, f.decrypts)

	other := sealed(t, s, bind("acme", "x"))
	for range 3 {
		for _, one := range [][]byte{text, other, sealed(t, s, bind("acme", "x"))} {
			_, err := s.Open(t.Context(), one, bind("acme", "x"))
			require.NoError(t, err, "each with its own data key")
		}
	}
	text[1] = 1 // the kind
	_, err := s.Open(t.Context(), text, bind("acme", "x"))
	require.ErrorIs(t, err, access.ErrUnknownSealKey)
}

func TestKeptDataKeysAreBounded(t *testing.T) {
	s, f, c := open(t, kmskeys.Options{MaxKept: 3})
	for i := range 20 {
		sealed(t, s, bind(fmt.Sprint("t", i), "x"))
	}
	before := f.generates
	for i := range 20 {
		sealed(t, s, bind(fmt.Sprint("t", i), "x"))
	}
	require.GreaterOrEqual(t, f.generates-before, 17, "at most 3 of 20 were kept")
	c.t = c.t.Add(time.Hour)
	before = f.generates
	for range 3 {
		sealed(t, s, bind("acme", "x")) // takes the place of what is over
	}
	require.Equal(t, before+1, f.generates)
}

func TestOnlyTheTenantGoesToKMS(t *testing.T) {
	s, f, _ := open(t, kmskeys.Options{})
	sealed(t, s, bind("acme", "s1"))
	require.Equal(t, map[string]string{"tenant": "acme"}, f.wrapped["blob-1"].context)
	require.Equal(t, keyARN, f.wrapped["blob-1"].keyID)
}

func TestAnotherTenantIsRefusedByKMSEvenWithTheKeyInMemory(t *testing.T) {
	s, f, _ := open(t, kmskeys.Options{})
	text := sealed(t, s, bind("acme", "s1"))
	_, err := s.Open(t.Context(), text, bind("acme", "s1"))
	require.NoError(t, err)
	_, err = s.Open(t.Context(), text, bind("evil", "s1"))
	require.ErrorIs(t, err, access.ErrNotOpened)
	require.ErrorAs(t, err, new(*types.InvalidCiphertextException))
	require.Equal(t, 2, f.decrypts)
	_, err = s.Open(t.Context(), text, bind("acme", "s2")) // KMS grants this; the encryption does not
	require.ErrorIs(t, err, access.ErrNotOpened)
	require.Equal(t, 2, f.decrypts)
	_, err = s.Open(t.Context(), text, nil)
	require.ErrorIs(t, err, access.ErrNotOpened)
	_, err = s.Seal(t.Context(), []byte("x"), map[string]string{"secret": "s1"})
	require.ErrorContains(t, err, "without a tenant")
}

func TestEveryChangedByteIsNoticed(t *testing.T) {
	s, _, _ := open(t, kmskeys.Options{})
	text := sealed(t, s, bind("acme", "s1"))
	for i := range text {
		for bit := range 8 {
			changed := bytes.Clone(text)
			changed[i] ^= 1 << bit
			_, err := s.Open(t.Context(), changed, bind("acme", "s1"))
			require.True(t, errors.Is(err, access.ErrNotOpened) || errors.Is(err, access.ErrUnknownSealKey), "byte %d: %v", i, err)
		}
	}
}

func TestKMSDownIsToldFromWhatWillNeverOpen(t *testing.T) {
	s, f, c := open(t, kmskeys.Options{})
	text := sealed(t, s, bind("acme", "s1"))
	_, err := s.Open(t.Context(), text, bind("acme", "s1"))
	require.NoError(t, err)
	f.down = &types.KMSInternalException{}
	_, err = s.Open(t.Context(), text, bind("acme", "s1"))
	require.NoError(t, err, "from memory")
	c.t = c.t.Add(time.Hour)
	_, err = s.Open(t.Context(), text, bind("acme", "s1"))
	require.ErrorIs(t, err, access.ErrSealerUnavailable)
	require.NotErrorIs(t, err, access.ErrNotOpened)
	_, err = s.Seal(t.Context(), []byte("x"), bind("acme", "s1"))
	require.ErrorIs(t, err, access.ErrSealerUnavailable)
	f.down = nil
	_, err = s.Open(t.Context(), text, bind("acme", "s1"))
	require.NoError(t, err, "errors are not kept")
	f.short = true
	_, err = s.Seal(t.Context(), []byte("x"), bind("new", "s1"))
	require.ErrorIs(t, err, access.ErrSealerUnavailable)
}

func TestTheFirstKMSKeySealsAndAllOpen(t *testing.T) {
	before, f, _ := open(t, kmskeys.Options{})
	old := sealed(t, before, bind("acme", "s1"))
	const newARN = "arn:aws:kms:eu-west-1:111122223333:key/two"
	during, err := kmskeys.New(kmskeys.Options{Client: f, Keys: []string{newARN, " " + keyARN}})
	require.NoError(t, err)
	_, err = during.Open(t.Context(), old, bind("acme", "s1"))
	require.NoError(t, err)
	fresh := sealed(t, during, bind("acme", "s1"))
	_, err = before.Open(t.Context(), fresh, bind("acme", "s1"))
	require.ErrorIs(t, err, access.ErrUnknownSealKey)
	require.Equal(t, newARN, f.wrapped["blob-2"].keyID)
}

func TestOptionsAtFaultAreReportedTogether(t *testing.T) {
	_, err := kmskeys.New(kmskeys.Options{
		Keys:     []string{"alias/x", "arn:aws:kms:eu-west-1:1:alias/x", "", "one", "arn:aws:kms:eu-west-1:1:key/one"},
		Lifetime: -1, Uses: 1<<20 + 1, MaxKept: -1,
	})
	for _, want := range []string{"client", `"alias/x"`, ":alias/x", `""`, "given twice", "lifetime", "uses", "max kept"} {
		require.ErrorContains(t, err, want)
	}
	_, err = kmskeys.New(kmskeys.Options{Client: &fake{}})
	require.ErrorContains(t, err, "keys: none")
}

// The emulator ignores the encryption context, so what is refused here is
// refused by the encryption.
func TestOnTheEmulator(t *testing.T) {
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	cfg := aws.Config{Region: "us-east-1", BaseEndpoint: &srv.URL, Credentials: credentials.NewStaticCredentialsProvider("any", "any", "")}
	made, err := kms.NewFromConfig(cfg).CreateKey(t.Context(), &kms.CreateKeyInput{})
	require.NoError(t, err)
	s, err := kmskeys.New(kmskeys.Options{Client: kmskeys.NewClient(cfg), Keys: []string{*made.KeyMetadata.Arn}})
	require.NoError(t, err)
	text := sealed(t, s, bind("acme", "s1"))
	got, err := s.Open(t.Context(), text, bind("acme", "s1"))
	require.NoError(t, err)
	require.Equal(t, "secret", string(got))
	for _, b := range []map[string]string{bind("evil", "s1"), bind("acme", "s2"), {"tenant": "acme"}} {
		_, err = s.Open(t.Context(), text, b)
		require.ErrorIs(t, err, access.ErrNotOpened)
	}
	broken := bytes.Clone(text)
	broken[len(broken)-1] ^= 1
	_, err = s.Open(t.Context(), broken, bind("acme", "s1"))
	require.ErrorIs(t, err, access.ErrNotOpened)

	again, err := kmskeys.New(kmskeys.Options{Client: kmskeys.NewClient(cfg), Keys: []string{*made.KeyMetadata.KeyId}})
	require.NoError(t, err)
	_, err = again.Open(t.Context(), text, bind("acme", "s1"))
	require.NoError(t, err, "another process, told the id in place of the ARN")
	none, err := kmskeys.New(kmskeys.Options{Client: kmskeys.NewClient(cfg), Keys: []string{"no-such-key"}})
	require.NoError(t, err)
	_, err = none.Seal(t.Context(), []byte("x"), bind("acme", "s1"))
	require.ErrorIs(t, err, access.ErrSealerUnavailable)
}
