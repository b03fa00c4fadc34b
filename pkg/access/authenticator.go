package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// DefaultPositive is how long a key's record is used without another read,
	// and so how long a revoked key may go on elsewhere than where it was revoked.
	DefaultPositive = 30 * time.Second
	// DefaultNegative is how long an unknown id stays unknown without a read.
	DefaultNegative = 5 * time.Second
	// DefaultMaxKeys bounds the records and, apart, the unknown ids in memory.
	DefaultMaxKeys = 10_000

	maxCredential = 16 << 10 // bytes; a token with many groups has a few thousand
)

// Options configure an [Authenticator]. Zero values mean the defaults named.
type Options struct {
	// Keys is where API keys are kept. Required.
	Keys KeyStore
	// Positive, at most a minute; 0: [DefaultPositive].
	Positive time.Duration
	// Negative, at most a minute; 0: [DefaultNegative].
	Negative time.Duration
	// MaxKeys in memory; 0: [DefaultMaxKeys].
	MaxKeys int
	// OIDC is the issuer whose tokens are taken too; nil: API keys only.
	OIDC *OIDC
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Log takes the issuer's failures that no request is refused for; nil: discarded.
	Log *slog.Logger
	// Registerer takes the metrics; nil: none.
	Registerer prometheus.Registerer
}

// Validate reports every option at fault, joined.
func (o *Options) Validate() error {
	var errs []error
	if o.Keys == nil {
		errs = append(errs, errors.New("keys: missing"))
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"positive", o.Positive}, {"negative", o.Negative}} {
		if d.d < 0 || d.d > time.Minute {
			errs = append(errs, fmt.Errorf("%s: %s; want 0 (the default) to 1m", d.name, d.d))
		}
	}
	if o.MaxKeys < 0 {
		errs = append(errs, fmt.Errorf("max keys: %d; want 0 for %d, or more", o.MaxKeys, DefaultMaxKeys))
	}
	if o.OIDC != nil {
		if err := o.OIDC.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("oidc: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Authenticator tells who makes a request.
type Authenticator struct {
	now     func() time.Time
	cache   *keyCache
	oidc    *oidcVerifier // nil: none
	metrics *metrics

	mu      sync.Mutex
	used    map[string]time.Time
	maxUsed int
}

// NewAuthenticator asks nobody: the issuer is discovered when its first token
// comes, and its absence stops neither the process nor the API keys.
func NewAuthenticator(o Options) (*Authenticator, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("authenticator: %w", err)
	}
	if o.Positive == 0 {
		o.Positive = DefaultPositive
	}
	if o.Negative == 0 {
		o.Negative = DefaultNegative
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("authenticator: %w", err)
	}
	a := &Authenticator{
		now: o.Now, metrics: m, used: map[string]time.Time{}, maxUsed: o.MaxKeys,
		cache: &keyCache{
			store: o.Keys, now: o.Now, positive: o.Positive, negative: o.Negative, maxKnown: o.MaxKeys, maxGone: o.MaxKeys,
			metrics: m, known: map[string]cachedKey{}, gone: map[string]time.Time{}, reading: map[string]*reading{},
		},
	}
	if o.OIDC != nil {
		a.oidc = newOIDC(*o.OIDC, o.Now, o.Log, m)
	}
	return a, nil
}

// Authenticate returns who makes the request, from "Authorization: Bearer" and
// an API key or a token. The error is [ErrUnauthenticated] or, when that cannot
// be told now, [ErrUnavailable]; it quotes nothing of the credential.
func (a *Authenticator) Authenticate(r *http.Request) (Principal, error) {
	method := Method("none")
	credential, err := bearer(r.Header)
	var p Principal
	switch {
	case err != nil:
	case strings.HasPrefix(credential, KeyPrefix):
		method = ByKey
		p, err = a.byKey(r.Context(), credential)
	case a.oidc != nil && strings.Count(credential, ".") == 2:
		method = ByOIDC
		p, err = a.oidc.verify(r.Context(), credential)
	default:
		err = refuse(ErrUnauthenticated, reasonMalformed)
	}
	result := "ok"
	if err != nil {
		p, result = Principal{}, Reason(err)
	}
	a.metrics.requests.WithLabelValues(string(method), result).Inc()
	return p, err
}

func bearer(h http.Header) (string, error) {
	values := h.Values("Authorization")
	if len(values) == 0 {
		return "", refuse(ErrUnauthenticated, reasonMissing)
	}
	scheme, credential, _ := strings.Cut(values[0], " ")
	credential = strings.Trim(credential, " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "bearer") || credential == "" || len(credential) > maxCredential {
		return "", refuse(ErrUnauthenticated, reasonMalformed)
	}
	return credential, nil
}

func (a *Authenticator) byKey(ctx context.Context, credential string) (Principal, error) {
	given, err := ParseKey(credential)
	if err != nil {
		return Principal{}, refuse(ErrUnauthenticated, reasonMalformed, err)
	}
	k, err := a.cache.get(ctx, given.ID())
	switch {
	case errors.Is(err, ErrNotFound):
		return Principal{}, refuse(ErrUnauthenticated, reasonUnknown)
	case err != nil && ctx.Err() != nil:
		return Principal{}, refuse(ErrUnavailable, reasonCancelled, ctx.Err())
	case err != nil:
		return Principal{}, refuse(ErrUnavailable, reasonStore, err)
	}
	now := a.now()
	switch {
	case !k.Verify(given): // first: who has not the secret learns nothing of the key
		return Principal{}, refuse(ErrUnauthenticated, reasonSecret)
	case !k.Revoked.IsZero():
		return Principal{}, refuse(ErrUnauthenticated, reasonRevoked)
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return Principal{}, refuse(ErrUnauthenticated, reasonExpired)
	}
	if err := k.Validate(); err != nil { // a record that was not made by NewKey
		return Principal{}, refuse(ErrUnauthenticated, reasonClaims, err)
	}
	a.mu.Lock()
	if _, ok := a.used[k.ID]; ok || len(a.used) < a.maxUsed {
		a.used[k.ID] = now
	}
	a.mu.Unlock()
	return Principal{Tenant: k.Tenant, Role: k.Role, Subject: k.ID, Method: ByKey}, nil
}

// Forget drops what is remembered of a key, so that its creation, change or
// revocation holds here at once. Other processes follow within Options.Positive.
func (a *Authenticator) Forget(id string) { a.cache.forget(id) }

// TakeUsed returns the ids of the keys used since the last call, each with the
// newest time: for the caller to write as Key.LastUsed as rarely as it likes.
// Beyond Options.MaxKeys ids between two calls, further ones are left out.
func (a *Authenticator) TakeUsed() map[string]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.used
	a.used = map[string]time.Time{}
	return out
}
