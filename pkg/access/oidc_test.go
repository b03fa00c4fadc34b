package access_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/settings"
)

// issuer is an OpenID Connect issuer on loopback.
type issuer struct {
	*httptest.Server

	mu          sync.Mutex
	keys        []any // as its key set shows them
	down        bool
	says        string // in its discovery document, if not its address
	keysAt      string // likewise
	discoveries int
	fetches     int
	entered     chan struct{} // if set, a request for keys sends to it and then waits for leave
	leave       chan struct{}
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.discoveries++
		i.answer(w, map[string]any{"issuer": or(i.says, i.URL), "jwks_uri": or(i.keysAt, i.URL+"/keys")})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		i.fetches++
		entered, leave := i.entered, i.leave
		i.mu.Unlock()
		if entered != nil {
			entered <- struct{}{}
			<-leave
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.answer(w, map[string]any{"keys": i.keys})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func or(s, otherwise string) string {
	if s != "" {
		return s
	}
	return otherwise
}

func (i *issuer) answer(w http.ResponseWriter, body any) {
	if i.down {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(body)
}

// set changes the issuer between requests.
func (i *issuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

func (i *issuer) asked() [2]int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return [2]int{i.discoveries, i.fetches}
}

// signer is a key of an issuer.
type signer struct {
	alg jose.SignatureAlgorithm
	kid string
	key crypto.Signer
}

func ecSigner(t *testing.T, kid string) signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return signer{jose.ES256, kid, k}
}

func rsaSigner(t *testing.T, kid string) signer {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return signer{jose.RS256, kid, k}
}

func (s signer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.key.Public(), KeyID: s.kid, Use: "sig", Algorithm: string(s.alg)}
}

type claims = map[string]any

// sign makes a token of claims.
func (s signer) sign(t *testing.T, c claims, extra ...func(*jose.SignerOptions)) string {
	t.Helper()
	o := (&jose.SignerOptions{}).WithType("JWT")
	if s.kid != "" {
		o.WithHeader("kid", s.kid)
	}
	for _, e := range extra {
		e(o)
	}
	made, err := jose.NewSigner(jose.SigningKey{Algorithm: s.alg, Key: s.key}, o)
	require.NoError(t, err)
	return sign(t, made, c)
}

func sign(t *testing.T, s jose.Signer, c claims) string {
	t.Helper()
	payload, err := json.Marshal(c)
	require.NoError(t, err)
	jws, err := s.Sign(payload)
	require.NoError(t, err)
	text, err := jws.CompactSerialize()
	require.NoError(t, err)
	return text
}

// good are the claims of a good token, with changes; nil takes a claim out.
func (i *issuer) good(changes claims) claims {
	c := claims{
		"iss": i.URL, "aud": "myosin", "sub": "user-1", "iat": noon().Unix(), "exp": noon().Add(12 * time.Hour).Unix(),
		"tenant": "acme", "role": "write",
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// newOIDCDesk is a desk that takes tokens of an issuer with one key.
func newOIDCDesk(t *testing.T, change func(*access.OIDC)) (*desk, *issuer, signer) {
	t.Helper()
	i, s := newIssuer(t), ecSigner(t, "k1")
	i.keys = []any{s.public()}
	o := &access.OIDC{Issuer: i.URL, Audience: "myosin", Client: i.Client()}
	if change != nil {
		change(o)
	}
	return newDesk(t, access.Options{OIDC: o}), i, s
}

func TestATokenTellsWhoAsks(t *testing.T) {
	d, i, ec := newOIDCDesk(t, nil)
	rs := rsaSigner(t, "k2")
	i.keys = append(i.keys, rs.public(), claims{"kty": "future", "kid": "k3"}, claims{"kty": "oct", "kid": "k4", "k": "c2VjcmV0"})
	for _, s := range []signer{ec, rs, {ec.alg, "", ec.key}} { // the last names no key
		p, err := d.ask(t, s.sign(t, i.good(claims{"aud": []string{"other", "myosin"}})))
		require.NoError(t, err, s.alg)
		require.Equal(t, access.Principal{Tenant: "acme", Role: access.Write, Subject: "user-1", Method: access.ByOIDC}, p)
	}
	require.Equal(t, [2]int{1, 1}, i.asked())
	require.Equal(t, 3, d.counted(t, "myosin_access_requests_total", "oidc", "ok"))
}

func TestTokensThatAreNotGoodAreRefusedForTheirReason(t *testing.T) {
	d, i, s := newOIDCDesk(t, nil)
	forged := ecSigner(t, "k1") // names the issuer's key
	early := noon().Add(6 * time.Minute).Unix()
	at := noon().Unix()
	for _, c := range []struct{ name, token, reason string }{
		{"another audience", s.sign(t, i.good(claims{"aud": "other"})), "audience"},
		{"no audience", s.sign(t, i.good(claims{"aud": nil})), "audience"},
		{"another issuer", s.sign(t, i.good(claims{"iss": i.URL + "/"})), "issuer"},
		{"no issuer", s.sign(t, i.good(claims{"iss": nil})), "issuer"},
		{"expired", s.sign(t, i.good(claims{"exp": at - 1})), "expired"},
		{"never expires", s.sign(t, i.good(claims{"exp": nil})), "expired"},
		{"not yet valid", s.sign(t, i.good(claims{"nbf": early})), "early"},
		{"forged", forged.sign(t, i.good(nil)), "signature"},
		{"forged and expired", forged.sign(t, i.good(claims{"exp": at - 1})), "signature"},
		{"forged with its key along", forged.sign(t, i.good(nil), func(o *jose.SignerOptions) { o.EmbedJWK = true }), "signature"},
		{"no tenant", s.sign(t, i.good(claims{"tenant": nil})), "claims"},
		{"tenant is no name", s.sign(t, i.good(claims{"tenant": "a/b"})), "claims"},
		{"tenant is no text", s.sign(t, i.good(claims{"tenant": []string{"acme"}})), "claims"},
		{"every tenant", s.sign(t, i.good(claims{"tenant": "*", "role": "admin"})), "claims"},
		{"no role", s.sign(t, i.good(claims{"role": nil})), "claims"},
		{"unknown role", s.sign(t, i.good(claims{"role": "root"})), "claims"},
		{"role is no text", s.sign(t, i.good(claims{"role": 3})), "claims"},
		{"no subject", s.sign(t, i.good(claims{"sub": nil})), "claims"},
		{"claims are no object", sign(t, mustSigner(t, s), claims{"iss": claims{}}), "claims"},
		{"no token", "a.b.c", "signature"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := d.ask(t, c.token)
			challenge := invalid
			if c.reason == "expired" {
				challenge += `, error_description="expired"`
			}
			refused(t, p, err, access.ErrUnauthenticated, c.reason, challenge, c.token)
			require.Equal(t, 1, d.counted(t, "myosin_access_issuer_fetches_total", "ok", "keys"))
		})
	}
	_, err := d.ask(t, s.sign(t, i.good(claims{"nbf": noon().Add(4 * time.Minute).Unix()})))
	require.NoError(t, err, "clocks differ by some minutes")
	_, err = d.ask(t, s.sign(t, i.good(claims{"groups": strings.Repeat("g", 16<<10)})))
	require.Equal(t, "malformed", access.Reason(err), "longer than any header should be")
}

func mustSigner(t *testing.T, s signer) jose.Signer {
	t.Helper()
	made, err := jose.NewSigner(jose.SigningKey{Algorithm: s.alg, Key: s.key}, nil)
	require.NoError(t, err)
	return made
}

func TestTokensWithoutAPublicKeySignatureAreRefused(t *testing.T) {
	d, i, _ := newOIDCDesk(t, nil)
	s := rsaSigner(t, "k1")
	i.keys = []any{s.public()}
	payload, err := json.Marshal(i.good(nil))
	require.NoError(t, err)
	b64 := base64.RawURLEncoding.EncodeToString
	none := b64([]byte(`{"alg":"none","kid":"k1"}`)) + "." + b64(payload) + "."

	tokens := []string{none, none + b64([]byte("x")), strings.Replace(none, b64([]byte(`{"alg":"none","kid":"k1"}`)), b64([]byte(`{"alg":"None"}`)), 1)}
	der, err := x509.MarshalPKIXPublicKey(s.key.Public())
	require.NoError(t, err)
	jwk, err := json.Marshal(s.public())
	require.NoError(t, err)
	for _, secret := range [][]byte{der, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), jwk} { // all that an attacker has
		hs, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: secret}, (&jose.SignerOptions{}).WithHeader("kid", "k1"))
		require.NoError(t, err)
		tokens = append(tokens, sign(t, hs, i.good(nil)))
	}
	rs := s.sign(t, i.good(nil))
	tokens = append(tokens, rs[:strings.LastIndex(rs, ".")+1], rs[:len(rs)-8]+"AAAAAAAA")
	for n, token := range tokens {
		p, err := d.ask(t, token)
		require.ErrorIs(t, err, access.ErrUnauthenticated, "token %d", n)
		refused(t, p, err, access.ErrUnauthenticated, "signature", invalid, token)
	}
	_, err = d.ask(t, rs)
	require.NoError(t, err)
}

func TestKeysOfTheIssuerAreRotated(t *testing.T) {
	d, i, old := newOIDCDesk(t, nil)
	fresh := ecSigner(t, "k2")
	_, err := d.ask(t, old.sign(t, i.good(nil)))
	require.NoError(t, err)

	i.set(func() { i.keys = []any{old.public(), fresh.public()} })
	d.at = noon().Add(time.Minute)
	_, err = d.ask(t, fresh.sign(t, i.good(nil)))
	require.NoError(t, err, "an unknown key id is looked for at once")
	require.Equal(t, [2]int{1, 2}, i.asked())

	i.set(func() { i.keys = []any{fresh.public()} })
	_, err = d.ask(t, old.sign(t, i.good(nil)))
	require.NoError(t, err)
	d.at = d.at.Add(10 * time.Minute)
	_, err = d.ask(t, old.sign(t, i.good(nil)))
	require.Equal(t, "signature", access.Reason(err), "a withdrawn key is not taken for long")
	_, err = d.ask(t, fresh.sign(t, i.good(nil)))
	require.NoError(t, err)
	require.Equal(t, [2]int{1, 3}, i.asked())
}

func TestMadeUpKeyIDsDoNotHammerTheIssuer(t *testing.T) {
	d, i, s := newOIDCDesk(t, nil)
	_, err := d.ask(t, s.sign(t, i.good(nil)))
	require.NoError(t, err)
	d.at = noon().Add(time.Minute)
	made := ecSigner(t, "")
	for n := range 100 {
		made.kid = fmt.Sprint("made-up-", n)
		_, err := d.ask(t, made.sign(t, i.good(nil)))
		require.Equal(t, "signature", access.Reason(err))
	}
	require.Equal(t, [2]int{1, 2}, i.asked())
	d.at = d.at.Add(10 * time.Second)
	_, err = d.ask(t, made.sign(t, i.good(nil)))
	require.Equal(t, "signature", access.Reason(err))
	require.Equal(t, [2]int{1, 3}, i.asked())
}

func TestRequestsAtOnceShareAFetchAndKnownKeysDoNotWaitForIt(t *testing.T) {
	d, i, s := newOIDCDesk(t, nil)
	known := s.sign(t, i.good(nil))
	_, err := d.ask(t, known)
	require.NoError(t, err)
	d.at = noon().Add(11 * time.Minute) // they are due to be fetched again
	i.set(func() { i.entered, i.leave = make(chan struct{}), make(chan struct{}) })
	unknown := ecSigner(t, "k2").sign(t, i.good(nil))
	ask := func(ctx context.Context) chan error {
		out := make(chan error, 1)
		go func() {
			_, err := d.Authenticate(request(ctx, unknown))
			out <- err
		}()
		return out
	}
	first := ask(t.Context())
	<-i.entered // the fetch is under way
	_, err = d.ask(t, known)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, "cancelled", access.Reason(<-ask(ctx)))
	second := ask(t.Context())
	close(i.leave)
	require.Equal(t, "signature", access.Reason(<-first))
	require.Equal(t, "signature", access.Reason(<-second))
	require.Equal(t, [2]int{1, 2}, i.asked())
}

func TestAnIssuerThatIsDownAtTheStartStopsNeitherKeysNorLaterTokens(t *testing.T) {
	d, i, s := newOIDCDesk(t, nil)
	i.down = true
	_, key := d.key(t, access.Grant{Tenant: "acme", Role: access.Read})
	token := s.sign(t, i.good(nil))
	for range 20 {
		p, err := d.ask(t, token)
		refused(t, p, err, access.ErrUnavailable, "issuer_down", "", token)
		require.Equal(t, http.StatusServiceUnavailable, access.Status(err))
		_, err = d.ask(t, key)
		require.NoError(t, err)
	}
	require.Equal(t, [2]int{1, 0}, i.asked(), "and is left alone for a while")
	i.set(func() { i.down = false })
	d.at = noon().Add(10 * time.Second)
	_, err := d.ask(t, token)
	require.NoError(t, err)
}

func TestKeysOfAnIssuerThatGoesDownAreUsedForAnHour(t *testing.T) {
	d, i, s := newOIDCDesk(t, nil)
	_, key := d.key(t, access.Grant{Tenant: "acme", Role: access.Read})
	token := s.sign(t, i.good(nil))
	_, err := d.ask(t, token)
	require.NoError(t, err)
	i.set(func() { i.down = true })
	for _, after := range []time.Duration{9 * time.Minute, 10 * time.Minute, 59 * time.Minute} {
		d.at = noon().Add(after)
		_, err = d.ask(t, token)
		require.NoError(t, err, after)
	}
	_, err = d.ask(t, ecSigner(t, "k2").sign(t, i.good(nil)))
	require.Equal(t, "issuer_down", access.Reason(err), "maybe a new key: that cannot be told now")
	d.at = noon().Add(time.Hour)
	_, err = d.ask(t, token)
	require.Equal(t, "issuer_down", access.Reason(err))
	_, err = d.ask(t, key)
	require.NoError(t, err)
	require.Equal(t, 3, d.counted(t, "myosin_access_issuer_fetches_total", "error", "keys")+d.counted(t, "myosin_access_issuer_fetches_total", "error", "discovery"))
	i.set(func() { i.down = false })
	d.at = d.at.Add(10 * time.Second)
	_, err = d.ask(t, token)
	require.NoError(t, err)
}

func TestAnIssuerThatSaysWhatItShouldNotIsNotBelieved(t *testing.T) {
	for name, change := range map[string]func(*issuer){
		"another's document":  func(i *issuer) { i.says = "https://idp.example.com" },
		"keys in the clear":   func(i *issuer) { i.keysAt = "http://idp.example.com/keys" },
		"no address of keys":  func(i *issuer) { i.keysAt = "/keys" },
		"no key":              func(i *issuer) { i.keys = []any{} },
		"no key of use":       func(i *issuer) { i.keys = []any{claims{"kty": "oct", "k": "c2VjcmV0"}} },
		"keys not to sign by": func(i *issuer) { k := i.keys[0].(jose.JSONWebKey); k.Use = "enc"; i.keys = []any{k} },
	} {
		t.Run(name, func(t *testing.T) {
			d, i, s := newOIDCDesk(t, nil)
			change(i)
			_, err := d.ask(t, s.sign(t, i.good(nil)))
			require.ErrorIs(t, err, access.ErrUnavailable)
			require.Equal(t, "issuer_down", access.Reason(err))
		})
	}
}

func TestClaimsAreMappedToTenantsAndRoles(t *testing.T) {
	d, i, s := newOIDCDesk(t, func(o *access.OIDC) {
		o.TenantClaim, o.RoleClaim, o.Platform = "https://example.com/tenant", "realm_access.roles", true
		o.Roles = map[string]access.Role{"jobs reader": access.Read, "jobs-writer": access.Write, "jobs-admin": access.Admin}
	})
	const tenant = "https://example.com/tenant"
	roles := func(v any) claims { return claims{tenant: "acme", "realm_access": claims{"roles": v}} }
	for _, c := range []struct {
		claims claims
		role   access.Role // 0: refused
		tenant string
	}{
		{roles([]any{"x", "jobs-writer", "jobs reader", 7}), access.Write, "acme"},
		{roles("jobs-admin x"), access.Admin, "acme"},
		{roles("jobs reader"), access.Read, "acme"},
		{roles([]any{"jobs-writer x"}), 0, ""},
		{roles("write"), 0, ""},
		{claims{tenant: "acme", "realm_access.roles": "jobs-writer", "realm_access": claims{"roles": "jobs-admin"}}, access.Write, "acme"},
		{claims{tenant: "acme", "realm_access": "jobs-admin"}, 0, ""},
		{claims{"realm_access": claims{"roles": "jobs-admin"}}, 0, ""}, // the claim "tenant" is not looked at
		{claims{tenant: "*", "realm_access": claims{"roles": "jobs-admin"}}, access.Admin, access.Platform},
		{claims{tenant: "*", "realm_access": claims{"roles": "jobs-writer"}}, 0, ""},
	} {
		p, err := d.ask(t, s.sign(t, i.good(c.claims)))
		if c.role == 0 {
			require.Equal(t, "claims", access.Reason(err), "%v", c.claims)
			continue
		}
		require.NoError(t, err, "%v", c.claims)
		require.Equal(t, c.role, p.Role, "%v", c.claims)
		require.Equal(t, c.tenant, p.Tenant)
	}
}

func TestIssuersAreAskedEncryptedOrOnLoopbackOnly(t *testing.T) {
	for issuer, ok := range map[string]bool{
		"https://idp.example.com": true, "http://127.0.0.1:8080/realm": true, "http://localhost:1": true, "http://[::1]:1": true,
		"http://idp.example.com": false, "http://10.0.0.1": false, "ftp://localhost": false, "idp": false, "": false, "https://": false,
		"http://localhost.example.com": false,
	} {
		o := access.OIDC{Issuer: issuer, Audience: "myosin"}
		require.Equal(t, ok, o.Validate() == nil, issuer)
	}
}

func TestSettingsOfAnIssuer(t *testing.T) {
	parse := func(args ...string) (*access.OIDC, error) {
		var o access.OIDCSettings
		s := settings.New("x", "x")
		o.Settings(s)
		env := map[string]string{"MYOSIN_OIDC_ROLE_CLAIM": "groups"}
		if len(args) == 0 {
			env = nil
		}
		require.NoError(t, s.Parse(args, func(k string) (string, bool) { v, ok := env[k]; return v, ok }, t.Output()))
		return o.OIDC()
	}
	got, err := parse()
	require.NoError(t, err)
	require.Nil(t, got)
	got, err = parse("--oidc-issuer=https://idp.example.com", "--oidc-audience=myosin", "--oidc-tenant-claim=org")
	require.NoError(t, err)
	require.Equal(t, &access.OIDC{Issuer: "https://idp.example.com", Audience: "myosin", TenantClaim: "org", RoleClaim: "groups"}, got)
	for _, args := range [][]string{{"--oidc-audience=myosin"}, {"--oidc-issuer=https://idp.example.com"}, {"--oidc-issuer=http://idp.example.com", "--oidc-audience=x"}} {
		got, err = parse(args...)
		require.ErrorContains(t, err, "oidc: ")
		require.Nil(t, got)
	}
}
