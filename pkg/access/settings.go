package access

import (
	"errors"
	"fmt"

	"github.com/myosin-jobs/myosin/pkg/settings"
)

// OIDCSettings are the settings of an issuer whose tokens a process takes. The
// zero value: none.
type OIDCSettings struct {
	Issuer, Audience, TenantClaim, RoleClaim string // as in [OIDC]
}

// Settings adds all to s; what they hold already are the defaults.
func (o *OIDCSettings) Settings(s *settings.Set) {
	s.StringVar(&o.Issuer, "oidc-issuer", "MYOSIN_OIDC_ISSUER", "issuer whose OpenID Connect tokens are taken besides API keys, as an https URL")
	s.StringVar(&o.Audience, "oidc-audience", "MYOSIN_OIDC_AUDIENCE", "audience that tokens must name; required with an issuer")
	s.StringVar(&o.TenantClaim, "oidc-tenant-claim", "MYOSIN_OIDC_TENANT_CLAIM", `claim that holds the tenant, or its path with dots; "tenant" if empty`)
	s.StringVar(&o.RoleClaim, "oidc-role-claim", "MYOSIN_OIDC_ROLE_CLAIM", `claim that holds read, write or admin, or its path with dots; "role" if empty`)
}

// OIDC returns what [Options] take: nil and no error without an issuer. Settings
// that would mean nothing without one are errors then.
func (o *OIDCSettings) OIDC() (*OIDC, error) {
	if *o == (OIDCSettings{}) {
		return nil, nil
	}
	if o.Issuer == "" {
		return nil, errors.New("oidc: settings without an issuer")
	}
	out := &OIDC{Issuer: o.Issuer, Audience: o.Audience, TenantClaim: o.TenantClaim, RoleClaim: o.RoleClaim}
	if err := out.Validate(); err != nil {
		return nil, fmt.Errorf("oidc: %w", err)
	}
	return out, nil
}
