package app

import (
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

type tenantInput struct {
	ID string `path:"id"`
}

type putTenantInput struct {
	ID      string `path:"id"`
	IfMatch string `header:"If-Match" doc:"The ETag that was read; without it the last writer wins"`
	Body    body[jobsapi.PutTenant]
}

type tenantOutput struct {
	ETag string `header:"ETag"`
	Body jobsapi.Tenant
}

func (m *managed) registerTenants(h huma.API) {
	const one = jobsapi.TenantsPath + "/{id}"
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "get-tenant", Method: http.MethodGet, Path: one,
		Tags: []string{"tenants"}, Summary: "Look a tenant's record up",
	}, http.StatusNotFound), m.getTenant)
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "put-tenant", Method: http.MethodPut, Path: one,
		Tags: []string{"tenants"}, Summary: "Create or replace a tenant's record",
		Description: "A tenant's admin may change the contact; what the tenant may do is for the platform's admins.",
	}, http.StatusNotFound, http.StatusPreconditionFailed), m.putTenant)
}

func (m *managed) getTenant(ctx context.Context, in *tenantInput) (*tenantOutput, error) {
	if err := job.ValidTenant(in.ID); err != nil {
		return nil, notFound("tenant")
	}
	if err := may(ctx, access.Read, in.ID, "tenant"); err != nil {
		return nil, err
	}
	t, err := m.m.Records.Tenant(ctx, in.ID)
	if err != nil {
		return nil, m.failed(ctx, "get tenant", "tenant", err)
	}
	v := jobsapi.TenantOf(&t)
	if v.Contact != nil && v.Contact.Webhook != "" && !access.FromContext(ctx).MaySeePayloads() {
		v.Contact.Webhook = hidden
	}
	return &tenantOutput{ETag: etag(t.Version), Body: v}, nil
}

func (m *managed) putTenant(ctx context.Context, in *putTenantInput) (*tenantOutput, error) {
	b, err := in.Body.decode()
	if err != nil {
		return nil, err
	}
	if err := job.ValidTenant(in.ID); err != nil {
		return nil, problemOf(fieldError("path.id", "%v", err))
	}
	if err := may(ctx, access.Admin, in.ID, "tenant"); err != nil {
		return nil, err
	}
	ifVersion, err := version(in.IfMatch)
	if err != nil {
		return nil, err
	}
	next := b.Record(in.ID)
	if err := m.checkTenant(&next); err != nil {
		return nil, problemOf(err)
	}
	if err := m.record(ctx, in.ID, "tenant.put", in.ID); err != nil {
		return nil, err
	}
	const attempts = 5
	for try := 1; ; try++ {
		before, err := m.m.Records.Tenant(ctx, in.ID)
		if err != nil && !errors.Is(err, jobstore.ErrNotFound) {
			return nil, m.failed(ctx, "put tenant", "tenant", err)
		}
		if ifVersion != 0 && before.Version != ifVersion {
			return nil, newProblem(http.StatusPreconditionFailed, codeVersion, "the record has changed since: read it again")
		}
		if access.FromContext(ctx).Tenant != access.Platform && !sameLimits(&before, &next) {
			return nil, accessProblem(access.FromContext(ctx).May(access.Admin, access.Platform))
		}
		next.Version, next.Updated = before.Version, m.o.Now().UTC()
		err = m.m.Records.PutTenant(ctx, next)
		if jobstore.Conflict(err, jobstore.PartRecord) && try < attempts {
			continue
		}
		if err != nil {
			return nil, m.failed(ctx, "put tenant", "tenant", err)
		}
		next.Version++
		m.changed(ctx, "tenant.put", in.ID, in.ID)
		return &tenantOutput{ETag: etag(next.Version), Body: jobsapi.TenantOf(&next)}, nil
	}
}

// sameLimits tells whether two records let a tenant do the same.
func sameLimits(a, b *jobstore.Tenant) bool {
	return a.MaxConcurrent == b.MaxConcurrent && slices.Equal(a.AllowRanges, b.AllowRanges) &&
		slices.Equal(a.AllowServices, b.AllowServices) && slices.Equal(a.AllowTopics, b.AllowTopics) && maps.Equal(a.Rates, b.Rates)
}

// checkTenant reports every field at fault, joined.
func (m *managed) checkTenant(t *jobstore.Tenant) error {
	a := &allowance{tenant: *t}
	var errs []error
	if len(t.AllowRanges) > 0 {
		var err error
		if a.ranges, err = target.ParseAllow(strings.Join(t.AllowRanges, ",")); err != nil {
			errs = append(errs, fieldError("allow_ranges", "%s", strings.ReplaceAll(err.Error(), "\n", "; ")))
		}
	}
	if err := target.CheckTopicPatterns(t.AllowTopics); err != nil {
		errs = append(errs, fieldError("allow_topics", "%s", strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	for _, s := range t.AllowServices {
		if name := strings.TrimSuffix(s, "*"); s == "" || name != "" && job.ValidTenant(name) != nil {
			errs = append(errs, fieldError("allow_services", "want names of services, with or without a * at the end"))
			break
		}
	}
	for _, key := range slices.Sorted(maps.Keys(t.Rates)) {
		if rate := t.Rates[key]; rate <= 0 || rate > 1e6 || math.IsNaN(rate) {
			errs = append(errs, fieldError("rates", "want calls per second above 0 and up to 1000000"))
			break
		}
		if kind, name, ok := strings.Cut(key, ":"); !ok || name == "" || len(key) > 512 || !slices.Contains([]string{"host", "group", "queue", "topic"}, kind) {
			errs = append(errs, fieldError("rates", "want keys such as host:example.com, group:…, queue:… or topic:…"))
			break
		}
	}
	return errors.Join(append(errs, m.checkNotify(a, t.Contact, "contact"))...)
}

// record notes a change of a tenant's records before it is made, so that none
// goes without: a note of what then failed does no harm.
func (m *managed) record(ctx context.Context, tenant, action, object string) error {
	now := m.o.Now().UTC()
	err := m.m.Audits.Commit(ctx, jobstore.Tx{Audit: []jobstore.AuditRecord{{
		Tenant: tenant, At: now, ID: trigger.NewID(), Subject: access.FromContext(ctx).Subject, Action: action, Object: object,
		Expires: now.Add(m.m.KeepAudit),
	}}})
	if err != nil {
		return m.failed(ctx, "record "+action, "tenant", err)
	}
	return nil
}
