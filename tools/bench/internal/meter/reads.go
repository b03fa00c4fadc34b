package meter

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

type item = map[string]types.AttributeValue

// read counts a call that reads; others are no concern of it.
func (m *Meter) read(in, out any) {
	switch out := out.(type) {
	case *dynamodb.QueryOutput:
		q, _ := in.(*dynamodb.QueryInput)
		m.readItems(out.Items, q != nil && aws.ToBool(q.ConsistentRead), q == nil || q.ProjectionExpression == nil)
	case *dynamodb.ScanOutput:
		q, _ := in.(*dynamodb.ScanInput)
		m.readItems(out.Items, q != nil && aws.ToBool(q.ConsistentRead), false)
	case *dynamodb.GetItemOutput:
		q, _ := in.(*dynamodb.GetItemInput)
		m.readItems([]item{out.Item}, q != nil && aws.ToBool(q.ConsistentRead), false)
	case *dynamodb.BatchGetItemOutput:
		for table, items := range out.Responses {
			consistent := false
			if q, _ := in.(*dynamodb.BatchGetItemInput); q != nil {
				consistent = aws.ToBool(q.RequestItems[table].ConsistentRead)
			}
			for _, it := range items {
				m.readItems([]item{it}, consistent, false)
			}
		}
	}
}

// readItems counts one read: half a unit for each started 4 KB, or a whole one if
// it is consistent. Source: "Read/write capacity" in the DynamoDB developer
// guide. The sizes of whole rows are learned.
func (m *Meter) readItems(items []item, consistent, whole bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	total := 0
	for _, it := range items {
		size, key := itemSize(it), keyOf(it)
		if key != "" && whole {
			m.sizes[key] = size - len(text(it[attrState]))
		}
		total += max(size, m.sizes[key]) // a projection is billed as the whole row
	}
	units := float64(max(1, (total+4095)/4096))
	if !consistent {
		units /= 2
	}
	m.c.ReadUnits += units
}

// keyOf is a row's key as text; empty for what is no trigger's row.
func keyOf(it item) string {
	p, s := text(it[attrP]), text(it[attrS])
	if s == "" || it[attrState] == nil {
		return ""
	}
	return p + "/" + s
}
