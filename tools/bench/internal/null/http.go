package null

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// stopWait is how long requests under way have to end: long polls do at once.
const stopWait = 2 * time.Second

const (
	maxHead    = 64 << 10
	maxRequest = 32 << 20  // far above what AWS takes
	keepBuffer = 256 << 10 // larger ones are not used again
	headRoom   = 512       // for the head of an answer
)

// Serve serves HTTP/1.1 on a listener until ctx ends, which ends long polls too.
//
// It is not net/http's server because that costs some 50 µs of processor time a
// request, most of it for what no SDK does: this one knows Content-Length alone.
func (e *Endpoint) Serve(ctx context.Context, l net.Listener) error {
	s := &server{e: e, conns: make(map[*conn]struct{})}
	stopped := context.AfterFunc(ctx, func() { s.stop(l) })
	defer stopped()
	for {
		c, err := l.Accept()
		if err != nil {
			s.stop(l)
			s.wait()
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("null endpoint: %w", err)
		}
		s.start(c)
	}
}

type server struct {
	e        *Endpoint
	stopping atomic.Bool

	mu      sync.Mutex
	conns   map[*conn]struct{}
	running sync.WaitGroup
}

func (s *server) start(nc net.Conn) {
	c := &conn{s: s, Conn: nc, in: make([]byte, 0, 16<<10), out: make([]byte, headRoom, 16<<10)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Load() {
		_ = nc.Close() // it came too late
		return
	}
	s.conns[c] = struct{}{}
	s.running.Go(func() {
		c.serve()
		_ = nc.Close() // whatever was to be said was written
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
	})
}

// stop keeps connections from bringing further requests.
func (s *server) stop(l net.Listener) {
	s.stopping.Store(true)
	_ = l.Close() // closing twice is no harm
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.interrupt()
	}
}

// wait waits for requests under way, and cuts off those that take too long.
func (s *server) wait() {
	late := time.AfterFunc(stopWait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			_ = c.Close()
		}
	})
	defer late.Stop()
	s.running.Wait()
}

// conn is one connection. Requests on it are answered one after another.
type conn struct {
	net.Conn
	s   *server
	in  []byte // what was read; the request under way is at its beginning
	out []byte // headRoom, then the body of the answer
}

// interrupt ends a read under way, and all that follow until the deadline is
// taken back.
func (c *conn) interrupt() { _ = c.SetReadDeadline(time.Unix(1, 0)) }

// request is what matters of a request's head.
type request struct {
	method, uri  string
	target, host []byte
	head, length int // bytes; length -1: not told
	last         bool
	unknown      bool // a transfer encoding
	expect       bool
}

func (c *conn) serve() {
	var targets, hosts texts
	for !c.s.stopping.Load() {
		r, err := c.readHead()
		if err != nil {
			return
		}
		if r.unknown || r.length > maxRequest {
			_ = c.answer(http.StatusNotImplemented, []byte("a request needs a Content-Length"), false)
			return
		}
		if r.expect {
			if _, err := io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
				return
			}
		}
		total := r.head + max(0, r.length)
		if err := c.fill(total); err != nil {
			return
		}
		// The buffer may have moved; what the head says was copied into texts.
		body := c.in[r.head:total]
		if !c.respond(&r, targets.of(r.target), hosts.of(r.host), body) || r.last {
			return
		}
		rest := copy(c.in, c.in[total:])
		c.in = c.in[:rest]
		if cap(c.in) > keepBuffer && rest == 0 {
			c.in = make([]byte, 0, 16<<10)
		}
		if cap(c.out) > keepBuffer {
			c.out = make([]byte, headRoom, 16<<10)
		}
	}
}

func (c *conn) respond(r *request, target, host string, body []byte) bool {
	if target == "" {
		status, answer := c.s.e.Own(r.method, r.uri)
		return c.answer(status, answer, false) == nil
	}
	hangUp := &hangUp{c: c}
	status, out := c.s.e.Do(hangUp, target, host, body, c.out[:headRoom])
	if !hangUp.end() {
		return false
	}
	c.out = out
	return c.answer(status, nil, strings.HasPrefix(target, targetDynamoDB)) == nil
}

// fill reads until there are n bytes.
func (c *conn) fill(n int) error {
	if cap(c.in) < n {
		c.in = append(make([]byte, 0, n+n/4), c.in...)
	}
	for len(c.in) < n {
		if err := c.more(); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) more() error {
	if len(c.in) == cap(c.in) {
		c.in = append(make([]byte, 0, 2*cap(c.in)), c.in...)
	}
	n, err := c.Read(c.in[len(c.in):cap(c.in)])
	c.in = c.in[:len(c.in)+n]
	if n > 0 {
		return nil
	}
	return err //nolint:wrapcheck // ends the connection.
}

var errHead = errors.New("no head of an HTTP request")

func (c *conn) readHead() (request, error) {
	for from := 0; ; {
		if end := bytes.Index(c.in[from:], []byte("\r\n\r\n")); end >= 0 {
			return parseHead(c.in[:from+end+4])
		}
		if from = max(0, len(c.in)-3); from > maxHead {
			return request{}, errHead
		}
		if err := c.more(); err != nil {
			return request{}, err
		}
	}
}

func parseHead(head []byte) (request, error) {
	r := request{head: len(head), length: -1}
	line, rest, _ := bytes.Cut(head, []byte("\r\n"))
	method, line, ok := bytes.Cut(line, []byte{' '})
	uri, version, ok2 := bytes.Cut(line, []byte{' '})
	if !ok || !ok2 || !bytes.HasPrefix(version, []byte("HTTP/1.")) {
		return r, errHead
	}
	r.method, r.last = http.MethodPost, string(version) == "HTTP/1.0"
	if string(method) != http.MethodPost {
		r.method = string(method)
	}
	if r.uri = "/"; len(uri) > 1 {
		r.uri = string(uri)
	}
	for len(rest) > 2 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		name, value, ok := bytes.Cut(line, []byte{':'})
		if !ok {
			return r, errHead
		}
		value = bytes.TrimSpace(value)
		switch { // by length first: most headers are none of these
		case len(name) == 4 && bytes.EqualFold(name, []byte("Host")):
			r.host = value
		case len(name) == 6 && bytes.EqualFold(name, []byte("Expect")):
			r.expect = true
		case len(name) == 10 && bytes.EqualFold(name, []byte("Connection")):
			r.last = r.last || bytes.EqualFold(value, []byte("close"))
		case len(name) == 12 && bytes.EqualFold(name, []byte("X-Amz-Target")):
			r.target = value
		case len(name) == 14 && bytes.EqualFold(name, []byte("Content-Length")):
			n, err := strconv.Atoi(string(value))
			if err != nil || n < 0 {
				return r, errHead
			}
			r.length = n
		case len(name) == 17 && bytes.EqualFold(name, []byte("Transfer-Encoding")):
			r.unknown = true
		}
	}
	return r, nil
}

// answer writes an answer in one go: head and body, which is c.out behind
// headRoom if other is nil.
func (c *conn) answer(status int, other []byte, sum bool) error {
	kind := "application/x-amz-json-1.0"
	if other != nil {
		kind = "application/json"
		c.out = append(c.out[:headRoom], other...)
	}
	body := c.out[headRoom:]
	var buf [headRoom]byte
	head := append(buf[:0], "HTTP/1.1 "...)
	head = strconv.AppendInt(head, int64(status), 10)
	head = append(append(head, ' '), http.StatusText(status)...)
	head = append(append(head, "\r\nContent-Type: "...), kind...)
	head = append(head, "\r\nDate: "...)
	head = time.Now().UTC().AppendFormat(head, http.TimeFormat)
	if sum {
		head = append(head, "\r\nX-Amz-Crc32: "...)
		head = strconv.AppendUint(head, uint64(crc32.ChecksumIEEE(body)), 10)
	}
	head = append(head, "\r\nContent-Length: "...)
	head = strconv.AppendInt(head, int64(len(body)), 10)
	head = append(head, "\r\n\r\n"...)
	at := headRoom - len(head)
	copy(c.out[at:], head)
	_, err := c.Write(c.out[at:])
	return err //nolint:wrapcheck // ends the connection.
}

// texts turns bytes that are mostly the same into text.
type texts struct{ last [8]string }

func (t *texts) of(b []byte) string {
	for i := range t.last {
		if t.last[i] == string(b) {
			return t.last[i]
		}
	}
	copy(t.last[1:], t.last[:])
	t.last[0] = string(b)
	return t.last[0]
}

// hangUp is the context of a request: it ends when the client hangs up. The
// connection is looked at only from the first call of Done on, by a long poll.
type hangUp struct {
	c     *conn
	done  chan struct{} // nil: nobody looks
	ended chan struct{}
	over  bool // the client hung up; read after ended
}

// Done implements context.Context. One goroutine calls it.
func (h *hangUp) Done() <-chan struct{} {
	if h.done == nil {
		h.done, h.ended = make(chan struct{}), make(chan struct{})
		go h.look()
	}
	return h.done
}

func (h *hangUp) look() {
	defer close(h.ended)
	for {
		err := h.c.more() // the next request may come early: it is kept
		if err == nil {
			continue
		}
		if timeout := (net.Error)(nil); errors.As(err, &timeout) && timeout.Timeout() && !h.c.s.stopping.Load() {
			return // end asked for it
		}
		h.over = true
		close(h.done)
		return
	}
}

// Err implements context.Context.
func (h *hangUp) Err() error {
	if h.done == nil {
		return nil
	}
	select {
	case <-h.done:
		return context.Canceled
	default:
		return nil
	}
}

// Deadline implements context.Context: there is none.
func (h *hangUp) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context: there is none.
func (h *hangUp) Value(any) any { return nil }

// end stops looking and reports whether the connection is still good.
func (h *hangUp) end() bool {
	if h.done == nil {
		return true
	}
	h.c.interrupt()
	<-h.ended
	if h.over && !h.c.s.stopping.Load() {
		return false
	}
	return h.c.s.stopping.Load() || h.c.SetReadDeadline(time.Time{}) == nil
}
