package app_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
)

func TestAnotherTenantsThingsAreNotThere(t *testing.T) {
	o := newOffice(t, true)
	admin := o.key(access.Platform, access.Admin)
	ok[jobsapi.Tenant](o, http.StatusOK, http.MethodPut, "/v1/tenants/acme",
		`{"contact":{"webhook":"https://example.com/hook"},"allow_services":["pay*"]}`, "Authorization", admin)
	acme, other, otherAdmin := o.key("acme", access.Write), o.key("other", access.Write), o.key("other", access.Admin)
	j := ok[jobsapi.Job](o, http.StatusCreated, http.MethodPost, "/v1/jobs", cronBody, "Authorization", acme)
	require.Equal(t, "acme", j.Tenant, "a key's own tenant is the default")
	r := ok[jobsapi.Run](o, http.StatusAccepted, http.MethodPost, "/v1/jobs/"+j.ID+"/run", "", "Authorization", acme)
	k := ok[jobsapi.NewKey](o, http.StatusCreated, http.MethodPost, "/v1/keys", `{"tenant":"acme","role":"read"}`, "Authorization", admin)

	missing := o.problem(http.StatusNotFound, http.MethodGet, "/v1/jobs/00000000-0000-4000-8000-000000000000", "", "Authorization", other)
	for _, c := range [][3]string{
		{http.MethodGet, "/v1/jobs/" + j.ID}, {http.MethodPatch, "/v1/jobs/" + j.ID, `{"status":"paused"}`},
		{http.MethodDelete, "/v1/jobs/" + j.ID}, {http.MethodPost, "/v1/jobs/" + j.ID + "/run"}, {http.MethodGet, "/v1/jobs/" + j.ID + "/runs"},
		{http.MethodGet, "/v1/dead-letters?job=" + j.ID},
	} {
		require.Equal(t, missing, o.problem(http.StatusNotFound, c[0], c[1], c[2], "Authorization", other), c)
	}
	for _, c := range [][3]string{
		{http.MethodGet, "/v1/runs/" + r.ID}, {http.MethodPost, "/v1/runs/" + r.ID + "/cancel"},
		{http.MethodPost, "/v1/runs/" + r.ID + "/heartbeat", `{"attempt":1}`},
		{http.MethodGet, "/v1/jobs?tenant=acme"}, {http.MethodGet, "/v1/tenants/acme"}, {http.MethodPut, "/v1/tenants/acme", `{}`},
		{http.MethodGet, "/v1/keys?tenant=acme"}, {http.MethodDelete, "/v1/keys/" + k.ID},
		{http.MethodPost, "/v1/keys", `{"tenant":"acme","role":"read"}`}, {http.MethodGet, "/v1/secrets?tenant=acme"},
		{http.MethodGet, "/v1/audit?tenant=acme"}, {http.MethodPost, "/v1/jobs", `{"tenant":"acme",` + cronBody[1:]},
	} {
		o.problem(http.StatusNotFound, c[0], c[1], c[2], "Authorization", otherAdmin)
	}
	failed := ok[jobsapi.RedriveAnswer](o, http.StatusOK, http.MethodPost, "/v1/dead-letters/redrive", `{"runs":["`+r.ID+`"]}`, "Authorization", other)
	require.Equal(t, "not_found", failed.Failed[0].Code)
	require.Equal(t, "active", ok[jobsapi.Job](o, http.StatusOK, http.MethodGet, "/v1/jobs/"+j.ID, "", "Authorization", acme).Status)
}

func TestARoleDoesWhatItMay(t *testing.T) {
	o := newOffice(t, true)
	admin := o.key(access.Platform, access.Admin)
	ok[jobsapi.Tenant](o, http.StatusOK, http.MethodPut, "/v1/tenants/acme", `{"contact":{"webhook":"https://example.com/hook"}}`, "Authorization", admin)
	read, write, boss := o.key("acme", access.Read), o.key("acme", access.Write), o.key("acme", access.Admin)
	j := ok[jobsapi.Job](o, http.StatusCreated, http.MethodPost, "/v1/jobs", cronBody, "Authorization", write)

	code, head, _ := o.call(http.MethodGet, "/v1/jobs/"+j.ID, "")
	require.Equal(t, http.StatusUnauthorized, code)
	require.Contains(t, head.Get("WWW-Authenticate"), "Bearer")
	code, _, body := o.call(http.MethodGet, "/v1/jobs/"+j.ID, "", "Authorization", read)
	require.Equal(t, http.StatusOK, code)
	got := into[jobsapi.Job](t, body)
	require.Nil(t, got.Payload)
	require.Equal(t, 8, got.PayloadBytes)
	require.NotContains(t, body, "hush", "headers hold credentials")
	require.Equal(t, "hush", ok[jobsapi.Job](o, http.StatusOK, http.MethodGet, "/v1/jobs/"+j.ID, "", "Authorization", write).Target.Headers["X-Token"])

	for _, c := range [][4]string{
		{http.MethodPost, "/v1/jobs", cronBody, read}, {http.MethodPatch, "/v1/jobs/" + j.ID, `{"status":"paused"}`, read},
		{http.MethodDelete, "/v1/jobs/" + j.ID, "", read}, {http.MethodPost, "/v1/jobs/" + j.ID + "/run", "", read},
		{http.MethodPost, "/v1/dead-letters/redrive", `{"all":true}`, read}, {http.MethodPost, "/v1/keys", `{"role":"read"}`, write},
		{http.MethodGet, "/v1/keys", "", write}, {http.MethodPost, "/v1/secrets", `{}`, write}, {http.MethodGet, "/v1/audit", "", write},
		{http.MethodPut, "/v1/tenants/acme", `{}`, write}, {http.MethodPut, "/v1/tenants/acme", `{"allow_ranges":["10.0.0.0/8"]}`, boss},
		{http.MethodPost, "/v1/keys", `{"role":"admin","tenant":"*"}`, boss}, {http.MethodGet, "/v1/forecast", "", boss},
		{http.MethodGet, "/v1/services", "", boss}, {http.MethodPatch, "/v1/services/hello", `{"paused":true}`, boss},
	} {
		p := o.problem(http.StatusForbidden, c[0], c[1], c[2], "Authorization", c[3])
		require.Equal(t, "forbidden", p.Code)
	}
	changed := ok[jobsapi.Tenant](o, http.StatusOK, http.MethodPut, "/v1/tenants/acme", `{"contact":{"webhook":"https://example.com/other"}}`, "Authorization", boss)
	require.Equal(t, int64(2), changed.Version)
	require.NotContains(t, must2(o.call(http.MethodGet, "/v1/tenants/acme", "", "Authorization", read)), "/other")
	o.problem(http.StatusUnprocessableEntity, http.MethodPost, "/v1/jobs", cronBody, "Authorization", admin) // for whom?
	code, _, _ = o.call(http.MethodGet, "/openapi.json", "")
	require.Equal(t, http.StatusOK, code)
}

func must2(_ int, _ http.Header, body string) string { return body }

func TestAKeyIsShownOnceAndRevokedAtOnce(t *testing.T) {
	o := newOffice(t, true)
	boss := o.key("acme", access.Admin)
	expires := noon.Add(time.Hour).Format(time.RFC3339)
	k := ok[jobsapi.NewKey](o, http.StatusCreated, http.MethodPost, "/v1/keys", `{"role":"read","name":"ci","expires_at":"`+expires+`"}`, "Authorization", boss)
	bearer := "Bearer " + k.Secret
	ok[jobsapi.Page[jobsapi.Job]](o, http.StatusOK, http.MethodGet, "/v1/jobs", "", "Authorization", bearer)
	_, _, list := o.call(http.MethodGet, "/v1/keys", "", "Authorization", boss)
	require.Contains(t, list, k.ID)
	require.NotContains(t, list, k.Secret)
	require.Contains(t, list, `"name":"ci"`)
	revoked := ok[jobsapi.Key](o, http.StatusOK, http.MethodDelete, "/v1/keys/"+k.ID, "", "Authorization", boss)
	require.NotNil(t, revoked.RevokedAt)
	o.problem(http.StatusUnauthorized, http.MethodGet, "/v1/jobs", "", "Authorization", bearer)
	again := ok[jobsapi.Key](o, http.StatusOK, http.MethodDelete, "/v1/keys/"+k.ID, "", "Authorization", boss)
	require.Equal(t, revoked, again)
	o.problem(http.StatusUnprocessableEntity, http.MethodPost, "/v1/keys", `{"role":"read","expires_at":"2020-01-01T00:00:00Z"}`, "Authorization", boss)

	audit := ok[jobsapi.Page[jobsapi.AuditRecord]](o, http.StatusOK, http.MethodGet, "/v1/audit?limit=1", "", "Authorization", boss)
	require.Len(t, audit.Items, 1)
	require.NotEmpty(t, audit.NextCursor)
	rest := ok[jobsapi.Page[jobsapi.AuditRecord]](o, http.StatusOK, http.MethodGet, "/v1/audit?limit=9&cursor="+audit.NextCursor, "", "Authorization", boss)
	require.Len(t, rest.Items, 1)
	for _, a := range append(audit.Items, rest.Items...) {
		require.Equal(t, k.ID, a.Object)
	}
	require.NotContains(t, o.log.String(), k.Secret)
}

func TestASecretIsShownOnceAndOthersExpireInARotation(t *testing.T) {
	o := newOffice(t, true)
	boss := o.key("acme", access.Admin)
	first := ok[jobsapi.NewSecret](o, http.StatusCreated, http.MethodPost, "/v1/secrets", `{}`, "Authorization", boss)
	require.Contains(t, first.Value, "whsec_")
	o.clock.add(time.Minute)
	second := ok[jobsapi.NewSecret](o, http.StatusCreated, http.MethodPost, "/v1/secrets", `{"expire_others_in":"24h"}`, "Authorization", boss)
	list := ok[jobsapi.Page[jobsapi.Secret]](o, http.StatusOK, http.MethodGet, "/v1/secrets", "", "Authorization", boss)
	ends := map[string]*time.Time{}
	for _, s := range list.Items {
		ends[s.ID] = s.ExpiresAt
	}
	require.Len(t, ends, 2)
	require.Nil(t, ends[second.ID])
	require.Equal(t, noon.Add(24*time.Hour+time.Minute), *ends[first.ID])
	stored, err := o.jobs.Secrets(t.Context(), "acme")
	require.NoError(t, err)
	require.Contains(t, string(stored[0].Sealed), "sealed:acme")
	code, _, _ := o.call(http.MethodDelete, "/v1/secrets/"+first.ID, "", "Authorization", boss)
	require.Equal(t, http.StatusNoContent, code)
	o.problem(http.StatusNotFound, http.MethodDelete, "/v1/secrets/"+first.ID, "", "Authorization", boss)
	for range 9 {
		ok[jobsapi.NewSecret](o, http.StatusCreated, http.MethodPost, "/v1/secrets", `{}`, "Authorization", boss)
	}
	o.problem(http.StatusConflict, http.MethodPost, "/v1/secrets", `{}`, "Authorization", boss)
	require.NotContains(t, o.log.String(), first.Value)
}

func TestATriggerIsOfItsTenantAndOfServicesThatItMayUse(t *testing.T) {
	o := newOffice(t, true)
	admin := o.key(access.Platform, access.Admin)
	ok[jobsapi.Tenant](o, http.StatusOK, http.MethodPut, "/v1/tenants/acme", `{"allow_services":["hel*","runs"]}`, "Authorization", admin)
	write := o.key("acme", access.Write)
	code, _, body := o.call(http.MethodPost, "/v1/triggers", `{"service":"hello"}`, "Authorization", write)
	require.Equal(t, http.StatusCreated, code, body)
	for _, service := range []string{"payments", "runs", "nobody"} {
		p := o.problem(http.StatusUnprocessableEntity, http.MethodPost, "/v1/triggers", `{"service":"`+service+`"}`, "Authorization", write)
		require.Equal(t, "unknown_service", p.Code, service)
	}
	o.problem(http.StatusNotFound, http.MethodPost, "/v1/triggers", `{"service":"hello","tenant":"other"}`, "Authorization", write)
	o.problem(http.StatusForbidden, http.MethodPost, "/v1/triggers", `{"service":"hello"}`, "Authorization", o.key("acme", access.Read))
}
