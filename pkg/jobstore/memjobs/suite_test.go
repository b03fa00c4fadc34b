package memjobs_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/myosin-jobs/myosin/pkg/jobstore/jobstoretest"
	"github.com/myosin-jobs/myosin/pkg/jobstore/memjobs"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
)

func TestSuite(t *testing.T) {
	jobstoretest.Run(t, func(*testing.T) jobstoretest.Harness {
		var passed atomic.Int64
		triggers := memstore.New(memstore.Options{})
		return jobstoretest.Harness{
			Store: memjobs.New(memjobs.Options{Triggers: triggers, Now: func() time.Time {
				return jobstoretest.Start().Add(time.Duration(passed.Load()))
			}}),
			Row:     triggers.Get,
			Advance: func(d time.Duration) { passed.Add(int64(d)) },
		}
	})
}
