package main

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/jobsapi"
	"github.com/myosin-jobs/myosin/pkg/jobstore/memjobs"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/services/api/app"
	"github.com/myosin-jobs/myosin/tools/myosin/internal/cli"
)

type lookup struct{ *registry.Static }

func (l lookup) Lookup(ctx context.Context, name string) (registry.Service, error) {
	return l.Get(ctx, name)
}

// guarded is the API as others than this machine reach it: it asks for keys. The
// shell has that of the platform's operators.
func guarded(t *testing.T) *shell {
	t.Helper()
	triggers := memstore.New(memstore.Options{})
	require.NoError(t, triggers.SetEpochs(t.Context(), nil, trigger.Epochs{{N: 2}}))
	jobs := memjobs.New(memjobs.Options{Triggers: triggers})
	queues := memqueue.New(memqueue.Options{})
	inbound, err := queues.Create(t.Context(), queue.Spec{Name: "myosin-inbound"})
	require.NoError(t, err)
	services := registry.NewStatic(
		registry.Service{Name: "payments", QueueURL: "http://sqs/0/payments"},
		registry.Service{Name: jobcontrol.Service, QueueURL: "http://sqs/0/runs"},
		registry.Service{Name: jobcontrol.UrgentService, QueueURL: "http://sqs/0/runs-urgent"},
	)
	core, err := client.New(client.Options{Sender: queues, InboundURL: inbound, Services: lookup{services}, Partitions: triggers})
	require.NoError(t, err)
	control, err := jobcontrol.New(jobcontrol.Options{Store: jobs, Triggers: core})
	require.NoError(t, err)
	auth, err := access.NewAuthenticator(access.Options{Keys: access.FromRecords(jobs)})
	require.NoError(t, err)
	h, err := app.NewHandler(app.HandlerOptions{
		Jobs: core, Services: services, Partitions: triggers, Auth: auth,
		Managed: &app.Managed{
			Jobs: control, Runs: control, Reads: jobs, Records: jobs, Audits: jobs, Guard: target.NewGuard(target.GuardOptions{}),
			Seal: func(context.Context, string, string, []byte) ([]byte, error) { return []byte("sealed"), nil },
		},
	})
	require.NoError(t, err)
	k, plain, err := access.NewKey(access.Grant{Tenant: access.Platform, Role: access.Admin}, time.Now())
	require.NoError(t, err)
	require.NoError(t, jobs.PutKey(t.Context(), k.Record(0)))
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return &shell{t: t, api: srv.URL, key: plain.Reveal()}
}

func TestAKeyMadeByTheCommandLineOpensItsTenantAndNothingElse(t *testing.T) {
	t.Parallel()
	operator := guarded(t)
	stranger := &shell{t: t, api: operator.api}
	stranger.run(cli.ExitDenied, "jobs", "list")
	stranger.key = "myo_nonsense"
	stranger.run(cli.ExitDenied, "jobs", "list")

	read[jobsapi.Tenant](operator, "tenants", "put", "acme", "--contact-webhook", "https://hooks.example.com/acme", "--allow-service", "pay*")
	read[jobsapi.Tenant](operator, "tenants", "put", "acme", "--max-concurrent", "3")
	record := read[jobsapi.Tenant](operator, "tenants", "get", "acme")
	require.Equal(t, 3, record.MaxConcurrent)
	require.Equal(t, []string{"pay*"}, record.AllowServices, "what no flag names stays")
	operator.run(cli.ExitConflict, "tenants", "put", "acme", "--max-concurrent", "4", "--if-version", "1")

	made := read[jobsapi.NewKey](operator, "keys", "create", "--role", "write", "--tenant", "acme", "--name", "ci", "--expires", "in 1h")
	writer := &shell{t: t, api: operator.api, key: made.Secret}
	j := read[jobsapi.Job](writer, "jobs", "create", "--in", "1h", "--queue", "payments", "--payload", "secret")
	require.Equal(t, "acme", j.Tenant)
	writer.run(cli.ExitRefused, "jobs", "create", "--in", "1h", "--url", "http://127.0.0.1/")
	writer.run(cli.ExitDenied, "keys", "create", "--role", "read")
	reader := &shell{t: t, api: operator.api, key: read[jobsapi.NewKey](operator, "keys", "create", "--role", "read", "--tenant", "acme").Secret}
	require.Empty(t, read[jobsapi.Job](reader, "jobs", "get", j.ID, "--show-payload").PayloadBase64, "readers see no payloads")
	reader.run(cli.ExitDenied, "jobs", "pause", j.ID)
	other := &shell{t: t, api: operator.api, key: read[jobsapi.NewKey](operator, "keys", "create", "--role", "admin", "--tenant", "other").Secret}
	other.run(cli.ExitNotFound, "jobs", "get", j.ID)

	require.Len(t, read[[]jobsapi.Key](operator, "keys", "list", "--tenant", "acme"), 2)
	operator.run(cli.ExitUsage, "keys", "revoke", made.ID)
	require.NotNil(t, read[jobsapi.Key](operator, "keys", "revoke", made.ID, "--yes").RevokedAt)
	writer.run(cli.ExitDenied, "jobs", "get", j.ID)
}

func TestASigningSecretIsMadeListedAndRemoved(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	made := read[jobsapi.NewSecret](s, "secrets", "create", "--tenant", "acme")
	require.Contains(t, made.Value, "whsec_")
	second := read[jobsapi.NewSecret](s, "secrets", "create", "--tenant", "acme", "--expire-others-in", "1d")
	list := read[[]jobsapi.Secret](s, "secrets", "list", "--tenant", "acme")
	require.Len(t, list, 2)
	for _, one := range list {
		require.Equal(t, one.ID == made.ID, one.ExpiresAt != nil, "the old one ends")
	}
	require.NotContains(t, s.run(cli.ExitOK, "secrets", "list", "--tenant", "acme", "-o", "json"), "whsec_")
	s.run(cli.ExitOK, "secrets", "delete", made.ID, "--tenant", "acme", "--yes")
	left := read[[]jobsapi.Secret](s, "secrets", "list", "--tenant", "acme")
	require.Len(t, left, 1)
	require.Equal(t, second.ID, left[0].ID)
}
