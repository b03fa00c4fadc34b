package table

import (
	"encoding/json"
	"slices"

	"github.com/myosin-jobs/myosin/tools/bench/internal/null/wire"
)

// keySchema is the key of a table or an index.
type keySchema []struct{ AttributeName, KeyType string }

func (k keySchema) of(kind string) string {
	for _, e := range k {
		if e.KeyType == kind {
			return e.AttributeName
		}
	}
	return ""
}

type indexSpec struct {
	IndexName string
	KeySchema keySchema
}

// description is what DescribeTable tells.
type description struct {
	TableName, TableArn, TableStatus string
	ItemCount                        int
	KeySchema                        []schemaElement
	AttributeDefinitions             []definition
	GlobalSecondaryIndexes           []indexDescription `json:",omitempty"`
	BillingModeSummary               struct{ BillingMode string }
}

type (
	schemaElement    struct{ AttributeName, KeyType string }
	definition       struct{ AttributeName, AttributeType string }
	indexDescription struct {
		IndexName, IndexStatus string
		KeySchema              []schemaElement
		Projection             struct{ ProjectionType string }
	}
)

func (e *Engine) admin(op string, body, dst []byte) ([]byte, error) {
	var in struct {
		TableName               string
		KeySchema               keySchema
		GlobalSecondaryIndexes  []indexSpec
		TimeToLiveSpecification struct {
			AttributeName string
			Enabled       bool
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return dst, err //nolint:wrapcheck // becomes the answer.
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.tables[in.TableName]
	if t == nil && op != "CreateTable" && op != "ListTables" {
		return dst, missing()
	}
	var out any
	switch op {
	case "CreateTable":
		if t != nil {
			return dst, wire.Fault("ResourceInUseException", "Table already exists: %s", in.TableName)
		}
		hash := in.KeySchema.of("HASH")
		if in.TableName == "" || hash == "" {
			return dst, invalid("a table needs a name and a hash key")
		}
		t = newTable(in.TableName, hash, in.KeySchema.of("RANGE"), e.limits)
		for _, x := range in.GlobalSecondaryIndexes {
			t.indexes = append(t.indexes, &index{
				name: x.IndexName, hash: x.KeySchema.of("HASH"), sort: x.KeySchema.of("RANGE"),
				parts: make(map[string]*ordered[*entry]),
			})
		}
		e.tables[in.TableName] = t
		out = struct{ TableDescription description }{t.describe()}
	case "DescribeTable":
		out = struct{ Table description }{t.describe()}
	case "DeleteTable":
		delete(e.tables, in.TableName)
		d := t.describe()
		d.TableStatus = "DELETING"
		out = struct{ TableDescription description }{d}
	case "ListTables":
		names := make([]string, 0, len(e.tables))
		for name := range e.tables {
			names = append(names, name)
		}
		slices.Sort(names)
		out = struct{ TableNames []string }{names}
	case "UpdateTimeToLive":
		t.mu.Lock()
		t.ttl = in.TimeToLiveSpecification.AttributeName
		t.mu.Unlock()
		out = map[string]any{"TimeToLiveSpecification": in.TimeToLiveSpecification}
	case "DescribeTimeToLive":
		out = map[string]any{"TimeToLiveDescription": t.describeTTL()}
	}
	answer, err := json.Marshal(out)
	return append(dst, answer...), err //nolint:wrapcheck // becomes the answer.
}

func (t *Table) describeTTL() map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ttl == "" {
		return map[string]string{"TimeToLiveStatus": "DISABLED"}
	}
	return map[string]string{"TimeToLiveStatus": "ENABLED", "AttributeName": t.ttl}
}

func (t *Table) describe() description {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := description{
		TableName: t.name, TableArn: t.arn, TableStatus: "ACTIVE", ItemCount: t.rows, KeySchema: schemaOf(t.hash, t.sort),
	}
	d.BillingModeSummary.BillingMode = "PAY_PER_REQUEST"
	defined := map[string]bool{}
	define := func(names ...string) {
		for _, name := range names {
			if name != "" && !defined[name] {
				defined[name] = true
				d.AttributeDefinitions = append(d.AttributeDefinitions, definition{name, "S"})
			}
		}
	}
	define(t.hash, t.sort)
	for _, x := range t.indexes {
		define(x.hash, x.sort)
		i := indexDescription{IndexName: x.name, IndexStatus: "ACTIVE", KeySchema: schemaOf(x.hash, x.sort)}
		i.Projection.ProjectionType = "ALL"
		d.GlobalSecondaryIndexes = append(d.GlobalSecondaryIndexes, i)
	}
	return d
}

func schemaOf(hash, sort string) []schemaElement {
	s := []schemaElement{{hash, "HASH"}}
	if sort != "" {
		s = append(s, schemaElement{sort, "RANGE"})
	}
	return s
}
