package memstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/store/storetest"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func TestSuite(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return memstore.New(memstore.Options{}) })
}

func TestSuiteWithLaxDeletes(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return memstore.New(memstore.Options{LaxDelete: true}) })
}

func TestDeletingAMissingRowConflicts(t *testing.T) {
	key := trigger.KeyOf(trigger.Standard, trigger.NewID(), time.Now(), 1)
	ops := []store.Op{{Kind: store.Delete, Key: key, From: trigger.StateScheduled}}
	require.ErrorIs(t, memstore.New(memstore.Options{}).Write(t.Context(), ops)[0].Err, store.ErrConflict)
	require.NoError(t, memstore.New(memstore.Options{LaxDelete: true}).Write(t.Context(), ops)[0].Err)
}

func TestSuiteInSmallPages(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return memstore.New(memstore.Options{PageRows: 3}) })
}
