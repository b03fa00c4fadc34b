package target

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/smithy-go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sivchari/kumo"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/awsclient"
	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/queue/sqsqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func message() Message {
	return Message{
		ID: trigger.KeyedID("test", "", "run"), RunID: "run_2", OriginalRunID: "run_1", Attempt: 3,
		ScheduledAt: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.FixedZone("", 3600)),
		Job:         "job_1", Name: "remind", Tenant: "acme", Body: []byte(`{"a":1}`), Traceparent: trace,
	}
}

type services struct{ *registry.Static }

func (s services) Lookup(ctx context.Context, name string) (registry.Service, error) {
	return s.Get(ctx, name)
}

func queueSender(t *testing.T, q queue.Sender, s *registry.Static, change ...func(*QueueOptions)) *QueueSender {
	t.Helper()
	o := QueueOptions{Services: services{s}, Sender: q}
	for _, f := range change {
		f(&o)
	}
	out, err := NewQueueSender(o)
	require.NoError(t, err)
	return out
}

func verdict(r Result) job.Verdict {
	return job.Retry{MaxAttempts: 5}.Judge(r.StatusCode, job.ErrKind(r.Kind))
}

// requireMessage checks what a consumer of the core sees.
func requireMessage(t *testing.T, body string, attributes map[string]string) {
	t.Helper()
	got, err := trigger.ReadDelivered(body, attributes)
	require.NoError(t, err)
	m := message()
	require.Equal(t, trigger.Trigger{
		ID: m.ID, Due: m.ScheduledAt.UTC(), Payload: m.Body, Name: "remind", Tenant: "acme", Traceparent: trace,
		Headers: map[string]string{
			"Myosin-Run-Id": "run_2", "Myosin-Original-Run-Id": "run_1", "Myosin-Attempt": "3",
			"Myosin-Scheduled-At": "2026-01-02T02:04:05.006Z",
		},
	}, got)
}

func TestARunArrivesOnItsServicesQueueAsAnyMessageOfTheCore(t *testing.T) {
	q := memqueue.New(memqueue.Options{})
	url := func(name string, fifo bool) string {
		u, err := q.Create(t.Context(), queue.Spec{Name: name, FIFO: fifo})
		require.NoError(t, err)
		return u
	}
	plain, urgent, fifo := url("plain", false), url("urgent", false), url("first.fifo", true)
	reg := prometheus.NewRegistry()
	s := queueSender(t, q, registry.NewStatic(
		registry.Service{Name: "plain", QueueURL: plain, UrgentQueueURL: urgent}, registry.Service{Name: "fifo", QueueURL: fifo, FIFO: true},
	), func(o *QueueOptions) { o.Registerer = reg })
	r := s.Send(t.Context(), "plain", message())
	require.NoError(t, r.Err)
	require.Equal(t, job.VerdictSuccess, verdict(r))
	got := q.Messages(plain)
	require.Len(t, got, 1)
	requireMessage(t, got[0].Body, got[0].Attributes)
	require.Equal(t, "acme", got[0].Group)

	m := message()
	m.Urgent, m.Name, m.Traceparent = true, "not a name", "nonsense"
	odd := map[string][]byte{"empty": nil, "base64": {0, 0xff}}
	for _, payload := range odd {
		m.Body = payload
		require.NoError(t, s.Send(t.Context(), "plain", m).Err)
	}
	got = q.Messages(urgent)
	require.Len(t, got, 2)
	require.NotEqual(t, got[0].Body, got[1].Body)
	for _, g := range got {
		back, err := trigger.ReadDelivered(g.Body, g.Attributes)
		require.NoError(t, err)
		require.Contains(t, odd, g.Attributes[trigger.AttrEncoding])
		require.Equal(t, odd[g.Attributes[trigger.AttrEncoding]], back.Payload)
		require.Empty(t, back.Name)
		require.Empty(t, back.Traceparent)
	}
	m = message()
	m.Body = []byte{0} // the most attributes there can be
	require.NoError(t, s.Send(t.Context(), "fifo", m).Err)
	m.Attempt, m.RunID = 4, "run_3"
	require.NoError(t, s.Send(t.Context(), "fifo", m).Err)
	got = q.Messages(fifo)
	require.Len(t, got, 1, "a second attempt and a redrive are the same run")
	require.Len(t, got[0].Attributes, 10)
	require.Equal(t, "job_1", got[0].Group)
	families, err := reg.Gather()
	require.NoError(t, err)
	require.EqualValues(t, 5, families[0].GetMetric()[0].GetHistogram().GetSampleCount())
}

func TestWhatKeepsAMessageOffAQueueIsJudged(t *testing.T) {
	var fail error
	q := memqueue.New(memqueue.Options{Faults: func(memqueue.Entry) memqueue.Fault { return memqueue.Fault{Err: fail} }})
	url, err := q.Create(t.Context(), queue.Spec{Name: "q"})
	require.NoError(t, err)
	reg := registry.NewStatic(registry.Service{Name: "on", QueueURL: url}, registry.Service{Name: "off", QueueURL: url, Paused: true},
		registry.Service{Name: "gone", QueueURL: url + "-gone"})
	s := queueSender(t, q, reg)
	for _, c := range []struct {
		service string
		fail    error
		kind    Kind
		verdict job.Verdict
	}{
		{"nobody", nil, KindRefused, job.VerdictDead},
		{"No Name", nil, KindInvalid, job.VerdictDead},
		{"off", nil, KindPaused, job.VerdictRetry},
		{"gone", nil, KindMissing, job.VerdictRetry},
		{"on", queue.ErrRejected, KindInvalid, job.VerdictDead},
		{"on", queue.ErrThrottled, KindThrottled, job.VerdictRetry},
		{"on", queue.ErrDenied, KindDenied, job.VerdictRetry},
		{"on", queue.ErrNotSent, KindUnavailable, job.VerdictRetry},
		{"on", errors.New("no answer"), KindUnavailable, job.VerdictRetry},
	} {
		fail = c.fail
		r := s.Send(t.Context(), c.service, message())
		require.Equal(t, c.kind, r.Kind, "%s %v", c.service, c.fail)
		require.Equal(t, c.verdict, verdict(r), c.kind)
		require.Zero(t, r.StatusCode)
		require.NotEmpty(t, r.ErrorText())
		require.Equal(t, c.service == "off", r.Deferred())
		require.Equal(t, c.service == "off", errors.Is(r.Err, ErrPaused))
	}
	reg.Fail(errors.New("table away"))
	require.Equal(t, KindUnavailable, s.Send(t.Context(), "on", message()).Kind)
	reg.Fail(nil)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, KindCancelled, s.Send(ended, "on", message()).Kind)
	late := queueSender(t, q, reg, func(o *QueueOptions) { o.Timeout = time.Nanosecond })
	require.Equal(t, KindTimeout, late.Send(t.Context(), "on", message()).Kind)
	require.Empty(t, q.Messages(url))
}

func TestAMessageThatCannotBeDeliveredIsNotSent(t *testing.T) {
	q := memqueue.New(memqueue.Options{})
	s := queueSender(t, q, registry.NewStatic(registry.Service{Name: "on", QueueURL: "mem://q"}))
	for name, spoil := range map[string]func(*Message){
		"id": func(m *Message) { m.ID = trigger.ID{} }, "run": func(m *Message) { m.RunID = "" },
		"original": func(m *Message) { m.OriginalRunID = "a b" }, "time": func(m *Message) { m.ScheduledAt = time.Time{} },
		"payload": func(m *Message) { m.Body = make([]byte, trigger.MaxPayload+1) },
	} {
		m := message()
		spoil(&m)
		require.Equal(t, KindInvalid, s.Send(t.Context(), "on", m).Kind, name)
	}
	require.NotContains(t, fmt.Sprintf("%v %+v %s", message(), message(), message()), `"a"`)
	_, err := NewQueueSender(QueueOptions{Timeout: -1})
	for _, want := range []string{"services", "sender", "timeout"} {
		require.ErrorContains(t, err, want)
	}
	_, err = NewTopicPublisher(TopicOptions{Timeout: -1})
	require.ErrorContains(t, err, "sns: required")
	require.ErrorContains(t, err, "timeout")
}

func TestQueuesAndTopicsOnKumo(t *testing.T) {
	srv := kumo.NewServer()
	t.Cleanup(srv.Close)
	cfg, err := awsclient.Load(t.Context(), awsclient.Options{Endpoint: srv.URL, Region: "us-east-1", MaxAttempts: 1})
	require.NoError(t, err)
	q, err := sqsqueue.New(cfg, sqsqueue.Options{})
	require.NoError(t, err)
	unique := trigger.NewID().String() // all servers of a process share their state
	url, err := q.Create(t.Context(), queue.Spec{Name: "direct-" + unique})
	require.NoError(t, err)
	r := queueSender(t, q, registry.NewStatic(registry.Service{Name: "pay", QueueURL: url})).Send(t.Context(), "pay", message())
	require.NoError(t, r.Err)
	got, err := q.Receive(t.Context(), url, queue.ReceiveOptions{})
	require.NoError(t, err)
	require.Len(t, got, 1)
	requireMessage(t, got[0].Body, got[0].Attributes)

	client := sns.NewFromConfig(cfg)
	topic, err := client.CreateTopic(t.Context(), &sns.CreateTopicInput{Name: aws.String("target-" + unique)})
	require.NoError(t, err)
	behind, err := q.Create(t.Context(), queue.Spec{Name: "behind-" + unique})
	require.NoError(t, err)
	_, err = client.Subscribe(t.Context(), &sns.SubscribeInput{
		TopicArn: topic.TopicArn, Protocol: aws.String("sqs"), Endpoint: aws.String("arn:aws:sqs:us-east-1:000000000000:behind-" + unique),
		Attributes: map[string]string{"RawMessageDelivery": "true"},
	})
	require.NoError(t, err)
	p, err := NewTopicPublisher(TopicOptions{SNS: client})
	require.NoError(t, err)
	allowed := []string{"arn:aws:sns:*:000000000000:target-*"}
	r = p.Publish(t.Context(), *topic.TopicArn, allowed, message())
	require.NoError(t, r.Err)
	require.Equal(t, job.VerdictSuccess, verdict(r))
	got, err = q.Receive(t.Context(), behind, queue.ReceiveOptions{Wait: time.Second})
	require.NoError(t, err)
	require.Len(t, got, 1)
	delete(got[0].Attributes, "MessageId") // kumo's own
	requireMessage(t, got[0].Body, got[0].Attributes)

	r = p.Publish(t.Context(), *topic.TopicArn+"-gone", allowed, message())
	require.Equal(t, KindMissing, r.Kind, r.ErrorText())
}

type publisher func(*sns.PublishInput, sns.Options) error

func (f publisher) Publish(ctx context.Context, in *sns.PublishInput, fs ...func(*sns.Options)) (*sns.PublishOutput, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var o sns.Options
	for _, g := range fs {
		g(&o)
	}
	return &sns.PublishOutput{}, f(in, o)
}

func TestPublishingGroupsDeduplicatesAndClassifies(t *testing.T) {
	var in *sns.PublishInput
	var region string
	var fail error
	p, err := NewTopicPublisher(TopicOptions{SNS: publisher(func(i *sns.PublishInput, o sns.Options) error {
		in, region = i, o.Region
		return fail
	})})
	require.NoError(t, err)
	const arn = "arn:aws:sns:eu-west-1:123456789012:orders"
	allowed := []string{arn, arn + ".fifo"}
	require.NoError(t, p.Publish(t.Context(), arn, allowed, message()).Err)
	require.Equal(t, "eu-west-1", region)
	require.Equal(t, "acme", *in.MessageGroupId)
	require.Nil(t, in.MessageDeduplicationId)
	require.NoError(t, p.Publish(t.Context(), arn+".fifo", allowed, message()).Err)
	require.Equal(t, "job_1", *in.MessageGroupId)
	require.Equal(t, message().ID.String(), *in.MessageDeduplicationId)
	for code, want := range map[string]Kind{
		"InvalidParameter": KindInvalid, "Throttled": KindThrottled, "KMSThrottling": KindThrottled, "NotFound": KindMissing,
		"AuthorizationError": KindDenied, "KMSAccessDenied": KindDenied, "KMSDisabled": KindDenied, "InternalError": KindUnavailable, "New": KindUnavailable,
	} {
		fail = &smithy.GenericAPIError{Code: code}
		require.Equal(t, want, p.Publish(t.Context(), arn, allowed, message()).Kind, code)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, KindCancelled, p.Publish(ctx, arn, allowed, message()).Kind)
	in = nil
	require.Equal(t, KindRefused, p.Publish(t.Context(), arn, nil, message()).Kind)
	require.Equal(t, KindInvalid, p.Publish(t.Context(), "orders", allowed, message()).Kind)
	require.Nil(t, in)
}

func TestOnlyAllowedTopicsPass(t *testing.T) {
	const arn = "arn:aws:sns:eu-west-1:123456789012:orders-eu"
	for _, p := range []string{arn, "arn:aws:sns:*:123456789012:*", "arn:aws:sns:eu-*:*:orders-*", "arn:aws:sns:eu-west-1:1234*:*-eu"} {
		require.NoError(t, CheckTopic(arn, []string{"arn:aws:sns:x:1*:none", p}), p)
		require.NoError(t, CheckTopicPatterns([]string{p}))
	}
	for _, p := range []string{"*", "", "arn:aws:sns:*:*", "arn:*:sns:eu-west-1:123456789012:*", "arn:aws:*:eu-west-1:123456789012:*", "arn:aws:sns:eu-west-1:123456789012:[o]*", "arn:aws:sns:eu-west-1:123:*"} {
		require.ErrorIs(t, CheckTopic(arn, []string{p}), ErrRefused, p)
		require.Error(t, CheckTopicPatterns([]string{p}), p)
	}
	for _, p := range []string{"arn:aws-cn:sns:eu-west-1:123456789012:*", "arn:aws:sns:eu-west-2:123456789012:*", "arn:aws:sns:*:210987654321:*", arn + "2"} {
		require.ErrorIs(t, CheckTopic(arn, []string{p}), ErrRefused, p)
	}
	require.ErrorIs(t, CheckTopic(arn, nil), ErrRefused)
	every := []string{"arn:aws:sns:*:*:*"}
	require.NoError(t, CheckTopic(arn+".fifo", every))
	for _, bad := range []string{"", "x", "arn:aws:sqs:eu-west-1:123456789012:q", "arn:aws:sns::123456789012:t", "arn:aws:sns:eu-west-1:12:t", "arn:aws:sns:eu-west-1:123456789012:", "arn:aws:sns:eu-west-1:123456789012:.fifo", "arn:aws:sns:eu-west-1:123456789012:a/b", "arn:aws:sns:eu-west-1:123456789012:t:sub", "arn:aws:sns:*:123456789012:t", "arn:aws:sns:eu-west-1:123456789012:" + strings.Repeat("a", 257)} {
		err := CheckTopic(bad, every)
		require.Error(t, err, bad)
		require.NotErrorIs(t, err, ErrRefused, bad)
	}
}
