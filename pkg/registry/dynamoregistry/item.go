package dynamoregistry

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/myosin-jobs/myosin/pkg/registry"
)

// Names of the item's attributes; testdata/item.v1.json shows their types.
const (
	attrName           = "name" // key
	attrQueueURL       = "queue_url"
	attrUrgentQueueURL = "urgent_queue_url"
	attrDLQURL         = "dlq_url"
	attrRate           = "rate"
	attrFIFO           = "fifo"
	attrSenders        = "senders"
	attrOwner          = "owner"
	attrAlert          = "alert"
	attrPaused         = "paused"
	attrUpdated        = "updated"
)

// known lists every attribute but the key, in the order they are written.
var known = [...]string{
	attrQueueURL, attrUrgentQueueURL, attrDLQURL, attrRate, attrFIFO,
	attrSenders, attrOwner, attrAlert, attrPaused, attrUpdated,
}

// attributes are an item without its key; nil stands for "not there".
type attributes map[string]types.AttributeValue

func key(name string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{attrName: &types.AttributeValueMemberS{Value: name}}
}

func text(s string) types.AttributeValue {
	if s == "" {
		return nil
	}
	return &types.AttributeValueMemberS{Value: s}
}

func number(f float64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatFloat(f, 'f', -1, 64)}
}

func millis(t time.Time) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(t.UnixMilli(), 10)}
}

// encode returns the attributes of a service, all but the key and the time.
func encode(s *registry.Service) attributes {
	a := attributes{
		attrQueueURL:       text(s.QueueURL),
		attrUrgentQueueURL: text(s.UrgentQueueURL),
		attrDLQURL:         text(s.DLQURL),
		attrRate:           number(s.Rate),
		attrFIFO:           &types.AttributeValueMemberBOOL{Value: s.FIFO},
		attrSenders:        nil,
		attrOwner:          text(s.Owner),
		attrAlert:          text(s.Alert),
		attrPaused:         &types.AttributeValueMemberBOOL{Value: s.Paused},
	}
	if len(s.Senders) > 0 {
		l := &types.AttributeValueMemberL{}
		for _, sender := range s.Senders {
			l.Value = append(l.Value, &types.AttributeValueMemberS{Value: sender})
		}
		a[attrSenders] = l
	}
	return a
}

// decode reads an item and validates it. Absent attributes and NULL are empty,
// unknown ones are passed over. Beside an error the service has only its name.
func decode(item map[string]types.AttributeValue) (registry.Service, error) {
	d := decoder{item: item}
	s := registry.Service{
		Name:           d.text(attrName),
		QueueURL:       d.text(attrQueueURL),
		UrgentQueueURL: d.text(attrUrgentQueueURL),
		DLQURL:         d.text(attrDLQURL),
		Rate:           d.number(attrRate),
		FIFO:           d.flag(attrFIFO),
		Senders:        d.list(attrSenders),
		Owner:          d.text(attrOwner),
		Alert:          d.text(attrAlert),
		Paused:         d.flag(attrPaused),
		Updated:        d.time(attrUpdated),
	}
	err := errors.Join(d.errs...)
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		return registry.Service{Name: s.Name}, err
	}
	return s, nil
}

type decoder struct {
	item map[string]types.AttributeValue
	errs []error
}

func (d *decoder) wrong(attr, want string) {
	d.errs = append(d.errs, fmt.Errorf("%s: %T; want %s", attr, d.item[attr], want))
}

func (d *decoder) text(attr string) string {
	switch v := d.item[attr].(type) {
	case nil, *types.AttributeValueMemberNULL:
	case *types.AttributeValueMemberS:
		return v.Value
	default:
		d.wrong(attr, "S")
	}
	return ""
}

func (d *decoder) flag(attr string) bool {
	switch v := d.item[attr].(type) {
	case nil, *types.AttributeValueMemberNULL:
	case *types.AttributeValueMemberBOOL:
		return v.Value
	default:
		d.wrong(attr, "BOOL")
	}
	return false
}

func (d *decoder) number(attr string) float64 {
	switch v := d.item[attr].(type) {
	case nil, *types.AttributeValueMemberNULL:
	case *types.AttributeValueMemberN:
		f, err := strconv.ParseFloat(v.Value, 64)
		if err != nil {
			d.errs = append(d.errs, fmt.Errorf("%s: %w", attr, err))
		}
		return f
	default:
		d.wrong(attr, "N")
	}
	return 0
}

// list reads an L of S, or an SS. A set has no order of its own: it is sorted.
func (d *decoder) list(attr string) []string {
	switch v := d.item[attr].(type) {
	case nil, *types.AttributeValueMemberNULL:
	case *types.AttributeValueMemberSS:
		return slices.Sorted(slices.Values(v.Value))
	case *types.AttributeValueMemberL:
		var out []string
		for i, e := range v.Value {
			s, ok := e.(*types.AttributeValueMemberS)
			if !ok {
				d.errs = append(d.errs, fmt.Errorf("%s[%d]: %T; want S", attr, i, e))
				continue
			}
			out = append(out, s.Value)
		}
		return out
	default:
		d.wrong(attr, "L of S, or SS")
	}
	return nil
}

// time reads an N of epoch milliseconds or an S of RFC 3339.
func (d *decoder) time(attr string) time.Time {
	switch v := d.item[attr].(type) {
	case nil, *types.AttributeValueMemberNULL:
	case *types.AttributeValueMemberN:
		ms, err := strconv.ParseInt(v.Value, 10, 64)
		if err == nil {
			return time.UnixMilli(ms).UTC()
		}
		d.errs = append(d.errs, fmt.Errorf("%s: %w", attr, err))
	case *types.AttributeValueMemberS:
		t, err := time.Parse(time.RFC3339, v.Value)
		if err == nil {
			return t.UTC()
		}
		d.errs = append(d.errs, fmt.Errorf("%s: %w", attr, err))
	default:
		d.wrong(attr, "N of epoch milliseconds, or S of RFC 3339")
	}
	return time.Time{}
}
