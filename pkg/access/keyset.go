package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

const (
	// keysFresh is after how long the issuer's keys are fetched again, and so how
	// long a key that the issuer has withdrawn goes on being taken.
	keysFresh = 10 * time.Minute
	// keysStale is how long keys are used while they cannot be fetched again.
	keysStale = time.Hour
	// fetchPause is the least time between two fetches: what tokens with made-up
	// key ids, or a failing issuer, cost the issuer and the requests that wait.
	fetchPause   = 10 * time.Second
	fetchTimeout = 5 * time.Second
	maxKeysBody  = 1 << 20
)

// keySet is the issuer's public keys, found by discovery and kept. It takes the
// place of go-oidc's own, which fetches for each token with an unknown key id
// and never drops a key that was withdrawn.
type keySet struct {
	issuer  string
	client  *http.Client
	now     func() time.Time
	log     *slog.Logger
	metrics *metrics

	mu       sync.Mutex
	url      string // of the keys; empty before discovery
	keys     []jose.JSONWebKey
	fetched  time.Time     // when the keys were asked for
	tried    time.Time     // when the newest fetch ended
	lastErr  error         // of the newest fetch
	fetching chan struct{} // closed when the fetch in flight ends; nil: none
}

// VerifySignature is called by the verifier, which has already held the
// algorithm against the list.
func (s *keySet) VerifySignature(ctx context.Context, raw string) ([]byte, error) {
	payload, err := s.check(ctx, raw)
	if out, ok := ctx.Value(outcomeKey{}).(*outcome); ok {
		out.payload, out.err = payload, err
	}
	return payload, err
}

func (s *keySet) check(ctx context.Context, raw string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(raw, signingAlgs())
	if err != nil || len(jws.Signatures) != 1 {
		return nil, refuse(ErrUnauthenticated, reasonSignature, errors.New("malformed token or algorithm not taken"))
	}
	kid := jws.Signatures[0].Header.KeyID
	keys, err := s.get(ctx, kid)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if kid != "" && k.KeyID != kid {
			continue
		}
		if payload, err := jws.Verify(&k); err == nil {
			return payload, nil
		}
	}
	return nil, refuse(ErrUnauthenticated, reasonSignature, errors.New("no key of the issuer verifies the token"))
}

// get returns the keys, fetched again if they are old or lack the key id.
func (s *keySet) get(ctx context.Context, kid string) ([]jose.JSONWebKey, error) {
	for {
		s.mu.Lock()
		now := s.now()
		age := now.Sub(s.fetched)
		has := len(s.keys) > 0 && age < keysStale
		good := has && age < keysFresh && holds(s.keys, kid)
		paused := !s.tried.IsZero() && now.Sub(s.tried) < fetchPause
		keys, lastErr, flight := s.keys, s.lastErr, s.fetching
		if !good && !paused && flight == nil {
			s.fetching = make(chan struct{})
		}
		s.mu.Unlock()
		switch {
		case good, has && paused && (lastErr == nil || holds(keys, kid)):
			return keys, nil
		case paused: // and no keys, or maybe not the newest: the issuer failed
			return nil, refuse(ErrUnavailable, reasonDown, lastErr)
		case flight == nil:
			s.fetch(ctx)
		case has && holds(keys, kid): // old but known: no need to wait
			return keys, nil
		default:
			select {
			case <-flight:
			case <-ctx.Done():
				return nil, refuse(ErrUnavailable, reasonCancelled, ctx.Err())
			}
		}
	}
}

// holds tells whether the keys can answer for a key id; any may for none.
func holds(keys []jose.JSONWebKey, kid string) bool {
	for _, k := range keys {
		if kid == "" || k.KeyID == kid {
			return true
		}
	}
	return false
}

// fetch discovers the issuer, if that is still to be done, and gets its keys.
// It does not end with the request that happens to run it: others wait too.
func (s *keySet) fetch(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	began := s.now()
	s.mu.Lock()
	from := s.url
	s.mu.Unlock()
	var keys []jose.JSONWebKey
	err := errors.New("the fetch did not return") // should the client panic
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tried, s.lastErr = s.now(), err
		if err == nil {
			s.url, s.keys, s.fetched = from, keys, began
		} else {
			s.url = "" // it may have moved: discover again
		}
		if err != nil && len(s.keys) > 0 {
			s.log.WarnContext(ctx, "keys of the issuer not refreshed", "issuer", s.issuer, "age", began.Sub(s.fetched), "error", err)
		}
		close(s.fetching)
		s.fetching = nil
	}()
	if from == "" {
		from, err = s.discover(ctx)
		s.metrics.fetched("discovery", err)
		if err != nil {
			return
		}
	}
	keys, err = s.download(ctx, from)
	s.metrics.fetched("keys", err)
}

func (s *keySet) discover(ctx context.Context) (string, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, s.client), s.issuer)
	if err != nil {
		return "", fmt.Errorf("discover issuer: %w", err)
	}
	var doc struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&doc); err != nil {
		return "", fmt.Errorf("discover issuer: %w", err)
	}
	if u, err := url.Parse(doc.Keys); err != nil || u.Host == "" || !secure(u) {
		return "", errors.New("discover issuer: jwks_uri is not an https URL")
	}
	return doc.Keys, nil
}

func (s *keySet) download(ctx context.Context, from string) ([]jose.JSONWebKey, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, fmt.Errorf("get keys: %w", err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("get keys: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxKeysBody))
	if err != nil {
		return nil, fmt.Errorf("get keys: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get keys: status %d", resp.StatusCode)
	}
	return usable(body)
}
