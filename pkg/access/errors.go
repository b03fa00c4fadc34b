package access

import (
	"errors"
	"net/http"
)

// What a request is refused with; [Status] and [Challenge] say what to answer.
var (
	// ErrUnauthenticated: no credential, or none that is good.
	ErrUnauthenticated = errors.New("not authenticated")
	// ErrForbidden: known, but not allowed.
	ErrForbidden = errors.New("not allowed")
	// ErrOtherTenant: another tenant's thing, which is answered like none.
	ErrOtherTenant = errors.New("not found")
	// ErrUnavailable: the credential could not be checked now: the table of keys
	// cannot be read, or the issuer does not answer.
	ErrUnavailable = errors.New("credentials cannot be checked now")
)

// Reasons are labels of a metric and words for people who hold the credential.
const (
	reasonMissing   = "missing"   // no Authorization header
	reasonMalformed = "malformed" // not a bearer credential of a known shape
	reasonUnknown   = "unknown"   // no key has the id
	reasonSecret    = "secret"    // the id's key has another secret
	reasonRevoked   = "revoked"
	reasonExpired   = "expired"
	reasonRole      = "role"
	reasonTenant    = "tenant"
	reasonPlatform  = "platform"
	reasonStore     = "store"
	reasonCancelled = "cancelled" // the request ended before an answer
	reasonIssuer    = "issuer"    // the token names another issuer
	reasonAudience  = "audience"
	reasonSignature = "signature" // or algorithm, or key id
	reasonEarly     = "early"     // the token is not valid yet
	reasonClaims    = "claims"    // a signed token that says too little
	reasonDown      = "issuer_down"
)

type refusal struct {
	kind   error // one of the four above
	reason string
	cause  error // may be nil; never quotes a credential
}

func refuse(kind error, reason string, cause ...error) error {
	return &refusal{kind: kind, reason: reason, cause: errors.Join(cause...)}
}

// Error is for logs: it says more than [Challenge] tells the client.
func (r *refusal) Error() string {
	s := r.kind.Error() + ": " + r.reason
	if r.cause != nil {
		s += ": " + r.cause.Error()
	}
	return s
}

func (r *refusal) Unwrap() []error {
	if r.cause == nil {
		return []error{r.kind}
	}
	return []error{r.kind, r.cause}
}

// Reason returns the word by which a refusal is counted; "" for other errors.
func Reason(err error) string {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.reason
	}
	return ""
}

// Status returns the status code that answers an error of this package: 401,
// 403, 404 or 503; nil: 200, and 500 for what is not this package's.
func Status(err error) int {
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, ErrUnauthenticated):
		return http.StatusUnauthorized
	case errors.Is(err, ErrForbidden):
		return http.StatusForbidden
	case errors.Is(err, ErrOtherTenant):
		return http.StatusNotFound
	case errors.Is(err, ErrUnavailable):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// Challenge returns the value of WWW-Authenticate for a 401 or 403, after RFC
// 6750; "" for other errors. Whether a key's id or its secret is wrong is not
// told; that it has expired or was revoked is, as only its holder gets so far.
func Challenge(err error) string {
	const realm = `Bearer realm="myosin"`
	reason := Reason(err)
	switch {
	case errors.Is(err, ErrForbidden):
		return realm + `, error="insufficient_scope"`
	case !errors.Is(err, ErrUnauthenticated):
		return ""
	case reason == reasonMissing: // a request without credential gets no error code
		return realm
	case reason == reasonMalformed:
		return realm + `, error="invalid_request"`
	case reason == reasonExpired, reason == reasonRevoked:
		return realm + `, error="invalid_token", error_description="` + reason + `"`
	}
	return realm + `, error="invalid_token"`
}
