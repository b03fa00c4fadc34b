package access

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// OIDC says whose tokens are taken and what they mean.
type OIDC struct {
	// Issuer as the tokens name it. https, or http on loopback. Required.
	Issuer string
	// Audience that a token must name. Required: without it a token that was
	// issued for any other service would do here.
	Audience string
	// TenantClaim and RoleClaim name the claims, or, when the token has none so
	// named, their path with dots ("realm_access.roles"). Empty: "tenant", "role".
	TenantClaim, RoleClaim string
	// Roles maps values of the role claim (a string, words in a string, or a list
	// of strings; the highest counts) to roles. Nil: read, write and admin mean
	// themselves.
	Roles map[string]Role
	// Platform lets the issuer name the tenant "*", with Admin. Off, such a token
	// is refused.
	Platform bool
	// Client asks the issuer; nil: one of its own. Each request is given up
	// after five seconds either way.
	Client *http.Client
}

// Validate reports every fault together.
func (o *OIDC) Validate() error {
	var errs []error
	if u, err := url.Parse(o.Issuer); err != nil || u.Host == "" || !secure(u) {
		errs = append(errs, errors.New("issuer: want an https URL (http on loopback only)"))
	}
	if o.Audience == "" {
		errs = append(errs, errors.New("audience: missing"))
	}
	for value, r := range o.Roles {
		if value == "" || !r.valid() {
			errs = append(errs, fmt.Errorf("roles: %q: want a value, and read, write or admin for it", value))
		}
	}
	return errors.Join(errs...)
}

func secure(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// signingAlgs are the asymmetric ones: neither "none" nor HMAC, whose key would
// be what everybody can fetch.
func signingAlgs() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512,
		jose.PS256, jose.PS384, jose.PS512, jose.EdDSA,
	}
}

type oidcVerifier struct {
	o        OIDC
	keys     *keySet
	verifier *oidc.IDTokenVerifier
}

func newOIDC(o OIDC, now func() time.Time, log *slog.Logger, m *metrics) *oidcVerifier {
	o.TenantClaim = cmp.Or(o.TenantClaim, "tenant")
	o.RoleClaim = cmp.Or(o.RoleClaim, "role")
	if o.Roles == nil {
		o.Roles = map[string]Role{Read.String(): Read, Write.String(): Write, Admin.String(): Admin}
	}
	if o.Client == nil {
		o.Client = &http.Client{}
	}
	keys := &keySet{issuer: o.Issuer, client: o.Client, now: now, log: log, metrics: m}
	cfg := &oidc.Config{ClientID: o.Audience, Now: now}
	for _, alg := range signingAlgs() {
		cfg.SupportedSigningAlgs = append(cfg.SupportedSigningAlgs, string(alg))
	}
	return &oidcVerifier{o: o, keys: keys, verifier: oidc.NewVerifier(o.Issuer, keys, cfg)}
}

// outcome is what a key set found out while the verifier, which flattens the
// errors of its key set, was at work.
type outcome struct {
	err     error // of the signature
	payload []byte
}

type outcomeKey struct{}

func (v *oidcVerifier) verify(ctx context.Context, raw string) (Principal, error) {
	var out outcome
	token, err := v.verifier.Verify(context.WithValue(ctx, outcomeKey{}, &out), raw)
	if err != nil {
		return Principal{}, v.refusal(err, &out)
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return Principal{}, refuse(ErrUnauthenticated, reasonClaims, err)
	}
	tenant, _ := claim(claims, v.o.TenantClaim).(string)
	role := v.role(claim(claims, v.o.RoleClaim))
	bad := func(what string) (Principal, error) {
		return Principal{}, refuse(ErrUnauthenticated, reasonClaims, errors.New(what))
	}
	switch {
	case token.Subject == "":
		return bad("no sub")
	case tenant == Platform && !v.o.Platform:
		return bad("the issuer may not name every tenant")
	case tenant == Platform && role != Admin:
		return bad("every tenant without the role admin")
	case tenant != Platform && !validTenant(tenant):
		return bad("no tenant in claim " + v.o.TenantClaim)
	case role == 0:
		return bad("no known role in claim " + v.o.RoleClaim)
	}
	return Principal{Tenant: tenant, Role: role, Subject: token.Subject, Method: ByOIDC}, nil
}

// refusal finds the reason. Only a payload whose signature held is looked at.
func (v *oidcVerifier) refusal(err error, out *outcome) error {
	var expired *oidc.TokenExpiredError
	switch {
	case out.err != nil && Reason(out.err) != "":
		return out.err
	case errors.As(err, &expired):
		return refuse(ErrUnauthenticated, reasonExpired, err)
	case out.payload == nil: // not parsed: the algorithm or the shape
		return refuse(ErrUnauthenticated, reasonSignature, errors.New("malformed token or algorithm not taken"))
	}
	var said struct {
		Issuer string `json:"iss"`
	}
	switch unread := json.Unmarshal(out.payload, &said); {
	case unread != nil:
		return refuse(ErrUnauthenticated, reasonClaims, unread)
	case said.Issuer != v.o.Issuer:
		return refuse(ErrUnauthenticated, reasonIssuer, err)
	case strings.Contains(err.Error(), "expected audience"): // wording only labels
		return refuse(ErrUnauthenticated, reasonAudience, err)
	case strings.Contains(err.Error(), "nbf"):
		return refuse(ErrUnauthenticated, reasonEarly, err)
	}
	return refuse(ErrUnauthenticated, reasonClaims, err)
}

// claim finds a claim by its name or, failing that, by its path.
func claim(claims map[string]any, name string) any {
	if v, ok := claims[name]; ok {
		return v
	}
	var at any = claims
	for step := range strings.SplitSeq(name, ".") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[step]
	}
	return at
}

// role returns the highest role that a claim's values are mapped to.
func (v *oidcVerifier) role(value any) (best Role) {
	var words []string
	switch value := value.(type) {
	case string:
		words = append(strings.Fields(value), value)
	case []any:
		for _, w := range value {
			if s, ok := w.(string); ok {
				words = append(words, s)
			}
		}
	}
	for _, w := range words {
		best = max(best, v.o.Roles[w])
	}
	return best
}

// usable keeps the keys that can verify a signature. What this library does not
// know is skipped, not an error (RFC 7517, section 5).
func usable(body []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("parse keys: %w", err)
	}
	var out []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) == nil && k.IsPublic() && k.Use != "enc" &&
			(k.Algorithm == "" || slices.Contains(signingAlgs(), jose.SignatureAlgorithm(k.Algorithm))) {
			out = append(out, k)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("parse keys: none that can verify a signature")
	}
	return out, nil
}
