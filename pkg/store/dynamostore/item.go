package dynamostore

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

// The attributes of a row. Names are short because DynamoDB bills whole
// kilobytes, names included. None is a reserved word. An attribute that would be
// empty is left out. A reader ignores attributes it does not know.
const (
	attrP       = "p"  // S, hash key: lane and partition
	attrS       = "s"  // S, range key: due time and id
	attrState   = "st" // S, packed state
	attrService = "v"  // S
	attrN       = "n"  // N, partition count the sender used
	attrCreated = "c"  // N, epoch milliseconds
	attrExpires = "x"  // N, epoch seconds: the table's TTL attribute
	attrBody    = "b"  // B, payload
	attrZipped  = "z"  // BOOL true: the payload is zstd-compressed
	attrName    = "j"  // S
	attrTenant  = "t"  // S
	attrGroup   = "g"  // S
	attrHeaders = "h"  // M of S
	attrTrace   = "w"  // S, traceparent
	attrReason  = "r"  // S, why a row is dead
	attrDead    = "ds" // S, service of a dead row: hash key of the index of dead rows
	attrMoved   = "m"  // N, epoch milliseconds: where a moved row lives on; tombstones only
	attrEpochs  = "e"  // S, settings row only; see formatEpochs
)

// deadIndex is a sparse index over dead rows: attrDead, attrS.
const deadIndex = "dead"

// bodyAttrs are what a tombstone has not.
const bodyAttrs = attrBody + ", " + attrZipped + ", " + attrName + ", " + attrTenant + ", " + attrGroup + ", " +
	attrHeaders + ", " + attrTrace + ", " + attrReason + ", " + attrDead

// headAttrs are what a Range with Heads asks for.
const headAttrs = attrP + ", " + attrS + ", " + attrState + ", " + attrService + ", " + attrN

type item = map[string]types.AttributeValue

func setStr(it item, name, value string) {
	if value != "" {
		it[name] = str(value)
	}
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func num(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func keyItem(k trigger.Key) item { return item{attrP: str(k.P()), attrS: str(k.S())} }

// item builds the item of a row under a key.
func (c *codec) item(row *store.Row, key trigger.Key) item {
	it := make(item, 10)
	it[attrP], it[attrS] = str(key.P()), str(key.S())
	it[attrState] = str(string(row.State))
	it[attrN] = num(int64(row.N))
	if !row.Created.IsZero() {
		it[attrCreated] = num(row.Created.UnixMilli())
	}
	if !row.Expires.IsZero() {
		it[attrExpires] = num(row.Expires.Unix())
	}
	setStr(it, attrService, row.Service)
	if row.State.Tombstone() {
		if !row.MovedTo.IsZero() {
			it[attrMoved] = num(row.MovedTo.UnixMilli())
		}
		return it
	}
	setStr(it, attrName, row.Name)
	setStr(it, attrTenant, row.Tenant)
	setStr(it, attrGroup, row.Group)
	setStr(it, attrTrace, row.Traceparent)
	setStr(it, attrReason, row.Reason)
	if row.State == trigger.StateDead {
		setStr(it, attrDead, row.Service)
	}
	if len(row.Headers) > 0 {
		h := make(item, len(row.Headers))
		for k, v := range row.Headers {
			h[k] = str(v)
		}
		it[attrHeaders] = &types.AttributeValueMemberM{Value: h}
	}
	if len(row.Payload) > 0 {
		body, zipped := c.pack(row.Payload)
		it[attrBody] = &types.AttributeValueMemberB{Value: body}
		if zipped {
			it[attrZipped] = &types.AttributeValueMemberBOOL{Value: true}
		}
	}
	return it
}

// row reads an item. Whatever it accepts has a key that agrees with its id and
// partition count, so that writes find it again.
func (c *codec) row(it item) (*store.Row, error) {
	r := reader{it: it}
	key, err := trigger.ParseKey(r.str(attrP), r.str(attrS))
	if err != nil {
		return nil, err
	}
	row := &store.Row{
		Trigger: trigger.Trigger{
			ID: key.ID, Due: key.DueTime(), Lane: key.Lane, N: int(r.num(attrN)), Service: r.str(attrService),
		},
		State: trigger.State(r.str(attrState)),
	}
	if ms := r.num(attrCreated); ms != 0 {
		row.Created = time.UnixMilli(ms).UTC()
	}
	if row.Payload, err = c.unpack(r.body()); err != nil {
		r.errs = append(r.errs, err)
	}
	if r.found < len(it) { // most rows have no more
		r.rest(row)
	}
	switch {
	case row.State == "":
		r.errs = append(r.errs, errors.New("it has no state"))
	case row.N < 1 || row.N > trigger.MaxPartitions:
		r.errs = append(r.errs, fmt.Errorf("partition count %d", row.N))
	case row.Key() != key:
		r.errs = append(r.errs, fmt.Errorf("partition count %d does not lead to its key", row.N))
	}
	if len(r.errs) > 0 {
		return nil, fmt.Errorf("item %s: %w", key, errors.Join(r.errs...))
	}
	return row, nil
}

// rest reads the attributes that few rows have.
func (r *reader) rest(row *store.Row) {
	row.Name, row.Tenant, row.Group = r.str(attrName), r.str(attrTenant), r.str(attrGroup)
	row.Traceparent, row.Reason = r.str(attrTrace), r.str(attrReason)
	if sec := r.num(attrExpires); sec != 0 {
		row.Expires = time.Unix(sec, 0).UTC()
	}
	if ms := r.num(attrMoved); ms != 0 {
		row.MovedTo = time.UnixMilli(ms).UTC()
	}
	row.Headers = r.headers()
}

// itemKey reads the key of an item, as in LastEvaluatedKey.
func itemKey(it item) (*trigger.Key, error) {
	r := reader{it: it}
	key, err := trigger.ParseKey(r.str(attrP), r.str(attrS))
	if err != nil {
		return nil, err
	}
	return &key, nil
}

// reader reads attributes and collects what is wrong with them.
type reader struct {
	it    item
	found int // attributes read well
	errs  []error
}

func (r *reader) wrong(name string) {
	r.errs = append(r.errs, fmt.Errorf("attribute %q is a %T", name, r.it[name]))
}

func (r *reader) str(name string) string {
	switch v := r.it[name].(type) {
	case nil:
	case *types.AttributeValueMemberS:
		r.found++
		return v.Value
	default:
		r.wrong(name)
	}
	return ""
}

func (r *reader) num(name string) int64 {
	switch v := r.it[name].(type) {
	case nil:
	case *types.AttributeValueMemberN:
		n, err := strconv.ParseInt(v.Value, 10, 64)
		if err == nil {
			r.found++
			return n
		}
		r.errs = append(r.errs, fmt.Errorf("attribute %q: %w", name, err))
	default:
		r.wrong(name)
	}
	return 0
}

func (r *reader) body() (b []byte, zipped bool) {
	switch v := r.it[attrBody].(type) {
	case nil:
	case *types.AttributeValueMemberB:
		r.found++
		b = v.Value
	default:
		r.wrong(attrBody)
	}
	if r.found == len(r.it) {
		return b, false
	}
	switch v := r.it[attrZipped].(type) {
	case nil:
	case *types.AttributeValueMemberBOOL:
		r.found++
		zipped = v.Value
	default:
		r.wrong(attrZipped)
	}
	return b, zipped
}

func (r *reader) headers() map[string]string {
	switch v := r.it[attrHeaders].(type) {
	case nil:
	case *types.AttributeValueMemberM:
		if len(v.Value) == 0 {
			return nil
		}
		h := make(map[string]string, len(v.Value))
		inner := reader{it: v.Value}
		for k := range v.Value {
			h[k] = inner.str(k)
		}
		r.errs = append(r.errs, inner.errs...)
		return h
	default:
		r.wrong(attrHeaders)
	}
	return nil
}
