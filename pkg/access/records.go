package access

import (
	"context"
	"errors"
	"fmt"

	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

// KeyRecords is what [FromRecords] needs of a [jobstore.Records].
type KeyRecords interface {
	// Key returns an API key by its id; [jobstore.ErrNotFound].
	Key(ctx context.Context, id string) (jobstore.Key, error)
}

// FromRecords reads keys where jobs are kept. A record whose role cannot be read
// is an error, not an unknown key.
func FromRecords(r KeyRecords) KeyStore { return records{r} }

type records struct{ from KeyRecords }

// Key implements [KeyStore].
func (s records) Key(ctx context.Context, id string) (Key, error) {
	r, err := s.from.Key(ctx, id)
	switch {
	case errors.Is(err, jobstore.ErrNotFound):
		return Key{}, fmt.Errorf("%w: %w", ErrNotFound, err)
	case err != nil:
		return Key{}, fmt.Errorf("read key: %w", err)
	}
	return FromRecord(r)
}

// FromRecord returns the key that a record is of. The record's version is left
// behind, and LastUsed is zero: records do not have it.
func FromRecord(r jobstore.Key) (Key, error) {
	role, err := ParseRole(r.Role)
	if err != nil {
		return Key{}, fmt.Errorf("key %.32q: %w", r.ID, err)
	}
	return Key{
		ID: r.ID, Hash: r.Hash, Created: r.Created, Revoked: r.Revoked,
		Grant: Grant{Tenant: r.Tenant, Role: role, Name: r.Name, Expires: r.Expires},
	}, nil
}

// Record returns what is stored of a key: of version 0 for a new one, or of the
// version that was read for a change.
func (k *Key) Record(version int64) jobstore.Key {
	return jobstore.Key{
		ID: k.ID, Hash: k.Hash, Tenant: k.Tenant, Role: k.Role.String(), Name: k.Name,
		Created: k.Created, Expires: k.Expires, Revoked: k.Revoked, Version: version,
	}
}
