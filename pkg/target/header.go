package target

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of the headers that every target receives.
const (
	HeaderIdempotencyKey = "Idempotency-Key"
	HeaderRunID          = "Myosin-Run-Id"
	HeaderOriginalRunID  = "Myosin-Original-Run-Id"
	HeaderAttempt        = "Myosin-Attempt"
	HeaderScheduledAt    = "Myosin-Scheduled-At"
	HeaderCallbackToken  = "Myosin-Callback-Token" // #nosec G101 -- a header's name
	HeaderTraceparent    = "Traceparent"
)

const (
	maxHeaders     = 64
	maxHeaderBytes = 16 << 10
	maxID          = 200
)

// HeaderError names the header of a job that is refused.
type HeaderError struct {
	Name   string
	Reason string
}

func (e *HeaderError) Error() string { return fmt.Sprintf("header %q: %s", e.Name, e.Reason) }

// CheckHeaders reports every header that a job must not carry, each as a
// [*HeaderError]: malformed ones, those that frame or route the message, those
// that are Myosin's, and one name twice. Over 64 headers or 16 KiB are refused.
func CheckHeaders(header map[string]string) error {
	var errs []error
	seen := make(map[string]bool, len(header))
	size := 0
	for _, name := range slices.Sorted(maps.Keys(header)) {
		value := header[name]
		size += len(name) + len(value)
		lower := strings.ToLower(name)
		reason := reserved(lower)
		switch {
		case !token(name):
			reason = "not a header name"
		case reason != "":
		case seen[lower]:
			reason = "given twice"
		case !validValue(value):
			reason = "the value has control characters or surrounding white space"
		}
		seen[lower] = true
		if reason != "" {
			errs = append(errs, &HeaderError{Name: Excerpt([]byte(name), 64), Reason: reason})
		}
	}
	if len(header) > maxHeaders || size > maxHeaderBytes {
		errs = append(errs, fmt.Errorf("headers: %d of %d bytes; at most %d of %d in all", len(header), size, maxHeaders, maxHeaderBytes))
	}
	return errors.Join(errs...)
}

// reserved returns why a job must not set the header, "" if it may.
func reserved(lower string) string {
	switch lower {
	case "connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "http2-settings", "expect":
		return "is between two hops, not the job's to set"
	case "transfer-encoding", "content-length":
		return "frames the message, not the job's to set"
	case "host":
		return "follows from the URL, not the job's to set"
	case "idempotency-key", "traceparent", "tracestate":
		return "is set by Myosin"
	}
	for _, p := range []string{"myosin-", "webhook-"} {
		if strings.HasPrefix(lower, p) {
			return "is set by Myosin"
		}
	}
	if strings.HasPrefix(lower, "proxy-") {
		return "is for proxies, not the job's to set"
	}
	return ""
}

// token tells what RFC 9110 calls one.
func token(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

func validValue(s string) bool {
	for _, c := range []byte(s) {
		if c < 0x20 && c != '\t' || c == 0x7f {
			return false
		}
	}
	return strings.Trim(s, " \t") == s
}

// CheckMethod reports why a job must not use the method. "" means POST.
func CheckMethod(method string) error {
	switch method {
	case "", http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodGet, http.MethodHead:
		return nil
	}
	return errors.New("method: must be POST, PUT, PATCH, DELETE, GET or HEAD, in capitals")
}

// checkID reports why a run id cannot be sent. A full stop would let one signed
// message pass for another, as it separates the signed parts.
func checkID(what, id string) error {
	if id == "" || len(id) > maxID {
		return fmt.Errorf("%s: must have 1-%d bytes", what, maxID)
	}
	for _, c := range []byte(id) {
		if c <= ' ' || c >= 0x7f || c == '.' {
			return fmt.Errorf("%s: must be visible ASCII without full stops", what)
		}
	}
	return nil
}

// headers returns what is sent: the job's own, then Myosin's over them.
func (r Request) headers(now time.Time, userAgent string) http.Header {
	h := make(http.Header, len(r.Header)+12)
	for name, value := range r.Header {
		h.Set(name, value)
	}
	if _, ok := h["User-Agent"]; !ok {
		h.Set("User-Agent", userAgent)
	}
	if _, ok := h["Content-Type"]; !ok && len(r.Body) > 0 {
		kind := "application/octet-stream"
		if json.Valid(r.Body) {
			kind = "application/json"
		}
		h.Set("Content-Type", kind)
	}
	key := r.RunID
	if r.OriginalRunID != "" {
		key = r.OriginalRunID
		h.Set(HeaderOriginalRunID, r.OriginalRunID)
	}
	h.Set(HeaderIdempotencyKey, key)
	h.Set(HeaderRunID, r.RunID)
	h.Set(HeaderAttempt, strconv.Itoa(r.Attempt))
	if !r.ScheduledAt.IsZero() {
		h.Set(HeaderScheduledAt, r.ScheduledAt.UTC().Format(time.RFC3339Nano))
	}
	if !r.Token.IsZero() {
		h.Set(HeaderCallbackToken, r.Token.Reveal())
	}
	if validTraceparent(r.Traceparent) {
		h.Set(HeaderTraceparent, r.Traceparent)
	}
	if len(r.Secrets) > 0 {
		h.Set(HeaderWebhookID, key)
		h.Set(HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
		h.Set(HeaderWebhookSignature, Sign(r.Secrets, key, now, r.Body))
	}
	return h
}

// validTraceparent tells version 00 of W3C's trace context.
func validTraceparent(s string) bool {
	parts := strings.Split(s, "-")
	if len(parts) != 4 || parts[0] != "00" || len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 {
		return false
	}
	for _, p := range parts[1:] {
		if strings.Trim(p, "0123456789abcdef") != "" {
			return false
		}
	}
	return strings.Trim(parts[1], "0") != "" && strings.Trim(parts[2], "0") != ""
}
