package dynamoregistry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/registry"
)

// Names of attributes that code asks for; the tags of item have them all, and
// testdata/item.v1.json their types.
const (
	attrName    = "name" // key
	attrSenders = "senders"
)

// item is a [registry.Service] as it lies in the table: the two convert into
// each other, so a field that one lacks does not compile. What is nullempty is
// left out where it is empty.
type item struct {
	Name           string    `dynamodbav:"name"`
	QueueURL       string    `dynamodbav:"queue_url,nullempty"`
	UrgentQueueURL string    `dynamodbav:"urgent_queue_url,nullempty"`
	DLQURL         string    `dynamodbav:"dlq_url,nullempty"`
	Rate           float64   `dynamodbav:"rate"`
	FIFO           bool      `dynamodbav:"fifo"`
	Senders        []string  `dynamodbav:"senders,nullempty"`
	Owner          string    `dynamodbav:"owner,nullempty"`
	Alert          string    `dynamodbav:"alert,nullempty"`
	Paused         bool      `dynamodbav:"paused"`
	Updated        time.Time `dynamodbav:"updated"`
}

// change is the part of an item that an operator changes; nil: left alone.
type change struct {
	Rate    *float64  `dynamodbav:"rate,omitempty"`
	Paused  *bool     `dynamodbav:"paused,omitempty"`
	Updated time.Time `dynamodbav:"updated"`
}

type attributes = map[string]types.AttributeValue

func key(name string) attributes {
	return attributes{attrName: &types.AttributeValueMemberS{Value: name}}
}

// encode returns the attributes of an item or a change. NULL stands for one
// that is to be removed. Times are an N of epoch milliseconds.
func encode(v any) (attributes, error) {
	return attributevalue.MarshalMapWithOptions(v, func(o *attributevalue.EncoderOptions) {
		o.EncodeTime = func(t time.Time) (types.AttributeValue, error) {
			return attributevalue.Marshal(t.UnixMilli())
		}
	})
}

// decode reads an item and validates it; the error names every attribute at
// fault. Absent attributes and NULL are empty, unknown ones are passed over.
// Times may be an S of RFC 3339 too, senders an SS. Beside an error the service
// has only its name.
func decode(in attributes) (registry.Service, error) {
	known, err := encode(item{})
	if err != nil {
		return registry.Service{}, err
	}
	var it item
	var errs []error
	// One by one: the whole would stop at the first fault without naming it, and
	// take attributes of others that differ from ours in case alone.
	for _, attr := range slices.Sorted(maps.Keys(known)) {
		if err := attributevalue.UnmarshalMapWithOptions(attributes{attr: in[attr]}, &it, readTimes); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", attr, err))
		}
	}
	switch v := in[attrSenders].(type) {
	case *types.AttributeValueMemberSS:
		slices.Sort(it.Senders) // a set has no order of its own
	case *types.AttributeValueMemberL:
		for i, e := range v.Value {
			// A number would be taken for text, and an account would lose its zeros.
			if _, ok := e.(*types.AttributeValueMemberS); !ok {
				errs = append(errs, fmt.Errorf("%s[%d]: %T; want S", attrSenders, i, e))
			}
		}
	}
	svc := registry.Service(it)
	if err := errors.Join(append(errs, svc.Validate())...); err != nil {
		return registry.Service{Name: svc.Name}, err
	}
	return svc, nil
}

func readTimes(o *attributevalue.DecoderOptions) {
	o.DecodeTime.N = func(s string) (time.Time, error) {
		ms, err := strconv.ParseInt(s, 10, 64)
		return time.UnixMilli(ms).UTC(), err
	}
	o.DecodeTime.S = func(s string) (time.Time, error) {
		t, err := time.Parse(time.RFC3339, s)
		return t.UTC(), err
	}
}
