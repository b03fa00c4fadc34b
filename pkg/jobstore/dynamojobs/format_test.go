package dynamojobs

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
)

// plain is a value as DynamoDB's JSON has it.
func plain(t *testing.T, v types.AttributeValue) map[string]any {
	t.Helper()
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return map[string]any{"S": v.Value}
	case *types.AttributeValueMemberN:
		return map[string]any{"N": v.Value}
	case *types.AttributeValueMemberB:
		return map[string]any{"B": v.Value}
	case *types.AttributeValueMemberBOOL:
		return map[string]any{"BOOL": v.Value}
	case *types.AttributeValueMemberM:
		return map[string]any{"M": plainItem(t, v.Value)}
	case *types.AttributeValueMemberL:
		list := make([]any, len(v.Value))
		for i, e := range v.Value {
			list[i] = plain(t, e)
		}
		return map[string]any{"L": list}
	default:
		t.Fatalf("%T is in no item", v)
		return nil
	}
}

func plainItem(t *testing.T, it attributes) map[string]any {
	t.Helper()
	m := make(map[string]any, len(it))
	for k, v := range it {
		m[k] = plain(t, v)
	}
	return m
}

// Processes of several releases share the tables, and items outlive releases:
// their form does not change. A new attribute is a new line in the file.
func TestItemsAreTheSameInEveryRelease(t *testing.T) {
	want, err := os.ReadFile("testdata/items.v1.json")
	require.NoError(t, err)
	s := local(t)
	got := map[string]any{}
	add := func(name string, it attributes, err error) {
		require.NoError(t, err)
		got[name] = plainItem(t, it)
	}
	j := filled[job.Job]()
	j.Status = job.JobIsDeleted
	items, err := s.jobItems(&j, j.Seq)
	add("def", items[0], err)
	add("now", items[1], err)
	add("list", items[2], err)
	r := filled[job.Run]()
	r.ID = job.NewRunID(r.Job, 3, r.Nominal)
	r.State, r.Redriven = job.Dead, ""
	it, err := s.runItem(&r, r.Version)
	add("run", it, err)
	i := filled[jobstore.Idempotency]()
	it, err = idempotencyItem(&i)
	add("idempotency", it, err)
	a := filled[jobstore.AuditRecord]()
	it, err = auditItem(&a)
	add("audit", it, err)
	tenant := filled[jobstore.Tenant]()
	it, err = tenantItem(&tenant, tenant.Version)
	add("tenant", it, err)
	k := filled[jobstore.Key]()
	it, err = keyItem(name{kind: kindKey, id: k.ID}.key(), &k, k.Version)
	add("key", it, err)
	x := filled[jobstore.Secret]()
	it, err = secretItem(&x)
	add("secret", it, err)
	have, err := json.MarshalIndent(got, "", "\t")
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(have), "%s", have)
}
