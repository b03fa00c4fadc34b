package null_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/myosin-jobs/myosin/pkg/settings"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null"
	"github.com/myosin-jobs/myosin/tools/bench/internal/null/table"
)

// dial connects to an endpoint that is served until the test ends, or stop.
func dial(t *testing.T, o null.Options) (c net.Conn, stop func() error) {
	t.Helper()
	e, err := null.New(o)
	require.NoError(t, err)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx, l); close(served) }()
	stop = func() error { cancel(); return <-served }
	t.Cleanup(func() { require.NoError(t, stop()) })
	c, err = new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	return c, stop
}

func post(target, body string) string {
	return fmt.Sprintf("POST / HTTP/1.1\r\nhost: h\r\nx-amz-target: %s\r\ncontent-length: %d\r\n\r\n%s", target, len(body), body)
}

func answer(t *testing.T, r *bufio.Reader) (status int, body string) {
	t.Helper()
	res, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	_, err = http.ParseTime(res.Header.Get("Date"))
	require.NoError(t, err, "clocks are set by it")
	return res.StatusCode, string(b)
}

func TestRequestsOnAConnectionAreAnsweredInOrderHoweverTheyAreCut(t *testing.T) {
	c, _ := dial(t, null.Options{})
	all := post("AmazonSQS.CreateQueue", `{"QueueName":"q"}`) + post("AmazonSQS.GetQueueUrl", `{"QueueName":"q"}`) +
		post("AmazonSQS.GetQueueUrl", `{"QueueName":"none"}`) + post("AmazonEC2.Reboot", "") + "GET /_health HTTP/1.1\r\n\r\n" +
		post("DynamoDB_20120810.ListTables", "{"+strings.Repeat(" ", 100_000)+"}")
	go func() {
		for i := 0; i < len(all); {
			n := min(1+i%37+i/100, len(all)-i)
			_, _ = io.WriteString(c, all[i:i+n])
			i += n
		}
	}()
	r := bufio.NewReader(c)
	for i, want := range []struct {
		status int
		body   string
	}{
		{200, `"http://h/000000000000/q"`},
		{200, `"http://h/000000000000/q"`},
		{400, `com.amazonaws.sqs#QueueDoesNotExist`},
		{400, `UnknownOperationException`},
		{200, `{}`},
		{200, `"TableNames":[]`},
	} {
		status, body := answer(t, r)
		require.Equal(t, want.status, status, "%d: %s", i, body)
		require.Contains(t, body, want.body, i)
	}
}

func TestALongPollDoesNotLoseTheRequestBehindIt(t *testing.T) {
	c, _ := dial(t, null.Options{})
	r := bufio.NewReader(c)
	_, err := io.WriteString(c, post("AmazonSQS.CreateQueue", `{"QueueName":"q"}`))
	require.NoError(t, err)
	answer(t, r)
	poll := post("AmazonSQS.ReceiveMessage", `{"QueueUrl":"http://h/000000000000/q","WaitTimeSeconds":1}`)
	_, err = io.WriteString(c, poll+post("AmazonSQS.GetQueueUrl", `{"QueueName":"q"}`))
	require.NoError(t, err)
	_, body := answer(t, r)
	require.Equal(t, `{}`, body)
	_, body = answer(t, r)
	require.Contains(t, body, "QueueUrl")
}

func TestWhatIsNoRequestEndsTheConnection(t *testing.T) {
	for _, text := range []string{
		"nonsense\r\n\r\n", "POST / SPDY/3\r\n\r\n", "POST / HTTP/1.1\r\nno colon\r\n\r\n",
		"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", strings.Repeat("x", 200_000),
	} {
		c, _ := dial(t, null.Options{})
		_, _ = io.WriteString(c, text)
		b, _ := io.ReadAll(c)
		require.Empty(t, b, "%.40s", text)
	}
	c, _ := dial(t, null.Options{})
	_, err := io.WriteString(c, "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n")
	require.NoError(t, err)
	status, _ := answer(t, bufio.NewReader(c))
	require.Equal(t, http.StatusNotImplemented, status)
}

func TestStoppingEndsLongPollsAndLeavesNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c, stop := dial(t, null.Options{})
	r := bufio.NewReader(c)
	_, err := io.WriteString(c, post("AmazonSQS.CreateQueue", `{"QueueName":"q"}`))
	require.NoError(t, err)
	answer(t, r)
	_, err = io.WriteString(c, post("AmazonSQS.ReceiveMessage", `{"QueueUrl":"http://h/000000000000/q","WaitTimeSeconds":20}`))
	require.NoError(t, err)
	began := time.Now()
	require.NoError(t, stop())
	require.Less(t, time.Since(began), 5*time.Second)
}

func TestTheCommandSaysWhereItListensAndEndsWithItsInput(t *testing.T) {
	in, parent := io.Pipe()
	out, said := io.Pipe()
	var c null.Command
	set := settings.New("bench endpoint", "")
	c.Bind(set)
	require.NoError(t, set.Parse([]string{"--addr", "127.0.0.1:0", "--limits", "aws", "--partition-reads", "0", "--stdin"},
		func(string) (string, bool) { return "", false }, io.Discard))
	require.NoError(t, c.Resolve())
	require.Equal(t, table.Limits{Writes: 4000, Reads: 12_000, PhysicalWrites: 1000}, c.Tables)
	require.Equal(t, 120_000, c.Queues.InFlight)
	ended := make(chan error, 1)
	go func() { ended <- c.Serve(t.Context(), in, said) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "bench-endpoint ")
	require.True(t, ok, line)
	u, err := url.Parse(address)
	require.NoError(t, err)
	require.NotEmpty(t, u.Port())
	require.NoError(t, parent.Close())
	require.NoError(t, <-ended)
}
