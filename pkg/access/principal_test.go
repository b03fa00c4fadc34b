package access_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/access"
)

func TestWhoMayWhat(t *testing.T) {
	type p = access.Principal
	for _, c := range []struct {
		name   string
		who    p
		need   access.Role
		tenant string
		want   error
	}{
		{"nobody", p{}, access.Read, "acme", access.ErrUnauthenticated},
		{"read reads", p{Tenant: "acme", Role: access.Read}, access.Read, "acme", nil},
		{"read writes", p{Tenant: "acme", Role: access.Read}, access.Write, "acme", access.ErrForbidden},
		{"read administers", p{Tenant: "acme", Role: access.Read}, access.Admin, "acme", access.ErrForbidden},
		{"write reads", p{Tenant: "acme", Role: access.Write}, access.Read, "acme", nil},
		{"write writes", p{Tenant: "acme", Role: access.Write}, access.Write, "acme", nil},
		{"write administers", p{Tenant: "acme", Role: access.Write}, access.Admin, "acme", access.ErrForbidden},
		{"admin administers", p{Tenant: "acme", Role: access.Admin}, access.Admin, "acme", nil},
		{"another's, low role", p{Tenant: "acme", Role: access.Read}, access.Admin, "other", access.ErrOtherTenant},
		{"another's, admin", p{Tenant: "acme", Role: access.Admin}, access.Read, "other", access.ErrOtherTenant},
		{"the platform's, tenant's admin", p{Tenant: "acme", Role: access.Admin}, access.Read, access.Platform, access.ErrForbidden},
		{"operator, a tenant's", access.Local(), access.Admin, "acme", nil},
		{"operator, the platform's", access.Local(), access.Admin, access.Platform, nil},
		{"operator, no tenant", access.Local(), access.Read, "", access.ErrOtherTenant},
		{"operator without admin", p{Tenant: access.Platform, Role: access.Write}, access.Read, "acme", access.ErrOtherTenant},
		{"operator without admin, the platform's", p{Tenant: access.Platform, Role: access.Write}, access.Read, access.Platform, access.ErrForbidden},
		{"no tenant on either side", p{Role: access.Admin, Subject: "x"}, access.Read, "", access.ErrOtherTenant},
		{"no role", p{Tenant: "acme"}, access.Read, "acme", access.ErrForbidden},
		{"unknown role", p{Tenant: "acme", Role: 9}, access.Read, "acme", access.ErrForbidden},
		{"no need", p{Tenant: "acme", Role: access.Admin}, 0, "acme", access.ErrForbidden},
		{"operator, unknown need", access.Local(), 9, "acme", access.ErrOtherTenant},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.who.May(c.need, c.tenant)
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, c.want)
		})
	}
}

func TestNoPrincipalReachesAnotherTenantAndRolesOnlyAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tenant := rapid.SampledFrom([]string{"", "a", "b", access.Platform})
		p := access.Principal{Tenant: tenant.Draw(t, "own"), Role: access.Role(rapid.IntRange(0, 5).Draw(t, "role")), Subject: "s"}
		thing, need := tenant.Draw(t, "thing"), access.Role(rapid.IntRange(0, 5).Draw(t, "need"))
		if p.May(need, thing) != nil {
			return
		}
		require.GreaterOrEqual(t, p.Role, need)
		require.True(t, thing == p.Tenant || p.Tenant == access.Platform && p.Role == access.Admin)
		if p.Role < access.Admin {
			p.Role++
			require.NoError(t, p.May(need, thing))
		}
	})
}

func TestPayloadsAreForWritersAndAdmins(t *testing.T) {
	for role, want := range map[access.Role]bool{0: false, access.Read: false, access.Write: true, access.Admin: true, 9: false} {
		require.Equal(t, want, access.Principal{Tenant: "acme", Role: role}.MaySeePayloads(), role.String())
	}
}

func TestRolesAreReadAsWritten(t *testing.T) {
	for _, r := range []access.Role{access.Read, access.Write, access.Admin} {
		b, err := json.Marshal(r)
		require.NoError(t, err)
		var back access.Role
		require.NoError(t, json.Unmarshal(b, &back))
		require.Equal(t, r, back)
	}
	for _, s := range []string{"", "none", "ADMIN", "admin ", "root"} {
		_, err := access.ParseRole(s)
		require.Error(t, err, s)
	}
}

func TestRefusalsHaveTheirStatusAndTheContextItsPrincipal(t *testing.T) {
	for err, want := range map[error]int{
		nil: http.StatusOK, errors.New("x"): http.StatusInternalServerError, access.ErrUnavailable: http.StatusServiceUnavailable,
		access.Principal{}.May(access.Read, "a"):                                http.StatusUnauthorized,
		access.Principal{Tenant: "a", Role: access.Read}.May(access.Admin, "a"): http.StatusForbidden,
		access.Principal{Tenant: "a", Role: access.Read}.May(access.Read, "b"):  http.StatusNotFound,
	} {
		require.Equal(t, want, access.Status(err), "%v", err)
	}
	require.Equal(t, access.Principal{}, access.FromContext(t.Context()))
	require.Equal(t, access.Local(), access.FromContext(access.NewContext(t.Context(), access.Local())))
}
