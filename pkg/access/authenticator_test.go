package access_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/myosin-jobs/myosin/pkg/access"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a KeyStore that counts its reads and may hold them up.
type store struct {
	mu    sync.Mutex
	keys  map[string]access.Key
	reads int
	err   error
	hold  chan struct{} // nil: reads return at once; they end with their context too
}

func (s *store) Key(ctx context.Context, id string) (access.Key, error) {
	s.mu.Lock()
	s.reads++
	k, ok := s.keys[id]
	err, hold := s.err, s.hold
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return access.Key{}, ctx.Err()
		}
	}
	if err == nil && !ok {
		err = fmt.Errorf("read: %w", access.ErrNotFound)
	}
	return k, err
}

func (s *store) put(k access.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[k.ID] = k
}

// desk is an authenticator with a store and a clock.
type desk struct {
	*access.Authenticator
	store *store
	at    time.Time
	reg   *prometheus.Registry
}

func newDesk(t *testing.T, o access.Options) *desk {
	t.Helper()
	d := &desk{store: &store{keys: map[string]access.Key{}}, at: noon(), reg: prometheus.NewRegistry()}
	o.Keys, o.Registerer = d.store, d.reg
	if o.Now == nil {
		o.Now = func() time.Time { return d.at }
	}
	var err error
	d.Authenticator, err = access.NewAuthenticator(o)
	require.NoError(t, err)
	return d
}

func (d *desk) key(t *testing.T, g access.Grant) (access.Key, string) {
	t.Helper()
	k, p := newKey(t, g)
	d.store.put(k)
	return k, p.Reveal()
}

func request(ctx context.Context, credential string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/jobs", nil)
	if credential != "" {
		r.Header.Set("Authorization", "Bearer "+credential)
	}
	return r
}

func (d *desk) ask(t *testing.T, credential string) (access.Principal, error) {
	t.Helper()
	return d.Authenticate(request(t.Context(), credential))
}

// counted returns a counter's value by its labels' values, in the order of the
// labels' names; 0 if there is none.
func (d *desk) counted(t *testing.T, name string, labels ...string) int {
	t.Helper()
	families, err := d.reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if f.GetName() == name && slices.Equal(values, labels) {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	return 0
}

// refused holds an error against what a client and a log are to see of it.
func refused(t *testing.T, p access.Principal, err, kind error, reason, challenge, credential string) {
	t.Helper()
	require.ErrorIs(t, err, kind)
	require.Equal(t, reason, access.Reason(err))
	require.Equal(t, challenge, access.Challenge(err))
	require.Equal(t, access.Principal{}, p)
	if len(credential) > 20 {
		require.NotContains(t, err.Error(), credential[20:])
	}
}

const (
	invalid = `Bearer realm="myosin", error="invalid_token"`
	badForm = `Bearer realm="myosin", error="invalid_request"`
)

func TestAKeyTellsWhoAsks(t *testing.T) {
	d := newDesk(t, access.Options{})
	k, text := d.key(t, access.Grant{Tenant: "acme", Role: access.Write, Expires: noon().Add(time.Hour)})
	p, err := d.ask(t, text)
	require.NoError(t, err)
	require.Equal(t, access.Principal{Tenant: "acme", Role: access.Write, Subject: k.ID, Method: access.ByKey}, p)
	require.NoError(t, p.May(access.Write, "acme"))
	err = p.May(access.Read, "other") // a good key of another tenant
	require.Equal(t, http.StatusNotFound, access.Status(err))

	_, operator := d.key(t, access.Grant{Tenant: access.Platform, Role: access.Admin})
	p, err = d.ask(t, operator)
	require.NoError(t, err)
	require.NoError(t, p.May(access.Admin, "other"))
}

func TestWhatIsNoGoodKeyIsRefusedForItsReason(t *testing.T) {
	d := newDesk(t, access.Options{})
	_, good := d.key(t, access.Grant{Tenant: "acme", Role: access.Read})
	_, unknown := newKey(t, access.Grant{Tenant: "acme", Role: access.Read})
	_, expires := d.key(t, access.Grant{Tenant: "acme", Role: access.Read, Expires: noon().Add(time.Second)})
	revoked, revokedText := d.key(t, access.Grant{Tenant: "acme", Role: access.Read})
	revoked.Revoked = noon().Add(time.Hour) // a moment that clocks may disagree on: revoked is revoked
	d.store.put(revoked)
	other, otherText := d.key(t, access.Grant{Tenant: "acme", Role: access.Read})
	other.Hash[0] ^= 1
	other.Revoked = noon()
	d.store.put(other)
	widened, widenedText := d.key(t, access.Grant{Tenant: "acme", Role: access.Read})
	widened.Tenant = access.Platform
	d.store.put(widened)
	d.at = noon().Add(time.Second)

	for _, c := range []struct{ credential, reason, challenge string }{
		{"", "missing", `Bearer realm="myosin"`},
		{good[:len(good)-1] + "!", "malformed", badForm},
		{"a.b.c", "malformed", badForm}, // no issuer is configured
		{strings.Repeat("x", 20<<10), "malformed", badForm},
		{unknown.Reveal(), "unknown", invalid},
		{otherText, "secret", invalid}, // and not that it is revoked
		{expires, "expired", invalid + `, error_description="expired"`},
		{revokedText, "revoked", invalid + `, error_description="revoked"`},
		{widenedText, "claims", invalid},
	} {
		p, err := d.ask(t, c.credential)
		refused(t, p, err, access.ErrUnauthenticated, c.reason, c.challenge, c.credential)
		require.Equal(t, http.StatusUnauthorized, access.Status(err))
	}
	_, err := d.ask(t, good)
	require.NoError(t, err)
	require.Equal(t, 5, d.counted(t, "myosin_access_key_reads_total", "found"))
	require.Equal(t, 1, d.counted(t, "myosin_access_key_reads_total", "unknown"))
	require.Equal(t, 3, d.counted(t, "myosin_access_requests_total", "none", "malformed")+d.counted(t, "myosin_access_requests_total", "none", "missing"))
	require.Equal(t, 1, d.counted(t, "myosin_access_requests_total", "key", "malformed"))
	require.Equal(t, 1, d.counted(t, "myosin_access_requests_total", "key", "ok"))
}

func TestHeadersThatAreNotOneBearerCredentialAreMalformed(t *testing.T) {
	d := newDesk(t, access.Options{})
	_, good := d.key(t, access.Grant{Tenant: "acme", Role: access.Read})
	for _, values := range [][]string{{"Basic " + good}, {good}, {"Bearer"}, {"Bearer "}, {"Bearer " + good, "Bearer " + good}, {"Bearer x " + good}} {
		r := request(t.Context(), "")
		r.Header["Authorization"] = values
		_, err := d.Authenticate(r)
		require.Equal(t, "malformed", access.Reason(err), "%q", values)
	}
	for _, value := range []string{"bearer " + good, "BEARER  " + good} {
		r := request(t.Context(), "")
		r.Header["Authorization"] = []string{value}
		_, err := d.Authenticate(r)
		require.NoError(t, err)
	}
	require.Equal(t, 1, d.store.reads)
}

func TestAKeyIsReadOnceInAWhile(t *testing.T) {
	d := newDesk(t, access.Options{})
	k, text := d.key(t, access.Grant{Tenant: "acme", Role: access.Read})
	for range 100 {
		_, err := d.ask(t, text)
		require.NoError(t, err)
	}
	require.Equal(t, 1, d.store.reads)

	k.Revoked = noon()
	d.store.put(k) // by another process
	d.at = noon().Add(access.DefaultPositive - 1)
	_, err := d.ask(t, text)
	require.NoError(t, err)
	d.at = noon().Add(access.DefaultPositive)
	_, err = d.ask(t, text)
	require.Equal(t, "revoked", access.Reason(err))
	require.Equal(t, 2, d.store.reads)
}

func TestAnUnknownKeyCostsOneReadForAWhile(t *testing.T) {
	d := newDesk(t, access.Options{})
	k, p := newKey(t, access.Grant{Tenant: "acme", Role: access.Read})
	for range 100 {
		_, err := d.ask(t, p.Reveal())
		require.Equal(t, "unknown", access.Reason(err))
	}
	require.Equal(t, 1, d.store.reads)
	d.store.put(k)
	d.at = noon().Add(access.DefaultNegative)
	_, err := d.ask(t, p.Reveal())
	require.NoError(t, err)
	require.Equal(t, 2, d.store.reads)
}

func TestForgetMakesAChangeHoldAtOnce(t *testing.T) {
	d := newDesk(t, access.Options{})
	k, p := newKey(t, access.Grant{Tenant: "acme", Role: access.Read})
	_, err := d.ask(t, p.Reveal())
	require.Equal(t, "unknown", access.Reason(err))
	d.store.put(k)
	d.Forget(k.ID)
	_, err = d.ask(t, p.Reveal())
	require.NoError(t, err)
	k.Revoked = noon()
	d.store.put(k)
	d.Forget(k.ID)
	_, err = d.ask(t, p.Reveal())
	require.Equal(t, "revoked", access.Reason(err))
}

func TestMadeUpKeysDoNotPushOutRealOnesNorGrowWithoutBound(t *testing.T) {
	d := newDesk(t, access.Options{MaxKeys: 10})
	_, text := d.key(t, access.Grant{Tenant: "acme", Role: access.Read})
	_, err := d.ask(t, text)
	require.NoError(t, err)
	var made []string
	for range 50 {
		_, p := newKey(t, access.Grant{Tenant: "acme", Role: access.Read})
		made = append(made, p.Reveal())
		_, err := d.ask(t, p.Reveal())
		require.Error(t, err)
	}
	before := d.store.reads
	_, err = d.ask(t, text)
	require.NoError(t, err)
	require.Equal(t, before, d.store.reads, "still in memory")
	for _, m := range made {
		_, err := d.ask(t, m)
		require.Error(t, err)
	}
	require.GreaterOrEqual(t, d.store.reads-before, 40, "at most 10 of 50 were kept")
}

func TestAStoreThatIsDownIsNotAnUnknownKey(t *testing.T) {
	d := newDesk(t, access.Options{})
	_, text := d.key(t, access.Grant{Tenant: "acme", Role: access.Read})
	d.store.err = errors.New("throttled")
	p, err := d.ask(t, text)
	refused(t, p, err, access.ErrUnavailable, "store", "", text)
	require.Equal(t, http.StatusServiceUnavailable, access.Status(err))
	require.ErrorIs(t, err, d.store.err)
	d.store.err = nil
	_, err = d.ask(t, text)
	require.NoError(t, err, "errors are not kept")
	d.store.err = errors.New("throttled")
	_, err = d.ask(t, text)
	require.NoError(t, err, "from memory")
}

func TestAStoreThatAnswersWithAnotherKeyIsNotBelieved(t *testing.T) {
	d := newDesk(t, access.Options{})
	k, text := d.key(t, access.Grant{Tenant: "acme", Role: access.Read})
	wrong := k
	wrong.ID = "aaaaaaaaaaaaaaaa"
	d.store.keys[k.ID] = wrong
	_, err := d.ask(t, text)
	require.Equal(t, "store", access.Reason(err))
}

func TestRequestsAtOnceShareARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, access.Options{})
		_, text := d.key(t, access.Grant{Tenant: "acme", Role: access.Read})
		d.store.hold = make(chan struct{})
		errs := make(chan error)
		for range 50 {
			go func() {
				_, err := d.Authenticate(request(t.Context(), text))
				errs <- err
			}()
		}
		synctest.Wait()
		close(d.store.hold)
		for range 50 {
			require.NoError(t, <-errs)
		}
		require.Equal(t, 1, d.store.reads)
	})
}

func TestARequestThatGivesUpTakesNobodyAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, access.Options{})
		_, text := d.key(t, access.Grant{Tenant: "acme", Role: access.Read})
		d.store.hold = make(chan struct{})
		ask := func(ctx context.Context) chan error {
			out := make(chan error, 1)
			go func() {
				_, err := d.Authenticate(request(ctx, text))
				out <- err
			}()
			synctest.Wait()
			return out
		}
		reading, stop := context.WithCancel(t.Context())
		first := ask(reading)
		waiting, leave := context.WithCancel(t.Context())
		second, third := ask(waiting), ask(t.Context())
		leave()
		err := <-second
		require.Equal(t, "cancelled", access.Reason(err))
		require.Equal(t, http.StatusServiceUnavailable, access.Status(err))
		stop()
		require.Equal(t, "cancelled", access.Reason(<-first))
		synctest.Wait()
		close(d.store.hold)
		require.NoError(t, <-third, "it reads for itself")
		require.Equal(t, 2, d.store.reads)
	})
}

func TestAReadThatBeganBeforeForgetIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, access.Options{})
		k, text := d.key(t, access.Grant{Tenant: "acme", Role: access.Read})
		d.store.hold = make(chan struct{})
		old := make(chan error, 1)
		go func() {
			_, err := d.Authenticate(request(t.Context(), text))
			old <- err
		}()
		synctest.Wait()
		k.Revoked = noon()
		d.store.put(k)
		d.Forget(k.ID)
		close(d.store.hold)
		require.NoError(t, <-old, "it began before the revocation")
		_, err := d.ask(t, text)
		require.Equal(t, "revoked", access.Reason(err))
	})
}

func TestAReadThatFoundNothingBeforeAKeyWasMadeIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, access.Options{})
		k, p := newKey(t, access.Grant{Tenant: "acme", Role: access.Read})
		d.store.hold = make(chan struct{})
		old := make(chan error, 1)
		go func() {
			_, err := d.Authenticate(request(t.Context(), p.Reveal()))
			old <- err
		}()
		synctest.Wait()
		d.store.put(k)
		d.Forget(k.ID)
		close(d.store.hold)
		require.Equal(t, "unknown", access.Reason(<-old))
		_, err := d.ask(t, p.Reveal())
		require.NoError(t, err)
	})
}

func TestUsedKeysAreToldOnceAndOnlyWhenTheyWereGood(t *testing.T) {
	d := newDesk(t, access.Options{MaxKeys: 1})
	k, text := d.key(t, access.Grant{Tenant: "acme", Role: access.Read, Expires: noon().Add(time.Minute)})
	_, second := d.key(t, access.Grant{Tenant: "acme", Role: access.Read})
	_, err := d.ask(t, text)
	require.NoError(t, err)
	d.at = noon().Add(time.Second)
	for _, c := range []string{text, second} {
		_, err = d.ask(t, c)
		require.NoError(t, err)
	}
	require.Equal(t, map[string]time.Time{k.ID: d.at}, d.TakeUsed())
	require.Empty(t, d.TakeUsed())
	d.at = noon().Add(time.Minute)
	_, err = d.ask(t, text)
	require.Error(t, err)
	require.Empty(t, d.TakeUsed())
}

func TestAuthenticatorOptionsAtFaultAreReportedTogether(t *testing.T) {
	_, err := access.NewAuthenticator(access.Options{
		Positive: -1, Negative: 2 * time.Minute, MaxKeys: -1,
		OIDC: &access.OIDC{Issuer: "http://idp.example.com", Roles: map[string]access.Role{"": access.Admin, "x": 9}},
	})
	for _, want := range []string{"keys: missing", "positive", "negative", "max keys", "issuer", "audience", `roles: ""`, `roles: "x"`} {
		require.ErrorContains(t, err, want)
	}
	reg := prometheus.NewRegistry()
	for _, fails := range []bool{false, true} {
		_, err = access.NewAuthenticator(access.Options{Keys: &store{}, Registerer: reg})
		require.Equal(t, fails, err != nil, "%v", err)
	}
}
