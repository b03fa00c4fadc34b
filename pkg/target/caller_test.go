package target

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const short = 250 * time.Millisecond

// caller returns one that may call loopback, closed and free of goroutines when
// the test ends.
func caller(t *testing.T, change ...func(*Options)) *Caller {
	t.Helper()
	o := Options{Guard: NewGuard(GuardOptions{AllowLoopback: true}), Timeout: 5 * time.Second}
	for _, f := range change {
		f(&o)
	}
	ignore := goleak.IgnoreCurrent()
	c, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
	t.Cleanup(c.Close)
	return c
}

// serve runs a target until the test ends.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

// speak runs a target that says what f does to each connection.
func speak(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return "http://" + l.Addr().String()
}

// heard reads a request's head, then answers with text.
func heard(text string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_, _ = io.WriteString(c, text)
	}
}

func call(c *Caller, url string) Result {
	return c.Call(context.Background(), Request{URL: url, RunID: "run_1", Attempt: 1})
}

type names map[string]func() []netip.Addr

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if f, ok := n[host]; ok {
		return f(), nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func addrs(s ...string) func() []netip.Addr {
	out := make([]netip.Addr, len(s))
	for i := range s {
		out[i] = netip.MustParseAddr(s[i])
	}
	return func() []netip.Addr { return out }
}

func TestTheTargetReceivesThePayloadSignedAndNamed(t *testing.T) {
	var got *http.Request
	var body []byte
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Clone(context.Background())
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "on it")
	})
	reg := prometheus.NewRegistry()
	c := caller(t, func(o *Options) { o.Registerer = reg })
	oldKey, newKey := NewSecret(), NewSecret()
	signer, err := NewSigner(NewSecret())
	require.NoError(t, err)
	tok := signer.Token("run_2", time.Now().Add(time.Hour))
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.FixedZone("", 3600))
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r := c.Call(t.Context(), Request{
		URL: url + "/hook?a=b#c", Method: "PUT", Header: map[string]string{"x-mine": "yes"}, Body: []byte(`{"a":1}`),
		RunID: "run_2", OriginalRunID: "run_1", Attempt: 3, ScheduledAt: at,
		Secrets: []Secret{newKey, oldKey}, Token: tok, Traceparent: trace,
	})
	require.NoError(t, r.Err)
	require.Equal(t, 202, r.StatusCode)
	require.Equal(t, "on it", r.Excerpt)
	require.Equal(t, 5, r.BodyBytes)
	require.False(t, r.Truncated)
	require.Nil(t, r.RetryAfter)
	require.Equal(t, "HTTP/1.1", r.Protocol)
	require.True(t, r.RemoteAddr.Addr().IsLoopback())
	require.Positive(t, r.Timings.Connect)
	require.Positive(t, r.Timings.FirstByte)
	require.GreaterOrEqual(t, r.Timings.Total, r.Timings.FirstByte)

	require.Equal(t, "PUT", got.Method)
	require.Equal(t, "/hook?a=b", got.RequestURI)
	require.JSONEq(t, `{"a":1}`, string(body))
	for name, want := range map[string]string{
		"X-Mine": "yes", "Content-Type": "application/json", "User-Agent": "Myosin/1", "Accept-Encoding": "",
		"Idempotency-Key": "run_1", "Webhook-Id": "run_1", "Myosin-Run-Id": "run_2", "Myosin-Original-Run-Id": "run_1", "Myosin-Attempt": "3",
		"Myosin-Scheduled-At": "2026-01-02T02:04:05.006Z", "Myosin-Callback-Token": tok.Reveal(), "Traceparent": trace,
	} {
		require.Equal(t, want, got.Header.Get(name), name)
	}
	for _, s := range []Secret{oldKey, newKey} {
		v, err := standardwebhooks.NewWebhook(s.Reveal())
		require.NoError(t, err)
		require.NoError(t, v.Verify(body, got.Header))
	}
	require.NoError(t, signer.Verify(ReadToken(got.Header.Get(HeaderCallbackToken)), "run_2", time.Now()))
	families, err := reg.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	require.Equal(t, "2xx", families[0].GetMetric()[0].GetLabel()[0].GetValue())
}

func TestWithoutSecretsAndTokenNothingIsSignedOrSent(t *testing.T) {
	var got http.Header
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() })
	r := caller(t).Call(t.Context(), Request{URL: url, RunID: "run", Body: []byte("\xff"), Traceparent: "nonsense"})
	require.NoError(t, r.Err)
	require.Equal(t, "application/octet-stream", got.Get("Content-Type"))
	require.Equal(t, "run", got.Get("Idempotency-Key"))
	for _, name := range []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "Myosin-Callback-Token", "Myosin-Original-Run-Id", "Traceparent", "Cookie"} {
		require.NotContains(t, got, name)
	}
}

func TestStatusesAndRetryAfterAreReportedAndRedirectsNotFollowed(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var hits, cookies atomic.Int64
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		var code int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &code)
		w.Header().Set("Location", "http://169.254.169.254/")
		w.Header().Set("Set-Cookie", "a=b")
		cookies.Add(int64(len(r.Cookies())))
		if v := r.URL.Query().Get("after"); v != "" {
			w.Header().Set("Retry-After", v)
		}
		w.WriteHeader(code)
	})
	c := caller(t, func(o *Options) { o.Now = func() time.Time { return now } })
	codes := []int{200, 202, 204, 301, 302, 303, 307, 308, 400, 404, 408, 410, 429, 500, 502, 503}
	for _, code := range codes {
		r := call(c, fmt.Sprintf("%s/%d", url, code))
		require.NoError(t, r.Err, code)
		require.Equal(t, code, r.StatusCode)
		require.Nil(t, r.RetryAfter)
	}
	require.EqualValues(t, len(codes), hits.Load())
	require.Zero(t, cookies.Load())
	for value, want := range map[string]time.Duration{"17": 17 * time.Second, "Fri,%2002%20Jan%202026%2003:05:05%20GMT": time.Minute, "999999999": 24 * time.Hour} {
		r := call(c, url+"/429?after="+value)
		require.Equal(t, 429, r.StatusCode)
		require.NotNil(t, r.RetryAfter, value)
		require.Equal(t, want, *r.RetryAfter)
	}
}

func TestAHangingOrTricklingTargetEndsAtTheTimeout(t *testing.T) {
	trickle := func(w io.Writer, stop <-chan struct{}, piece string) {
		tick := time.NewTicker(20 * time.Millisecond) // far below the timeout, far above its end
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if _, err := io.WriteString(w, piece); err != nil {
					return
				}
				if f, ok := w.(http.Flusher); ok {
					f.Flush()
				}
			}
		}
	}
	for name, c := range map[string]struct {
		url    string
		status int
	}{
		"hang": {serve(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() }), 0},
		"trickling body": {serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			trickle(w, r.Context().Done(), "x")
		}), 200},
		"trickling head": {speak(t, func(c net.Conn) {
			heard("HTTP/1.1 200 OK\r\n")(c)
			trickle(c, nil, "X: y\r\n")
		}), 0},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			r := caller(t).Call(t.Context(), Request{URL: c.url, RunID: "run", Timeout: short})
			require.Equal(t, KindTimeout, r.Kind, r.ErrorText())
			require.Equal(t, "call: timeout", r.ErrorText()[len(r.ErrorText())-13:])
			require.Equal(t, c.status, r.StatusCode)
			require.GreaterOrEqual(t, time.Since(start), short)
			require.Less(t, time.Since(start), 8*short)
			if c.status == 200 {
				require.True(t, r.Truncated)
				require.Contains(t, r.Excerpt, "x")
			}
		})
	}
}

func TestTheCallersOwnEndIsNotTheTargets(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	})
	r := caller(t).Call(ctx, Request{URL: url, RunID: "run"})
	require.Equal(t, KindCancelled, r.Kind)
	require.ErrorIs(t, r.Err, context.Canceled)
}

func TestBrokenAnswersHaveTheirKinds(t *testing.T) {
	reset := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			heard(text)(c)
			_ = c.(*net.TCPConn).SetLinger(0)
		}
	}
	for name, c := range map[string]struct {
		speak  func(net.Conn)
		kind   Kind
		status int
	}{
		"closed without an answer": {heard(""), KindReset, 0},
		"reset without an answer":  {reset(""), KindReset, 0},
		"reset in the head":        {reset("HTTP/1.1 200 OK\r\nX: "), KindReset, 0},
		"reset in the body":        {reset("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), KindReset, 200},
		"closed in the body":       {heard("HTTP/1.1 500 No\r\nContent-Length: 10\r\n\r\nabc"), KindReset, 500},
		"closed in a chunk":        {heard("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc"), KindReset, 200},
		"huge headers":             {heard("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 200<<10) + "\r\n\r\n"), KindHeaders, 0},
		"many headers":             {heard("HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 40<<10) + "\r\n"), KindHeaders, 0},
		"not HTTP":                 {heard("SSH-2.0-OpenSSH_9.9\x1b[31m\r\n"), KindProtocol, 0},
		"malformed head":           {heard("HTTP/1.1 200 OK\r\nno colon\r\n\r\n"), KindProtocol, 0},
		"malformed chunk":          {heard("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), KindProtocol, 200},
		"switched protocols":       {heard("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), KindProtocol, 101},
	} {
		t.Run(name, func(t *testing.T) {
			r := call(caller(t), speak(t, c.speak))
			require.Equal(t, c.kind, r.Kind, r.ErrorText())
			require.Equal(t, c.status, r.StatusCode)
			require.NotEmpty(t, r.ErrorText())
			require.NotContains(t, r.ErrorText(), "\x1b")
			require.LessOrEqual(t, len(r.ErrorText()), maxErrorText)
		})
	}
}

func TestOnly64KiBOfAHugeBodyAreReadAndTheConnectionClosed(t *testing.T) {
	sent := make(chan int64, 1)
	url := speak(t, func(c net.Conn) {
		heard(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", int64(10)<<30))(c)
		chunk := []byte(strings.Repeat("0123456789abcdef", 1<<10))
		var n int64
		for {
			m, err := c.Write(chunk)
			n += int64(m)
			if err != nil {
				sent <- n
				return
			}
		}
	})
	r := call(caller(t), url)
	require.NoError(t, r.Err)
	require.Equal(t, 200, r.StatusCode)
	require.Equal(t, 64<<10, r.BodyBytes)
	require.True(t, r.Truncated)
	require.Len(t, r.Excerpt, 4<<10)
	require.Less(t, <-sent, int64(64<<20), "no more than the sockets' buffers hold was taken")
}

func TestKeptConnectionsAreReusedWithinABound(t *testing.T) {
	var opened atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c := caller(t)
	for range 5 {
		require.NoError(t, call(c, s.URL).Err)
	}
	require.EqualValues(t, 1, opened.Load())
	require.Zero(t, call(c, s.URL).Timings.Connect, "reused")

	// Another set of allowed ranges never rides on it.
	r := c.Call(t.Context(), Request{URL: s.URL, RunID: "run", Allow: prefixes(t, "10.0.0.0/8")})
	require.NoError(t, r.Err)
	require.EqualValues(t, 2, opened.Load())
}

func TestATenantCannotUseAConnectionThatOnlyAnotherMayOpen(t *testing.T) {
	// Loopback stands for the private network: the guard's tables are swapped.
	g := NewGuard(GuardOptions{})
	g.private, g.loopback = append(g.private, g.loopback...), nil
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	c := caller(t, func(o *Options) { o.Guard, o.Resolver = g, names{"inside.test": addrs("127.0.0.1")} })
	mine := Request{URL: "http://inside.test:" + port, RunID: "run", Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	require.NoError(t, c.Call(t.Context(), mine).Err)
	theirs := mine
	theirs.Allow = nil
	require.Equal(t, KindRefused, c.Call(t.Context(), theirs).Kind)
	require.NoError(t, c.Call(t.Context(), mine).Err)
}

func TestThePoolsOfConnectionsAreBounded(t *testing.T) {
	c := caller(t)
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	for i := range maxPools + 10 {
		r := c.Call(t.Context(), Request{URL: url, RunID: "run", Allow: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", i))}})
		require.NoError(t, r.Err)
	}
	require.Len(t, c.n.pools, maxPools)
	require.Len(t, c.n.order, maxPools)
}

func TestANameThatTurnsToMetadataOnTheSecondLookUpIsRefused(t *testing.T) {
	var hits, lookups atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { hits.Add(1); w.Header().Set("Connection", "close") }))
	defer s.Close()
	port := s.URL[strings.LastIndexByte(s.URL, ':'):]
	c := caller(t, func(o *Options) {
		o.Resolver = names{
			"rebind.test": func() []netip.Addr {
				if lookups.Add(1) == 1 {
					return addrs("127.0.0.1")()
				}
				return addrs("169.254.169.254")()
			},
			"mixed.test":  addrs("127.0.0.1", "169.254.169.254"),
			"mapped.test": addrs("::ffff:169.254.169.254"),
			"inside.test": addrs("10.0.0.1"),
			"nat64.test":  addrs("64:ff9b::a9fe:a9fe"),
		}
	})
	first := call(c, "http://rebind.test"+port)
	require.NoError(t, first.Err)
	require.EqualValues(t, 1, lookups.Load(), "what was checked is what was connected to")
	for _, host := range []string{"rebind.test", "mixed.test", "mapped.test", "inside.test", "nat64.test"} {
		r := call(c, "http://"+host+port)
		require.Equal(t, KindRefused, r.Kind, host)
		require.ErrorIs(t, r.Err, ErrRefused, host)
		require.Zero(t, r.StatusCode)
		require.False(t, r.RemoteAddr.IsValid())
	}
	require.EqualValues(t, 1, hits.Load())
}

func TestLoopbackIsRefusedByNameAndByAddressUnlessAllowed(t *testing.T) {
	g := NewGuard(GuardOptions{})
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	c := caller(t, func(o *Options) {
		o.Guard = g
		o.Resolver = names{"late.test": func() []netip.Addr { return addrs("127.0.0.1")() }}
	})
	r := call(c, strings.Replace(url, "127.0.0.1", "late.test", 1))
	require.Equal(t, KindRefused, r.Kind, "off by default, loopback is refused")
	require.Equal(t, KindRefused, call(c, url).Kind)
}

func TestNamesAndConnectionsThatFailHaveTheirKinds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	dead := l.Addr().String()
	require.NoError(t, l.Close())
	alive := serve(t, func(http.ResponseWriter, *http.Request) {})
	c := caller(t, func(o *Options) {
		o.Resolver = names{"two.test": addrs("127.0.0.9", "127.0.0.1"), "none.test": addrs()}
	})
	require.Equal(t, KindConnect, call(c, "http://"+dead).Kind)
	require.Equal(t, KindDNS, call(c, "http://absent.test").Kind)
	require.Equal(t, KindDNS, call(c, "http://none.test").Kind)
	require.NoError(t, call(c, strings.Replace(alive, "127.0.0.1", "two.test", 1)).Err, "the second address is tried")
}

type slowNames struct{}

func (slowNames) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestASlowNameServerEndsAtTheConnectTimeout(t *testing.T) {
	slow := func(o *Options) { o.Resolver = slowNames{}; o.ConnectTimeout = short }
	require.Equal(t, KindDNS, call(caller(t, slow), "http://slow.test").Kind)
	r := caller(t, slow).Call(t.Context(), Request{URL: "http://slow.test", RunID: "run", Timeout: short / 5})
	require.Equal(t, KindTimeout, r.Kind)
}

func TestTLSFailuresHaveTheirKindAndHTTP2IsSpoken(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/huge":
			w.Header().Set("X", strings.Repeat("x", 200<<10))
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	trusting := func(o *Options) {
		o.RootCAs = pool
		o.Resolver = names{"wrong.test": addrs("127.0.0.1"), "example.com": addrs("127.0.0.1")}
	}
	at := func(host string) string { return strings.Replace(s.URL, "127.0.0.1", host, 1) }

	c := caller(t, trusting)
	good := call(c, at("example.com"))
	require.NoError(t, good.Err)
	require.Equal(t, "HTTP/2.0", good.Protocol)
	require.Positive(t, good.Timings.TLS)
	endless := call(c, at("example.com")+"/endless")
	require.NoError(t, endless.Err)
	require.Equal(t, 64<<10, endless.BodyBytes)
	require.True(t, endless.Truncated)
	require.Equal(t, KindReset, call(c, at("example.com")+"/abort").Kind)
	huge := call(c, at("example.com")+"/huge")
	require.Equal(t, KindHeaders, huge.Kind, huge.ErrorText())

	wrong := call(c, at("wrong.test"))
	require.Equal(t, KindTLS, wrong.Kind, wrong.ErrorText())
	require.ErrorContains(t, wrong.Err, "wrong.test")
	require.Equal(t, KindTLS, call(caller(t), s.URL).Kind, "an unknown authority")
	require.Equal(t, KindTLS, call(c, strings.Replace(serve(t, func(http.ResponseWriter, *http.Request) {}), "http:", "https:", 1)).Kind, "no TLS there")
}

func TestTheEnvironmentsProxyIsNotUsed(t *testing.T) {
	var proxied atomic.Int64
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { proxied.Add(1) })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy)
	}
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	c := caller(t, func(o *Options) { o.Resolver = names{"a.test": addrs("127.0.0.1")} })
	require.NoError(t, call(c, strings.Replace(url, "127.0.0.1", "a.test", 1)).Err)
	require.Zero(t, proxied.Load())
}

func TestWhatCreationWouldRefuseIsNotSent(t *testing.T) {
	var hits atomic.Int64
	url := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	c := caller(t)
	for name, r := range map[string]Request{
		"header":    {URL: url, RunID: "run", Header: map[string]string{"Content-Length": "1"}},
		"method":    {URL: url, RunID: "run", Method: "CONNECT"},
		"run id":    {URL: url},
		"full stop": {URL: url, RunID: "run.1"},
		"original":  {URL: url, RunID: "run", OriginalRunID: "a\r\nb"},
		"secret":    {URL: url, RunID: "run", Secrets: []Secret{{}}},
		"token":     {URL: url, RunID: "run", Token: ReadToken("a\nb")},
		"url":       {URL: "gopher://x", RunID: "run"},
	} {
		require.Equal(t, KindInvalid, c.Call(t.Context(), r).Kind, name)
	}
	require.Equal(t, KindRefused, call(c, "http://169.254.169.254/").Kind)
	require.Zero(t, hits.Load())
}

func TestAClosedCallerCallsNobody(t *testing.T) {
	c := caller(t, func(o *Options) { o.Resolver = slowNames{}; o.ConnectTimeout = time.Hour; o.Timeout = time.Minute })
	began := make(chan Result, 1)
	go func() { began <- call(c, "http://slow.test") }()
	require.Eventually(t, func() bool { c.n.mu.Lock(); defer c.n.mu.Unlock(); return len(c.n.pools) == 1 }, 5*time.Second, time.Millisecond)
	c.Close()
	require.NotEqual(t, KindNone, (<-began).Kind)
	require.Equal(t, KindCancelled, call(c, "http://127.0.0.1:1").Kind)
	c.Close()
}

func TestOptionsReportEveryFaultTogether(t *testing.T) {
	_, err := New(Options{Timeout: -1, MaxTimeout: -2, MaxBody: -1, UserAgent: "a\n"})
	for _, want := range []string{"guard: required", "timeout: must not be negative", "max timeout", "max body", "user agent"} {
		require.ErrorContains(t, err, want)
	}
}
