package target

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"
)

// errTimeout is the cause with which a call's own time ends.
var errTimeout = errors.New("call: timeout")

// Caller makes calls. Whoever made it closes it.
type Caller struct {
	o Options
	n *network
	m *metrics
}

// New returns a caller.
func New(o Options) (*Caller, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	c := &Caller{o: o, m: m}
	c.n = newNetwork(&c.o)
	return c, nil
}

// Close closes every connection and waits for those being made. Calls still
// under way end with an error; later ones fail. It may be called again.
func (c *Caller) Close() { c.n.close() }

// Call makes one attempt and says what became of it. It returns within the
// request's timeout, or as soon as ctx ends.
//
// A request may leave twice when a kept connection turns out to be closed by the
// target before a byte of the answer came (net/http does that, given the
// Idempotency-Key); both carry the same attempt, and one result comes of it.
func (c *Caller) Call(ctx context.Context, r Request) Result {
	rec := &recorder{}
	rec.t.Start = c.o.Now()
	result := c.call(ctx, r, rec)
	timings, remote := rec.read()
	timings.Total = c.o.Now().Sub(timings.Start)
	result.Timings, result.RemoteAddr = timings, remote
	c.m.observe(typeHTTP, result)
	return result
}

func (c *Caller) call(ctx context.Context, r Request, rec *recorder) Result {
	u, err := c.check(r)
	if err != nil {
		kind := KindInvalid
		if errors.Is(err, ErrRefused) {
			kind = KindRefused
		}
		return Result{Kind: kind, Err: err}
	}
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = c.o.Timeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, min(timeout, c.o.MaxTimeout), errTimeout)
	defer cancel()
	req, err := c.request(rec.into(ctx, c.o.Now), r, u)
	if err != nil {
		return Result{Kind: KindInvalid, Err: err}
	}
	// Not http.Client: no redirects, cookies, referrers or user information.
	res, err := c.n.transport(r.Allow).RoundTrip(req)
	if err != nil {
		return Result{Kind: classify(ctx, err, rec), Err: fmt.Errorf("call target: %w", plain(ctx, err))}
	}
	defer func() { _ = res.Body.Close() }() // unread bytes make this close the connection
	out := Result{StatusCode: res.StatusCode, Protocol: res.Proto}
	if res.StatusCode == http.StatusSwitchingProtocols {
		out.Kind, out.Err = KindProtocol, errors.New("call target: switched protocols unasked")
		return out
	}
	if d, ok := RetryAfter(res.Header.Get("Retry-After"), c.o.Now(), c.o.MaxRetryAfter); ok {
		out.RetryAfter = &d
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, int64(c.o.MaxBody)))
	out.BodyBytes = len(body)
	out.Excerpt = Excerpt(body, c.o.MaxExcerpt)
	out.Truncated = err != nil || len(body) == c.o.MaxBody && res.ContentLength != int64(len(body))
	if err != nil {
		out.Kind, out.Err = classify(ctx, err, rec), fmt.Errorf("read answer: %w", plain(ctx, err))
	}
	return out
}

// check repeats what creation checked: rules may have changed since, and what is
// stored may have been written by others.
func (c *Caller) check(r Request) (*url.URL, error) {
	var errs []error
	if err := checkID("run id", r.RunID); err != nil {
		errs = append(errs, err)
	}
	if r.OriginalRunID != "" {
		if err := checkID("original run id", r.OriginalRunID); err != nil {
			errs = append(errs, err)
		}
	}
	for _, s := range r.Secrets {
		if s.IsZero() {
			errs = append(errs, errors.New("secrets: one is empty"))
			break
		}
	}
	if !validValue(r.Token.value) {
		errs = append(errs, errors.New("callback token: malformed"))
	}
	u, err := c.o.Guard.Check(r.URL, r.Allow)
	errs = append(errs, err, CheckMethod(r.Method), CheckHeaders(r.Header))
	return u, errors.Join(errs...)
}

func (c *Caller) request(ctx context.Context, r Request, u *url.URL) (*http.Request, error) {
	method := r.Method
	if method == "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", bare(err))
	}
	req.Header = r.headers(c.o.Now(), c.o.UserAgent)
	return req, nil
}

// plain replaces the error of an ended context by what ended it.
func plain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// classify tells what kind of failure err is. ctx is the call's own.
func classify(ctx context.Context, err error, rec *recorder) Kind {
	if ctx.Err() != nil {
		if errors.Is(context.Cause(ctx), errTimeout) {
			return KindTimeout
		}
		return KindCancelled
	}
	if errors.Is(err, errClosed) {
		return KindCancelled
	}
	if pe := (*phaseError)(nil); errors.As(err, &pe) {
		return pe.kind
	}
	if rec.tlsFailed() {
		return KindTLS
	}
	// net/http has no types for these; the tests hold their texts fast.
	text := err.Error()
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	switch {
	// HTTP/2 calls a header far beyond the bound a compression error.
	case has("server response headers exceeded", "response header list larger", "COMPRESSION_ERROR"):
		return KindHeaders
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		has("server closed idle connection", "stream error:", "GOAWAY", "client connection lost", "use of closed network connection"):
		return KindReset
	}
	return KindProtocol
}

// recorder notes a call's phases. Dialling may outlive the call, hence the lock.
type recorder struct {
	mu     sync.Mutex
	t      Timings
	remote netip.AddrPort
	tlsErr bool // of a dial made for this call
	got    bool // a connection: then tlsErr was another's
}

type recorderKey struct{}

// recorderFrom never returns nil.
func recorderFrom(ctx context.Context) *recorder {
	if r, ok := ctx.Value(recorderKey{}).(*recorder); ok {
		return r
	}
	return &recorder{}
}

func (r *recorder) set(f func(*Timings)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.t)
}

func (r *recorder) read() (Timings, netip.AddrPort) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.t, r.remote
}

func (r *recorder) tlsFailed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tlsErr && !r.got
}

// into returns ctx with hooks that fill the recorder.
func (r *recorder) into(ctx context.Context, now func() time.Time) context.Context {
	var handshake time.Time
	ctx = context.WithValue(ctx, recorderKey{}, r)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeStart: func() { r.set(func(*Timings) { handshake = now() }) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			r.set(func(t *Timings) {
				r.tlsErr = err != nil
				t.TLS = now().Sub(handshake)
			})
		},
		GotConn: func(i httptrace.GotConnInfo) {
			r.set(func(t *Timings) {
				r.got = true
				if i.Conn != nil && i.Conn.RemoteAddr() != nil {
					r.remote, _ = netip.ParseAddrPort(i.Conn.RemoteAddr().String())
				}
				if i.Reused {
					t.DNS, t.Connect, t.TLS = 0, 0, 0
				}
			})
		},
		GotFirstResponseByte: func() { r.set(func(t *Timings) { t.FirstByte = now().Sub(t.Start) }) },
	})
}
