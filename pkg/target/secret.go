package target

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// Headers of Standard Webhooks 1.0.0 (https://www.standardwebhooks.com).
const (
	HeaderWebhookID        = "Webhook-Id"
	HeaderWebhookTimestamp = "Webhook-Timestamp"
	HeaderWebhookSignature = "Webhook-Signature"
)

const (
	secretPrefix = "whsec_" // #nosec G101 -- a format's mark
	minSecret    = 24       // bytes, as the specification has it
	maxSecret    = 64
	newSecret    = 32
	redacted     = "[redacted]"
)

// Secret is a signing key. However it is printed, marshalled or logged it reads
// [redacted]; only [Secret.Reveal] shows it. The zero value signs nothing.
type Secret struct{ key []byte }

// NewSecret returns a random secret of 32 bytes.
func NewSecret() Secret {
	key := make([]byte, newSecret)
	_, _ = rand.Read(key) // never fails: it ends the process instead
	return Secret{key: key}
}

// ParseSecret reads whsec_<base64>, 24 to 64 bytes when decoded. Its errors do
// not repeat what was given.
func ParseSecret(s string) (Secret, error) {
	encoded, ok := strings.CutPrefix(s, secretPrefix)
	if !ok {
		return Secret{}, errors.New("secret: must begin with " + secretPrefix)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return Secret{}, errors.New("secret: not base64 after " + secretPrefix)
	}
	if len(key) < minSecret || len(key) > maxSecret {
		return Secret{}, fmt.Errorf("secret: must have %d-%d bytes", minSecret, maxSecret)
	}
	return Secret{key: key}, nil
}

// IsZero tells the zero value.
func (s Secret) IsZero() bool { return len(s.key) == 0 }

// Reveal returns whsec_<base64>, to be shown once and to be encrypted at rest.
func (s Secret) Reveal() string { return secretPrefix + base64.StdEncoding.EncodeToString(s.key) }

// Equal compares in constant time.
func (s Secret) Equal(o Secret) bool { return subtle.ConstantTimeCompare(s.key, o.key) == 1 }

// Format hides the secret from every verb of fmt.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue hides the secret from slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the secret from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

func (s Secret) mac(parts ...string) []byte {
	h := hmac.New(sha256.New, s.key)
	for _, p := range parts {
		_, _ = io.WriteString(h, p)
	}
	return h.Sum(nil)
}

// Sign returns the value of webhook-signature for a message: a signature
// "v1,<base64>" for each secret, in their order, separated by spaces. During a
// rotation both secrets are given, so that either verifies.
func Sign(secrets []Secret, id string, at time.Time, body []byte) string {
	out := make([]string, 0, len(secrets))
	prefix := id + "." + strconv.FormatInt(at.Unix(), 10) + "."
	for _, s := range secrets {
		h := hmac.New(sha256.New, s.key)
		_, _ = io.WriteString(h, prefix)
		_, _ = h.Write(body)
		out = append(out, "v1,"+base64.StdEncoding.EncodeToString(h.Sum(nil)))
	}
	return strings.Join(out, " ")
}
