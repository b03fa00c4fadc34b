package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/target"
)

// TenantsOptions configure [NewTenants].
type TenantsOptions struct {
	// Store is read from. Required.
	Store jobstore.Records
	// Unseal opens a tenant's signing secret. nil: calls are not signed.
	Unseal func(ctx context.Context, s jobstore.Secret) (target.Secret, error)
	// Keep is how long an answer is used. Default 10 s.
	Keep time.Duration
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Tenants knows what calls need to know of tenants, from memory. When the store
// fails, what was known before stays in use.
type Tenants struct {
	o  TenantsOptions
	mu sync.Mutex
	m  map[string]*known
}

type known struct {
	reading chan struct{} // has room for one: who reads for all

	mu    sync.Mutex
	t     Tenant
	until time.Time
}

func (k *known) get() (Tenant, time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.t, k.until
}

// maxTenants bounds the memory; beyond, everything is forgotten and read again.
const maxTenants = 10_000

// NewTenants returns an empty cache.
func NewTenants(o TenantsOptions) (*Tenants, error) {
	if o.Store == nil {
		return nil, errors.New("tenants: store: missing")
	}
	if o.Keep == 0 {
		o.Keep = 10 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Tenants{o: o, m: map[string]*known{}}, nil
}

// Get returns a tenant; one without a record has no limits and no rights.
func (t *Tenants) Get(ctx context.Context, id string) (Tenant, error) {
	t.mu.Lock()
	k := t.m[id]
	if k == nil {
		if len(t.m) >= maxTenants {
			clear(t.m)
		}
		k = &known{reading: make(chan struct{}, 1)}
		t.m[id] = k
	}
	t.mu.Unlock()
	old, until := k.get()
	if t.o.Now().Before(until) {
		return old, nil
	}
	select {
	case k.reading <- struct{}{}:
	default:
		if !until.IsZero() {
			return old, nil // another reads; a slow store holds nobody up
		}
		select {
		case k.reading <- struct{}{}:
		case <-ctx.Done():
			return Tenant{}, fmt.Errorf("read tenant %s: %w", id, ctx.Err())
		}
	}
	defer func() { <-k.reading }()
	now := t.o.Now()
	if old, until = k.get(); now.Before(until) {
		return old, nil
	}
	got, err := t.read(ctx, id, now)
	switch {
	case err == nil:
		k.mu.Lock()
		k.t, k.until = got, now.Add(t.o.Keep)
		k.mu.Unlock()
		return got, nil
	case until.IsZero():
		return Tenant{}, fmt.Errorf("read tenant %s: %w", id, err)
	}
	return old, nil
}

func (t *Tenants) read(ctx context.Context, id string, now time.Time) (Tenant, error) {
	rec, err := t.o.Store.Tenant(ctx, id)
	if err != nil && !errors.Is(err, jobstore.ErrNotFound) {
		return Tenant{}, err
	}
	out := Tenant{Tenant: rec}
	if t.o.Unseal == nil {
		return out, nil
	}
	secrets, err := t.o.Store.Secrets(ctx, id)
	if err != nil {
		return Tenant{}, err
	}
	for _, s := range secrets {
		if !s.Expires.IsZero() && !now.Before(s.Expires) {
			continue
		}
		open, err := t.o.Unseal(ctx, s)
		if err != nil {
			return Tenant{}, fmt.Errorf("open secret %s: %w", s.ID, err)
		}
		out.Secrets = append(out.Secrets, open)
	}
	return out, nil
}
