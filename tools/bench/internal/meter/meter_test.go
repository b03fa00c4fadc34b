package meter_test

import (
	"context"
	"encoding/hex"
	"net"
	"testing"
	"time"

	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/platform"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
	"github.com/myosin-jobs/myosin/tools/bench/internal/meter"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null"
)

// engines are one that knows PartiQL and one that does not.
func engines(t *testing.T) map[string]string {
	t.Helper()
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	e, err := null.New(null.Options{})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-served)
	})
	return map[string]string{"kumo": srv.URL, "null": "http://" + l.Addr().String()}
}

// process is the platform as a process that is metered has it.
func process(t *testing.T, url, prefix string) (*platform.Platform, *meter.Meter) {
	t.Helper()
	m := meter.New()
	p, err := platform.Open(t.Context(), platform.Options{Prefix: prefix, Endpoint: url, Region: "us-east-1", Configure: m.Attach})
	require.NoError(t, err)
	return p, m
}

func newPrefix() string {
	id := trigger.NewID()
	return "m" + hex.EncodeToString(id[:6])
}

func newRow(payload int) store.Row {
	return store.Row{
		Trigger: trigger.Trigger{
			ID: trigger.NewID(), Service: "payments", Due: time.UnixMilli(1_800_000_000_000), N: 1,
			Payload: noise(payload), Headers: map[string]string{"a": "b"},
		},
		State: trigger.StateScheduled, Created: time.UnixMilli(1_700_000_000_000),
	}
}

// noise does not compress.
func noise(n int) []byte {
	var b []byte
	for len(b) < n {
		id := trigger.NewID()
		b = append(b, id[:]...)
	}
	return b[:n]
}

func TestThreeStepsOfARowInTwoProcessesSumUpToThreeWritesOfItsKilobytes(t *testing.T) {
	for name, url := range engines(t) {
		for payload, kilobytes := range map[int]float64{1: 1, 300: 1, 800: 1, 1000: 2, 5000: 5} {
			prefix := newPrefix()
			in, inserts := process(t, url, prefix)
			_, err := in.Ensure(t.Context(), 1)
			require.NoError(t, err)
			inserts.Reset()
			row := newRow(payload)
			require.NoError(t, in.Store.Write(t.Context(), []store.Op{{Kind: store.Insert, Key: row.Key(), Row: &row}})[0].Err)

			// The scheduler never saw the insert: it learns the size by reading.
			out, changes := process(t, url, prefix)
			page, err := out.Store.Range(t.Context(), store.Range{To: row.Due.UnixMilli()})
			require.NoError(t, err)
			require.Len(t, page.Rows, 1)
			claim := trigger.AcquiredBy("me", row.Due)
			for _, op := range []store.Op{
				{Kind: store.Transition, Key: row.Key(), From: trigger.StateScheduled, To: claim},
				{Kind: store.Delete, Key: row.Key(), From: claim},
			} {
				require.NoError(t, out.Store.Write(t.Context(), []store.Op{op})[0].Err)
			}
			one := meter.Cost{Statements: 1, Units: kilobytes}
			first, second := inserts.Counts(), changes.Counts()
			require.Equal(t, map[meter.Kind]meter.Cost{meter.Insert: one}, first.Writes, "%s, %d bytes", name, payload)
			require.Equal(t, map[meter.Kind]meter.Cost{meter.Acquire: one, meter.Complete: one}, second.Writes, "%s, %d bytes", name, payload)
			require.InDelta(t, max(0.5, float64(int(kilobytes+3)/4)/2), second.ReadUnits, 0, "%s, %d bytes", name, payload)
			require.Equal(t, 1, second.Requests["DynamoDB.Query"])
			require.Positive(t, second.CPU)

			var sum meter.Counts
			sum.Add(&first)
			sum.Add(&second)
			require.Len(t, sum.Writes, 3)
			require.Equal(t, first.CPU+second.CPU, sum.CPU)
			total := 0
			for _, c := range sum.Writes {
				total += c.Statements
			}
			require.Equal(t, 3, total)
		}
	}
}

func TestAFailedConditionIsBilledAndAWriteThatReachedNothingIsNot(t *testing.T) {
	for name, url := range engines(t) {
		p, m := process(t, url, newPrefix())
		_, err := p.Ensure(t.Context(), 1)
		require.NoError(t, err)
		row := newRow(10)
		require.NoError(t, p.Store.Write(t.Context(), []store.Op{{Kind: store.Insert, Key: row.Key(), Row: &row}})[0].Err)
		m.Reset()
		p.Store.Write(t.Context(), []store.Op{{Kind: store.Delete, Key: row.Key(), From: trigger.AcquiredBy("me", row.Due)}})
		require.Equal(t, map[meter.Kind]meter.Cost{meter.Complete: {Statements: 1, Conflicts: 1, Units: 1}}, m.Counts().Writes, name)
	}
	p, m := process(t, "http://127.0.0.1:1", newPrefix())
	row := newRow(10)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	p.Store.Write(ctx, []store.Op{{Kind: store.Insert, Key: row.Key(), Row: &row}})
	require.Empty(t, m.Counts().Writes)
	require.NotEmpty(t, m.Counts().Requests, "the attempts themselves are counted")
	m.Reset()
	require.Empty(t, m.Counts().Requests)
}

func TestAConsistentReadCostsDouble(t *testing.T) {
	for name, url := range engines(t) {
		p, m := process(t, url, newPrefix())
		_, err := p.Ensure(t.Context(), 1)
		require.NoError(t, err)
		m.Reset()
		for _, consistent := range []bool{false, true} {
			_, err := p.Store.Range(t.Context(), store.Range{To: 1, Consistent: consistent})
			require.NoError(t, err)
		}
		require.InDelta(t, 0.5+1, m.Counts().ReadUnits, 0, name)
	}
}
