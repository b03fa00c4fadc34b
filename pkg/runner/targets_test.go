package runner_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/smithy-go"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/myosin-jobs/myosin/pkg/job"
	"github.com/myosin-jobs/myosin/pkg/jobstore"
	"github.com/myosin-jobs/myosin/pkg/queue"
	"github.com/myosin-jobs/myosin/pkg/queue/memqueue"
	"github.com/myosin-jobs/myosin/pkg/registry"
	"github.com/myosin-jobs/myosin/pkg/runner"
	"github.com/myosin-jobs/myosin/pkg/target"
	"github.com/myosin-jobs/myosin/pkg/trigger"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// received is a request as the target saw it.
type received struct {
	header http.Header
	body   []byte
}

func TestTheTargetReceivesWhatTheContractSaysAndARedriveKeepsTheFirstRunsKey(t *testing.T) {
	old, present, gone := target.NewSecret(), target.NewSecret(), target.NewSecret()
	signer, err := target.NewSigner(target.NewSecret())
	require.NoError(t, err)
	s := newStand(t, standOptions{
		targets: func(o *runner.TargetsOptions) { o.Signer = signer },
		tenants: func(o *runner.TenantsOptions) {
			o.Unseal = func(_ context.Context, x jobstore.Secret) (target.Secret, error) {
				return target.ParseSecret(string(x.Sealed))
			}
		},
	})
	for id, x := range map[string]struct {
		secret  target.Secret
		expires time.Duration
	}{"a": {present, 0}, "b": {old, 24 * time.Hour}, "c": {gone, -time.Second}} {
		rec := jobstore.Secret{Tenant: "acme", ID: id, Sealed: []byte(x.secret.Reveal()), Created: s.clock()}
		if x.expires != 0 {
			rec.Expires = s.clock().Add(x.expires)
		}
		require.NoError(t, s.store.PutSecret(t.Context(), rec))
	}
	calls := make(chan received, 10)
	answer := http.StatusServiceUnavailable
	url := serveTarget(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		calls <- received{r.Header, b}
		w.WriteHeader(answer)
	})
	_, id := s.create(t, url, func(sp *job.Spec) {
		sp.Target.Headers = map[string]string{"X-Mine": "yes", "Authorization": "Bearer mine"}
	})
	check := func(run, original job.RunID, attempt string) received {
		t.Helper()
		c := <-calls
		require.JSONEq(t, `{"n":1}`, string(c.body))
		require.Equal(t, string(original), c.header.Get("Idempotency-Key"))
		require.Equal(t, string(original), c.header.Get("Webhook-Id"), "the same message")
		require.Equal(t, string(run), c.header.Get("Myosin-Run-Id"))
		if run == original {
			require.NotContains(t, c.header, "Myosin-Original-Run-Id")
		} else {
			require.Equal(t, string(original), c.header.Get("Myosin-Original-Run-Id"))
		}
		require.Equal(t, attempt, c.header.Get("Myosin-Attempt"))
		require.Equal(t, "2027-05-01T12:01:00Z", c.header.Get("Myosin-Scheduled-At"))
		require.Equal(t, "yes", c.header.Get("X-Mine"))
		require.Equal(t, "Bearer mine", c.header.Get("Authorization"))
		for _, x := range []struct {
			secret target.Secret
			good   bool
		}{{present, true}, {old, true}, {gone, false}, {target.NewSecret(), false}} {
			hook, err := standardwebhooks.NewWebhook(x.secret.Reveal())
			require.NoError(t, err)
			err = hook.VerifyIgnoringTimestamp(c.body, c.header)
			require.Equal(t, x.good, err == nil, "%v", err)
		}
		token := target.ReadToken(c.header.Get("Myosin-Callback-Token"))
		require.NoError(t, signer.Verify(token, string(run), s.clock()))
		require.ErrorIs(t, signer.Verify(token, string(run)+"x", s.clock()), target.ErrToken, "this run only")
		require.ErrorIs(t, signer.Verify(token, string(run), s.clock().Add(8*24*time.Hour)), target.ErrTokenExpired)
		return c
	}
	m := s.message(t)
	m.Traceparent = parent
	require.NoError(t, s.runner.Handle(t.Context(), m))
	require.Equal(t, parent, check(id, id, "1").header.Get("Traceparent"))
	s.play(t)
	require.NotContains(t, check(id, id, "2").header, "Traceparent")
	require.Equal(t, job.Dead, s.run(t, id).State)

	s.play(t) // the notice: to whoever the owner named, and not a call for callbacks
	require.Contains(t, <-s.told, string(id))

	// Redriven, dead again, and redriven again: it is the first run all the while.
	next, err := s.Redrive(t.Context(), me(), id)
	require.NoError(t, err)
	require.Empty(t, s.dead(t), "redriven: no dead letter any more")
	s.play(t)
	check(next.ID, id, "1")
	s.play(t)
	check(next.ID, id, "2")
	require.Equal(t, []job.RunID{next.ID}, s.dead(t))
	s.play(t)
	require.Contains(t, <-s.told, string(next.ID))
	answer = http.StatusOK
	last, err := s.Redrive(t.Context(), me(), next.ID)
	require.NoError(t, err)
	require.NotEqual(t, next.ID, last.ID)
	s.play(t)
	check(last.ID, id, "1")
	require.Equal(t, job.Succeeded, s.run(t, last.ID).State)
	require.Empty(t, s.dead(t))
	require.Empty(t, calls)
}

// lookups is the registry, as it is at each look.
type lookups struct {
	*registry.Static
	each func(look int)
	n    int
}

func (l *lookups) Lookup(ctx context.Context, name string) (registry.Service, error) {
	l.n++
	if l.each != nil {
		l.each(l.n)
	}
	return l.Get(ctx, name)
}

// senderFunc fails sends as told.
type senderFunc struct {
	*memqueue.Engine
	err error
}

func (s *senderFunc) SendBatch(ctx context.Context, url string, m []queue.Message) []error {
	if s.err != nil {
		return []error{s.err}
	}
	return s.Engine.SendBatch(ctx, url, m)
}

// counter is a stand whose targets are the queue of the service "till".
type counter struct {
	*stand
	services *lookups
	sender   *senderFunc
	url      string
}

func newCounter(t *testing.T) *counter {
	t.Helper()
	c := &counter{sender: &senderFunc{Engine: memqueue.New(memqueue.Options{})}}
	var err error
	c.url, err = c.sender.Create(t.Context(), queue.Spec{Name: "till"})
	require.NoError(t, err)
	c.services = &lookups{Static: registry.NewStatic(registry.Service{Name: "till", QueueURL: c.url})}
	c.stand = newStand(t, standOptions{targets: func(o *runner.TargetsOptions) {
		o.Services = c.services
		o.Queues, err = target.NewQueueSender(target.QueueOptions{Services: c.services, Sender: c.sender})
		require.NoError(t, err)
	}})
	require.NoError(t, c.store.PutTenant(t.Context(), jobstore.Tenant{ID: "acme", AllowServices: []string{"till", "gone*"}}))
	return c
}

func (c *counter) sell(t *testing.T, service string) job.RunID {
	t.Helper()
	_, id := c.create(t, "", func(sp *job.Spec) {
		sp.Target, sp.Name = job.Target{Type: job.TargetQueue, Service: service}, "sell"
	})
	return id
}

func (c *counter) pause(paused bool) {
	c.services.Set(registry.Service{Name: "till", QueueURL: c.url, Paused: paused})
}

func TestAQueueTargetSucceedsWhenTheQueueAcceptsIt(t *testing.T) {
	c := newCounter(t)
	id := c.sell(t, "till")
	c.sender.err = errors.New("connection reset")
	c.play(t)
	require.Equal(t, job.Retrying, c.run(t, id).State)
	c.sender.err = nil
	c.play(t)
	r := c.run(t, id)
	require.Equal(t, job.Succeeded, r.State)
	require.Equal(t, 2, r.Attempt)
	got := c.sender.Messages(c.url)
	require.Len(t, got, 1)
	d, err := trigger.ReadDelivered(got[0].Body, got[0].Attributes)
	require.NoError(t, err)
	require.JSONEq(t, `{"n":1}`, string(d.Payload))
	require.Equal(t, id.TriggerID(), d.ID, "the run's id, not the trigger's, is what consumers deduplicate on")
	require.Equal(t, "sell", d.Name)
	require.Equal(t, string(id), d.Headers["Myosin-Run-Id"])
	require.Equal(t, "2", d.Headers["Myosin-Attempt"])
	require.Equal(t, "acme", got[0].Group, "fair queues")
}

func TestAPausedServiceDefersARunWithoutUsingAnAttempt(t *testing.T) {
	c := newCounter(t)
	id := c.sell(t, "till")
	c.pause(true)
	for n := range 4 {
		c.play(t)
		r := c.run(t, id)
		require.Equal(t, job.Scheduled, r.State)
		require.Zero(t, r.Attempt)
		require.Zero(t, r.Failures)
		require.Equal(t, n+1, r.Deferrals)
		require.WithinDuration(t, c.clock().Add(30*time.Second), r.NotBefore, 10*time.Millisecond)
	}
	require.Empty(t, c.sender.Messages(c.url))
	c.pause(false)
	c.play(t)
	r := c.run(t, id)
	require.Equal(t, job.Succeeded, r.State)
	require.Equal(t, 1, r.Attempt)
}

func TestAServicePausedBetweenTheQuestionAndTheCallCountsNoFailure(t *testing.T) {
	c := newCounter(t)
	id := c.sell(t, "till")
	c.services.each = func(look int) { c.pause(look == 2) } // the sender's own look-up
	c.play(t)
	r := c.run(t, id)
	require.Equal(t, job.Retrying, r.State)
	require.Zero(t, r.Failures)
	require.Equal(t, 1, r.Deferrals)
	require.Equal(t, c.clock().Add(30*time.Second), r.NotBefore)
	require.Empty(t, c.sender.Messages(c.url))
	c.play(t)
	require.Equal(t, job.Succeeded, c.run(t, id).State)
}

func TestAServiceThatIsUnknownOrNotTheTenantsEndsTheRunAtOnce(t *testing.T) {
	for service, reason := range map[string]string{
		"gone-away": "not in the registry", "treasury": `service "treasury" is not one that tenant "acme" may target`,
	} {
		c := newCounter(t)
		id := c.sell(t, service)
		c.play(t)
		r := c.buried(t, id, reason)
		require.Equal(t, 1, r.Attempt)
		require.Zero(t, r.Attempts[0].StatusCode)
	}
	c := newCounter(t)
	id := c.sell(t, "till")
	c.sender.err = queue.ErrRejected
	c.play(t)
	c.buried(t, id, "refused by the queue")
}

func TestAQueueThatDeniesThrottlesOrIsMissingIsTriedAgain(t *testing.T) {
	for _, err := range []error{queue.ErrDenied, queue.ErrThrottled, queue.ErrMissing, errors.New("connection reset")} {
		c := newCounter(t)
		c.draw = 0.5
		id := c.sell(t, "till")
		c.sender.err = err
		c.play(t)
		r := c.run(t, id)
		require.Equal(t, job.Retrying, r.State, "%v", err)
		require.Equal(t, 1, r.Failures)
		require.Equal(t, c.clock().Add(5*time.Second), r.NotBefore)
		c.play(t)
		c.buried(t, id, err.Error())
	}
}

// board is SNS, which fails as told.
type board struct {
	err  error
	puts []*sns.PublishInput
}

func (b *board) Publish(_ context.Context, in *sns.PublishInput, _ ...func(*sns.Options)) (*sns.PublishOutput, error) {
	if b.err != nil {
		return nil, b.err
	}
	b.puts = append(b.puts, in)
	return &sns.PublishOutput{}, nil
}

const (
	topic = "arn:aws:sns:eu-west-1:123456789012:news"
	fifo  = "arn:aws:sns:eu-west-1:123456789012:orders.fifo"
)

func newBoard(t *testing.T) (*stand, *board) {
	t.Helper()
	b := &board{}
	s := newStand(t, standOptions{targets: func(o *runner.TargetsOptions) {
		var err error
		o.Topics, err = target.NewTopicPublisher(target.TopicOptions{SNS: b})
		require.NoError(t, err)
	}})
	require.NoError(t, s.store.PutTenant(t.Context(), jobstore.Tenant{ID: "acme", AllowTopics: []string{topic, fifo}}))
	return s, b
}

func on(arn string) func(*job.Spec) {
	return func(sp *job.Spec) { sp.Target = job.Target{Type: job.TargetTopic, ARN: arn} }
}

func TestATopicTargetSucceedsWhenSNSAcceptsItAndARedriveIsTheSameMessage(t *testing.T) {
	s, b := newBoard(t)
	_, id := s.create(t, "", on(fifo))
	b.err = &smithy.GenericAPIError{Code: "InternalError", Fault: smithy.FaultServer}
	s.play(t)
	require.Equal(t, job.Retrying, s.run(t, id).State)
	s.play(t)
	s.buried(t, id, "InternalError")
	b.err = nil
	next, err := s.Redrive(t.Context(), me(), id)
	require.NoError(t, err)
	s.play(t)
	require.Equal(t, job.Succeeded, s.run(t, next.ID).State)
	require.Len(t, b.puts, 1)
	in := b.puts[0]
	require.Equal(t, fifo, *in.TopicArn)
	require.JSONEq(t, `{"n":1}`, *in.Message)
	require.Equal(t, id.TriggerID().String(), *in.MessageDeduplicationId)
	require.Equal(t, string(next.ID), *in.MessageAttributes["Myosin-Run-Id"].StringValue)
	require.Equal(t, string(id), *in.MessageAttributes["Myosin-Original-Run-Id"].StringValue)
	require.Equal(t, "1", *in.MessageAttributes["Myosin-Attempt"].StringValue)
}

func TestATopicThatDeniesIsTriedAgainAndOneThatIsNotTheTenantsIsRefused(t *testing.T) {
	for _, code := range []string{"AuthorizationError", "NotFound", "Throttled"} {
		s, b := newBoard(t)
		_, id := s.create(t, "", on(topic))
		b.err = &smithy.GenericAPIError{Code: code}
		s.play(t)
		r := s.run(t, id)
		require.Equal(t, job.Retrying, r.State, code)
		require.Contains(t, r.Reason, code)
		s.play(t)
		s.buried(t, id, code)
	}
	s, b := newBoard(t)
	_, id := s.create(t, "", on(topic+"-of-others"))
	s.play(t)
	s.buried(t, id, "no allowed topic matches")
	require.Empty(t, b.puts)
}

// A notice to a topic is an object, and goes there though no target may.
func TestTheOwnerIsToldByTopicWhereTheTenantNamesOne(t *testing.T) {
	s, b := newBoard(t)
	contact := topic + "-alarms"
	require.NoError(t, s.store.PutTenant(t.Context(), jobstore.Tenant{ID: "acme", Contact: job.Notify{Topic: contact}, Version: 1}))
	_, id := s.create(t, status(404)(t, s), func(sp *job.Spec) { sp.Notify = job.Notify{} })
	s.play(t)
	require.Equal(t, job.Dead, s.run(t, id).State)
	b.err = &smithy.GenericAPIError{Code: "Throttled"}
	s.play(t)
	require.Equal(t, job.Retrying, s.run(t, id.Notice()).State, "told with the same machinery")
	b.err = nil
	s.play(t)
	require.Equal(t, job.Succeeded, s.run(t, id.Notice()).State)
	require.Len(t, b.puts, 1)
	require.Equal(t, contact, *b.puts[0].TopicArn)
	require.Contains(t, *b.puts[0].Message, `"run_id":"`+string(id)+`"`)
	require.Contains(t, *b.puts[0].Message, `"reason":"HTTP 404"`)
	require.Empty(t, s.told)
}

// Notices that die tell nobody, and are no dead letters: else they would breed.
func TestANoticeThatDiesTellsNobody(t *testing.T) {
	s := newStand(t, standOptions{})
	_, id := s.create(t, status(404)(t, s), func(sp *job.Spec) { sp.Notify.Webhook = status(404)(t, s) })
	s.play(t)
	s.play(t)
	require.Equal(t, job.Dead, s.run(t, id.Notice()).State)
	require.Zero(t, s.left())
	require.Equal(t, []job.RunID{id}, s.dead(t))
}
