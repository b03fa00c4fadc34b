package target

import (
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrToken is what every unacceptable callback token is answered with: it does
// not say what is wrong. ErrTokenExpired is for tokens that were good once.
var (
	ErrToken        = errors.New("callback token: not valid for this run")
	ErrTokenExpired = errors.New("callback token: expired")
)

// tokenPrefix marks the format, tokenDomain keeps its signatures apart from any
// other use of the same key.
const (
	tokenPrefix = "mct1_" // #nosec G101 -- a format's mark
	tokenDomain = "myosin callback token 1\n"
)

// Token lets the target of one run send that run's heartbeats and its end, until
// it expires: mct1_<expiry, Unix seconds>_<base64url HMAC-SHA256>. It carries no
// run id; the call that it comes with names the run. Printed, marshalled or
// logged it reads [redacted].
type Token struct{ value string }

// ReadToken takes a token as it came in a request. [Signer.Verify] judges it.
func ReadToken(s string) Token { return Token{value: s} }

// IsZero tells the zero value.
func (t Token) IsZero() bool { return t.value == "" }

// Reveal returns the token as it is sent.
func (t Token) Reveal() string { return t.value }

// Format hides the token from every verb of fmt.
func (Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue hides the token from slog.
func (Token) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the token from encoders.
func (Token) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Signer makes and verifies callback tokens.
type Signer struct{ keys []Secret }

// NewSigner returns a signer that signs with the first key and accepts all of
// them. To rotate, add the new key behind the old everywhere, then put it first,
// then drop the old one once its tokens have expired.
func NewSigner(keys ...Secret) (*Signer, error) {
	if len(keys) == 0 || slices.ContainsFunc(keys, Secret.IsZero) {
		return nil, errors.New("callback tokens: at least one key, and no empty one")
	}
	return &Signer{keys: slices.Clone(keys)}, nil
}

// Token returns the token of a run, good until the second of expires.
func (s *Signer) Token(runID string, expires time.Time) Token {
	at := strconv.FormatInt(expires.Unix(), 10)
	return Token{value: tokenPrefix + at + "_" + base64.RawURLEncoding.EncodeToString(s.keys[0].mac(tokenDomain, at, ".", runID))}
}

// Verify reports why t does not stand for the run at the time: [ErrToken] or
// [ErrTokenExpired], nil if it does. Every key is tried and each comparison takes
// the same time whatever differs.
func (s *Signer) Verify(t Token, runID string, now time.Time) error {
	rest, ok := strings.CutPrefix(t.value, tokenPrefix)
	at, mac, ok2 := strings.Cut(rest, "_")
	expires, err := strconv.ParseInt(at, 10, 64)
	given, err2 := base64.RawURLEncoding.Strict().DecodeString(mac)
	if !ok || !ok2 || err != nil || err2 != nil || strconv.FormatInt(expires, 10) != at {
		return ErrToken
	}
	good := false
	for _, k := range s.keys {
		good = hmac.Equal(given, k.mac(tokenDomain, at, ".", runID)) || good
	}
	switch {
	case !good:
		return ErrToken
	case now.Unix() > expires:
		return ErrTokenExpired
	}
	return nil
}
