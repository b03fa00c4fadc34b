package trigger

import (
	"encoding/base64"
	"maps"
	"strconv"
	"time"
)

// Names of the message attributes Myosin sets on a delivered message.
const (
	AttrID          = "Myosin-Id"
	AttrDue         = "Myosin-Due" // epoch milliseconds
	AttrName        = "Myosin-Name"
	AttrTenant      = "Myosin-Tenant"
	AttrEncoding    = "Myosin-Encoding" // absent, "base64" or "empty"
	AttrTraceparent = "traceparent"
)

const (
	encodingBase64 = "base64"
	encodingEmpty  = "empty"
	// emptyBody stands for a payload of no bytes: SQS refuses an empty body.
	emptyBody = "-"
)

// Delivered is a trigger as it stands on its service's queue.
type Delivered struct {
	Body       string
	Attributes map[string]string
	Group      string // SQS MessageGroupId; empty for none
}

// Deliver returns the message for a trigger. The body is the payload, byte for
// byte where SQS takes it, else base64 with an attribute that says so. On a
// FIFO queue a message without group and tenant gets its id as group.
func Deliver(t *Trigger, fifo bool) Delivered {
	d := Delivered{Body: string(t.Payload), Attributes: make(map[string]string, 6+len(t.Headers)), Group: t.Group}
	maps.Copy(d.Attributes, t.Headers)
	d.Attributes[AttrID] = t.ID.String()
	d.Attributes[AttrDue] = strconv.FormatInt(t.Due.UnixMilli(), 10)
	if t.Name != "" {
		d.Attributes[AttrName] = t.Name
	}
	if t.Tenant != "" {
		d.Attributes[AttrTenant] = t.Tenant
	}
	if t.Traceparent != "" {
		d.Attributes[AttrTraceparent] = t.Traceparent
	}
	switch {
	case len(t.Payload) == 0:
		d.Body = emptyBody
		d.Attributes[AttrEncoding] = encodingEmpty
	case !SQSText(d.Body):
		d.Body = base64.StdEncoding.EncodeToString(t.Payload)
		d.Attributes[AttrEncoding] = encodingBase64
	}
	if d.Group == "" {
		d.Group = t.Tenant
	}
	if d.Group == "" && fifo {
		d.Group = t.ID.String()
	}
	return d
}

// ReadDelivered returns the trigger a delivered message carries: id, due time,
// name, tenant, headers, trace context and payload. Service, lane and partition
// count do not travel with it. Errors are [*FieldError]s; the field is the
// attribute, or "body".
func ReadDelivered(body string, attributes map[string]string) (Trigger, error) {
	var t Trigger
	id, err := ParseID(attributes[AttrID])
	if err != nil {
		return t, bad(AttrID, "%v", err)
	}
	ms, err := strconv.ParseInt(attributes[AttrDue], 10, 64)
	if err != nil || ms < 0 || ms > maxDueMs {
		return t, bad(AttrDue, "%q is not an epoch millisecond", clip(attributes[AttrDue], 40))
	}
	t.ID, t.Due = id, time.UnixMilli(ms).UTC()
	for name, value := range attributes {
		switch name {
		case AttrID, AttrDue, AttrEncoding:
		case AttrName:
			t.Name = value
		case AttrTenant:
			t.Tenant = value
		case AttrTraceparent:
			t.Traceparent = value
		default:
			if t.Headers == nil {
				t.Headers = make(map[string]string)
			}
			t.Headers[name] = value
		}
	}
	switch enc := attributes[AttrEncoding]; enc {
	case "":
		t.Payload = []byte(body)
	case encodingEmpty:
	case encodingBase64:
		if t.Payload, err = base64.StdEncoding.DecodeString(body); err != nil {
			return t, bad("body", "not base64, though %s says so: %v", AttrEncoding, err)
		}
	default:
		return t, bad(AttrEncoding, "%q; this release reads base64 and empty", clip(enc, 40))
	}
	return t, nil
}
