package memjobs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

// How many keys and secrets of a tenant are listed.
const (
	maxKeys    = 1000
	maxSecrets = 100
)

// Idempotency implements [jobstore.Store].
func (s *Store) Idempotency(ctx context.Context, tenant, key string) (jobstore.Idempotency, error) {
	var out jobstore.Idempotency
	err := s.do(ctx, "idempotency", nil, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		m, ok := s.answers[tenant+"/"+key]
		if !ok || !m.Expires.After(s.o.Now()) {
			return fmt.Errorf("idempotency key: %w", jobstore.ErrNotFound)
		}
		out = m
		out.Answer = slices.Clone(m.Answer)
		return nil
	})
	return out, err
}

func cloneTenant(t jobstore.Tenant) jobstore.Tenant {
	t.AllowRanges, t.AllowServices, t.AllowTopics = slices.Clone(t.AllowRanges), slices.Clone(t.AllowServices), slices.Clone(t.AllowTopics)
	t.Rates = maps.Clone(t.Rates)
	return t
}

// Tenant implements [jobstore.Records].
func (s *Store) Tenant(ctx context.Context, id string) (jobstore.Tenant, error) {
	var out jobstore.Tenant
	err := s.do(ctx, "records", nil, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		t, ok := s.tenants[id]
		if !ok {
			return fmt.Errorf("tenant %s: %w", id, jobstore.ErrNotFound)
		}
		out = cloneTenant(t)
		return nil
	})
	return out, err
}

// PutTenant implements [jobstore.Records].
func (s *Store) PutTenant(ctx context.Context, t jobstore.Tenant) error {
	return s.do(ctx, "records", nil, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.tenants[t.ID].Version != t.Version {
			return conflict(jobstore.PartRecord, 0)
		}
		t := cloneTenant(t)
		t.Version++
		s.tenants[t.ID] = t
		return nil
	})
}

// Key implements [jobstore.Records].
func (s *Store) Key(ctx context.Context, id string) (jobstore.Key, error) {
	var out jobstore.Key
	err := s.do(ctx, "records", nil, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		k, ok := s.keys[id]
		if !ok {
			return fmt.Errorf("key %s: %w", id, jobstore.ErrNotFound)
		}
		out = k
		return nil
	})
	return out, err
}

// PutKey implements [jobstore.Records].
func (s *Store) PutKey(ctx context.Context, k jobstore.Key) error {
	return s.do(ctx, "records", nil, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.keys[k.ID].Version != k.Version {
			return conflict(jobstore.PartRecord, 0)
		}
		k.Version++
		s.keys[k.ID] = k
		return nil
	})
}

// Keys implements [jobstore.Records].
func (s *Store) Keys(ctx context.Context, tenant string) ([]jobstore.Key, error) {
	var out []jobstore.Key
	err := s.do(ctx, "records", nil, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, k := range s.keys {
			if k.Tenant == tenant {
				out = append(out, k)
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b jobstore.Key) int { return cmp.Compare(a.ID, b.ID) })
	return out[:min(len(out), maxKeys)], err
}

// Secrets implements [jobstore.Records].
func (s *Store) Secrets(ctx context.Context, tenant string) ([]jobstore.Secret, error) {
	var out []jobstore.Secret
	err := s.do(ctx, "records", nil, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, x := range s.secrets[tenant] {
			x.Sealed = slices.Clone(x.Sealed)
			out = append(out, x)
		}
		return nil
	})
	slices.SortFunc(out, func(a, b jobstore.Secret) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID)) })
	return out[:min(len(out), maxSecrets)], err
}

// PutSecret implements [jobstore.Records].
func (s *Store) PutSecret(ctx context.Context, x jobstore.Secret) error {
	return s.do(ctx, "records", nil, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		x.Sealed = slices.Clone(x.Sealed)
		list := slices.DeleteFunc(s.secrets[x.Tenant], func(y jobstore.Secret) bool { return y.ID == x.ID })
		s.secrets[x.Tenant] = append(list, x)
		return nil
	})
}

// DeleteSecret implements [jobstore.Records].
func (s *Store) DeleteSecret(ctx context.Context, tenant, id string) error {
	return s.do(ctx, "records", nil, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		before := len(s.secrets[tenant])
		s.secrets[tenant] = slices.DeleteFunc(s.secrets[tenant], func(y jobstore.Secret) bool { return y.ID == id })
		if len(s.secrets[tenant]) == before {
			return fmt.Errorf("secret %s: %w", id, jobstore.ErrNotFound)
		}
		return nil
	})
}
