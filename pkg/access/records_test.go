package access_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/access"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

// One line is all that a process has to write.
var _ = func(r jobstore.Records) access.KeyStore { return access.FromRecords(r) }

type keyRecords map[string]jobstore.Key

func (m keyRecords) Key(_ context.Context, id string) (jobstore.Key, error) {
	if id == "broken" {
		return jobstore.Key{}, errors.New("table gone")
	}
	k, ok := m[id]
	if !ok {
		return jobstore.Key{}, jobstore.ErrNotFound
	}
	return k, nil
}

func TestAKeyComesBackFromItsRecord(t *testing.T) {
	k, p := newKey(t, access.Grant{Tenant: "acme", Role: access.Write, Name: "ci", Expires: noon().Add(time.Hour)})
	k.Revoked = noon().Add(time.Minute)
	back, err := access.FromRecord(k.Record(3))
	require.NoError(t, err)
	require.Equal(t, k, back)
	require.Equal(t, int64(3), k.Record(3).Version)
	require.True(t, back.Verify(p))
}

func TestKeysAreReadFromRecords(t *testing.T) {
	k, _ := newKey(t, access.Grant{Tenant: "acme", Role: access.Write})
	bad := k.Record(1)
	bad.ID, bad.Role = "bad", "root"
	s := access.FromRecords(keyRecords{k.ID: k.Record(1), "bad": bad})
	got, err := s.Key(t.Context(), k.ID)
	require.NoError(t, err)
	require.Equal(t, k, got)
	_, err = s.Key(t.Context(), "none")
	require.ErrorIs(t, err, access.ErrNotFound)
	for _, id := range []string{"bad", "broken"} {
		_, err = s.Key(t.Context(), id)
		require.Error(t, err)
		require.NotErrorIs(t, err, access.ErrNotFound, id)
	}
}
