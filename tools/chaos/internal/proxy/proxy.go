// Package proxy owns the way between one process and the endpoint: a reverse
// proxy that slows, cuts, refuses, repeats and withholds what passes, as the
// windows of its [Place] say, and that logs all of it to a journal.
//
// It refuses nothing for reasons of its own, and checks no signatures: an
// endpoint that does will not take what was signed for the proxy's address.
// Everything may be used concurrently.
package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/myosin-jobs/myosin/tools/chaos/internal/journal"
)

// Options configure [Listen]. All but Seen are required.
type Options struct {
	Name    string // of the process start
	Target  *url.URL
	Place   *Place
	Copies  *Copies
	Journal *journal.Journal
	// Seen is told of every call when it is over, before its answer goes out.
	Seen func(c *journal.Call, body []byte, o *journal.Outcome)
}

// Proxy is a running proxy.
type Proxy struct {
	o         Options
	listener  net.Listener
	server    *http.Server
	transport *http.Transport
	cut       context.CancelFunc
	done      sync.WaitGroup
	leaving   atomic.Bool
	called    chan struct{} // closed by the first call
	first     sync.Once
	last      sync.Map // net.Conn: said, the last answer on it
}

// conns is above what a process opens.
const conns = 512

// Listen starts a proxy on a free port of this machine.
func Listen(ctx context.Context, o Options) (*Proxy, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	calls, cut := context.WithCancel(context.WithoutCancel(ctx))
	p := &Proxy{o: o, listener: l, cut: cut, called: make(chan struct{}), transport: &http.Transport{
		MaxIdleConns: conns, MaxIdleConnsPerHost: conns, DisableCompression: true,
	}}
	p.server = &http.Server{
		Handler: p, ReadHeaderTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return calls },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ConnState:   p.connState,
	}
	p.done.Go(func() { _ = p.server.Serve(l) }) // ErrServerClosed, or a listener that is gone
	return p, nil
}

// URL is what the process is to use as its endpoint.
func (p *Proxy) URL() string { return "http://" + p.listener.Addr().String() }

// Called is closed once the process has made a call.
func (p *Proxy) Called() <-chan struct{} { return p.called }

// Close cuts every call and waits.
func (p *Proxy) Close() {
	p.cut()
	_ = p.server.Close()
	p.done.Wait()
	p.transport.CloseIdleConnections()
}

type connKey struct{}

// said is an answer that was written to a connection.
type said struct {
	call int64
	at   time.Time
}

// Leaving says that the process is about to end: then it closes connections for
// other reasons than that it has given a call up.
func (p *Proxy) Leaving() { p.leaving.Store(true) }

// giveUp is how soon after an answer a connection is closed by a process that
// did not wait for it: busy machines are slow to.
const giveUp = 5 * time.Second

// connState finds the answers that were not heard. A process that reads an answer
// keeps the connection for its next call; one whose call has run out of time
// closes it, and the answer may have been written just before.
func (p *Proxy) connState(c net.Conn, state http.ConnState) {
	if state != http.StateClosed {
		return
	}
	v, ok := p.last.LoadAndDelete(c)
	if s, _ := v.(said); ok && !p.leaving.Load() && time.Since(s.at) < giveUp {
		p.o.Journal.Unheard(s.call)
	}
}

const maxBody = 16 << 20

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.first.Do(func() { close(p.called) })
	p.last.Delete(r.Context().Value(connKey{})) // whoever goes on to the next call has heard the last answer
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the process has gone
	}
	call := p.o.Journal.Read(r.Header.Get("X-Amz-Target"), body)
	out := &journal.Outcome{By: p.o.Name, Began: time.Now()}
	a := p.carry(r, call, body, out)
	// A receipt must be known before anybody can use it: log first.
	n := p.o.Journal.Log(call, out)
	if p.o.Seen != nil {
		p.o.Seen(call, body, out)
	}
	if a == nil {
		if r.Context().Err() != nil && !out.Done.IsZero() && !p.leaving.Load() {
			p.o.Journal.Unheard(n)
		}
		panic(http.ErrAbortHandler) // cuts the connection
	}
	maps.Copy(w.Header(), a.header)
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the process may have gone
	p.last.Store(r.Context().Value(connKey{}), said{n, time.Now()})
}

// answer is what goes back to the process.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// carry takes one call to the endpoint and back, with what befalls it. nil: the
// connection is to be cut.
func (p *Proxy) carry(r *http.Request, call *journal.Call, body []byte, out *journal.Outcome) *answer {
	ctx := r.Context()
	if p.stuck(ctx, out) {
		return nil
	}
	d := p.o.Place.roll(func(k Kind) bool { return able(k, call) })
	out.Fault = string(d.kind)
	switch d.kind {
	case Slow:
		if !pause(ctx, d.delay) {
			return nil
		}
	case Held: // as in a network: it arrives, whether or not anybody still waits
		pause(context.WithoutCancel(ctx), d.delay)
	case ResetBefore:
		return nil
	case Throttle, Fail:
		out.Answered = true
		return p.dated(refusal(d, call))
	}
	req := newRequest(call, body)
	req.dropCopies()
	if d.kind == Refuse {
		out.Refused = req.refuse(d.coin)
	}
	a, err := p.forward(r, req)
	if err != nil {
		out.Fault = strings.TrimSpace(out.Fault + " endpoint: " + err.Error())
		return nil
	}
	out.Done, out.Status, out.Body = time.Now(), a.status, a.body
	req.merge(a)
	if call.Op == "ReceiveMessage" && a.status == http.StatusOK {
		p.o.Copies.add(call.Queue, a, d.kind == Repeat, d.delay)
		out.Body = a.body
	}
	switch d.kind {
	case SlowBack:
		if !pause(ctx, d.delay) {
			return nil
		}
	case ResetAfter:
		return nil
	case FailAfter: // an answer, but not the endpoint's
		d.kind = Fail
		a = refusal(d, call)
	}
	if p.stuck(ctx, out) || ctx.Err() != nil {
		return nil
	}
	out.Answered = out.Fault != string(FailAfter)
	return p.dated(a)
}

// able reports whether a kind of fault can do anything to a call.
func able(k Kind, call *journal.Call) bool {
	switch k {
	case Refuse:
		return strings.HasPrefix(call.Op, "Batch") && call.Op != "BatchGetItem" || strings.HasSuffix(call.Op, "Batch")
	case Repeat:
		return call.Op == "ReceiveMessage"
	case Held:
		return call.Entries != nil // writes
	}
	return true
}

// stuck holds a call for as long as a partition is on, then reports that it must
// be cut.
func (p *Proxy) stuck(ctx context.Context, out *journal.Outcome) bool {
	until := p.o.Place.partitioned()
	if until.IsZero() {
		return false
	}
	out.Fault = strings.TrimSpace(out.Fault + " " + string(Partition))
	pause(ctx, time.Until(until))
	return true
}

// dated shifts the Date of an answer.
func (p *Proxy) dated(a *answer) *answer {
	by := p.o.Place.dateShift()
	date, err := http.ParseTime(a.header.Get("Date"))
	if err != nil {
		date = time.Now().UTC() // an answer of our own
	}
	a.header.Set("Date", date.Add(by).UTC().Format(http.TimeFormat))
	return a
}

// forward makes the call. It is not given up when the process is: what was sent
// is carried out.
func (p *Proxy) forward(r *http.Request, req *request) (*answer, error) {
	if req.spent() {
		return &answer{status: http.StatusOK, header: jsonHeader(), body: []byte("{}")}, nil
	}
	ctx := context.WithoutCancel(r.Context())
	if req.call.Op == "ReceiveMessage" {
		ctx = r.Context() // as an endpoint notices a poller that has gone
	}
	body := req.bytes()
	u := *p.o.Target
	u.Path, u.RawQuery = r.URL.Path, r.URL.RawQuery
	to, err := http.NewRequestWithContext(ctx, r.Method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	to.Header = r.Header.Clone()
	to.Header.Del("Accept-Encoding")
	resp, err := p.transport.RoundTrip(to)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	h := resp.Header.Clone()
	for _, name := range []string{"Content-Length", "Connection", "Transfer-Encoding", "X-Amz-Crc32"} {
		h.Del(name)
	}
	return &answer{status: resp.StatusCode, header: h, body: got}, nil
}

// pause waits; false if ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
