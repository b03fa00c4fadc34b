package dynamojobs

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// fill gives every field a value of its own, so that one that an item forgets
// or takes for another shows.
func fill(v reflect.Value, n *int64) {
	*n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.UnixMilli(1_700_000_000_000).Add(time.Duration(*n) * 1_000_001).UTC()))
		return
	case trigger.ID:
		v.Set(reflect.ValueOf(anID(uint64(*n))))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("v%d", *n))
	case reflect.Int, reflect.Int64:
		v.SetInt(*n)
	case reflect.Uint8:
		v.SetUint(uint64(*n % 256))
	case reflect.Float64:
		v.SetFloat(float64(*n) / 4)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(k, n)
		fill(e, n)
		v.SetMapIndex(k, e)
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, n)
		}
	default:
		panic("no value for " + v.Type().String())
	}
}

func filled[T any]() T {
	var v T
	var n int64
	fill(reflect.ValueOf(&v).Elem(), &n)
	return v
}

func local(t *testing.T) *Store {
	t.Helper()
	s, err := New(Options{Client: noClient{}, Jobs: "jobs", Runs: "runs"})
	require.NoError(t, err)
	return s
}

type noClient struct{ API }

func TestAJobKeepsEveryField(t *testing.T) {
	want := filled[job.Job]()
	items, err := local(t).jobItems(&want, want.Seq)
	require.NoError(t, err)
	var def defWire
	var now nowWire
	require.NoError(t, decode(items[0], &def))
	require.NoError(t, decode(items[1], &now))
	got, err := readJob(want.ID, &def, &now)
	require.NoError(t, err)
	require.Equal(t, want, got)

	got, err = readListed(items[2])
	require.NoError(t, err)
	want.Payload, want.Progress = nil, job.Progress{}
	require.Equal(t, want, got, "a list item leaves out payload and progress alone")
	for _, it := range items {
		require.NotContains(t, it, attrExpires, "a job that lives never goes")
	}
}

func TestWhatIsEmptyButThereStaysThere(t *testing.T) {
	urgent := time.Duration(0)
	want := filled[job.Job]()
	want.Tolerance, want.Labels, want.Target.Headers = &urgent, map[string]string{"beta": ""}, map[string]string{"X-Empty": ""}
	items, err := local(t).jobItems(&want, 1)
	require.NoError(t, err)
	var def defWire
	require.NoError(t, decode(items[0], &def))
	var r reader
	got := def.job(&r, want.ID)
	require.NoError(t, r.err())
	require.Equal(t, want.Spec, got.Spec)
	run := job.NewRun(want.ID, 1, want.Created)
	run.Call = &job.Call{}
	it, err := local(t).runItem(&run, 0)
	require.NoError(t, err)
	gotRun, err := readRun(it)
	require.NoError(t, err)
	require.Equal(t, run, gotRun)
}

func TestARunKeepsEveryField(t *testing.T) {
	want := filled[job.Run]()
	want.ID = job.NewRunID(want.Job, 3, want.Nominal)
	it, err := local(t).runItem(&want, want.Version)
	require.NoError(t, err)
	got, err := readRun(it)
	require.NoError(t, err)
	require.Equal(t, want, got)
	var left []string
	for attr := range it {
		left = append(left, attr)
	}
	// What a list of runs projects, with what it leaves out on purpose, is all.
	require.ElementsMatch(t, left, append([]string{attrPayload, attrCallPayload, attrShard}, listedAttrs()...))
}

func TestRecordsKeepEveryField(t *testing.T) {
	i := filled[jobstore.Idempotency]()
	it, err := idempotencyItem(&i)
	require.NoError(t, err)
	gotI, err := readIdempotency(it)
	require.NoError(t, err)
	require.Equal(t, i, gotI)

	a := filled[jobstore.AuditRecord]()
	it, err = auditItem(&a)
	require.NoError(t, err)
	gotA, err := readAudit(it)
	require.NoError(t, err)
	require.Equal(t, a, gotA)

	tenant := filled[jobstore.Tenant]()
	it, err = tenantItem(&tenant, tenant.Version)
	require.NoError(t, err)
	gotT, err := readTenant(it)
	require.NoError(t, err)
	require.Equal(t, tenant, gotT)

	k := filled[jobstore.Key]()
	it, err = keyItem(key{"p", "s"}, &k, k.Version)
	require.NoError(t, err)
	gotK, err := readKey(it)
	require.NoError(t, err)
	require.Equal(t, k, gotK)

	x := filled[jobstore.Secret]()
	it, err = secretItem(&x)
	require.NoError(t, err)
	gotX, err := readSecret(it)
	require.NoError(t, err)
	require.Equal(t, x, gotX)
}

func TestTimesAreKeptToTheNanosecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Unix(rapid.Int64Range(-1e10, 1e11).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
		got, err := parseMillis(millis(want))
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
	require.Equal(t, number("1700000000000"), millis(time.UnixMilli(1_700_000_000_000)))
	for _, bad := range []number{"x", "1.x", "1e3"} {
		_, err := parseMillis(bad)
		require.Error(t, err, bad)
	}
}

func TestOnlyWhatHasFinishedExpires(t *testing.T) {
	s := local(t)
	ended := time.Unix(1_700_000_000, 1).UTC()
	for _, state := range []job.State{job.Scheduled, job.Running, job.Retrying, job.Succeeded, job.Dead, job.Cancelled, job.Skipped} {
		r := job.NewRun(anID(1), 1, ended)
		r.State, r.Tenant = state, "acme"
		if state.Terminal() {
			r.Ended = ended
		}
		it, err := s.runItem(&r, 1)
		require.NoError(t, err)
		if !state.Terminal() {
			require.NotContains(t, it, attrExpires, state)
			continue
		}
		require.Equal(t, num(ended.Add(DefaultRetention).Unix()+1), it[attrExpires], state)
	}
	deleted := filled[job.Job]()
	deleted.Status = job.JobIsDeleted
	items, err := s.jobItems(&deleted, 1)
	require.NoError(t, err)
	for _, it := range items {
		require.Equal(t, num(ttl(deleted.Updated.Add(keepDeleted))), it[attrExpires])
	}
}

func TestOnlyDeadLettersLieInTheirIndex(t *testing.T) {
	s := local(t)
	base := job.NewRun(anID(1), 1, time.UnixMilli(5))
	base.State, base.Tenant, base.Ended = job.Dead, "acme", time.UnixMilli(9)
	for name, c := range map[string]struct {
		change func(*job.Run)
		listed bool
	}{
		"dead":      {func(*job.Run) {}, true},
		"redriven":  {func(r *job.Run) { r.Redriven = "x" }, false},
		"notice":    {func(r *job.Run) { r.Kind = job.Notice }, false},
		"succeeded": {func(r *job.Run) { r.State = job.Succeeded }, false},
	} {
		r := base
		c.change(&r)
		it, err := s.runItem(&r, 1)
		require.NoError(t, err)
		_, listed := it[attrDead]
		require.Equal(t, c.listed, listed, name)
		_, died := it[attrDied]
		require.Equal(t, listed, died, name)
	}
}

func TestAnItemThatIsTooLargeIsRefusedBeforeItIsSent(t *testing.T) {
	s := local(t) // its client would panic
	r := job.NewRun(anID(1), 1, time.UnixMilli(5))
	r.Payload = make([]byte, maxItem)
	require.ErrorIs(t, s.Commit(t.Context(), jobstore.Tx{Runs: []job.Run{r}}), jobstore.ErrTooLarge)
	var runs []job.Run
	for i := range 12 {
		r := job.NewRun(anID(1), 1, time.UnixMilli(int64(i)))
		r.Payload = make([]byte, maxItem-1000)
		runs = append(runs, r)
	}
	require.ErrorIs(t, s.Commit(t.Context(), jobstore.Tx{Runs: runs}), jobstore.ErrTooLarge)
}

func TestAnItemThatCannotBeReadIsAnError(t *testing.T) {
	r := job.NewRun(anID(1), 1, time.UnixMilli(5))
	it, err := local(t).runItem(&r, 1)
	require.NoError(t, err)
	it["n"] = str("noon")
	_, err = readRun(it)
	require.Error(t, err)
	k := filled[jobstore.Key]()
	it, err = keyItem(key{"p", "s"}, &k, 1)
	require.NoError(t, err)
	it["h"] = str(strings.Repeat("x", 3))
	_, err = readKey(it)
	require.Error(t, err)
}

func TestOptionsReportEveryFault(t *testing.T) {
	_, err := New(Options{Retention: -1, MaxTries: -1})
	for _, fault := range []string{"client", "jobs", "runs", "retention", "max tries"} {
		require.ErrorContains(t, err, fault)
	}
	_, err = New(Options{Client: noClient{}, Jobs: "a", Runs: "a"})
	require.ErrorContains(t, err, "one table for both")
}
