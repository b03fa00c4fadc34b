package dynamojobs

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

func anID(n uint64) (id trigger.ID) {
	binary.BigEndian.PutUint64(id[:], n)
	return id
}

func FuzzEveryKeyIsReadBackAsItWasBuilt(f *testing.F) {
	for k := kindDef; k <= kindAudit; k++ {
		f.Add(uint8(k), uint64(7), "acme-1.x_", int64(1_700_000_000_000), "id")
	}
	f.Add(uint8(kindTenantKey), uint64(0), "", int64(0), "a#b")
	f.Fuzz(func(t *testing.T, k uint8, id uint64, tenant string, ms int64, rest string) {
		want := name{kind: kind(k)}
		tenant = strings.ReplaceAll(tenant, "#", "")
		ms = min(max(ms, 0), maxDigits-1)
		switch want.kind {
		case kindDef, kindNow:
			want.job = anID(id)
		case kindListed:
			want.job, want.tenant, want.ms = anID(id), tenant, ms
		case kindTenant:
			want.tenant = tenant
		case kindTenantKey, kindSecret, kindIdempotency:
			want.tenant, want.id = tenant, rest
		case kindKey:
			want.id = rest
		case kindAudit:
			want.tenant, want.ms, want.id = tenant, ms, rest
		default:
			return
		}
		got, err := parse(want.key())
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func FuzzWhatParsesAsAKeyBuildsTheSameKey(f *testing.F) {
	for _, k := range []key{
		{"J#" + anID(1).String(), "def"},
		{"T#a", "J#000000000000001#" + anID(1).String()},
		{"T#a", "J#000000000000001#" + strings.ToUpper(anID(1<<60|0xabcdef).String())},
		{"T#a", "t"},
		{"T#a", "t#"},
		{"I#a#b", "i"},
		{"B#x", "y"},
		{"A#t", "1#x"},
	} {
		f.Add(k.p, k.s)
	}
	f.Fuzz(func(t *testing.T, p, s string) {
		if n, err := parse(key{p, s}); err == nil {
			require.Equal(t, key{p, s}, n.key())
		}
	})
}

func TestKeysThatAreNoneOfOursAreRefused(t *testing.T) {
	for _, k := range []key{{}, {"B#x", "y"}, {"J#x", "def"}, {"J#" + anID(1).String(), "other"}, {"T#a", "Q#"}, {"A#a", "-1#x"}, {"I#a", "i"}} {
		_, err := parse(k)
		require.ErrorIs(t, err, errKey, "%v", k)
	}
}

func TestRunKeysRoundTripAndSortByNominalTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := func(name string) time.Time {
			return time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, name))
		}
		a, b := at("a"), at("b")
		id := anID(rapid.Uint64().Draw(t, "job"))
		first, second := job.NewRunID(id, 9, a), job.NewRunID(id, 10, b).Manual("x")
		ka, err := runKey(first)
		require.NoError(t, err)
		kb, err := runKey(second)
		require.NoError(t, err)
		require.Equal(t, ka.p, kb.p)
		if !a.Equal(b) {
			require.Equal(t, a.Before(b), ka.s < kb.s)
		}
		got, of, err := parseRun(kb)
		require.NoError(t, err)
		require.Equal(t, second, got)
		require.Equal(t, id, of)
	})
	_, err := runKey("nonsense")
	require.ErrorIs(t, err, job.ErrRunID)
}

func TestShardsAreAllUsed(t *testing.T) {
	seen := map[string]int{}
	for i := range uint64(1000) {
		seen[shard(nowKey(anID(i)))]++
	}
	require.Len(t, seen, jobstore.Wakes)
	for s, n := range seen {
		require.Greater(t, n, 20, s)
	}
}
