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
	IndexName  string
	KeySchema  keySchema
	Projection struct{ ProjectionType string }
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

// kindsOf gives the types of attributes; those that are not defined are texts.
func kindsOf(defined []definition) func(name string) string {
	return func(name string) string {
		for _, d := range defined {
			if d.AttributeName == name {
				return d.AttributeType
			}
		}
		return kindText
	}
}

func known(kind string) bool { return kind == kindText || kind == kindNumber }

func wrongKind() *wire.Error { return invalid("keys are strings here, sort keys numbers too") }

func (e *Engine) admin(op string, body, dst []byte) ([]byte, error) {
	var in struct {
		TableName               string
		KeySchema               keySchema
		AttributeDefinitions    []definition
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
		kinds := kindsOf(in.AttributeDefinitions)
		sort := in.KeySchema.of("RANGE")
		t = newTable(in.TableName, hash, sort, kinds(sort), e.limits)
		if kinds(hash) != kindText || !known(t.sortKind) {
			return dst, wrongKind()
		}
		for _, x := range in.GlobalSecondaryIndexes {
			i := &index{
				name: x.IndexName, hash: x.KeySchema.of("HASH"), sort: x.KeySchema.of("RANGE"),
				keysOnly: x.Projection.ProjectionType == "KEYS_ONLY", parts: make(map[string]*ordered[*entry]),
			}
			if i.sortKind = kinds(i.sort); kinds(i.hash) != kindText || !known(i.sortKind) {
				return dst, wrongKind()
			}
			t.indexes = append(t.indexes, i)
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
	define := func(name, kind string) {
		if name != "" && !defined[name] {
			defined[name] = true
			d.AttributeDefinitions = append(d.AttributeDefinitions, definition{name, kind})
		}
	}
	define(t.hash, kindText)
	define(t.sort, t.sortKind)
	for _, x := range t.indexes {
		define(x.hash, kindText)
		define(x.sort, x.sortKind)
		i := indexDescription{IndexName: x.name, IndexStatus: "ACTIVE", KeySchema: schemaOf(x.hash, x.sort)}
		if i.Projection.ProjectionType = "ALL"; x.keysOnly {
			i.Projection.ProjectionType = "KEYS_ONLY"
		}
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
