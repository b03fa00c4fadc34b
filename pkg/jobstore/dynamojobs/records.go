package dynamojobs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

// How many keys and secrets of a tenant are listed.
const (
	maxKeys    = 1000
	maxSecrets = 100
)

// Tenant implements [jobstore.Records].
func (s *Store) Tenant(ctx context.Context, id string) (jobstore.Tenant, error) {
	it, err := s.get(ctx, "tenant", s.o.Jobs, name{kind: kindTenant, tenant: id}.key())
	if err != nil {
		return jobstore.Tenant{}, fmt.Errorf("tenant %s: %w", id, err)
	}
	t, err := readTenant(it)
	if err != nil {
		return jobstore.Tenant{}, fmt.Errorf("tenant %s: %w", id, err)
	}
	return t, nil
}

// PutTenant implements [jobstore.Records]: one conditional put.
func (s *Store) PutTenant(ctx context.Context, t jobstore.Tenant) error {
	it, err := tenantItem(&t, t.Version+1)
	if err != nil {
		return fmt.Errorf("put tenant %s: %w", t.ID, err)
	}
	condition, values := versionIs(t.Version)
	return s.write(ctx, "put tenant", []action{{jobstore.PartRecord, 0, s.put(s.o.Jobs, it, condition, values)}})
}

// Key implements [jobstore.Records].
func (s *Store) Key(ctx context.Context, id string) (jobstore.Key, error) {
	it, err := s.get(ctx, "key", s.o.Jobs, name{kind: kindKey, id: id}.key())
	if err != nil {
		return jobstore.Key{}, fmt.Errorf("key %s: %w", id, err)
	}
	k, err := readKey(it)
	if err != nil {
		return jobstore.Key{}, fmt.Errorf("key %s: %w", id, err)
	}
	return k, nil
}

// PutKey implements [jobstore.Records]: the key and its copy under the tenant, in
// one transaction.
func (s *Store) PutKey(ctx context.Context, k jobstore.Key) error {
	own, err := keyItem(name{kind: kindKey, id: k.ID}.key(), &k, k.Version+1)
	listed, err2 := keyItem(name{kind: kindTenantKey, tenant: k.Tenant, id: k.ID}.key(), &k, k.Version+1)
	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("put key %s: %w", k.ID, err)
	}
	condition, values := versionIs(k.Version)
	return s.write(ctx, "put key", []action{
		{jobstore.PartRecord, 0, s.put(s.o.Jobs, own, condition, values)},
		{jobstore.PartRecord, 0, s.put(s.o.Jobs, listed, "", nil)},
	})
}

// Keys implements [jobstore.Records].
func (s *Store) Keys(ctx context.Context, tenant string) ([]jobstore.Key, error) {
	return ofTenant(ctx, s, "keys", name{kind: kindTenantKey, tenant: tenant}.key(), maxKeys, readKey)
}

// Secrets implements [jobstore.Records].
func (s *Store) Secrets(ctx context.Context, tenant string) ([]jobstore.Secret, error) {
	// Their order in the table is by id: all are read before the newest are known.
	list, err := ofTenant(ctx, s, "secrets", name{kind: kindSecret, tenant: tenant}.key(), maxKeys, readSecret)
	slices.SortStableFunc(list, func(a, b jobstore.Secret) int { return b.Created.Compare(a.Created) })
	return list[:min(len(list), maxSecrets)], err
}

// ofTenant reads all items of a tenant whose sort keys begin like the prefix's.
func ofTenant[T any](ctx context.Context, s *Store, op string, prefix key, limit int, read func(attributes) (T, error)) ([]T, error) {
	in := &dynamodb.QueryInput{
		TableName: &s.o.Jobs, KeyConditionExpression: aws.String("p = :p AND begins_with(s, :s)"),
		ExpressionAttributeValues: attributes{":p": str(prefix.p), ":s": str(prefix.s)},
		Limit:                     aws.Int32(int32(limit)), //nolint:gosec // a constant.
		ReturnConsumedCapacity:    s.capacity(),
	}
	var list []T
	for {
		out, err := s.o.Client.Query(ctx, in)
		if err != nil {
			s.meterRead(op)
			return nil, fmt.Errorf("list %s: %w", op, err)
		}
		s.meterRead(op, listOf(out.ConsumedCapacity)...)
		for _, it := range out.Items {
			v, err := read(it)
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", op, err)
			}
			list = append(list, v)
		}
		if len(out.LastEvaluatedKey) == 0 || len(list) >= limit {
			return list[:min(len(list), limit)], nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// PutSecret implements [jobstore.Records]: one put.
func (s *Store) PutSecret(ctx context.Context, x jobstore.Secret) error {
	it, err := secretItem(&x)
	if err != nil {
		return fmt.Errorf("put secret %s: %w", x.ID, err)
	}
	return s.write(ctx, "put secret", []action{{jobstore.PartRecord, 0, s.put(s.o.Jobs, it, "", nil)}})
}

// DeleteSecret implements [jobstore.Records].
//
// State before: it is there. State after: it is not. The loser sees ErrNotFound.
func (s *Store) DeleteSecret(ctx context.Context, tenant, id string) error {
	out, err := s.o.Client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &s.o.Jobs, Key: name{kind: kindSecret, tenant: tenant, id: id}.key().attributes(),
		ConditionExpression: aws.String("attribute_exists(" + attrP + ")"), ReturnConsumedCapacity: s.capacity(),
	}, once)
	if err != nil {
		s.meterWrite("delete secret")
		if _, gone := errors.AsType[*types.ConditionalCheckFailedException](err); gone {
			return fmt.Errorf("delete secret %s: %w", id, jobstore.ErrNotFound)
		}
		return fmt.Errorf("delete secret %s: %w", id, err)
	}
	s.meterWrite("delete secret", listOf(out.ConsumedCapacity)...)
	return nil
}
