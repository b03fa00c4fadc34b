package runner_test

import (
	"bufio"
	"container/heap"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/client"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobcontrol"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/jobstore/memjobs"
	"github.com/myosin-jobs/myosin/pkg/membership"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/runner"
	"github.com/myosin-jobs/myosin/pkg/runner/protect"
	"github.com/myosin-jobs/myosin/pkg/runner/protect/memshared"
	"github.com/myosin-jobs/myosin/pkg/store"
	"github.com/myosin-jobs/myosin/pkg/store/memstore"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/worker"
)

// stand is a runner with real targets: its calls go over sockets, and take real
// time; its messages are handed to it one by one, with its own clock at their due
// times.
type stand struct {
	*jobcontrol.Control
	store  *memjobs.Store
	runner *runner.Runner
	draw   float64 // of every jitter
	told   chan string
	desk   string // the URL of the owner's webhook
	fault  func(op string) memjobs.Fault

	mu   sync.Mutex
	at   time.Time
	rows rows
}

// standOptions change what a stand is made of.
type standOptions struct {
	http    func(*target.Options)
	targets func(*runner.TargetsOptions)
	tenants func(*runner.TenantsOptions)
}

func newStand(t *testing.T, o standOptions) *stand {
	t.Helper()
	s := &stand{at: time.Date(2027, 5, 1, 12, 0, 0, 0, time.UTC), told: make(chan string, 100)}
	s.desk = serveTarget(t, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		s.told <- string(b)
	})
	table := memstore.New(memstore.Options{Now: s.clock, OnChange: func(before, after *store.Row) {
		if before == nil {
			row := *after
			s.mu.Lock()
			defer s.mu.Unlock()
			heap.Push(&s.rows, &row)
		}
	}})
	s.store = memjobs.New(memjobs.Options{Triggers: table, Now: s.clock, Fault: func(op string, _ *jobstore.Tx) memjobs.Fault {
		if s.fault == nil {
			return memjobs.Fault{}
		}
		return s.fault(op)
	}})
	queues := memqueue.New(memqueue.Options{})
	cl, err := client.New(client.Options{Sender: queues, InboundURL: "none", Now: s.clock})
	require.NoError(t, err)
	random := func() float64 { return s.draw }
	s.Control, err = jobcontrol.New(jobcontrol.Options{
		Store: s.store, Triggers: cl, Now: s.clock, Random: random,
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	require.NoError(t, err)
	gate, err := protect.New(protect.Options{Runner: "r", Shared: &memshared.Shared{}, Now: s.clock})
	require.NoError(t, err)
	members, err := membership.NewStatic(0, 1)
	require.NoError(t, err)

	to := runner.TenantsOptions{Store: s.store, Now: s.clock}
	if o.tenants != nil {
		o.tenants(&to)
	}
	known, err := runner.NewTenants(to)
	require.NoError(t, err)
	ho := target.Options{Guard: target.NewGuard(target.GuardOptions{AllowLoopback: true}), Now: s.clock}
	if o.http != nil {
		o.http(&ho)
	}
	caller, err := target.New(ho)
	require.NoError(t, err)
	t.Cleanup(caller.Close)
	opt := runner.TargetsOptions{HTTP: caller, Now: s.clock}
	if o.targets != nil {
		o.targets(&opt)
	}
	targets, err := runner.NewTargets(opt)
	require.NoError(t, err)
	s.runner, err = runner.New(runner.Options{
		Store: s.store, Control: s.Control, Caller: targets, Gate: gate, Tenants: known, Queue: queues, QueueURL: "runs",
		Members: members, Now: s.clock, Random: random,
	})
	require.NoError(t, err)
	return s
}

func (s *stand) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

func (s *stand) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = s.at.Add(d)
}

// patience is the timeout of calls that are not answered.
const patience = 500 * time.Millisecond

// create makes a job that is due in a minute, with a webhook for its owner.
func (s *stand) create(t *testing.T, url string, change ...func(*job.Spec)) (job.Job, job.RunID) {
	t.Helper()
	j, err := s.Create(t.Context(), me(), spec(append([]func(*job.Spec){once(s.clock().Add(time.Minute)), func(sp *job.Spec) {
		sp.Target.URL, sp.Target.Timeout = url, 10*time.Second
		sp.Retry = job.Retry{MaxAttempts: 2, Base: 10 * time.Second, Max: time.Minute}
		sp.Notify.Webhook = s.desk
	}}, change...)...), nil)
	require.NoError(t, err)
	return j, job.NewRunID(j.ID, 1, j.Schedule.At)
}

// message takes the next message off, with the clock at its due time at least.
func (s *stand) message(t *testing.T) worker.Job[[]byte] {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NotEmpty(t, s.rows, "nothing is on its way")
	row := heap.Pop(&s.rows).(*store.Row)
	if row.Due.After(s.at) {
		s.at = row.Due
	}
	return worker.Job[[]byte]{ID: row.ID, Due: row.Due, Name: row.Name, Tenant: row.Tenant, Payload: row.Payload}
}

// play hands the next message over and requires it to be acknowledged.
func (s *stand) play(t *testing.T) {
	t.Helper()
	require.NoError(t, s.runner.Handle(t.Context(), s.message(t)))
}

func (s *stand) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}

func (s *stand) run(t *testing.T, id job.RunID) job.Run {
	t.Helper()
	r, err := s.store.Run(t.Context(), id)
	require.NoError(t, err)
	return r
}

// dead returns the ids of the dead letters.
func (s *stand) dead(t *testing.T) []job.RunID {
	t.Helper()
	page, err := s.store.Dead(t.Context(), jobstore.DeadQuery{Tenant: "acme", Limit: 100})
	require.NoError(t, err)
	var ids []job.RunID
	for _, r := range page.Items {
		ids = append(ids, r.ID)
	}
	return ids
}

// buried requires that the run is dead, listed, and that its owner is told next.
func (s *stand) buried(t *testing.T, id job.RunID, reason string) job.Run {
	t.Helper()
	r := s.run(t, id)
	require.Equal(t, job.Dead, r.State)
	require.Contains(t, r.Reason, reason)
	require.Equal(t, s.clock(), r.Ended)
	require.Zero(t, r.Wake)
	require.JSONEq(t, `{"n":1}`, string(r.Payload), "kept with the dead letter")
	require.Equal(t, []job.RunID{id}, s.dead(t))
	require.Equal(t, 1, s.left(), "the notice alone")
	s.play(t)
	require.Equal(t, job.Succeeded, s.run(t, id.Notice()).State)
	select {
	case told := <-s.told:
		require.Contains(t, told, string(id))
	default:
		require.Fail(t, "nobody was told")
	}
	require.Zero(t, s.left())
	return r
}

func serveTarget(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL
}

// speaks serves connections by hand until the test ends.
func speaks(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer func() { _ = c.Close() }()
				_ = c.SetDeadline(time.Now().Add(10 * time.Second))
				_, _ = http.ReadRequest(bufio.NewReader(c))
				f(c)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return "http://" + l.Addr().String()
}

func says(text string) func(net.Conn) {
	return func(c net.Conn) { _, _ = io.WriteString(c, text) }
}

// cuts resets the connection after a text.
func cuts(text string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = io.WriteString(c, text)
		if text != "" {
			<-time.After(20 * time.Millisecond) // a reset overtakes what was sent
		}
		_ = c.(*net.TCPConn).SetLinger(0)
	}
}

// untilCut reads until the other side hangs up.
func untilCut(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func status(code int, header ...string) func(*testing.T, *stand) string {
	return func(t *testing.T, _ *stand) string {
		return serveTarget(t, func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			if code != http.StatusNoContent {
				_, _ = io.WriteString(w, "said "+http.StatusText(code))
			}
		})
	}
}

func tcp(f func(net.Conn)) func(*testing.T, *stand) string {
	return func(t *testing.T, _ *stand) string { return speaks(t, f) }
}

func also(codes ...int) func(*job.Spec) {
	return func(s *job.Spec) { s.Retry.Also = codes }
}

// misbehaviour is a target, and what is to be on record of a call of it.
type misbehaviour struct {
	serve   func(*testing.T, *stand) string
	change  func(*job.Spec)
	code    int
	reason  string
	excerpt string
	floor   time.Duration // of the wait: Retry-After
}

// Whatever is tried again: RETRY with a failure, a wait by full jitter with
// Retry-After as its floor; then, attempts used up, DEAD, listed, and told.
func TestWhatMayPassIsTriedAgainAndThenBuriedWithItsReason(t *testing.T) {
	for name, c := range map[string]misbehaviour{
		"500":                     {serve: status(500), code: 500, reason: "HTTP 500", excerpt: "said Internal Server Error"},
		"503":                     {serve: status(503), code: 503, reason: "HTTP 503", excerpt: "said Service Unavailable"},
		"599":                     {serve: status(599), code: 599, reason: "HTTP 599", excerpt: "said"},
		"429":                     {serve: status(429), code: 429, reason: "HTTP 429", excerpt: "said Too Many Requests"},
		"429, Retry-After 7":      {serve: status(429, "Retry-After", "7"), code: 429, reason: "HTTP 429", floor: 7 * time.Second},
		"503, Retry-After a day":  {serve: status(503, "Retry-After", "86400"), code: 503, reason: "HTTP 503", floor: time.Minute},
		"429, Retry-After a date": {serve: dated, code: 429, reason: "HTTP 429", floor: 20 * time.Second},
		"429, Retry-After is odd": {serve: status(429, "Retry-After", "soon"), code: 429, reason: "HTTP 429"},
		"408 where listed":        {serve: status(408), change: also(408), code: 408, reason: "HTTP 408", excerpt: "said Request Timeout"},
		"hangs":                   {serve: tcp(untilCut), reason: "timeout"},
		"hangs after the head":    {serve: tcp(func(c net.Conn) { says("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")(c); untilCut(c) }), code: 200, reason: "timeout", excerpt: "abc"},
		"trickles":                {serve: tcp(trickle), code: 200, reason: "timeout", excerpt: "x"},
		"resets before the head":  {serve: tcp(cuts("")), reason: "call target"},
		"resets in the body":      {serve: tcp(cuts("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")), code: 200, reason: "read answer", excerpt: "abc"},
		"ends before the body":    {serve: tcp(says("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")), code: 200, reason: "read answer: unexpected EOF", excerpt: "abc"},
		"garbage":                 {serve: tcp(says("220 mail.example ESMTP\r\n\r\n")), reason: "malformed"},
		"a huge head":             {serve: tcp(says("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<17) + "\r\n\r\n")), reason: "headers exceeded"},
		"switches protocols":      {serve: tcp(says("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")), code: 101, reason: "switched protocols"},
		"a bad certificate":       {serve: unverified, reason: "certificate"},
		"no TLS":                  {serve: func(t *testing.T, s *stand) string { return strings.Replace(status(200)(t, s), "http:", "https:", 1) }, reason: "does not look like a TLS handshake"},
		"refuses connections":     {serve: closed, reason: "connection refused"},
		"an unknown name":         {serve: func(*testing.T, *stand) string { return "http://nowhere.test/" }, reason: "no such host"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, draw := range []float64{0, 0.5, 0.999999} {
				s := newStand(t, standOptions{http: func(o *target.Options) { o.Resolver = noNames{} }})
				s.draw = draw
				change := []func(*job.Spec){func(sp *job.Spec) {
					if c.reason == "timeout" {
						sp.Target.Timeout = patience
					}
				}}
				if c.change != nil {
					change = append(change, c.change)
				}
				_, id := s.create(t, c.serve(t, s), change...)
				start := time.Now()
				s.play(t)
				require.Less(t, time.Since(start), 10*time.Second)
				r := s.run(t, id)
				require.Equal(t, job.Retrying, r.State)
				require.Equal(t, 1, r.Failures)
				require.Equal(t, 1, r.Attempt)
				require.Zero(t, r.Crashes)
				require.Contains(t, r.Reason, c.reason)
				require.Len(t, r.Attempts, 1)
				a := r.Attempts[0]
				require.Equal(t, c.code, a.StatusCode)
				require.Contains(t, a.Error, c.reason)
				require.Contains(t, a.Excerpt, c.excerpt)
				require.False(t, a.End.IsZero())
				wait := time.Duration(draw * float64(10*time.Second))
				require.WithinDuration(t, s.clock().Add(max(wait, c.floor)), r.NotBefore, time.Millisecond)
				require.Empty(t, s.dead(t))
				require.Equal(t, 1, s.left(), "the trigger of the next attempt alone")

				s.play(t)
				require.False(t, s.clock().Before(r.NotBefore))
				r = s.buried(t, id, c.reason)
				require.Equal(t, 2, r.Attempt)
				require.Equal(t, 2, r.Failures)
				require.Equal(t, 2, r.Attempts[1].Number)
				require.Equal(t, c.code, r.Attempts[1].StatusCode)
			}
		})
	}
}

type noNames struct{}

func (noNames) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func dated(t *testing.T, s *stand) string {
	return serveTarget(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", s.clock().Add(20*time.Second).Format(http.TimeFormat))
		w.WriteHeader(http.StatusTooManyRequests)
	})
}

// trickle says one byte at a time, for longer than anybody waits.
func trickle(c net.Conn) {
	says("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")(c)
	for range 1000 {
		if _, err := io.WriteString(c, "x"); err != nil {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
}

func unverified(t *testing.T, _ *stand) string {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	srv.Config.ErrorLog = nil
	t.Cleanup(srv.Close)
	return srv.URL
}

func closed(t *testing.T, _ *stand) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return "http://" + l.Addr().String()
}

// What the target itself refuses is not asked again.
func TestARefusalAndARedirectEndARunAtOnce(t *testing.T) {
	var followed atomic.Int64
	for name, c := range map[string]misbehaviour{
		"302": {serve: func(t *testing.T, _ *stand) string {
			return serveTarget(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					followed.Add(1)
					return
				}
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
			})
		}, code: 302, reason: "HTTP 302"},
		"308":              {serve: status(308, "Location", "/"), code: 308, reason: "HTTP 308"},
		"304":              {serve: tcp(says("HTTP/1.1 304 Not Modified\r\n\r\n")), code: 304, reason: "HTTP 304"},
		"400":              {serve: status(400, "Retry-After", "1"), code: 400, reason: "HTTP 400", excerpt: "said Bad Request"},
		"401":              {serve: status(401), code: 401, reason: "HTTP 401"},
		"404":              {serve: status(404), code: 404, reason: "HTTP 404"},
		"408 unlisted":     {serve: status(408), code: 408, reason: "HTTP 408"},
		"409 beside 408":   {serve: status(409), change: also(408), code: 409, reason: "HTTP 409"},
		"metadata":         {serve: func(*testing.T, *stand) string { return "http://169.254.169.254/latest/meta-data/" }, reason: "metadata"},
		"private":          {serve: func(*testing.T, *stand) string { return "http://10.0.0.1/" }, reason: "private"},
		"a port of mail's": {serve: func(*testing.T, *stand) string { return "http://127.0.0.1:25/" }, reason: "port 25"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, standOptions{})
			var change []func(*job.Spec)
			if c.change != nil {
				change = append(change, c.change)
			}
			j, id := s.create(t, c.serve(t, s), change...)
			s.play(t)
			r := s.buried(t, id, c.reason)
			require.Equal(t, 1, r.Attempt)
			require.Equal(t, 1, r.Failures)
			require.Equal(t, c.code, r.Attempts[0].StatusCode)
			require.Contains(t, r.Attempts[0].Excerpt, c.excerpt)
			require.Zero(t, followed.Load(), "redirects are not followed")
			got, err := s.store.Job(t.Context(), j.ID)
			require.NoError(t, err)
			require.Equal(t, job.JobIsActive, got.Status)
		})
	}
}

// Success is any 2xx but 202, however much comes with it.
func TestASuccessIsOneHoweverMuchTheTargetSays(t *testing.T) {
	var sent atomic.Int64
	huge := func(t *testing.T, _ *stand) string {
		return speaks(t, func(c net.Conn) {
			says("HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n")(c)
			for chunk := strings.Repeat("é", 1<<14); ; {
				n, err := io.WriteString(c, chunk)
				sent.Add(int64(n))
				if err != nil {
					return
				}
			}
		})
	}
	for name, c := range map[string]misbehaviour{
		"200":    {serve: status(200), code: 200, excerpt: "said OK"},
		"204":    {serve: status(204), code: 204},
		"201":    {serve: status(201), code: 201, excerpt: "said Created"},
		"10 GiB": {serve: huge, code: 200, excerpt: "ééé"},
		"bytes":  {serve: tcp(says("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\x00\xff\x1b[")), code: 200},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, standOptions{})
			_, id := s.create(t, c.serve(t, s), func(sp *job.Spec) { sp.Target.Timeout = 5 * time.Second })
			s.play(t)
			r := s.run(t, id)
			require.Equal(t, job.Succeeded, r.State)
			require.Empty(t, r.Reason)
			require.Zero(t, r.Failures)
			require.Len(t, r.Attempts, 1)
			require.Equal(t, c.code, r.Attempts[0].StatusCode)
			require.Empty(t, r.Attempts[0].Error)
			require.True(t, strings.HasPrefix(r.Attempts[0].Excerpt, c.excerpt))
			require.LessOrEqual(t, len(r.Attempts[0].Excerpt), 512)
			require.NotContains(t, r.Attempts[0].Excerpt, "\x1b")
			require.Zero(t, s.left())
			require.Empty(t, s.dead(t))
			require.Less(t, sent.Load(), int64(64<<20), "what the sockets' buffers took, of 10 GiB")
		})
	}
}

// The wait before the n-th further attempt is a share of base × 2^n, capped.
func TestTheWaitDoublesUpToItsCapAndJitterTakesAnyShareOfIt(t *testing.T) {
	for _, draw := range []float64{0, 0.25, 0.999999} {
		s := newStand(t, standOptions{})
		s.draw = draw
		_, id := s.create(t, status(500)(t, s), func(sp *job.Spec) {
			sp.Retry = job.Retry{MaxAttempts: 6, Base: time.Second, Max: 5 * time.Second}
		})
		for n, bound := range []time.Duration{1, 2, 4, 5, 5} {
			s.play(t)
			r := s.run(t, id)
			require.Equal(t, n+1, r.Failures)
			require.WithinDuration(t, s.clock().Add(time.Duration(draw*float64(bound*time.Second))), r.NotBefore, time.Millisecond)
		}
		s.play(t)
		require.Len(t, s.buried(t, id, "HTTP 500").Attempts, 6)
	}
}

func TestGonePausesTheJobAndTheNextOccurrenceIsSkipped(t *testing.T) {
	s := newStand(t, standOptions{})
	j, _ := s.create(t, status(410)(t, s), func(sp *job.Spec) { sp.Schedule = job.Timing{Cron: "* * * * *"} })
	id := job.NewRunID(j.ID, 1, j.Pending)
	s.play(t)
	r := s.run(t, id)
	require.Equal(t, job.Dead, r.State)
	require.Equal(t, 410, r.Attempts[0].StatusCode)
	require.Equal(t, []job.RunID{id}, s.dead(t))
	got, err := s.store.Job(t.Context(), j.ID)
	require.NoError(t, err)
	require.Equal(t, job.JobIsPaused, got.Status)
	require.Zero(t, got.Pending)
	require.Equal(t, job.Skipped, s.run(t, job.NewRunID(j.ID, 1, j.Pending.Add(time.Minute))).State)
	for s.left() > 0 {
		s.play(t) // the notice, and the trigger of what was skipped
	}
	require.Len(t, s.told, 1)
	require.Equal(t, 1, s.run(t, id).Attempt, "nothing was called again")
}

// The runner dies, or the table fails, between a 410 and the pause.
func TestGonePausesTheJobAlsoWhenTheFirstTryToFails(t *testing.T) {
	s := newStand(t, standOptions{})
	calls := 0
	url := serveTarget(t, func(w http.ResponseWriter, _ *http.Request) { calls++; w.WriteHeader(http.StatusGone) })
	j, _ := s.create(t, url, func(sp *job.Spec) { sp.Schedule = job.Timing{Cron: "* * * * *"} })
	id := job.NewRunID(j.ID, 1, j.Pending)
	ended := false
	s.fault = func(op string) memjobs.Fault {
		if !ended {
			if r, err := s.quiet(id); err == nil && r.State.Terminal() {
				ended = true
			}
		}
		if ended {
			return memjobs.Fault{Err: io.ErrUnexpectedEOF}
		}
		return memjobs.Fault{}
	}
	m := s.message(t)
	require.Error(t, s.runner.Handle(t.Context(), m), "comes again")
	s.fault = nil
	require.Equal(t, job.Dead, s.run(t, id).State)
	require.NoError(t, s.runner.Handle(t.Context(), m))
	got, err := s.store.Job(t.Context(), j.ID)
	require.NoError(t, err)
	require.Equal(t, job.JobIsPaused, got.Status)
	require.Equal(t, 1, calls)

	// Whoever resumes it has seen to it: the old message pauses it no more.
	s.pass(time.Second)
	_, err = s.Edit(t.Context(), me(), j.ID, 0, func(x *job.Job) error { x.Status = job.JobIsActive; return nil })
	require.NoError(t, err)
	require.NoError(t, s.runner.Handle(t.Context(), m))
	got, err = s.store.Job(t.Context(), j.ID)
	require.NoError(t, err)
	require.Equal(t, job.JobIsActive, got.Status)
}

// quiet reads a run past the faults.
func (s *stand) quiet(id job.RunID) (job.Run, error) {
	f := s.fault
	s.fault = nil
	defer func() { s.fault = f }()
	return s.store.Run(context.Background(), id)
}

// rebinding is a name that leads to the metadata address from its second look-up on.
type rebinding struct{ looks atomic.Int64 }

func (r *rebinding) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	if r.looks.Add(1) == 1 {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
}

func TestCase29ANameThatTurnsIntoTheMetadataAddressIsRefused(t *testing.T) {
	names := &rebinding{}
	s := newStand(t, standOptions{http: func(o *target.Options) { o.Resolver = names }})
	_, port, _ := strings.Cut(strings.TrimPrefix(status(503, "Connection", "close")(t, s), "http://"), ":")
	_, id := s.create(t, "http://rebind.test:"+port, func(sp *job.Spec) { sp.Retry.MaxAttempts = 5 })
	s.play(t)
	require.Equal(t, job.Retrying, s.run(t, id).State)
	s.play(t)
	r := s.buried(t, id, "refused by policy: a cloud metadata address")
	require.EqualValues(t, 2, names.looks.Load())
	require.Equal(t, 2, r.Attempt, "three attempts were left")
	require.Equal(t, 503, r.Attempts[0].StatusCode)
	require.Zero(t, r.Attempts[1].StatusCode)
}

func TestARunAcceptedWithoutAHeartbeatFailsAndIsTriedAgain(t *testing.T) {
	s := newStand(t, standOptions{})
	_, id := s.create(t, status(202)(t, s))
	s.play(t)
	r := s.run(t, id)
	require.Equal(t, job.Running, r.State)
	require.True(t, r.Accepted)
	require.Equal(t, s.clock().Add(job.LeaseFor), r.LeaseUntil)
	require.Equal(t, 1, s.left(), "the watchdog")

	s.draw = 0.5 // of 10 s
	s.play(t)
	require.Equal(t, r.LeaseUntil, s.clock())
	r = s.run(t, id)
	require.Equal(t, job.Retrying, r.State)
	require.Equal(t, "no heartbeat", r.Reason)
	require.Equal(t, 1, r.Failures)
	require.Zero(t, r.Crashes)
	require.Equal(t, s.clock().Add(5*time.Second), r.NotBefore)

	s.play(t) // accepted again
	require.Equal(t, 2, s.run(t, id).Attempt)
	s.play(t)
	require.Len(t, s.buried(t, id, "no heartbeat").Attempts, 2)
}

func TestAHeartbeatExtendsAnAcceptedRunAndCompleteEndsIt(t *testing.T) {
	for _, success := range []bool{true, false} {
		t.Run(fmt.Sprint(success), func(t *testing.T) {
			signer, err := target.NewSigner(target.NewSecret())
			require.NoError(t, err)
			tokens := make(chan string, 2)
			s := newStand(t, standOptions{targets: func(o *runner.TargetsOptions) { o.Signer = signer }})
			_, id := s.create(t, serveTarget(t, func(w http.ResponseWriter, r *http.Request) {
				tokens <- r.Header.Get(target.HeaderCallbackToken)
				w.WriteHeader(http.StatusAccepted)
			}))
			s.play(t)
			require.NoError(t, signer.Verify(target.ReadToken(<-tokens), string(id), s.clock()))
			for range 5 {
				s.pass(20 * time.Second)
				r, err := s.Heartbeat(t.Context(), id, 1)
				require.NoError(t, err)
				require.Equal(t, s.clock().Add(job.LeaseFor), r.LeaseUntil)
			}
			watchdog := s.message(t) // of the first lease's end
			err = s.runner.Handle(t.Context(), watchdog)
			require.ErrorContains(t, err, "retry in 30s", "looks again when the lease ends")
			require.Equal(t, job.Running, s.run(t, id).State)

			_, err = s.Heartbeat(t.Context(), id, 2)
			conflict := &job.ConflictError{}
			require.ErrorAs(t, err, &conflict)
			require.Equal(t, job.StaleAttempt, conflict.Kind)

			s.pass(5 * time.Second)
			r, err := s.Complete(t.Context(), id, 1, success, "rows: 7")
			require.NoError(t, err)
			if success {
				require.Equal(t, job.Succeeded, r.State)
				require.Equal(t, "rows: 7", r.Attempts[0].Excerpt)
			} else {
				require.Equal(t, job.Retrying, r.State)
				require.Equal(t, "target: rows: 7", r.Reason)
				require.Equal(t, 1, r.Failures)
			}
			before := s.run(t, id)
			s.pass(time.Minute)
			if success {
				require.NoError(t, s.runner.Handle(t.Context(), watchdog))
				require.Equal(t, before, s.run(t, id), "the watchdog finds nothing to do")
				require.Zero(t, s.left())
				return
			}
			require.NoError(t, s.runner.Handle(t.Context(), watchdog), "of an earlier failure")
			require.Equal(t, before, s.run(t, id))
			s.play(t)
			require.Equal(t, 2, s.run(t, id).Attempt)
			_, err = s.Complete(t.Context(), id, 1, true, "late")
			require.ErrorAs(t, err, &conflict)
			require.Equal(t, job.StaleAttempt, conflict.Kind)
		})
	}
}

func TestACancelledRunStopsAtItsHeartbeatAndIsNotTriedAgain(t *testing.T) {
	s := newStand(t, standOptions{})
	_, id := s.create(t, status(202)(t, s))
	s.play(t)
	r, err := s.CancelRun(t.Context(), me(), id)
	require.NoError(t, err)
	require.Equal(t, job.Running, r.State)
	r, err = s.Heartbeat(t.Context(), id, 1)
	require.NoError(t, err)
	require.True(t, r.CancelRequested)
	r, err = s.Complete(t.Context(), id, 1, false, "stopped")
	require.NoError(t, err)
	require.Equal(t, job.Cancelled, r.State)
	s.play(t) // the watchdog
	require.Equal(t, 1, s.run(t, id).Attempt)
	require.Zero(t, s.left())
}

// Triggers reach ten years less a day ahead: a job beyond is woken on the way.
func TestAJobTenYearsAheadRunsAtItsTime(t *testing.T) {
	s := newStand(t, standOptions{})
	at := s.clock().Add(job.MaxAhead)
	_, id := s.create(t, status(200)(t, s), once(at))
	s.play(t)
	require.Equal(t, at.Add(-24*time.Hour), s.clock())
	_, err := s.store.Run(t.Context(), id)
	require.ErrorIs(t, err, jobstore.ErrNotFound, "it has not begun")
	s.play(t)
	require.Equal(t, at, s.clock())
	require.Equal(t, job.Succeeded, s.run(t, id).State)
	require.Zero(t, s.left())
}
