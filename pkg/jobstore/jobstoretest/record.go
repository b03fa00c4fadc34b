package jobstoretest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

func recordTests() []test {
	return []test{
		{"an answer is kept until it expires, and is replaced then", keepsAnswers},
		{"a tenant is written on condition of its version", keepsTenants},
		{"a key is written on condition of its version and listed", keepsKeys},
		{"secrets are listed newest first, replaced and deleted", keepsSecrets},
		{"no more than 100 secrets are listed, the newest", listsSecrets},
	}
}

func keepsAnswers(t *testing.T, h Harness) {
	ctx, tenant := t.Context(), tenantOf()
	for _, key := range []string{"plain", "a#b/c", "ü " + tenant} {
		want := newAnswer(tenant, key, after(60))
		isFull(t, *want)
		commit(t, h, jobstore.Tx{Idempotency: want})
		got, err := h.Store.Idempotency(ctx, tenant, key)
		require.NoError(t, err)
		require.Equal(t, *want, got)
		_, err = h.Store.Idempotency(ctx, tenantOf(), key)
		require.ErrorIs(t, err, jobstore.ErrNotFound)
	}
	next := newAnswer(tenant, "plain", after(500))
	next.Status, next.Answer = 409, []byte("other")
	conflictOn(t, h.Store.Commit(ctx, jobstore.Tx{Idempotency: next}), jobstore.PartIdempotency, 0)
	h.Advance(time.Hour - time.Millisecond)
	conflictOn(t, h.Store.Commit(ctx, jobstore.Tx{Idempotency: next}), jobstore.PartIdempotency, 0)
	got, err := h.Store.Idempotency(ctx, tenant, "plain")
	require.NoError(t, err)
	require.Equal(t, 201, got.Status)
	h.Advance(time.Millisecond)
	_, err = h.Store.Idempotency(ctx, tenant, "plain")
	require.ErrorIs(t, err, jobstore.ErrNotFound, "it has expired")
	commit(t, h, jobstore.Tx{Idempotency: next})
	got, err = h.Store.Idempotency(ctx, tenant, "plain")
	require.NoError(t, err)
	require.Equal(t, *next, got)
	conflictOn(t, h.Store.Commit(ctx, jobstore.Tx{Idempotency: next}), jobstore.PartIdempotency, 0)
}

func keepsTenants(t *testing.T, h Harness) {
	ctx := t.Context()
	want := jobstore.Tenant{
		ID: tenantOf(), Contact: job.Notify{Topic: "arn:t", Webhook: "https://hooks.example"}, MaxConcurrent: 7,
		AllowRanges: []string{"10.0.0.0/8"}, AllowServices: []string{"billing"}, AllowTopics: []string{"arn:*"},
		Rates: map[string]float64{"host:a.example": 2.5}, Updated: after(1), Version: 1,
	}
	isFull(t, want)
	holds := func() {
		t.Helper()
		got, err := h.Store.Tenant(ctx, want.ID)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	conflictOn(t, h.Store.PutTenant(ctx, want), jobstore.PartRecord, 0) // there is no version 1
	first := want
	first.Version = 0
	require.NoError(t, h.Store.PutTenant(ctx, first))
	holds()
	conflictOn(t, h.Store.PutTenant(ctx, first), jobstore.PartRecord, 0)
	bare := jobstore.Tenant{ID: want.ID, Version: 1}
	require.NoError(t, h.Store.PutTenant(ctx, bare))
	conflictOn(t, h.Store.PutTenant(ctx, want), jobstore.PartRecord, 0)
	want = bare
	want.Version = 2
	holds()
}

func keepsKeys(t *testing.T, h Harness) {
	ctx, tenant := t.Context(), tenantOf()
	var all []jobstore.Key
	for i := range 3 {
		k := jobstore.Key{
			ID: fmt.Sprintf("%s-%d", tenant, i), Hash: [32]byte{byte(i), 31: 1}, Tenant: tenant, Role: "admin", Name: "ci",
			Created: after(i), Expires: after(100), Revoked: after(50), Version: 1,
		}
		isFull(t, k)
		conflictOn(t, h.Store.PutKey(ctx, k), jobstore.PartRecord, 0)
		k.Version, k.Revoked = 0, time.Time{}
		require.NoError(t, h.Store.PutKey(ctx, k))
		conflictOn(t, h.Store.PutKey(ctx, k), jobstore.PartRecord, 0)
		k.Version, k.Revoked = 1, after(50)
		if i > 0 { // the first stays as it is
			require.NoError(t, h.Store.PutKey(ctx, k))
			conflictOn(t, h.Store.PutKey(ctx, k), jobstore.PartRecord, 0)
			k.Version = 2
		} else {
			k.Revoked = time.Time{}
		}
		got, err := h.Store.Key(ctx, k.ID)
		require.NoError(t, err)
		require.Equal(t, k, got)
		all = append(all, k)
	}
	eventually(t, 3, func() int {
		list, err := h.Store.Keys(ctx, tenant)
		require.NoError(t, err)
		return len(list)
	})
	list, err := h.Store.Keys(ctx, tenant)
	require.NoError(t, err)
	require.ElementsMatch(t, all, list, "revoked ones too")
	list, err = h.Store.Keys(ctx, tenantOf())
	require.NoError(t, err)
	require.Empty(t, list)
}

func secretsOf(t *testing.T, h Harness, tenant string) []string {
	t.Helper()
	list, err := h.Store.Secrets(t.Context(), tenant)
	require.NoError(t, err)
	ids := []string{}
	for _, x := range list {
		ids = append(ids, x.ID)
	}
	return ids
}

func keepsSecrets(t *testing.T, h Harness) {
	ctx, tenant := t.Context(), tenantOf()
	var last jobstore.Secret
	for i, id := range []string{"b", "c", "a"} {
		last = jobstore.Secret{Tenant: tenant, ID: id, Sealed: []byte{0, byte(i)}, Created: after(i), Expires: after(100)}
		isFull(t, last)
		require.NoError(t, h.Store.PutSecret(ctx, last))
	}
	eventually(t, []string{"a", "c", "b"}, func() []string { return secretsOf(t, h, tenant) })
	last.Sealed, last.Expires = []byte("again"), time.Time{}
	require.NoError(t, h.Store.PutSecret(ctx, last), "without a condition")
	eventually(t, last, func() jobstore.Secret {
		list, err := h.Store.Secrets(ctx, tenant)
		require.NoError(t, err)
		require.Len(t, list, 3)
		return list[0]
	})
	require.NoError(t, h.Store.DeleteSecret(ctx, tenant, "c"))
	require.ErrorIs(t, h.Store.DeleteSecret(ctx, tenant, "c"), jobstore.ErrNotFound)
	require.ErrorIs(t, h.Store.DeleteSecret(ctx, tenantOf(), "a"), jobstore.ErrNotFound)
	eventually(t, []string{"a", "b"}, func() []string { return secretsOf(t, h, tenant) })
	require.Empty(t, secretsOf(t, h, tenantOf()))
}

func listsSecrets(t *testing.T, h Harness) {
	tenant := tenantOf()
	want := []string{}
	for i := range 103 {
		id := fmt.Sprintf("%03d", 200-i) // the newest last by id
		require.NoError(t, h.Store.PutSecret(t.Context(), jobstore.Secret{Tenant: tenant, ID: id, Sealed: []byte("x"), Created: after(i)}))
		if i >= 3 {
			want = append([]string{id}, want...)
		}
	}
	eventually(t, want, func() []string { return secretsOf(t, h, tenant) })
}
