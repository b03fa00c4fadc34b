package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/awsclient"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/journal"
	"github.com/myosin-jobs/myosin/tools/chaos/internal/proxy"
)

const (
	id        = "0b7e1f3a-6a52-4b7c-9d1e-2f4a5b6c7d8e"
	sends     = "AmazonSQS.SendMessageBatch"
	deletes   = "AmazonSQS.DeleteMessageBatch"
	receives  = "AmazonSQS.ReceiveMessage"
	executes  = "DynamoDB_20120810.BatchExecuteStatement"
	puts      = "DynamoDB_20120810.PutItem"
	serviceQ  = `"QueueUrl":"http://x/0/c-svc-orders"`
	forOthers = "another place"
)

// rig is a proxy before an endpoint that keeps what it was asked.
type rig struct {
	t       *testing.T
	place   *proxy.Place
	journal *journal.Journal
	urls    map[string]string // of proxies, by place
	proxies map[string]*proxy.Proxy

	mu    sync.Mutex
	asked []string
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, place: proxy.NewPlace(1, 1), journal: journal.New(journal.Names{Prefix: "c"}), urls: make(map[string]string), proxies: make(map[string]*proxy.Proxy)}
	endpoint := httptest.NewServer(http.HandlerFunc(r.answer))
	t.Cleanup(endpoint.Close)
	target, err := url.Parse(endpoint.URL)
	require.NoError(t, err)
	copies := proxy.NewCopies()
	for name, place := range map[string]*proxy.Place{"": r.place, forOthers: proxy.NewPlace(1, 2)} {
		p, err := proxy.Listen(t.Context(), proxy.Options{Name: "p.1", Target: target, Place: place, Copies: copies, Journal: r.journal})
		require.NoError(t, err)
		t.Cleanup(p.Close)
		r.urls[name], r.proxies[name] = p.URL(), p
	}
	return r
}

// answer says yes to every part of a request.
func (r *rig) answer(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	target := req.Header.Get("X-Amz-Target")
	r.mu.Lock()
	r.asked = append(r.asked, target+" "+string(body))
	r.mu.Unlock()
	var in struct {
		Entries    []struct{ ID string }
		Statements []json.RawMessage
	}
	_ = json.Unmarshal(body, &in)
	out := map[string]any{}
	var done []any
	for _, e := range in.Entries {
		done = append(done, map[string]string{"Id": e.ID, "MessageId": "m" + e.ID})
	}
	switch target {
	case receives:
		out["Messages"] = []any{map[string]any{"MessageId": "m", "ReceiptHandle": "r", "Body": "x", "MessageAttributes": map[string]any{"Myosin-Id": map[string]string{"StringValue": id}}}}
	case executes:
		out["Responses"] = make([]struct{}, len(in.Statements))
	default:
		out["Successful"] = done
	}
	w.Header().Set("Date", "Fri, 02 Jan 2026 03:04:05 GMT")
	_ = json.NewEncoder(w).Encode(out)
}

func (r *rig) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

func (r *rig) call(from, target, body string) (http.Header, string, error) {
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.urls[from], strings.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("X-Amz-Target", target)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.Header, string(answer), err
}

func (r *rig) open(kind proxy.Kind) {
	r.place.Open(proxy.Window{Kind: kind, Share: 1, Until: time.Now().Add(time.Hour)})
}

func batch(n int) string {
	var entries []string
	for i := range n {
		entries = append(entries, fmt.Sprintf(`{"Id":"%d","MessageBody":"x","MessageAttributes":{"Myosin-Id":{"StringValue":%q}}}`, i, id))
	}
	return "{" + serviceQ + `,"Entries":[` + strings.Join(entries, ",") + "]}"
}

func TestAResetBeforeIsNotAppliedAndOneAfterIs(t *testing.T) {
	for kind, applied := range map[proxy.Kind]bool{proxy.ResetBefore: false, proxy.ResetAfter: true} {
		r := newRig(t)
		r.open(kind)
		_, _, err := r.call("", sends, batch(1))
		require.Error(t, err)
		events := r.journal.Of(id)
		require.Len(t, events, 1)
		require.Equal(t, applied, events[0].Applied)
		require.Equal(t, applied, r.count() == 1)
		require.False(t, events[0].Answered)
		require.Equal(t, map[proxy.Kind]int{kind: 1}, r.place.Counts())
		_, _, err = r.call(forOthers, sends, batch(1))
		require.NoError(t, err, "it hits one place alone")
	}
}

func TestRefusalsReadAsAWSWritesThem(t *testing.T) {
	for kind, class := range map[proxy.Kind]awsclient.Class{proxy.Throttle: awsclient.Throttled, proxy.Fail: awsclient.Retry, proxy.FailAfter: awsclient.Retry} {
		r := newRig(t)
		r.open(kind)
		cfg := aws.Config{
			Region: "us-east-1", BaseEndpoint: aws.String(r.urls[""]), RetryMaxAttempts: 1,
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		}
		for range 10 { // codes vary
			_, err := sqs.NewFromConfig(cfg).ListQueues(t.Context(), &sqs.ListQueuesInput{})
			require.Error(t, err)
			require.Equal(t, class, awsclient.Classify(err), "%s: %v", kind, err)
			_, err = dynamodb.NewFromConfig(cfg).ListTables(t.Context(), &dynamodb.ListTablesInput{})
			require.Error(t, err)
			require.Equal(t, class, awsclient.Classify(err), "%s: %v", kind, err)
		}
		require.Equal(t, kind == proxy.FailAfter, r.count() > 0)
	}
}

func TestSomeEntriesOfABatchAreRefusedAndTheOthersSent(t *testing.T) {
	r := newRig(t)
	r.open(proxy.Refuse)
	_, body, err := r.call("", sends, batch(10))
	require.NoError(t, err)
	var out struct{ Successful, Failed []struct{ ID string } }
	require.NoError(t, json.Unmarshal([]byte(body), &out))
	require.Len(t, append(out.Successful, out.Failed...), 10)
	require.NotEmpty(t, out.Failed)
	applied := 0
	for _, e := range r.journal.Of(id) {
		if e.Applied {
			applied++
		}
	}
	require.Equal(t, len(out.Successful), applied)
	_, body, err = r.call("", sends, batch(1))
	require.NoError(t, err)
	require.NotContains(t, body, "Successful", "all of them may be")
}

func TestSomeStatementsOfABatchAreRefusedInTheirPlaces(t *testing.T) {
	r := newRig(t)
	r.open(proxy.Refuse)
	var statements []string
	for i := range 25 {
		statements = append(statements, fmt.Sprintf(`{"Statement":"DELETE FROM t","Parameters":[{"S":"s.1"},{"S":"1796073713733#00000000-0000-4000-8000-%012d"},{"S":"S"}]}`, i))
	}
	_, body, err := r.call("", executes, `{"Statements":[`+strings.Join(statements, ",")+`]}`)
	require.NoError(t, err)
	var out struct {
		Responses []struct{ Error *struct{ Code string } }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &out))
	require.Len(t, out.Responses, 25)
	for i, resp := range out.Responses {
		events := r.journal.Of(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
		require.Len(t, events, 1)
		require.Equal(t, resp.Error == nil, events[0].Applied, i)
		require.Equal(t, journal.Remove, events[0].What)
		require.Equal(t, "S", events[0].From)
	}
}

func TestAPartitionHoldsCallsAndThenCutsThem(t *testing.T) {
	r := newRig(t)
	began := time.Now()
	r.place.Open(proxy.Window{Kind: proxy.Partition, Until: began.Add(200 * time.Millisecond)})
	_, _, err := r.call("", sends, batch(1))
	require.Error(t, err)
	require.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)
	require.Zero(t, r.count())
	_, _, err = r.call("", sends, batch(1))
	require.NoError(t, err)
	<-r.proxies[""].Called()
	select {
	case <-r.proxies[forOthers].Called():
		t.Fatal("nobody called there")
	default:
	}
}

func TestACallThatIsHeldIsCarriedOutThoughNobodyWaits(t *testing.T) {
	r := newRig(t)
	r.place.Open(proxy.Window{Kind: proxy.Held, Share: 1, Hold: 100 * time.Millisecond, Until: time.Now().Add(time.Hour)})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.urls[""], "http://"))
	require.NoError(t, err)
	body := batch(1)
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: %s\r\nContent-Length: %d\r\n\r\n%s", sends, len(body), body)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool { return r.journal.GivenUp() == 1 }, 10*time.Second, 5*time.Millisecond)
	e := r.journal.Of(id)[0]
	require.True(t, e.Applied)
	require.False(t, e.Answered)
	require.GreaterOrEqual(t, e.At.Sub(e.Began), 100*time.Millisecond)
}

func TestACopyIsReceivedOnceMoreAndItsDeleteSucceeds(t *testing.T) {
	r := newRig(t)
	r.open(proxy.Repeat)
	_, _, err := r.call("", receives, "{"+serviceQ+"}")
	require.NoError(t, err)
	r.place.Heal()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var got struct {
		Messages []struct{ MessageID, ReceiptHandle string }
	}
	for len(got.Messages) < 2 { // anybody may get it
		require.NoError(t, ctx.Err())
		_, body, err := r.call(forOthers, receives, "{"+serviceQ+"}")
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(body, "MessageId", "MessageID")), &got))
	}
	require.Equal(t, got.Messages[0].MessageID, got.Messages[1].MessageID)
	receipt := got.Messages[1].ReceiptHandle
	require.NotEqual(t, got.Messages[0].ReceiptHandle, receipt)

	before := r.count()
	_, body, err := r.call("", deletes, fmt.Sprintf(`{%s,"Entries":[{"Id":"0","ReceiptHandle":%q},{"Id":"1","ReceiptHandle":"r"}]}`, serviceQ, receipt))
	require.NoError(t, err)
	require.Contains(t, body, `"Id":"0"`)
	require.NotContains(t, body, "Failed")
	require.Equal(t, before+1, r.count())
	require.NotContains(t, r.asked[before], receipt, "the endpoint does not know it")
	_, _, err = r.call("", "AmazonSQS.DeleteMessage", fmt.Sprintf(`{%s,"ReceiptHandle":%q}`, serviceQ, receipt))
	require.NoError(t, err)
	require.Equal(t, before+1, r.count())
}

func TestTheDateIsShifted(t *testing.T) {
	r := newRig(t)
	r.place.Open(proxy.Window{Kind: proxy.Date, Shift: -25 * time.Second, Until: time.Now().Add(time.Hour)})
	header, _, err := r.call("", puts, "{}")
	require.NoError(t, err)
	require.Equal(t, "Fri, 02 Jan 2026 03:03:40 GMT", header.Get("Date"))
	require.True(t, r.place.DateWasOff(time.Now()))
	require.False(t, r.place.DateWasOff(time.Now().Add(-time.Minute)))
}

func TestAnAnswerThatItsProcessDidNotWaitForIsUnheard(t *testing.T) {
	for _, leaving := range []bool{false, true} {
		r := newRig(t)
		if leaving {
			r.proxies[""].Leaving()
		}
		// It leaves a connection open that was good to the end, and closes one it has given up.
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.urls[""], "http://"))
		require.NoError(t, err)
		body := batch(1)
		_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: %s\r\nContent-Length: %d\r\n\r\n%s", sends, len(body), body)
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1))
		require.NoError(t, err, "the answer is on its way")
		require.True(t, r.journal.Of(id)[0].Answered)
		require.NoError(t, conn.Close())
		heard := func() bool { return r.journal.Of(id)[0].Answered }
		if leaving {
			require.Never(t, func() bool { return !heard() }, 100*time.Millisecond, 10*time.Millisecond)
		} else {
			require.Eventually(t, func() bool { return !heard() }, 10*time.Second, 5*time.Millisecond)
		}
		require.True(t, r.journal.Of(id)[0].Applied)
	}
}

func TestAnAnswerIsHeardWhenTheNextCallComesThoughThatIsCut(t *testing.T) {
	r := newRig(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.urls[""], "http://"))
	require.NoError(t, err)
	defer conn.Close()
	body := batch(1)
	ask := func() (n int, err error) {
		if _, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: %s\r\nContent-Length: %d\r\n\r\n%s", sends, len(body), body); err != nil {
			return 0, err
		}
		return conn.Read(make([]byte, 4096))
	}
	_, err = ask()
	require.NoError(t, err)
	r.open(proxy.ResetBefore)
	_, err = ask()
	require.Error(t, err)
	require.Never(t, func() bool { return r.journal.GivenUp() > 0 }, 100*time.Millisecond, 10*time.Millisecond)
	require.True(t, r.journal.Of(id)[0].Answered)
	require.False(t, r.journal.Of(id)[1].Answered)
}
