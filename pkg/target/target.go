// Package target makes the managed layer's outbound calls: HTTP ([Caller]), the
// queue of an owning service ([QueueSender]) and SNS topics ([TopicPublisher]).
// It owns what a target is sent (the caller's headers and payload, Standard
// Webhooks signatures, Myosin's own headers and attributes), what may be called
// ([Guard], [CheckTopic]), and an account of what came back ([Result]). It also
// writes what an owner is told when a run dies ([Notice]).
//
// It refuses to judge: whether a result means success, a retry or a dead run is
// pkg/job's to say. It follows no redirect, keeps no cookie, takes no proxy from
// the environment and logs nothing.
//
// [Guard], [Caller], [QueueSender], [TopicPublisher], [Signer] and the secrets are
// safe for concurrent use.
package target

import (
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"net/url"
	"time"
)

// Kind says what went wrong with a call. The values are stored and shown.
type Kind string

const (
	// KindNone means: a whole answer, or the part of it that is read, arrived. Its
	// status code may still be any.
	KindNone Kind = ""
	// KindInvalid means: the request could not be made, nothing was sent.
	KindInvalid Kind = "invalid"
	// KindRefused means: policy forbids the address, nothing was sent. See [RefusedError].
	KindRefused Kind = "refused"
	// KindDNS means: the host's name could not be resolved.
	KindDNS Kind = "dns"
	// KindConnect means: no TCP connection came about, in time or at all.
	KindConnect Kind = "connect"
	// KindTLS means: the handshake or the certificate's verification failed.
	KindTLS Kind = "tls"
	// KindTimeout means: the call's whole time was used up, in whatever phase.
	KindTimeout Kind = "timeout"
	// KindReset means: the connection ended before the answer did.
	KindReset Kind = "reset"
	// KindHeaders means: the answer's headers are larger than is read.
	KindHeaders Kind = "headers_too_large"
	// KindProtocol means: what came is no HTTP answer.
	KindProtocol Kind = "protocol"
	// KindCancelled means: the caller's own context ended; says nothing of the target.
	KindCancelled Kind = "cancelled"

	// The kinds below are of queues and topics. All of them may pass, and pkg/job
	// judges kinds that it does not know as such.

	// KindPaused means: the service is paused, nothing was sent. The run is to be
	// deferred without using up an attempt: see [Result.Deferred].
	KindPaused Kind = "paused"
	// KindThrottled means: refused for lack of capacity, nothing was sent.
	KindThrottled Kind = "throttled"
	// KindDenied means: Myosin's own role, or the key of the queue or topic,
	// refuses; nothing was sent. See the note on [KindMissing].
	KindDenied Kind = "denied"
	// KindMissing means: the queue or topic does not exist, nothing was sent.
	//
	// Unlike a 403 or 404 over HTTP, these two are no answer of the target to this
	// payload. A policy or a queue is at fault, for every run at once, and an
	// operator mends it or Terraform is about to; SQS itself calls a queue missing
	// for up to a minute after it was made. So they are tried again while the
	// attempts last, then the run dies with their text.
	KindMissing Kind = "missing"
	// KindUnavailable means: no usable answer came of SQS, SNS or the registry.
	// The message may have been sent all the same.
	KindUnavailable Kind = "unavailable"
)

// Request is one attempt to call a target. It holds secrets and a payload: log
// it through slog only, which prints neither.
type Request struct {
	Method string            // POST where empty
	URL    string            // what [Guard.Check] accepts
	Header map[string]string // the job's own, what [CheckHeaders] accepts
	Body   []byte            // the payload, sent and signed as it is
	// Timeout bounds the whole call: name, connection, headers and body. 0 means
	// [Options].Timeout; it is cut to [Options].MaxTimeout.
	Timeout time.Duration
	// Allow lists the private ranges that the tenant's record allows, beside
	// those that are allowed to all.
	Allow []netip.Prefix

	RunID         string    // required
	OriginalRunID string    // of a redriven run: then the idempotency key
	Attempt       int       // counted from 1
	ScheduledAt   time.Time // nominal time
	Secrets       []Secret  // one signature each; none: not signed
	Token         Token     // zero: none sent
	Traceparent   string    // W3C; left out where empty or malformed
}

// LogValue names the call without its payload, query, headers and secrets.
func (r Request) LogValue() slog.Value {
	host := ""
	if u, err := url.Parse(r.URL); err == nil {
		host = u.Host
	}
	return slog.GroupValue(
		slog.String("method", r.Method), slog.String("host", host),
		slog.String("run_id", r.RunID), slog.Int("attempt", r.Attempt),
	)
}

// Format writes what LogValue says, whatever the verb.
func (r Request) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.LogValue().String()) }

// Result is what became of a call. Kind and StatusCode may both be set: a reset
// or a timeout in the middle of a body leaves the status that had arrived.
// Judge by Kind first.
type Result struct {
	// StatusCode is 0 where no answer's head arrived. For queues and topics it is
	// 200 where SQS or SNS accepted the message, else 0.
	StatusCode int
	Kind       Kind   // KindNone where the answer arrived
	Err        error  // set with Kind; [Result.ErrorText] is its storable form
	Protocol   string // HTTP/1.1, HTTP/2.0
	// RetryAfter is the answer's Retry-After, from the moment it arrived, cut to
	// [Options].MaxRetryAfter. nil: none, or neither of its two forms.
	RetryAfter *time.Duration
	// Excerpt is the body's beginning, fit for storing: see [Excerpt].
	Excerpt   string
	BodyBytes int  // read, at most [Options].MaxBody
	Truncated bool // the body has, or may have, more than BodyBytes
	// RemoteAddr is the address called, invalid where no connection came about.
	RemoteAddr netip.AddrPort
	Timings    Timings
}

// Deferred reports whether the run is to be put off without counting an attempt:
// nothing was sent, and nothing is wrong with the target.
func (r Result) Deferred() bool { return r.Kind == KindPaused }

// ErrorText returns Err in a form fit for storing, "" without one: what a server
// put into it is cleaned and cut like a body.
func (r Result) ErrorText() string {
	if r.Err == nil {
		return ""
	}
	return Excerpt([]byte(r.Err.Error()), maxErrorText)
}

// Timings say where a call's time went. A phase that did not end is zero; DNS,
// Connect and TLS are zero on a reused connection.
type Timings struct {
	Start     time.Time
	DNS       time.Duration
	Connect   time.Duration
	TLS       time.Duration
	FirstByte time.Duration // from Start
	Total     time.Duration
}
