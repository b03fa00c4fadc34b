package access

import (
	"context"
	"fmt"
)

// Platform as a principal's tenant is every tenant: for the operators of the
// platform, and only with [Admin]. As the tenant of a thing it is what belongs
// to no tenant, such as the registry of services.
const Platform = "*"

// Role is what a principal may do within its tenant; each includes those below.
// The zero value is no role.
type Role uint8

// Roles, and what each adds.
const (
	Read  Role = iota + 1 // look, but not into payloads
	Write                 // change jobs and runs, and see payloads
	Admin                 // keys, secrets, the tenant's record
)

func (r Role) valid() bool { return r >= Read && r <= Admin }

// String returns read, write, admin or none.
func (r Role) String() string {
	switch r {
	case Read:
		return "read"
	case Write:
		return "write"
	case Admin:
		return "admin"
	}
	return "none"
}

// ParseRole reads what [Role.String] writes, none excepted.
func ParseRole(s string) (Role, error) {
	for r := Read; r <= Admin; r++ {
		if s == r.String() {
			return r, nil
		}
	}
	return 0, fmt.Errorf("role %.32q: want read, write or admin", s)
}

// MarshalText writes the role's name.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the role's name.
func (r *Role) UnmarshalText(b []byte) (err error) {
	*r, err = ParseRole(string(b))
	return err
}

// Method is how a principal proved who it is.
type Method string

// Methods.
const (
	ByKey   Method = "key"   // Subject is the key's id
	ByOIDC  Method = "oidc"  // Subject is the token's sub
	ByLocal Method = "local" // no proof: see Local
)

// Principal is who makes a request. The zero value may do nothing.
type Principal struct {
	Tenant  string // or [Platform]
	Role    Role
	Subject string
	Method  Method
}

// Local is the principal of a process that serves loopback without keys: admin
// of every tenant. Whether that is right is the caller's business.
func Local() Principal {
	return Principal{Tenant: Platform, Role: Admin, Subject: "local", Method: ByLocal}
}

// May tells whether the principal may do what needs the role, to a thing of the
// tenant ([Platform]: to what belongs to no tenant). The refusals, each to be
// told by errors.Is and answered as [Status] says:
//
//   - [ErrUnauthenticated]: there is no principal.
//   - [ErrOtherTenant]: the thing is another tenant's. Whether it exists is not
//     for this principal to know, so this comes before any look at the role.
//   - [ErrForbidden]: the role is too low, or the thing is the platform's.
//
// Unknown roles and empty tenants are refused.
func (p Principal) May(need Role, tenant string) error {
	operator := p.Tenant == Platform && p.Role == Admin
	switch {
	case p == Principal{}:
		return refuse(ErrUnauthenticated, reasonMissing)
	case operator && tenant != "" && need.valid():
		return nil
	case tenant == Platform:
		return refuse(ErrForbidden, reasonPlatform)
	case tenant == "" || p.Tenant == Platform || tenant != p.Tenant:
		return refuse(ErrOtherTenant, reasonTenant)
	case !need.valid() || !p.Role.valid() || p.Role < need:
		return refuse(ErrForbidden, reasonRole)
	}
	return nil
}

// MaySeePayloads tells whether payloads, and what quotes them such as response
// excerpts, are shown: to write and admin, not to read. It is asked after
// [Principal.May], not in its place.
func (p Principal) MaySeePayloads() bool { return p.Role == Write || p.Role == Admin }

type principalKey struct{}

// NewContext returns a context that carries the principal.
func NewContext(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// FromContext returns the principal that [NewContext] stored; without one, the
// zero value, which may do nothing.
func FromContext(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	return p
}
