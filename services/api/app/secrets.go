package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// maxSecrets is how many signing secrets a tenant may have: each adds a signature
// to every call.
const maxSecrets = 10

type createSecretInput struct {
	Body body[jobsapi.CreateSecret]
}

type newSecretOutput struct{ Body jobsapi.NewSecret }

type secretsOutput struct {
	Body jobsapi.Page[jobsapi.Secret]
}

type secretInput struct {
	ID     string `path:"id"`
	Tenant string `query:"tenant" maxLength:"64" doc:"The caller's own by default"`
}

func (m *managed) registerSecrets(h huma.API) {
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "create-secret", Method: http.MethodPost, Path: jobsapi.SecretsPath, DefaultStatus: http.StatusCreated,
		Tags: []string{"secrets"}, Summary: "Make a signing secret",
		Description: "Calls are signed with every secret that has not expired, so that receivers can move from one to the next. The answer shows it once.",
	}, http.StatusNotFound, http.StatusConflict), m.createSecret)
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "list-secrets", Method: http.MethodGet, Path: jobsapi.SecretsPath,
		Tags: []string{"secrets"}, Summary: "List a tenant's signing secrets, without their bytes",
	}, http.StatusNotFound), m.listSecrets)
	huma.Register(h, managedOperation(h, huma.Operation{
		OperationID: "delete-secret", Method: http.MethodDelete, Path: jobsapi.SecretsPath + "/{id}", DefaultStatus: http.StatusNoContent,
		Tags: []string{"secrets"}, Summary: "Remove a signing secret",
	}, http.StatusNotFound), m.deleteSecret)
}

func (m *managed) createSecret(ctx context.Context, in *createSecretInput) (*newSecretOutput, error) {
	b, err := in.Body.decode()
	if err != nil {
		return nil, err
	}
	tenant, err := tenantFor(ctx, access.Admin, b.Tenant)
	if err != nil {
		return nil, err
	}
	others, err := m.m.Records.Secrets(ctx, tenant)
	if err != nil {
		return nil, m.failed(ctx, "create secret", "secret", err)
	}
	if len(others) >= maxSecrets {
		return nil, newProblem(http.StatusConflict, client.CodeConflict, fmt.Sprintf("the tenant has %d secrets, and may not have more: remove one", len(others)))
	}
	now := m.o.Now().UTC()
	s := jobstore.Secret{Tenant: tenant, ID: trigger.NewID().String(), Created: now}
	plain := target.NewSecret()
	if s.Sealed, err = m.m.Seal(ctx, tenant, s.ID, []byte(plain.Reveal())); err != nil {
		return nil, m.failed(ctx, "seal secret", "secret", err)
	}
	if err := m.record(ctx, tenant, "secret.create", s.ID); err != nil {
		return nil, err
	}
	if err := m.m.Records.PutSecret(ctx, s); err != nil {
		return nil, m.failed(ctx, "create secret", "secret", err)
	}
	if b.ExpireOthersIn != nil {
		if err := m.expire(ctx, others, now.Add(time.Duration(*b.ExpireOthersIn))); err != nil {
			return nil, err
		}
	}
	m.changed(ctx, "secret.create", tenant, s.ID)
	return &newSecretOutput{Body: jobsapi.NewSecret{Secret: jobsapi.SecretOf(&s), Value: plain.Reveal()}}, nil
}

// expire ends secrets at a time, unless they end before.
func (m *managed) expire(ctx context.Context, secrets []jobstore.Secret, at time.Time) error {
	for _, s := range secrets {
		if !s.Expires.IsZero() && s.Expires.Before(at) {
			continue
		}
		s.Expires = at
		if err := m.m.Records.PutSecret(ctx, s); err != nil {
			return m.failed(ctx, "expire secret", "secret", err)
		}
	}
	return nil
}

func (m *managed) listSecrets(ctx context.Context, in *tenantQueryInput) (*secretsOutput, error) {
	tenant, err := tenantFor(ctx, access.Admin, in.Tenant)
	if err != nil {
		return nil, err
	}
	secrets, err := m.m.Records.Secrets(ctx, tenant)
	if err != nil {
		return nil, m.failed(ctx, "list secrets", "secret", err)
	}
	out := &secretsOutput{Body: jobsapi.Page[jobsapi.Secret]{Items: make([]jobsapi.Secret, 0, len(secrets))}}
	for i := range secrets {
		out.Body.Items = append(out.Body.Items, jobsapi.SecretOf(&secrets[i]))
	}
	return out, nil
}

func (m *managed) deleteSecret(ctx context.Context, in *secretInput) (*struct{}, error) {
	tenant, err := tenantFor(ctx, access.Admin, in.Tenant)
	if err != nil {
		return nil, err
	}
	if id, err := trigger.ParseID(in.ID); err != nil || id.String() != in.ID {
		return nil, notFound("secret")
	}
	if err := m.record(ctx, tenant, "secret.delete", in.ID); err != nil {
		return nil, err
	}
	if err := m.m.Records.DeleteSecret(ctx, tenant, in.ID); err != nil {
		return nil, m.failed(ctx, "delete secret", "secret", err)
	}
	m.changed(ctx, "secret.delete", tenant, in.ID)
	return nil, nil //nolint:nilnil // 204 has no body.
}
