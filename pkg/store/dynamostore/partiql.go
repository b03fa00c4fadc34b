package dynamostore

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/store"
)

// statements are the PartiQL texts of a table. Every UPDATE has a single SET,
// because engines differ in how several are written.
type statements struct {
	insert, transition, remove string
}

func newStatements(table string) statements {
	t := `"` + strings.ReplaceAll(table, `"`, `""`) + `"`
	where := " WHERE " + attrP + " = ? AND " + attrS + " = ? AND " + attrState + " = ?"
	return statements{
		insert:     "INSERT INTO " + t + " VALUE {",
		transition: "UPDATE " + t + " SET " + attrState + " = ?" + where,
		remove:     "DELETE FROM " + t + where,
	}
}

// insertOrder fixes the text of an INSERT for any one set of attributes.
func insertOrder() [16]string {
	return [...]string{
		attrP, attrS, attrState, attrService, attrN, attrCreated, attrExpires, attrBody, attrZipped,
		attrName, attrTenant, attrGroup, attrHeaders, attrTrace, attrReason, attrDead,
	}
}

// of returns the statement of a task.
func (st *statements) of(t *task) types.BatchStatementRequest {
	r := types.BatchStatementRequest{
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	var text string
	switch t.op.Kind {
	case store.Insert:
		text, r.Parameters = st.insertOf(t.item)
	case store.Transition:
		text = st.transition
		r.Parameters = []types.AttributeValue{str(string(t.op.To)), str(t.op.Key.P()), str(t.op.Key.S()), str(string(t.op.From))}
	default:
		text = st.remove
		r.Parameters = []types.AttributeValue{str(t.op.Key.P()), str(t.op.Key.S()), str(string(t.op.From))}
	}
	r.Statement = &text
	return r
}

func (st *statements) insertOf(it item) (string, []types.AttributeValue) {
	var text strings.Builder
	text.Grow(len(st.insert) + 10*len(it))
	text.WriteString(st.insert)
	params := make([]types.AttributeValue, 0, len(it))
	for _, name := range insertOrder() {
		v, ok := it[name]
		if !ok {
			continue
		}
		if len(params) > 0 {
			text.WriteString(", ")
		}
		text.WriteString("'" + name + "': ?")
		params = append(params, v)
	}
	text.WriteString("}")
	return text.String(), params
}
