package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/telemetry"
)

// DefaultTenant owns what is created without keys and without naming a tenant.
const DefaultTenant = "default"

// Auth tells who makes a request; [access.Authenticator] is one.
type Auth interface {
	Authenticate(r *http.Request) (access.Principal, error)
	// Forget drops what is remembered of a key that was changed.
	Forget(keyID string)
}

// KeyStore reads API keys for an [access.Authenticator].
type KeyStore struct{ Records jobstore.Records }

// Key implements [access.KeyStore].
func (s KeyStore) Key(ctx context.Context, id string) (access.Key, error) {
	k, err := s.Records.Key(ctx, id)
	if errors.Is(err, jobstore.ErrNotFound) {
		return access.Key{}, access.ErrNotFound
	}
	if err != nil {
		return access.Key{}, fmt.Errorf("read key %s: %w", id, err)
	}
	role, err := access.ParseRole(k.Role)
	if err != nil {
		return access.Key{}, fmt.Errorf("read key %s: %w", id, err)
	}
	return access.Key{
		ID: k.ID, Hash: k.Hash, Created: k.Created, Revoked: k.Revoked,
		Grant: access.Grant{Tenant: k.Tenant, Role: role, Name: k.Name, Expires: k.Expires},
	}, nil
}

type tokenKey struct{}

// tokenHeader and tokenPrefix are how the target of a run shows that it is it.
const (
	tokenHeader = target.HeaderCallbackToken
	tokenPrefix = "mct1_"
)

// identify puts who makes a request into its context. Without Auth that is
// [access.Local]. What is not under /v1 is for everybody.
func (a *api) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		with := func(ctx context.Context) { // in place: who observes the request reads its pattern
			*r = *r.WithContext(ctx)
			next.ServeHTTP(w, r)
		}
		if !strings.HasPrefix(r.URL.Path, "/v1/") {
			next.ServeHTTP(w, r)
			return
		}
		if token := callbackToken(r); token != "" {
			with(context.WithValue(ctx, tokenKey{}, token))
			return
		}
		if a.o.Auth == nil {
			with(access.NewContext(ctx, access.Local()))
			return
		}
		p, err := a.o.Auth.Authenticate(r)
		if err != nil {
			if errors.Is(err, access.ErrUnavailable) && ctx.Err() == nil {
				a.log.ErrorContext(ctx, "credentials cannot be checked", telemetry.KeyError, err)
			}
			writeProblem(w, accessProblem(err))
			return
		}
		with(access.NewContext(ctx, p))
	})
}

// callbackToken returns the token of a request to end a run or keep it alive;
// elsewhere it is no credential.
func callbackToken(r *http.Request) string {
	rest, ok := strings.CutPrefix(r.URL.Path, "/v1/runs/")
	if !ok || (!strings.HasSuffix(rest, "/heartbeat") && !strings.HasSuffix(rest, "/complete")) {
		return ""
	}
	if t := r.Header.Get(tokenHeader); t != "" {
		return t
	}
	scheme, t, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if t = strings.TrimSpace(t); strings.EqualFold(scheme, "bearer") && strings.HasPrefix(t, tokenPrefix) {
		return t
	}
	return ""
}

// accessProblem answers a refusal of package access.
func accessProblem(err error) *problem {
	switch status := access.Status(err); status {
	case http.StatusUnauthorized:
		p := newProblem(status, codeUnauthenticated, "give an API key or a token: Authorization: Bearer …")
		p.challenge = access.Challenge(err)
		return p
	case http.StatusForbidden:
		p := newProblem(status, codeForbidden, "your role, or your tenant, does not allow this")
		p.challenge = access.Challenge(err)
		return p
	case http.StatusNotFound:
		return newProblem(status, client.CodeNotFound, "no such thing")
	case http.StatusServiceUnavailable:
		p := newProblem(status, client.CodeUnavailable, "credentials cannot be checked now; try again")
		p.retryAfter = 1
		return p
	}
	return newProblem(http.StatusInternalServerError, client.CodeInternal, "")
}

// may refuses what the caller's role and tenant do not allow. what names the
// thing: another tenant's is answered like none.
func may(ctx context.Context, need access.Role, tenant, what string) error {
	err := access.FromContext(ctx).May(need, tenant)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, access.ErrOtherTenant):
		return notFound(what)
	}
	return accessProblem(err)
}

// tenantFor returns whose things a request is about: those of the given tenant,
// or of the caller's own.
func tenantFor(ctx context.Context, need access.Role, given string) (string, error) {
	p := access.FromContext(ctx)
	switch {
	case given != "":
	case p.Tenant != access.Platform:
		given = p.Tenant
	case p.Method == access.ByLocal:
		given = DefaultTenant
	default:
		return "", problemOf(fieldError("tenant", "missing: your credential is for every tenant"))
	}
	if given == access.Platform {
		return "", problemOf(fieldError("tenant", "%q is no tenant", given))
	}
	err := p.May(need, given)
	switch {
	case err == nil:
		return given, nil
	case errors.Is(err, access.ErrOtherTenant):
		return "", notFound("tenant")
	}
	return "", accessProblem(err)
}

func actor(ctx context.Context, tenant string) jobcontrol.Actor {
	return jobcontrol.Actor{Tenant: tenant, Subject: access.FromContext(ctx).Subject}
}

// changed logs that somebody changed something.
func (a *api) changed(ctx context.Context, action, tenant, object string) {
	p := access.FromContext(ctx)
	a.log.InfoContext(ctx, "changed", "action", action, "tenant", tenant, "object", object, "subject", p.Subject, "method", string(p.Method))
}
