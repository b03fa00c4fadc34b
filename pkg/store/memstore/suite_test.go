package memstore_test

import (
	"testing"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/store/storetest"
)

func TestSuite(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return memstore.New(memstore.Options{}) })
}

func TestSuiteInSmallPages(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return memstore.New(memstore.Options{PageRows: 3}) })
}
