package dynamojobs_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/jobstore/dynamojobs"
	"github.com/myosin-jobs/myosin/pkg/jobstore/jobstoretest"
)

func TestSuite(t *testing.T) {
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	suite(t, srv.URL)
}

func TestSuiteOnMinistack(t *testing.T) { suite(t, ministack(t)) }

func suite(t *testing.T, url string) {
	jobstoretest.Run(t, func(t *testing.T) jobstoretest.Harness {
		w := openAt(t, url)
		var passed atomic.Int64
		w.opts.Now = func() time.Time { return jobstoretest.Start().Add(time.Duration(passed.Load())) }
		s, err := dynamojobs.New(w.opts)
		require.NoError(t, err)
		return jobstoretest.Harness{Store: s, Row: w.triggers.Get, Advance: func(d time.Duration) { passed.Add(int64(d)) }}
	})
}
