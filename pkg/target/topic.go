package target

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/myosin-jobs/myosin/pkg/awsclient"
)

// Publisher is what is used of SNS; *sns.Client, whose configuration should be
// made by awsclient.Load, is one.
type Publisher interface {
	Publish(context.Context, *sns.PublishInput, ...func(*sns.Options)) (*sns.PublishOutput, error)
}

// TopicOptions of a [TopicPublisher]. Zero values mean the defaults named.
type TopicOptions struct {
	SNS        Publisher             // required
	Timeout    time.Duration         // of a publish, the SDK's own retries included; 10 s
	Now        func() time.Time      // time.Now
	Registerer prometheus.Registerer // nil: no metrics
}

// Validate reports every fault together.
func (o TopicOptions) Validate() error {
	var errs []error
	if o.SNS == nil {
		errs = append(errs, errors.New("sns: required"))
	}
	if o.Timeout < 0 {
		errs = append(errs, errors.New("timeout: must not be negative"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("topic target options: %w", err)
	}
	return nil
}

// TopicPublisher hands runs to SNS topics.
type TopicPublisher struct {
	o TopicOptions
	p post
}

// NewTopicPublisher returns a publisher.
func NewTopicPublisher(o TopicOptions) (*TopicPublisher, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p, err := newPost(typeTopic, o.Timeout, o.Now, o.Registerer)
	if err != nil {
		return nil, err
	}
	return &TopicPublisher{o: o, p: p}, nil
}

// Publish makes one attempt to publish a run to the topic, which allowed must
// name: see [CheckTopic]. Success is that SNS accepted it. After KindTimeout,
// KindCancelled and KindUnavailable it may have been published.
//
// A subscribed queue needs raw message delivery for its consumers to see the
// message as one of the core's. How much a topic takes is its own attribute
// (256 KiB unless raised); a larger message is KindInvalid.
func (p *TopicPublisher) Publish(ctx context.Context, arn string, allowed []string, m Message) Result {
	return p.p.attempt(ctx, m, func(ctx context.Context) (Kind, error) { return p.publish(ctx, arn, allowed, m) })
}

func (p *TopicPublisher) publish(ctx context.Context, arn string, allowed []string, m Message) (Kind, error) {
	if err := CheckTopic(arn, allowed); err != nil {
		if errors.Is(err, ErrRefused) {
			return KindRefused, err
		}
		return KindInvalid, err
	}
	fifo := strings.HasSuffix(arn, ".fifo")
	d := m.deliver(fifo)
	in := &sns.PublishInput{TopicArn: &arn, Message: &d.Body, MessageAttributes: make(map[string]types.MessageAttributeValue, len(d.Attributes))}
	for name, value := range d.Attributes {
		in.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
	}
	if d.Group != "" {
		in.MessageGroupId = &d.Group
	}
	if fifo {
		in.MessageDeduplicationId = aws.String(m.ID.String())
	}
	region := strings.Split(arn, ":")[3] // SNS knows the topics of one region only
	_, err := p.o.SNS.Publish(ctx, in, func(o *sns.Options) { o.Region = region })
	if err == nil {
		return KindNone, nil
	}
	err = fmt.Errorf("publish to %s: %w", arn, err)
	switch awsclient.Classify(err) {
	case awsclient.Reject:
		return KindInvalid, err
	case awsclient.Throttled:
		return KindThrottled, err
	case awsclient.Denied:
		return KindDenied, err
	case awsclient.Missing:
		return KindMissing, err
	default:
		return KindUnavailable, err
	}
}

// CheckTopic reports why arn cannot be a target: nil if it is the ARN of an SNS
// topic that one of allowed names. A refusal by policy wraps [ErrRefused].
//
// Allowed are ARNs, in whose parts '*' stands for any text without colons:
// "arn:aws:sns:eu-west-1:123456789012:orders-*", "arn:aws:sns:*:123456789012:*".
// Nothing is allowed where the list is empty.
func CheckTopic(arn string, allowed []string) error {
	if err := topicARN(arn, false); err != nil {
		return fmt.Errorf("target topic: %w", err)
	}
	for _, p := range allowed {
		// The parts of paths match as those of ARNs should; a topic's name has no slash.
		if ok, err := path.Match(slashed(p), slashed(arn)); err == nil && ok && topicARN(p, true) == nil {
			return nil
		}
	}
	return &RefusedError{Host: arn, Reason: "no allowed topic matches"}
}

func slashed(arn string) string { return strings.ReplaceAll(arn, ":", "/") }

// CheckTopicPatterns reports every entry that [CheckTopic] would never match.
func CheckTopicPatterns(allowed []string) error {
	var errs []error
	for _, p := range allowed {
		if err := topicARN(p, true); err != nil {
			errs = append(errs, fmt.Errorf("allowed topic: %w", err))
		}
	}
	return errors.Join(errs...)
}

// topicARN checks the form of a topic's ARN, or of a pattern of ones. The account
// of a pattern may be open, its partition and service may not.
func topicARN(s string, pattern bool) error {
	bad := func(why string) error {
		return fmt.Errorf("%q %s; want arn:aws:sns:<region>:<account>:<name>", Excerpt([]byte(s), 100), why)
	}
	parts := strings.Split(s, ":")
	if len(parts) != 6 || parts[0] != "arn" {
		return bad("is not the ARN of a topic")
	}
	wild := ""
	if pattern {
		wild = "*"
	}
	const lower, digits = "abcdefghijklmnopqrstuvwxyz", "0123456789"
	of := func(part, set string, limit int) bool {
		return part != "" && len(part) <= limit && strings.Trim(part, set) == ""
	}
	name := strings.TrimSuffix(parts[5], ".fifo")
	switch {
	case parts[1] != "aws" && !strings.HasPrefix(parts[1], "aws-") || !of(parts[1], lower+"-", 16):
		return bad("has no partition such as aws, aws-cn or aws-us-gov")
	case parts[2] != "sns":
		return bad("is of another service than sns")
	case !of(parts[3], lower+digits+"-"+wild, 32):
		return bad("has no region")
	case !of(parts[4], digits+wild, 12) || len(parts[4]) != 12 && !(pattern && strings.Contains(parts[4], "*")):
		return bad("has no account of 12 digits")
	case len(parts[5]) > 256 || !of(name, lower+strings.ToUpper(lower)+digits+"-_"+wild, 256):
		return bad("has no topic's name: 1 to 256 letters, digits, '-' and '_', with .fifo behind where it is one")
	}
	return nil
}
