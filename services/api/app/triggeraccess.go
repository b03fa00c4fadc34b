package app

import (
	"context"
	"errors"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/registry"
)

// submitter refuses a submission that the caller may not make. A tenant's
// submissions carry its name, and go to the services that its record allows; the
// platform's operators name whom they like.
func (a *api) submitter(ctx context.Context, b *client.SubmitBody) error {
	p := access.FromContext(ctx)
	if p.Tenant == access.Platform {
		return may(ctx, access.Write, access.Platform, "service")
	}
	tenant, err := tenantFor(ctx, access.Write, b.Tenant)
	if err != nil {
		return err
	}
	b.Tenant = tenant
	var t jobstore.Tenant
	if a.o.Managed != nil {
		if t, err = a.o.Managed.Records.Tenant(ctx, tenant); err != nil && !errors.Is(err, jobstore.ErrNotFound) {
			return a.fail(ctx, "read tenant", err)
		}
	}
	if b.Service == jobcontrol.Service || b.Service == jobcontrol.UrgentService || !matches(t.AllowServices, b.Service) {
		return problemOf(errors.Join(fieldError("service", "%q is not known, or not allowed by the tenant's record", b.Service), registry.ErrUnknown))
	}
	return nil
}

// owner refuses a caller whose tenant has nothing to do with the trigger under a
// handle: that is answered like no trigger.
func (a *api) owner(ctx context.Context, need access.Role, handle string) error {
	if p := access.FromContext(ctx); p.Tenant == access.Platform {
		return may(ctx, need, access.Platform, "trigger")
	}
	v, err := a.o.Jobs.Get(ctx, handle)
	if err != nil {
		return a.fail(ctx, "get", err)
	}
	if v.Tenant == "" {
		return problemOf(client.ErrNotFound)
	}
	if err := may(ctx, need, v.Tenant, "trigger"); err != nil {
		if access.FromContext(ctx).Tenant != v.Tenant {
			return problemOf(client.ErrNotFound)
		}
		return err
	}
	return nil
}
