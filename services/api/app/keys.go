package app

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

type createKeyInput struct{ Body body[jobsapi.CreateKey] }

type newKeyOutput struct{ Body jobsapi.NewKey }

type tenantQueryInput struct {
	Tenant string `query:"tenant" maxLength:"64" doc:"The caller's own by default"`
}

type keysOutput struct{ Body jobsapi.Page[jobsapi.Key] }

type keyInput struct {
	ID string `path:"id"`
}

type keyOutput struct{ Body jobsapi.Key }

func (m *managed) registerKeys(h huma.API) {
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "create-key", Method: http.MethodPost, Path: jobsapi.KeysPath, DefaultStatus: http.StatusCreated,
		Tags: []string{"keys"}, Summary: "Make an API key", Description: "The answer shows it once: only a hash is stored.",
	}, http.StatusNotFound), m.createKey)
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "list-keys", Method: http.MethodGet, Path: jobsapi.KeysPath,
		Tags: []string{"keys"}, Summary: "List a tenant's API keys, revoked ones too",
	}, http.StatusNotFound), m.listKeys)
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "revoke-key", Method: http.MethodDelete, Path: jobsapi.KeysPath + "/{id}",
		Tags: []string{"keys"}, Summary: "Revoke an API key", Description: "In force everywhere within 30 seconds.",
	}, http.StatusNotFound), m.revokeKey)
}

// keyTenant is tenantFor, which lets an admin of the platform name every tenant.
func keyTenant(ctx context.Context, given string) (string, error) {
	if given != access.Platform {
		return tenantFor(ctx, access.Admin, given)
	}
	return given, may(ctx, access.Admin, access.Platform, "tenant")
}

func (m *managed) createKey(ctx context.Context, in *createKeyInput) (*newKeyOutput, error) {
	b, err := in.Body.decode()
	if err != nil {
		return nil, err
	}
	tenant, err := keyTenant(ctx, b.Tenant)
	if err != nil {
		return nil, err
	}
	role, err := access.ParseRole(b.Role)
	if err != nil {
		return nil, problemOf(fieldError("role", "%v", err))
	}
	grant := access.Grant{Tenant: tenant, Role: role, Name: b.Name, Expires: b.ExpiresAt.UTC()}
	if b.ExpiresAt.IsZero() {
		grant.Expires = b.ExpiresAt
	}
	k, plain, err := access.NewKey(grant, m.o.Now())
	if err != nil {
		if grant.Validate() == nil {
			err = fieldError("expires_at", "is past")
		} else {
			err = faults(grant.Validate())
		}
		return nil, problemOf(err)
	}
	if err := m.record(ctx, tenant, "key.create", k.ID); err != nil {
		return nil, err
	}
	stored := jobstore.Key{
		ID: k.ID, Hash: k.Hash, Tenant: k.Tenant, Role: k.Role.String(), Name: k.Name, Created: k.Created, Expires: k.Expires,
	}
	if err := m.m.Records.PutKey(ctx, stored); err != nil {
		return nil, m.failed(ctx, "create key", "key", err)
	}
	m.forget(k.ID)
	m.changed(ctx, "key.create", tenant, k.ID)
	return &newKeyOutput{Body: jobsapi.NewKey{Key: jobsapi.KeyOf(&stored), Secret: plain.Reveal()}}, nil
}

func (m *managed) forget(id string) {
	if m.o.Auth != nil {
		m.o.Auth.Forget(id)
	}
}

func (m *managed) listKeys(ctx context.Context, in *tenantQueryInput) (*keysOutput, error) {
	tenant, err := keyTenant(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	keys, err := m.m.Records.Keys(ctx, tenant)
	if err != nil {
		return nil, m.failed(ctx, "list keys", "key", err)
	}
	out := &keysOutput{Body: jobsapi.Page[jobsapi.Key]{Items: make([]jobsapi.Key, 0, len(keys))}}
	for i := range keys {
		out.Body.Items = append(out.Body.Items, jobsapi.KeyOf(&keys[i]))
	}
	return out, nil
}

func (m *managed) revokeKey(ctx context.Context, in *keyInput) (*keyOutput, error) {
	if len(in.ID) > 64 || strings.Trim(in.ID, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return nil, notFound("key")
	}
	const attempts = 3
	for try := 1; ; try++ {
		k, err := m.m.Records.Key(ctx, in.ID)
		if err != nil {
			return nil, m.failed(ctx, "revoke key", "key", err)
		}
		if err := may(ctx, access.Admin, k.Tenant, "key"); err != nil {
			return nil, err
		}
		if !k.Revoked.IsZero() {
			return &keyOutput{Body: jobsapi.KeyOf(&k)}, nil
		}
		if err := m.record(ctx, k.Tenant, "key.revoke", k.ID); err != nil {
			return nil, err
		}
		k.Revoked = m.o.Now().UTC()
		err = m.m.Records.PutKey(ctx, k)
		if jobstore.Conflict(err, jobstore.PartRecord) && try < attempts {
			continue
		}
		if err != nil {
			return nil, m.failed(ctx, "revoke key", "key", err)
		}
		m.forget(k.ID)
		m.changed(ctx, "key.revoke", k.Tenant, k.ID)
		return &keyOutput{Body: jobsapi.KeyOf(&k)}, nil
	}
}
