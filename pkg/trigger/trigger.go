package trigger

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Trigger is one delayed delivery.
type Trigger struct {
	ID      ID
	Service string    // owning service
	Due     time.Time // whole milliseconds, UTC
	Lane    Lane
	N       int // partition count the sender used: it fixes the row's key
	Payload []byte
	// Name is the job's name, chosen by the caller and used by workers to find
	// a handler; may be empty.
	Name string
	// Tenant and Group choose the SQS message group: Group, else Tenant.
	Tenant string
	Group  string
	// Headers become SQS message attributes of the delivered message.
	Headers map[string]string
	// Traceparent is the W3C trace context of the submission; may be empty.
	Traceparent string
}

// Key returns the key of the trigger's row.
func (t *Trigger) Key() Key { return KeyOf(t.Lane, t.ID, t.Due, t.N) }

// Handle returns the trigger's handle.
func (t *Trigger) Handle() Handle {
	return Handle{Lane: t.Lane, N: t.N, Due: t.Due, ID: t.ID, Service: t.Service}
}

// Limits of a trigger. Sizes are in bytes.
const (
	MaxPayload     = 256 << 10
	MaxHeaders     = 4
	MaxHeaderName  = 128
	MaxHeaderValue = 1024
	MaxService     = 48
	MaxName        = 128
	MaxTenant      = 64
	MaxGroup       = 128
	// MaxAhead and MaxOverdue bound the due time, counted from the submission.
	MaxAhead   = 10 * 366 * 24 * time.Hour
	MaxOverdue = 24 * time.Hour
	// MaxSubmitSkew bounds how far a sender's clock may be from the queue's.
	MaxSubmitSkew = 30 * time.Second
)

// FieldError names the field of a submission that is at fault, and the limit.
type FieldError struct {
	Field string // as it is called on the wire: "payload", "headers.x-a"
	Msg   string
}

// Error implements error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Msg }

func bad(field, format string, args ...any) error {
	return &FieldError{Field: field, Msg: fmt.Sprintf(format, args...)}
}

// Validate reports every field outside its limits, joined; each is a
// [*FieldError]. The due time is judged against the time of submission, so that
// a long outage between submission and drain refuses nothing.
func (t *Trigger) Validate(submitted time.Time) error {
	var errs []error
	if t.ID.IsZero() {
		errs = append(errs, bad("id", "missing; the all-zero UUID is none"))
	}
	if err := ValidService(t.Service); err != nil {
		errs = append(errs, bad("service", "%v", err))
	}
	if t.N < 1 || t.N > MaxPartitions {
		errs = append(errs, bad("n", "%d; want 1 to %d", t.N, MaxPartitions))
	}
	if t.Lane > Urgent {
		errs = append(errs, bad("lane", "want standard or urgent"))
	}
	errs = append(errs, validDue(t.Due, submitted))
	if len(t.Payload) > MaxPayload {
		errs = append(errs, bad("payload", "%d bytes; at most %d", len(t.Payload), MaxPayload))
	}
	errs = append(errs,
		validToken("name", t.Name, MaxName),
		validToken("tenant", t.Tenant, MaxTenant),
		validToken("group", t.Group, MaxGroup),
		validHeaders(t.Headers))
	if t.Traceparent != "" && !validTraceparent(t.Traceparent) {
		errs = append(errs, bad("traceparent", "not a W3C trace context, version 00"))
	}
	return errors.Join(errs...)
}

func validDue(due, submitted time.Time) error {
	switch {
	case due.IsZero():
		return bad("due", "missing: give due, or delay_ms")
	case due.Before(submitted.Add(-MaxOverdue)):
		return bad("due", "%s is more than a day before its submission at %s", stamp(due), stamp(submitted))
	case due.After(submitted.Add(MaxAhead)):
		return bad("due", "%s is more than ten years after its submission at %s", stamp(due), stamp(submitted))
	case due.UnixMilli() < 0 || due.UnixMilli() > maxDueMs:
		return bad("due", "%s is outside the years 1970 to 2286", stamp(due))
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// ValidService checks the name of an owning service: 1 to 48 characters,
// lower-case letters, digits and single '-', starting with a letter. It becomes
// part of queue names, which SQS limits to 80.
func ValidService(s string) error {
	if s == "" {
		return errors.New("missing")
	}
	ok := len(s) <= MaxService && s[0] >= 'a' && s[0] <= 'z' && s[len(s)-1] != '-' && !strings.Contains(s, "--")
	for i := 0; ok && i < len(s); i++ {
		c := s[i]
		ok = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-'
	}
	if !ok {
		return fmt.Errorf("%q; want 1 to %d of a-z, 0-9 and single '-', starting with a letter", clip(s, MaxService), MaxService)
	}
	return nil
}

// validToken checks optional short texts that become SQS attributes or message
// groups: ASCII letters, digits and punctuation, no spaces.
func validToken(field, s string, limit int) error {
	if len(s) > limit {
		return bad(field, "%d characters; at most %d", len(s), limit)
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return bad(field, "%q has a character outside ASCII letters, digits and punctuation", clip(s, 40))
		}
	}
	return nil
}

func validHeaders(h map[string]string) error {
	var errs []error
	if len(h) > MaxHeaders {
		errs = append(errs, bad("headers", "%d; at most %d (SQS allows ten attributes, Myosin uses six)", len(h), MaxHeaders))
	}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		value, field := h[name], "headers."+printable(name)
		if err := validHeaderName(name); err != nil {
			errs = append(errs, bad(field, "%v", err))
		}
		switch {
		case value == "":
			errs = append(errs, bad(field, "empty; SQS refuses empty attributes"))
		case len(value) > MaxHeaderValue:
			errs = append(errs, bad(field, "%d bytes; at most %d", len(value), MaxHeaderValue))
		case !SQSText(value):
			errs = append(errs, bad(field, "has characters SQS does not accept"))
		}
	}
	return errors.Join(errs...)
}

// printable returns foreign text for use as the name of a field: cut, and
// quoted where it has anything but printable ASCII.
func printable(s string) string {
	if q := strconv.QuoteToASCII(s); q[1:len(q)-1] != s {
		s = q
	}
	return clip(s, 40)
}

func validHeaderName(s string) error {
	lower := strings.ToLower(s)
	switch {
	case s == "":
		return errors.New("name is empty")
	case len(s) > MaxHeaderName:
		return fmt.Errorf("name has %d characters; at most %d", len(s), MaxHeaderName)
	case strings.HasPrefix(lower, "aws.") || strings.HasPrefix(lower, "amazon."):
		return errors.New("names starting with AWS. or Amazon. are reserved by SQS")
	case strings.HasPrefix(lower, "myosin-") || lower == "traceparent":
		return errors.New("name is reserved")
	case s[0] == '.' || s[len(s)-1] == '.' || strings.Contains(s, ".."):
		return errors.New("name may not start or end with '.', nor hold two in a row")
	}
	for i := range len(s) {
		if c := s[i]; !alnum(c) && c != '-' && c != '_' && c != '.' {
			return errors.New("name may hold letters, digits, '-', '_' and '.'")
		}
	}
	return nil
}

// SQSText reports whether s may stand in an SQS message as it is: UTF-8, no
// control characters but tab, line feed and carriage return, no U+FFFE and
// U+FFFF. Source: SendMessage in the SQS API reference.
func SQSText(s string) bool {
	for len(s) > 0 && s[0] < utf8.RuneSelf && (s[0] >= ' ' || s[0] == '\t' || s[0] == '\n' || s[0] == '\r') {
		s = s[1:] // most text is plain, and each message is looked at twice
	}
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return false
		}
	}
	return true
}

// validTraceparent checks the shape 00-<32 hex>-<16 hex>-<2 hex>.
func validTraceparent(s string) bool {
	if len(s) != 55 || s[:3] != "00-" || s[35] != '-' || s[52] != '-' {
		return false
	}
	for _, part := range []string{s[3:35], s[36:52], s[53:]} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return false
		}
	}
	return strings.Trim(s[3:35], "0") != "" && strings.Trim(s[36:52], "0") != ""
}
